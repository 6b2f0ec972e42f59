"""Is the minimum flat? Curvature, stability and shape of the loss around the weights of any classifier.

    found = measure(model, inputs, targets, num_classes=10)
    found.real.eigenvalues.values, found.real.stability.worst, found.record()

The paper argues that dummies lead to flatter minima (Definitions 2 and 3, Proposition 1) and shows no eigenvalue. Here
they are, each with what it takes to believe it: a residual and whether it converged, a standard error, the number of
samples. Everything is of two losses, because arms of different C_d have different ones; see `durm.curvature.loss`.

Nothing of a model is left changed: its mode, weights (bit for bit), gradients, buffers, and the global random state.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, is_dataclass
from functools import partial
from itertools import count
from typing import Any

from torch import Tensor, nn

from durm._checks import not_negative, one_of, whole_number
from durm.curvature.batches import Samples
from durm.curvature.hutchinson import Trace, trace
from durm.curvature.lanczos import Eigenvalues, bottom_eigenvalues, check_tolerance, top_eigenvalues
from durm.curvature.landscape import DISTANCES, Path, checked_distances, loss_along
from durm.curvature.layout import Only
from durm.curvature.loss import KINDS, ClassifierLoss, ClosureLoss, Loss
from durm.curvature.products import MATRICES, GaussNewton, Hessian, Operator, gauss_newton, hessian, operator
from durm.curvature.sharpness import Stability, stability
from durm.curvature.spectrum import Density, density
from durm.curvature.vectors import norm
from durm.heads import dummies

__all__ = [
    "KINDS",
    "MATRICES",
    "ClassifierLoss",
    "ClosureLoss",
    "Density",
    "Eigenvalues",
    "Flatness",
    "GaussNewton",
    "Hessian",
    "Loss",
    "Operator",
    "Path",
    "Shape",
    "Stability",
    "Trace",
    "bottom_eigenvalues",
    "density",
    "gauss_newton",
    "hessian",
    "loss_along",
    "measure",
    "stability",
    "top_eigenvalues",
    "trace",
]


@dataclass(frozen=True)
class Shape:
    """The shape of one loss around the weights.

    Attributes:
        loss: f(w), the mean over the samples.
        weights: how many weights it is a function of.
        gradient_norm: ‖∇f(w)‖, which is 0 at a minimum.
        eigenvalues: the largest ones of the matrix, the Hessian unless said otherwise.
        trace: of the matrix.
        stability: the rise within a ball.
        smallest: the smallest eigenvalues, if they were asked for.
        density: that of all eigenvalues, if it was asked for.
    """

    loss: float
    weights: int
    gradient_norm: float
    eigenvalues: Eigenvalues
    trace: Trace
    stability: Stability
    smallest: Eigenvalues | None = None
    density: Density | None = None


@dataclass(frozen=True)
class Flatness:
    """What `measure` finds.

    Attributes:
        samples: how many the losses are means over.
        num_classes: C.
        dummies: C_d.
        training: the loss over all logits and all parameters.
        real: the loss over the real logits and the shared parameters. Arms of different C_d compare by this one.
        paths: both losses along a random direction and along the gradient.
        matrix: "hessian" or "ggn": what eigenvalues, trace and density are of.
    """

    samples: int
    num_classes: int
    dummies: int
    training: Shape
    real: Shape
    paths: tuple[Path, ...]
    matrix: str = "hessian"

    def record(self) -> dict[str, Any]:
        """All of it as lists and numbers that JSON can hold; what is not finite is None."""
        plain: dict[str, Any] = _plain(self)
        return plain


def measure(
    model: nn.Module,
    inputs: Samples,
    targets: Tensor | None = None,
    *,
    num_classes: int,
    label_smoothing: float = 0.0,
    only: Only = None,
    chunk: int | None = None,
    eigenvalues: int = 1,
    tolerance: float = 1e-3,
    max_products: int = 100,
    trace_samples: int = 16,
    smallest: int = 0,
    density_samples: int = 0,
    matrix: str = "hessian",
    radius: float = 0.05,
    steps: int = 20,
    starts: int = 4,
    points: int = 16,
    distances: Iterable[float] = DISTANCES,
    seed: int = 0,
    progress: Callable[[str, float], None] | None = None,
) -> Flatness:
    """Curvature, stability and shape of the training loss and of the real one, at the weights of a model.

    Args:
        model: any PyTorch classifier that takes one tensor and gives logits, widened or not; it is put into eval
            mode.
        inputs: `(N, …)`, as the model takes them, on its device; or, without targets, batches of both that can be gone
            through again and again, such as a `DataLoader`; see `ClassifierLoss`.
        targets: `(N, …)`, class indices.
        num_classes: C.
        label_smoothing: that of the training loss.
        only: which parameters, by name: a pattern such as `"layer4.*"`, several of them, or a function.
        chunk: samples at a time, where the memory does not hold the graph of all; slower.
        eigenvalues: how many, see `top_eigenvalues`, as for the next two.
        tolerance: the largest residual of an eigenvalue, as a share of it.
        max_products: the budget of products with the matrix, for each loss.
        trace_samples: random vectors for the trace, see `trace`.
        smallest: how many of the smallest eigenvalues, see `bottom_eigenvalues`.
        density_samples: random vectors for the density of all eigenvalues, see `density`; 0 leaves it out.
        matrix: "hessian", or "ggn", the Gauss-Newton matrix, which is the Fisher matrix of the model.
        radius: of the ball, as a share of the norm of each filter; see `stability`, as for the next three.
        steps: of gradient ascent.
        starts: of gradient ascent.
        points: random points of the ball.
        distances: along the directions, see `loss_along`.
        seed: of all that is random.
        progress: is called with what is done next, and the share of the work that is done.

    Raises:
        ValueError: for what does not fit together, in one sentence.

    Examples:
        >>> import durm, torch
        >>> model = durm.widen(nn.Linear(4, 3), dummies=2)
        >>> found = measure(model, torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2]), num_classes=3)
        >>> found.training.weights, found.real.weights, found.real.eigenvalues.converged
        (25, 15, True)
    """
    make = partial(ClassifierLoss, model, inputs, targets, num_classes=num_classes, label_smoothing=label_smoothing)
    losses = {kind: make(kind=kind, only=only, chunk=chunk) for kind in KINDS}
    # Here already, because each of them may be minutes away from where it is used.
    whole_number("eigenvalues", eigenvalues, minimum=1)
    if eigenvalues > losses["real"].size:
        raise ValueError(f"eigenvalues={eigenvalues}: expected no more than there are weights, {losses['real'].size}")
    whole_number("max_products", max_products, minimum=eigenvalues)
    check_tolerance(tolerance)
    whole_number("trace_samples", trace_samples, minimum=2)
    whole_number("smallest", smallest, minimum=0)
    if smallest > min(losses["real"].size, max_products):
        raise ValueError(f"smallest={smallest}: expected no more than weights ({losses['real'].size}) and max_products")
    whole_number("density_samples", density_samples, minimum=0)
    one_of("matrix", matrix, tuple(MATRICES))
    not_negative("radius", radius)
    whole_number("steps", steps, minimum=1)
    whole_number("starts", starts, minimum=1)
    whole_number("points", points, minimum=2)
    distances = checked_distances(distances)

    same = not dummies(model) and not label_smoothing
    stages = 4 if same else 7
    done = count()
    report = progress or (lambda stage, share: None)

    def found(which: Callable[..., Eigenvalues], product: Operator, k: int) -> Eigenvalues:
        return which(product, k, tolerance=tolerance, max_products=max_products, seed=seed)

    def shape(kind: str) -> Shape:
        loss = losses[kind]
        report(f"{kind} loss: eigenvalues", next(done) / stages)
        with operator(loss, matrix) as product:
            gradient_norm = norm(product.gradient())
            top = found(top_eigenvalues, product, eigenvalues)
            bottom = found(bottom_eigenvalues, product, smallest) if smallest else None
            report(f"{kind} loss: trace", next(done) / stages)
            total = trace(product, samples=trace_samples, seed=seed)
            spectrum = density(product, samples=density_samples, seed=seed) if density_samples else None
        report(f"{kind} loss: stability", next(done) / stages)
        rise = stability(loss, radius, steps=steps, starts=starts, points=points, seed=seed)
        return Shape(rise.loss, loss.size, gradient_norm, top, total, rise, bottom, spectrum)

    training = shape("training")
    real = training if same else shape("real")
    report("loss along directions", next(done) / stages)
    paths = loss_along(losses["training"], distances=distances, seed=seed)
    report("done", 1.0)
    return Flatness(losses["real"].samples, num_classes, dummies(model), training, real, paths, matrix)


def _plain(value: Any) -> Any:
    """Dataclasses as dicts, tuples as lists; tensors are left out."""
    if is_dataclass(value):
        return {name: _plain(own) for name, own in vars(value).items() if name != "vectors"}
    if isinstance(value, tuple):
        return [_plain(own) for own in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

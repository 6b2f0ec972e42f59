"""A loss as a function f(w) of weights w, which are one vector: what flatness is measured of.

`ClassifierLoss` is that of a classifier on given samples, in two kinds, because models of different C_d are trained
with different losses over different parameters:

- "training": Eq. (2), the cross-entropy over all C + C_d logits, over all parameters. It is what was minimised.
- "real": the cross-entropy over the C real logits, over the shared parameters, all but the rows of the dummies. It is
  the same function for every C_d, so the one by which arms compare. Without dummies the two are one.

`ClosureLoss` is any other. Measuring leaves a model as it was: its mode, weights, gradients and buffers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from durm._checks import whole_number
from durm.curvature.batches import IGNORED, Batches, Samples
from durm.curvature.layout import Block, Layout, Only, layout
from durm.errors import unknown
from durm.heads import dummies
from durm.heads.layer import eval_mode
from durm.losses import cross_entropy

KINDS = ("training", "real")


class Loss(ABC):
    """f(w) and its gradient; w is `layout.weights()`, of shape `(size,)`.

    Attributes:
        layout: what the weights are.
        retained: whether the graph of the whole loss may be kept; otherwise that of one term at a time.
    """

    def __init__(self, layout: Layout, retained: bool = True) -> None:
        self.layout, self.retained = layout, retained

    @property
    def size(self) -> int:
        return self.layout.size

    @abstractmethod
    def terms(self) -> Iterator[Tensor]:
        """Scalars that add up to f(w), each with its graph; to be called within `eval_mode`."""

    def outputs(self) -> Iterator[tuple[Tensor, Callable[[Tensor], Tensor]]]:
        """For each term the logits, with their graph, and the term as a function of them."""
        raise ValueError("this loss has no logits: the Gauss-Newton matrix is of a ClassifierLoss")

    @contextmanager
    def eval_mode(self) -> Iterator[None]:
        """Within this context the loss can be computed."""
        with torch.inference_mode(False), torch.enable_grad():
            yield

    def value(self) -> float:
        """f(w)."""
        with self.eval_mode(), torch.no_grad():
            return sum(float(term) for term in self.terms())

    def gradient(self) -> tuple[float, Tensor]:
        """f(w), and ∇f(w) of shape `(size,)`."""
        with self.eval_mode():
            value, total = 0.0, torch.zeros_like(self.layout.weights())
            for term in self.terms():
                value += float(term.detach())
                total += self.layout.flat(torch.autograd.grad(term, self.layout.parameters, materialize_grads=True))
        return value, total

    @contextmanager
    def perturbed(self) -> Iterator[Callable[[Tensor], None]]:
        """Gives a function that moves the weights to w + v. On leaving they are w again, bit for bit."""
        start = self.layout.weights()
        try:
            yield lambda change: self.layout.write(start + change)
        finally:
            self.layout.write(start)


class ClosureLoss(Loss):
    """The loss that a function without arguments computes from parameters.

    Args:
        closure: gives f(w), a scalar with its graph.
        parameters: w, by name.

    Examples:
        >>> w = nn.Parameter(torch.tensor([1.0, 2.0]))
        >>> loss = ClosureLoss(lambda: (w**3).sum(), {"w": w})
        >>> loss.gradient()
        (9.0, tensor([ 3., 12.]))
    """

    def __init__(self, closure: Callable[[], Tensor], parameters: Mapping[str, nn.Parameter]) -> None:
        super().__init__(Layout(Block(name, parameter) for name, parameter in parameters.items()))
        self._closure = closure

    def terms(self) -> Iterator[Tensor]:
        yield self._closure()


class ClassifierLoss(Loss):
    """The mean cross-entropy of a classifier on given samples, in eval mode.

    In eval mode f is a function of w: there is no dropout, and batch normalisation goes by its running statistics, so
    that the loss of a sample does not depend on the others.

    Args:
        model: any PyTorch classifier that takes one tensor and gives logits `(N, C, …)`; widened or not.
        inputs: `(N, …)`, as the model takes them; or, without targets, what gives batches of both each time that it is
            gone through, such as a `DataLoader`. It is gone through once to count, and once for each gradient and each
            product; every time it must give the same samples. They are brought to the model's device.
        targets: class indices `(N, …)`, or probabilities over the real classes `(N, C, …)`.
        num_classes: C.
        kind: "training" or "real", see the top of this file.
        label_smoothing: that of the training, for the kind "training".
        only: which parameters, by name: a pattern such as `"layer4.*"`, several of them, or a function. Frozen ones are
            always left out.
        chunk: samples at a time. None takes all at once and keeps their graph, which is fastest; a number bounds the
            memory by that of so many samples, and makes a product with the Hessian cost a gradient more.

    Raises:
        ValueError: for shapes that do not fit, and where no parameter is left.

    Examples:
        >>> import durm
        >>> model = durm.widen(nn.Linear(4, 3), dummies=2)
        >>> inputs, targets = torch.zeros(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
        >>> [ClassifierLoss(model, inputs, targets, num_classes=3, kind=kind).size for kind in KINDS]
        [25, 15]
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Samples,
        targets: Tensor | None = None,
        *,
        num_classes: int,
        kind: str = "training",
        label_smoothing: float = 0.0,
        only: Only = None,
        chunk: int | None = None,
    ) -> None:
        if kind not in KINDS:
            raise unknown("loss", kind, KINDS)
        whole_number("num_classes", num_classes, minimum=1)
        if chunk is not None:
            whole_number("chunk", chunk, minimum=1)
        self._batches = batches = Batches(inputs, targets, chunk)
        super().__init__(layout(model, only, shared=kind == "real"), retained=batches.retained)
        self.model, self.num_classes = model, num_classes
        self._kind, self._label_smoothing = kind, label_smoothing
        self.samples, self._count = batches.count()

    def terms(self) -> Iterator[Tensor]:
        return (self._part(logits, targets, self._kind) for logits, targets in self._logits())

    def outputs(self) -> Iterator[tuple[Tensor, Callable[[Tensor], Tensor]]]:
        for logits, targets in self._logits():
            yield logits, partial(self._part, targets=targets, kind=self._kind)

    def values(self) -> dict[str, float]:
        """f(w) of both kinds, from one pass over the samples."""
        found = dict.fromkeys(KINDS, 0.0)
        with self.eval_mode(), torch.no_grad():
            for logits, targets in self._logits():
                for kind in KINDS:
                    found[kind] += float(self._part(logits, targets, kind))
        return found

    @contextmanager
    def eval_mode(self) -> Iterator[None]:
        """The model in eval mode, giving all its logits. Afterwards every module's mode is what it was."""
        # Other kernels of attention have no second derivative.
        with eval_mode(self.model, full=True), super().eval_mode(), sdpa_kernel(SDPBackend.MATH):
            yield

    def _logits(self) -> Iterator[tuple[Tensor, Tensor]]:
        width = self.num_classes + dummies(self.model)
        for inputs, targets in self._batches(self.layout.parameters[0].device):
            logits = self.model(inputs)
            if not isinstance(logits, Tensor) or logits.ndim < 2 or logits.shape[1] != width:
                shape = (
                    f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"type {type(logits).__name__}"
                )
                raise ValueError(
                    f"the model gives an output of {shape}: expected logits, ({len(inputs)}, {width}, …), "
                    f"for num_classes={self.num_classes} and {width - self.num_classes} dummies"
                )
            yield logits, targets

    def _part(self, logits: Tensor, targets: Tensor, kind: str) -> Tensor:
        """What these samples add to the mean loss. The sum is in 64 bit: a rise is the difference of two losses."""
        smoothing = self._label_smoothing if kind == "training" else 0.0
        surface = logits if kind == "training" else logits[:, : self.num_classes]
        losses = cross_entropy(
            surface, targets, self.num_classes, label_smoothing=smoothing, ignore_index=IGNORED, reduction="none"
        )
        return losses.cpu().double().sum() / self._count

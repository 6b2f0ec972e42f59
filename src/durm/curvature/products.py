"""Products of the Hessian with vectors, H v = ∇(∇f(w)ᵀ v), by differentiating twice.

The loss and its gradient are computed once, and the graph of the gradient is kept: a product is then one more
backward pass over it (Pearlmutter 1994). Where that graph is too large (`Loss.retained` is False), it is built again
for each product and each term of the loss.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import iadd

import torch
from torch import Tensor

from durm.curvature.loss import Loss


class Hessian:
    """H at the weights as they are, of shape `(size, size)`; `hessian` makes one.

    Attributes:
        loss: what it is the Hessian of.
        size: the number of weights.
        products: how many products were taken.
    """

    def __init__(self, loss: Loss) -> None:
        self.loss, self.size, self.products = loss, loss.size, 0
        self._kept = list(self._gradients()) if loss.retained else None

    def product(self, vector: Tensor) -> Tensor:
        """H v, both of shape `(size,)`."""
        self.products += 1
        gradients = self._gradients() if self._kept is None else iter(self._kept)
        image = reduce(iadd, (self._of_term(gradient, vector) for gradient in gradients))
        if not image.isfinite().all():
            raise ValueError("a product with the Hessian is not finite: the loss has no second derivative here")
        return image

    def gradient(self) -> Tensor:
        """∇f(w), `(size,)`."""
        if self._kept is None:
            return self.loss.gradient()[1]
        return reduce(iadd, (self.loss.layout.flat(gradient).detach() for gradient in self._kept))

    def _gradients(self) -> Iterator[Sequence[Tensor]]:
        """Of each term, one for each parameter, with its graph."""
        for term in self.loss.terms():
            yield torch.autograd.grad(term, self.loss.layout.parameters, create_graph=True, materialize_grads=True)

    def _of_term(self, gradient: Sequence[Tensor], vector: Tensor) -> Tensor:
        layout = self.loss.layout
        curved = [
            (block.of(part), along.to(part))
            for block, part, along in zip(layout.blocks, gradient, layout.split(vector), strict=True)
            if part.requires_grad  # a gradient that is constant has no graph
        ]
        if not curved:
            return torch.zeros_like(vector)
        outputs, along = zip(*curved, strict=True)
        keep = self._kept is not None
        parts = torch.autograd.grad(outputs, layout.parameters, along, retain_graph=keep, materialize_grads=True)
        return layout.flat(parts)


@contextmanager
def hessian(source: Loss | Hessian) -> Iterator[Hessian]:
    """The Hessian of a loss, with its graph, until the context is left; one that is there already is taken as it is."""
    if isinstance(source, Hessian):
        yield source
        return
    with source.eval_mode():
        made = Hessian(source)
        try:
            yield made
        finally:
            made._kept = None

"""Products of the Hessian and of the Gauss-Newton matrix with vectors, by differentiating twice.

- The Hessian: H v = ∇(∇f(w)ᵀ v). The loss and its gradient are computed once, and the graph of the gradient is kept: a
  product is then one more backward pass over it (Pearlmutter 1994).
- The generalised Gauss-Newton matrix (Schraudolph 2002): with the logits z(w), their Jacobian J and the Hessian A of
  the loss as a function of the logits, G v = Jᵀ A J v. It has no negative eigenvalues. Of the cross-entropy A is
  diag(p) − p pᵀ for each sample, so that G is also the Fisher information matrix, with labels drawn from the model's
  own softmax; it does not depend on the labels. J v is the derivative of Jᵀ u by u, along v.

Where the graph is too large to be kept (`Loss.retained` is False), it is built again for each product and each term of
the loss.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import iadd
from typing import Any

import torch
from torch import Tensor

from durm._checks import one_of
from durm.curvature.loss import Loss


class Operator(ABC):
    """A symmetric matrix at the weights as they are, of shape `(size, size)`, of which products can be had.

    Attributes:
        loss: what it is of.
        size: the number of weights.
        products: how many products were taken.
    """

    def __init__(self, loss: Loss) -> None:
        self.loss, self.size, self.products = loss, loss.size, 0
        self._kept: list[Any] | None = list(self._graphs()) if loss.retained else None

    def product(self, vector: Tensor) -> Tensor:
        """The matrix times a vector, both of shape `(size,)`."""
        self.products += 1
        graphs = self._graphs() if self._kept is None else iter(self._kept)
        image = reduce(iadd, (self._of_term(graph, vector) for graph in graphs))
        if not image.isfinite().all():
            raise ValueError("a product with the Hessian is not finite: the loss has no second derivative here")
        return image

    @abstractmethod
    def gradient(self) -> Tensor:
        """∇f(w), `(size,)`."""

    @abstractmethod
    def _graphs(self) -> Iterator[Any]:
        """Of each term what its products are computed from."""

    @abstractmethod
    def _of_term(self, graph: Any, vector: Tensor) -> Tensor:
        """What a term adds to the product."""

    def _along(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], vector: Tensor, *, keep: bool
    ) -> Sequence[Tensor] | None:
        """The gradient of outputsᵀ v by the inputs, with an output for each parameter; None where all are constant."""
        layout = self.loss.layout
        curved = [
            (block.of(part), along.to(part))
            for block, part, along in zip(layout.blocks, outputs, layout.split(vector), strict=True)
            if part.requires_grad  # a gradient that is constant has no graph
        ]
        if not curved:
            return None
        parts, along = zip(*curved, strict=True)
        return torch.autograd.grad(parts, inputs, along, retain_graph=keep, materialize_grads=True)


class Hessian(Operator):
    """H at the weights as they are; `hessian` makes one."""

    def gradient(self) -> Tensor:
        if self._kept is None:
            return self.loss.gradient()[1]
        return reduce(iadd, (self.loss.layout.flat(gradient).detach() for gradient in self._kept))

    def _graphs(self) -> Iterator[Sequence[Tensor]]:
        """The gradient of each term, one tensor for each parameter, with its graph."""
        for term in self.loss.terms():
            yield torch.autograd.grad(term, self.loss.layout.parameters, create_graph=True, materialize_grads=True)

    def _of_term(self, graph: Sequence[Tensor], vector: Tensor) -> Tensor:
        parts = self._along(graph, self.loss.layout.parameters, vector, keep=self._kept is not None)
        return torch.zeros_like(vector) if parts is None else self.loss.layout.flat(parts)


_OfLogits = tuple[Tensor, Callable[[Tensor], Tensor], Tensor, Sequence[Tensor]]


class GaussNewton(Operator):
    """G at the weights as they are; `gauss_newton` makes one."""

    def gradient(self) -> Tensor:
        return self.loss.gradient()[1]

    def _graphs(self) -> Iterator[_OfLogits]:
        """The logits, the loss as a function of them, u, and Jᵀ u as a function of u."""
        for logits, function in self.loss.outputs():
            u = torch.zeros_like(logits, requires_grad=True)
            parameters = self.loss.layout.parameters
            pulled = torch.autograd.grad(logits, parameters, u, create_graph=True, materialize_grads=True)
            yield logits, function, u, pulled

    def _of_term(self, graph: _OfLogits, vector: Tensor) -> Tensor:
        logits, function, u, pulled = graph
        pushed = self._along(pulled, [u], vector, keep=True)
        if pushed is None:
            return torch.zeros_like(vector)
        point = logits.detach().requires_grad_()
        (slope,) = torch.autograd.grad(function(point), point, create_graph=True)
        (curved,) = torch.autograd.grad(slope, point, pushed)
        parameters = self.loss.layout.parameters
        parts = torch.autograd.grad(logits, parameters, curved, retain_graph=True, materialize_grads=True)
        return self.loss.layout.flat(parts)


MATRICES: dict[str, type[Operator]] = {"hessian": Hessian, "ggn": GaussNewton}


@contextmanager
def operator(source: Loss | Operator, matrix: str = "hessian") -> Iterator[Operator]:
    """A matrix of a loss, "hessian" or "ggn", with its graph, until the context is left.

    An operator that is there already is taken as it is.
    """
    one_of("matrix", matrix, tuple(MATRICES))
    if isinstance(source, Operator):
        yield source
        return
    with source.eval_mode():
        made = MATRICES[matrix](source)
        try:
            yield made
        finally:
            made._kept = None


@contextmanager
def hessian(source: Loss | Operator) -> Iterator[Operator]:
    """The Hessian of a loss, with its graph, until the context is left; an operator is taken as it is."""
    with operator(source) as made:
        yield made


@contextmanager
def gauss_newton(source: Loss) -> Iterator[Operator]:
    """The Gauss-Newton matrix of the loss of a classifier, which is its Fisher matrix, until the context is left."""
    with operator(source, "ggn") as made:
        yield made

"""Some of the parameters of a model, laid out as one vector.

With dummies it matters which: a loss over the C real logits does not depend on the rows of the dummies, and models of
different C_d have all but these rows in common, the *shared* parameters.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from durm._random import generator
from durm._text import some
from durm.heads.layer import real_rows
from durm.heads.validation import is_sharded

Only = str | Sequence[str] | Callable[[str], bool] | None
"""Which parameters: a pattern of names, as in `layer4.*`, several of them, or a function of the name; None is all."""


@dataclass(frozen=True)
class Block:
    """A parameter, of which the first `rows` belong to the vector, or all; those from `real` on are the dummies'."""

    name: str
    parameter: nn.Parameter
    real: int | None = None
    rows: int | None = None

    def of(self, values: Tensor) -> Tensor:
        """These rows of the parameter, or of its gradient; a single number is one row."""
        return values[: self.rows] if values.ndim else values[None]


class Layout:
    """Blocks one after the other, as a vector `(size,)`."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.blocks = list(blocks)
        for block in self.blocks:
            _check(block)
        self.parameters = [block.parameter for block in self.blocks]
        self._shapes = [block.of(block.parameter).shape for block in self.blocks]
        self._sizes = [shape.numel() for shape in self._shapes]
        self.size = sum(self._sizes)

    def flat(self, values: Iterable[Tensor]) -> Tensor:
        """One tensor for each parameter, such as its gradient, as a vector."""
        return torch.cat([block.of(value).flatten() for block, value in zip(self.blocks, values, strict=True)])

    def split(self, vector: Tensor) -> list[Tensor]:
        """The parts of a vector in the shapes of the blocks; they share its memory."""
        parts = vector.split(self._sizes)
        return [part.view(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def weights(self) -> Tensor:
        """A copy of the parameters."""
        return self.flat(parameter.detach() for parameter in self.parameters)

    def write(self, weights: Tensor) -> None:
        """Writes the parameters."""
        for block, part in zip(self.blocks, self.split(weights), strict=True):
            # Not by detach(), which would count it as a change: who is in the midst of a training step holds a graph
            # that needs these weights, and they come back bit for bit.
            block.of(block.parameter.data).copy_(part)

    def random(self, draw: Callable[..., Tensor], seed: int, *purpose: str | int) -> Tensor:
        """A random vector by `draw`, such as torch.randn; of shared parameters it depends on no other one, nor C_d."""
        drawn = []
        for block, part in zip(self.blocks, self.split(self.weights()), strict=True):
            real = len(part) if block.real is None else block.real
            for kind, rows in (("shared", part[:real]), ("dummies", part[real:])):
                values = draw(rows.shape, generator=generator(seed, *purpose, block.name, kind))
                drawn.append(values.to(rows).flatten())
        return torch.cat(drawn)


def layout(model: nn.Module, only: Only = None, *, shared: bool = False) -> Layout:
    """The parameters of a model that are trained, or some of them.

    Args:
        model: the model; what is frozen (`requires_grad` False) is left out.
        only: which of them, by name.
        shared: leaves out the rows of the dummies.

    Raises:
        ValueError: if there are none, and for parameters that are sharded or of less than 32 bit.
    """
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    chosen = {name: parameter for name, parameter in trained.items() if _is_chosen(name, only)}
    if not trained:
        raise ValueError("the model has no parameters that require a gradient")
    if not chosen:
        raise ValueError(f"only={only!r} fits none of the parameters, which are {some(list(trained))}")
    real = real_rows(model)
    rows = real if shared else {}
    return Layout(Block(name, one, real.get(one), rows.get(one)) for name, one in chosen.items())


def _is_chosen(name: str, only: Only) -> bool:
    if only is None:
        return True
    if callable(only):
        return only(name)
    return any(fnmatchcase(name, pattern) for pattern in ([only] if isinstance(only, str) else only))


def _check(block: Block) -> None:
    if is_sharded(block.parameter):
        raise ValueError("the weights are sharded over processes: the loss around them cannot be measured")
    if block.parameter.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"parameter {block.name!r} is {block.parameter.dtype}: expected float32 or float64; try model.float()"
        )

"""Writes a trained model into a file for other programs, without its dummies, and reads the file back to check it.

A file counts only if what it computes equals the model in eval mode:

    max |logits of the file - logits of the model| <= 1e-5 max(1, max |logits of the model|),

for the given inputs and for a single one of them. Otherwise there is an error and no file.
"""

import copy
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn

from durm._files import atomic_write
from durm.errors import InputError, did_you_mean
from durm.heads import narrow
from durm.heads.layer import WidenedOwn, eval_mode, widened_layers
from durm.scores import dummy_mass as mass_of
from durm.scores import split

Format = Literal["onnx", "torch.export", "safetensors"]
SUFFIXES: dict[str, Format] = {".onnx": "onnx", ".pt2": "torch.export", ".safetensors": "safetensors"}
TOLERANCE = 1e-5
Inputs = Tensor | Sequence[Tensor] | Mapping[str, Tensor]
Run = Callable[[dict[str, Tensor]], list[Tensor]]
"""What a file computes: from inputs by name to its outputs."""


@dataclass(frozen=True)
class Exported:
    """A file that was written and checked.

    Attributes:
        path: where it is.
        format: "onnx", "torch.export" or "safetensors".
        inputs: the names of its inputs, and the shapes that it was checked with; the first axis is free.
        outputs: the names of its outputs: `logits`, and `dummy_mass` if it was asked for.
        difference: the largest difference of an output from that of the model.
    """

    path: Path
    format: Format
    inputs: dict[str, tuple[int, ...]]
    outputs: tuple[str, ...]
    difference: float


def export(
    model: nn.Module, inputs: Inputs, path: str | Path, *, to: Format | None = None, dummy_mass: bool = False
) -> Exported:
    """Writes the narrowed model, in eval mode, as ONNX, by `torch.export`, or its weights as safetensors.

    The model itself does not change. A `ResizableHead` keeps its dummies; the file gives the C real logits.

    Args:
        model: widened or not; it gives logits, an object with `logits` (Hugging Face) or a mapping with `out`
            (torchvision's segmentation).
        inputs: a batch of two or more samples to check the file with: a tensor, a list of tensors for the arguments of
            the model, or a mapping for keyword arguments, as a tokenizer gives it. The file takes them in this order,
            in batches of any size.
        path: the file. An existing file is overwritten.
        to: the format; by default from the suffix of `path`: .onnx, .pt2 (`torch.export`) or .safetensors.
        dummy_mass: gives `durm.dummy_mass` of each sample as a second output; the file then contains the dummies.

    Raises:
        ValueError: for arguments that do not fit, a model that the exporter of torch does not take, and a file that
            computes something else than the model. No file is written then.

    Examples:
        >>> import tempfile, durm
        >>> model = durm.widen(nn.Linear(8, 3), dummies=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     durm.export(model, torch.randn(4, 8), f"{folder}/model.pt2").outputs
        ('logits',)
    """
    path = Path(path)
    to = check_format(to or SUFFIXES.get(path.suffix) or path.suffix)
    if dummy_mass and to == "safetensors":
        raise InputError("`dummy_mass` is an output, and safetensors hold weights alone; take onnx or torch.export")
    given = _by_name(inputs)
    if any(value.ndim == 0 or len(value) < 2 for value in given.values()):
        raise InputError("inputs: expected a batch of two samples or more, so that the size of a batch can stay free")
    served = _Served(model, list(inputs) if isinstance(inputs, Mapping) else [], dummy_mass).eval()
    with torch.no_grad(), eval_mode(model, full=dummy_mass):
        batches = [given, {name: value[:1] for name, value in given.items()}]
        expected = [served.outputs(model, list(batch.values())) for batch in batches]
        with warnings.catch_warnings():  # of the exporters, about what they do inside
            warnings.simplefilter("ignore")
            content, run = _WRITERS[to](served, given)
            found = [_run_file(run, batch, to) for batch in batches]
    difference = _difference(found, expected, path)
    atomic_write(path, content)
    shapes = {name: tuple(value.shape) for name, value in given.items()}
    return Exported(path, to, shapes, ("logits", "dummy_mass")[: 1 + dummy_mass], difference)


class _Served(nn.Module):
    """A copy of a model as it is served: in eval mode and narrowed, or with all logits where the dummy mass is given.

    It takes its inputs in a row; with `keywords` the model gets them under these names.
    """

    def __init__(self, model: nn.Module, keywords: list[str], dummy_mass: bool) -> None:
        super().__init__()
        layers = widened_layers(model)
        if dummy_mass and not layers:
            raise InputError("`dummy_mass` needs dummies, and the model has none")
        counts = {layer.num_classes for layer in layers}
        if dummy_mass and len(counts) > 1:
            raise InputError(
                f"`dummy_mass`: the heads of this model have different numbers of classes: {sorted(counts)}"
            )
        self.keywords, self.dummy_mass = keywords, dummy_mass
        self.num_classes, self.width = (min(counts), min(counts) + layers[0].dummies) if layers else (0, 0)
        self.model = copy.deepcopy(model).eval()
        if dummy_mass:
            for layer in widened_layers(self.model):
                layer.full = True
        elif not any(isinstance(layer, WidenedOwn) for layer in layers):
            narrow(self.model)

    def forward(self, *values: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        found = self.outputs(self.model, values)
        return found[0] if len(found) == 1 else (found[0], found[1])

    def outputs(self, model: nn.Module, values: Sequence[Tensor]) -> list[Tensor]:
        named = dict(zip(self.keywords, values, strict=True)) if self.keywords else {}
        return self._outputs(model(**named) if named else model(*values))

    def _outputs(self, given: Any) -> list[Tensor]:
        logits = _logits(given)
        if not self.dummy_mass:
            return [logits]
        dim = 1 if logits.shape[1] == self.width else logits.ndim - 1
        return [split(logits, self.num_classes, dim)[0], mass_of(logits, self.num_classes, dim=dim)]


def _logits(given: Any) -> Tensor:
    if isinstance(given, Mapping) and "out" in given:
        given = given["out"]
    given = getattr(given, "logits", given)
    if isinstance(given, Tensor):
        return given
    raise InputError(f"the model gives a {type(given).__name__}: expected logits, or something with `logits` or 'out'")


def _by_name(inputs: Inputs) -> dict[str, Tensor]:
    if isinstance(inputs, Mapping):
        return dict(inputs)
    values = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    return {"input" if len(values) == 1 else f"input_{place}": value for place, value in enumerate(values)}


def _graph_arguments(inputs: dict[str, Tensor]) -> dict[str, Any]:
    """What both exporters take: the inputs, and that their first axis is free."""
    free = tuple({0: torch.export.Dim.AUTO} for _ in inputs)
    return {"args": tuple(inputs.values()), "dynamic_shapes": {"values": free}}


def _to_torch_export(served: _Served, inputs: dict[str, Tensor]) -> tuple[bytes, Run]:
    arguments = _graph_arguments(inputs)
    program = _exported(lambda: torch.export.export(served, **arguments), "torch.export")
    file = io.BytesIO()
    torch.export.save(program, file)
    content = file.getvalue()
    loaded = torch.export.load(io.BytesIO(content)).module()

    def run(batch: dict[str, Tensor]) -> list[Tensor]:
        found = loaded(*batch.values())
        return list(found) if isinstance(found, tuple | list) else [found]

    return content, run


def _to_onnx(served: _Served, inputs: dict[str, Tensor]) -> tuple[bytes, Run]:
    import onnxruntime

    names = {"input_names": list(inputs), "output_names": ["logits", "dummy_mass"][: 1 + served.dummy_mass]}
    arguments = _graph_arguments(inputs) | names
    program = _exported(lambda: torch.onnx.export(served, dynamo=True, verbose=False, **arguments), "onnx")
    content: bytes = program.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def run(batch: dict[str, Tensor]) -> list[Tensor]:
        arrays = {name: value.cpu().numpy() for name, value in batch.items()}
        return [torch.from_numpy(one) for one in session.run(None, arrays)]

    return content, run


def _to_safetensors(served: _Served, inputs: dict[str, Tensor]) -> tuple[bytes, Run]:
    from safetensors.torch import load, save

    state = {name: value.detach().clone().contiguous() for name, value in served.model.state_dict().items()}
    content: bytes = save(state, {"format": "pt"})
    served.model.load_state_dict(load(content))
    return content, lambda batch: served.outputs(served.model, list(batch.values()))


_WRITERS: dict[Format, Callable[[_Served, dict[str, Tensor]], tuple[bytes, Run]]] = {
    "onnx": _to_onnx,
    "torch.export": _to_torch_export,
    "safetensors": _to_safetensors,
}


def _exported(make: Callable[[], Any], to: Format) -> Any:
    try:
        return make()
    except Exception as error:  # the exporters raise nearly anything on code that they cannot follow
        cause = error.__cause__ or error
        words = next((line for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
        raise InputError(f"`to` {to!r}: torch cannot export this model: {words.strip()[:200]}") from error


def _run_file(run: Run, batch: dict[str, Tensor], to: Format) -> list[Tensor]:
    try:
        return run(batch)
    except Exception as error:
        words = " ".join(str(error).split())[:200]
        size = len(next(iter(batch.values())))
        raise InputError(f"`to` {to!r}: the file does not take a batch of {size}: {words}") from error


def _difference(found: list[list[Tensor]], expected: list[list[Tensor]], path: Path) -> float:
    """The largest difference of all outputs, if it is within the tolerance."""
    largest = 0.0
    for ours, theirs in zip(found, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            one, other = one.double().cpu(), other.double().cpu()
            apart = (one - other).abs().max().item() if one.shape == other.shape else torch.inf
            if not apart <= TOLERANCE * max(1.0, other.abs().max().item()):
                raise InputError(
                    f"{path} is not written: what it computes differs from the model by {apart:.2g}, and {TOLERANCE:g} "
                    "of the largest logit is allowed"
                )
            largest = max(largest, apart)
    return largest


def check_format(to: str) -> Format:
    """The format of that name, if there is one and what it needs is installed."""
    if to not in get_args(Format):
        hint = did_you_mean(to, get_args(Format))
        raise InputError(f"`to` {to!r}: {hint} (files end in {', '.join(SUFFIXES)})")
    if to == "onnx" and not (find_spec("onnx") and find_spec("onnxscript") and find_spec("onnxruntime")):
        raise InputError("`to` 'onnx' needs onnx, onnxscript and onnxruntime: pip install 'durm[onnx]'")
    if to == "safetensors" and not find_spec("safetensors"):
        raise InputError("`to` 'safetensors' needs safetensors: pip install safetensors")
    return cast(Format, to)

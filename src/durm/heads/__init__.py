"""Widening a classifier's head by dummy classes, and narrowing it again: model surgery in place.

A widened layer is the layer it was, with C_d more rows in its parameters and a class that also knows C:

- in training mode it returns all C + C_d logits, so ordinary training code is DuRM;
- in eval mode it returns the C real logits, computed from the first C rows alone, so evaluation code needs no change
  and the values equal those of the C-class layer bit for bit.

Nothing else about the model changes: not its other modules, its hooks, its `state_dict` keys, its device or its dtype.

A head that is more than a layer defines how it is widened: see `durm.heads.resizable.ResizableHead`.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, TypeVar

import torch
from torch import nn

from durm._checks import one_of, whole_number
from durm._random import generator
from durm.heads.finding import Head, find_heads
from durm.heads.guard import Guard
from durm.heads.huggingface import check_problem_type, guard_pretrained, unguard_pretrained
from durm.heads.init import FROZEN, KINDS, Kind, dummy_rows, grown
from durm.heads.layer import (
    DUMMY_ROWS,
    NOTE,
    STAYS,
    WidenedLayer,
    class_parameters,
    make_narrow,
    make_widened,
    switched,
    widened_layers,
    width,
)
from durm.heads.optimizer import check_optimizer, swap
from durm.heads.resizable import widens_itself
from durm.heads.validation import check_head, check_model, check_narrow, is_sharded, stays_wide

Model = TypeVar("Model", bound=nn.Module)


def widen(
    model: Model,
    dummies: int,
    *,
    kind: Kind = "learned",
    head: Head | None = None,
    num_classes: int | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    seed: int = 0,
    guard: bool = True,
) -> Model:
    """Adds `dummies` dummy classes to the head of a classifier, in place.

    The real rows of the head are kept bit for bit. Each dummy starts as one more class of that layer would: normal with
    the standard deviation of the real rows (weights and biases apart), or by the layer's default initialiser,
    U(-1/sqrt(fan_in), 1/sqrt(fan_in)), where that is 0. Dummies are drawn from generators of their own, so the global
    random state is untouched, and they are nested: the first k of K dummies are the k dummies of `dummies=k`.

    Widen before the optimizer, DDP or FSDP are made, or pass the optimizer.

    Args:
        model: any PyTorch classifier whose head is a Linear or Conv layer, ends in one, or is a `ResizableHead`.
        dummies: C_d, the number of dummies. 0 leaves the model as it is.
        kind: "learned" is DuRM: rows of the head that are trained like the real ones. The other kinds are controls,
            which show what part of its effect needs learning: "frozen", the same random rows, never trained;
            "constant", logits of 0 (k of them are one logit of log k; one is the softmax-one, e^z / (1 + sum e^z));
            "copies", learned rows that all start as the first one, and stay equal.
        head: what to widen: a dotted name, a module, or a list of them. By default it is found: in timm, torchvision,
            Hugging Face and segmentation_models_pytorch models, and in plain modules as the last layer. Distilled,
            auxiliary and multi-branch heads are widened together.
        num_classes: C. Give it if durm finds several layers, or as a check.
        optimizer: an optimizer that already holds the model's parameters. It gets the new ones in their place; its
            state is kept for the real rows, and is zero for the dummies.
        seed: of the random generator of the dummies.
        guard: warn in the first training steps, and in some later ones, if the loss trains the dummies or the
            optimizer does not train the head; see `durm.heads.guard`. It changes no number.

    Returns:
        The same model. It gives `(N, C + C_d)` logits in training mode and `(N, C)` in eval mode.

    Raises:
        ValueError: if durm finds no head, or several; if the head cannot be widened, or already is.

    Examples:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> model = widen(model, dummies=2)
        >>> model(torch.zeros(1, 4)).shape
        torch.Size([1, 5])
        >>> model.eval()(torch.zeros(1, 4)).shape
        torch.Size([1, 3])
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, not {type(model).__name__}")
    dummies = whole_number("dummies", dummies, minimum=0)
    seed = whole_number("seed", seed, minimum=0)
    if num_classes is not None:
        num_classes = whole_number("num_classes", num_classes, minimum=2)
    one_of("kind", kind, KINDS)
    check_model(model)
    check_problem_type(model)
    heads = find_heads(model, head, num_classes)
    for name, module in heads.items():
        check_head(model, name, module)
        if kind in FROZEN and widens_itself(module):
            raise ValueError(f"kind={kind!r}: {name!r} widens itself, and its dummies are learned or copies")
    if optimizer is not None:
        check_optimizer(optimizer, heads)
    if dummies:
        replaced = {name: _first(module) for name, module in heads.items()}
        for name, module in heads.items():
            _widen_head(name, module, dummies, kind, seed, optimizer)
        if guard:
            own = {id(value) for module in heads.values() for value in class_parameters(module).values()}
            trained = (value for value in model.parameters() if value.requires_grad and id(value) not in own)
            other = next(trained, None)
            for name, module in heads.items():
                before = None if kind in FROZEN else replaced[name]  # frozen dummies replace no parameter
                module.guard = Guard(before, _first(module), other)  # type: ignore[assignment]
        guard_pretrained(model)
    return model


def narrow(model: Model) -> Model:
    """Takes the dummies off again, in place. Classes, keys and shapes are then those from before `widen`.

    The outputs equal those of the widened model in eval mode bit for bit. A model without dummies is left as it is.

    Raises:
        ValueError: if it is sharded, or if its head widens itself, whose real logits depend on the dummies.

    Examples:
        >>> model = narrow(widen(nn.Linear(8, 3), dummies=2))
        >>> model
        Linear(in_features=8, out_features=3, bias=True)
    """
    check_narrow(model)
    for layer in widened_layers(model):
        assert isinstance(layer, WidenedLayer)
        if is_sharded(layer.weight):
            raise ValueError("cannot narrow a sharded model: narrow its full state dict with durm.narrow_state_dict")
        for key, parameter in list(layer.named_parameters(recurse=False)):
            rows = parameter.detach()[: layer.num_classes].clone()
            layer.register_parameter(key, nn.Parameter(rows, requires_grad=parameter.requires_grad))
        make_narrow(layer)
    unguard_pretrained(model)
    return model


def narrow_state_dict(
    state: Mapping[str, Any], *, head: str | Sequence[str] | None = None, num_classes: int | None = None
) -> dict[str, Any]:
    """The state dict of the narrowed model, from that of the widened one.

    A state dict that comes from `model.state_dict()`, or from `torch.load` of one, records which layers were widened.
    If that record was lost (safetensors, a dict copied key by key), give `head` and `num_classes`.

    Args:
        state: a state dict with C + C_d rows in its heads. It is not changed.
        head: the name of the widened layer, or a list of them, as the keys of `state` have it.
        num_classes: C.

    Examples:
        >>> state = widen(nn.Linear(8, 3), dummies=2).state_dict()
        >>> narrow_state_dict(state)["weight"].shape
        torch.Size([3, 8])
    """
    notes: dict[str, dict[str, Any]] = getattr(state, "_metadata", {})
    if num_classes is not None:
        num_classes = whole_number("num_classes", num_classes, minimum=2)
    if wide := [name for name, note in notes.items() if STAYS in note]:
        raise stays_wide(wide[0])
    if head is None:
        if not notes:
            raise ValueError("this state dict does not say which layers were widened: pass head=… and num_classes=…")
        classes = {name: note[NOTE] for name, note in notes.items() if NOTE in note}
    elif num_classes is None:
        raise ValueError("num_classes=None: expected C, the number of real classes, together with head=…")
    else:
        classes = dict.fromkeys([head] if isinstance(head, str) else head, num_classes)

    narrowed: Any = OrderedDict(state)
    for name, count in classes.items():
        prefix = f"{name}." if name else ""
        keys = [key for key in (f"{prefix}weight", f"{prefix}bias") if key in state]
        if not keys:
            close = get_close_matches(f"{prefix}weight", state, n=3) or list(state)[-3:]
            raise ValueError(
                f"head {name!r}: the state dict has no '{prefix}weight', but {', '.join(map(repr, close))}"
            )
        if num_classes not in (None, count):
            raise ValueError(f"num_classes={num_classes}: the state dict says that {name!r} has {count} real classes")
        for key in keys:
            if len(state[key]) < count:
                raise ValueError(f"{key!r} has {len(state[key])} rows, fewer than num_classes={count}")
            narrowed[key] = state[key][:count].clone()
        for key in DUMMY_ROWS.values():
            narrowed.pop(prefix + key, None)
    # Where torch's load_state_dict looks for the versions of modules.
    narrowed._metadata = {name: {k: v for k, v in note.items() if k != NOTE} for name, note in notes.items()}
    result: dict[str, Any] = narrowed
    return result


@contextmanager
def full_logits(model: Model) -> Iterator[Model]:
    """Within this context the model gives all C + C_d logits in eval mode too.

    Use it for dummy scores, and to train a model that is kept in eval mode.

    Examples:
        >>> model = widen(nn.Linear(8, 3), dummies=2).eval()
        >>> with full_logits(model):
        ...     model(torch.zeros(1, 8)).shape
        torch.Size([1, 5])
    """
    with switched(widened_layers(model), "full", True):
        yield model


def dummies(model: nn.Module) -> int:
    """C_d: how many dummy classes the model has; 0 for one that was not widened.

    Examples:
        >>> dummies(widen(nn.Linear(8, 3), dummies=2))
        2
    """
    counts = {layer.dummies for layer in widened_layers(model)}
    if len(counts) > 1:
        raise ValueError(f"the heads of this model have different numbers of dummies: {sorted(counts)}")
    return counts.pop() if counts else 0


def pad_to_multiple(
    model: Model,
    multiple: int,
    *,
    head: Head | None = None,
    num_classes: int | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    seed: int = 0,
    guard: bool = True,
) -> Model:
    """Adds as many dummies as make the width of the head a multiple of `multiple`, possibly none.

    Tensor cores work best on multiples of 8; language models pad 50257 tokens to 50304, a multiple of 64, for this
    reason. The other arguments are those of `widen`.

    Examples:
        >>> pad_to_multiple(nn.Linear(64, 10), 8)
        WidenedLinear(in_features=64, out_features=16, bias=True, dummies=6)
    """
    multiple = whole_number("multiple", multiple, minimum=1)
    widths = {width(layer) for layer in find_heads(model, head, num_classes).values()}
    missing = {-classes % multiple for classes in widths}
    if len(missing) > 1:
        raise ValueError(f"heads of {sorted(widths)} outputs need different numbers of dummies: pad them one at a time")
    return widen(model, missing.pop(), head=head, num_classes=num_classes, optimizer=optimizer, seed=seed, guard=guard)


def _widen_head(
    name: str, head: nn.Module, dummies: int, kind: Kind, seed: int, optimizer: torch.optim.Optimizer | None
) -> None:
    own: Any = head
    starts = own.class_parameters() if widens_itself(head) else {}
    if kind in FROZEN:
        for buffer in DUMMY_ROWS.values():
            head.register_buffer(buffer, None)
    for key, old in class_parameters(head).items():
        real, start = old.detach(), starts.get(key)
        if start is None:
            rows = dummy_rows(kind, real, dummies, _bound(head, real), generator(seed, "dummies", name, key))
        else:
            rows = real.new_full((dummies, *real.shape[1:]), start)
        if kind in FROZEN:
            head.register_buffer(DUMMY_ROWS[key], rows)
        else:
            _grow(head, key, rows, optimizer)
    make_widened(head, dummies, kind)


def _grow(head: nn.Module, key: str, rows: torch.Tensor, optimizer: torch.optim.Optimizer | None) -> None:
    """Puts rows below those of a parameter, which is a new parameter then, for the optimizer too."""
    old = head.get_parameter(key)
    new = nn.Parameter(grown(old.detach(), rows), requires_grad=old.requires_grad)
    new.__dict__.update(old.__dict__)
    if old.grad is not None:
        new.grad = grown(old.grad, torch.zeros_like(rows))
    owner, _, own_key = key.rpartition(".")
    head.get_submodule(owner).register_parameter(own_key, new)
    if optimizer is not None:
        swap(optimizer, old, new)


def _first(head: nn.Module) -> nn.Parameter:
    return next(iter(class_parameters(head).values()))


def _bound(head: nn.Module, real: torch.Tensor) -> float:
    """1 / sqrt(fan_in), of a layer's bias too."""
    rows = real if widens_itself(head) else head.get_parameter("weight")
    return float(rows[0].numel() ** -0.5)

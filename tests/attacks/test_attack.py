"""The settings of an attack, the ensemble, the wrapper for normalisation, and what is refused in which words."""

import subprocess
import sys
from importlib import import_module

import pytest
import torch
from torch import Tensor, nn

import durm
from durm.attacks import Attack, Normalised, apgd, auto, fgsm, pgd, square, targeted_apgd
from tests.attacks.small import batch, network


def test_an_attack_is_the_function_of_its_kind() -> None:
    model, (inputs, targets) = network(), batch()
    common = {"eps": 0.05, "through": "full"}
    iterated = {"steps": 6, "restarts": 2, "random_start": False}
    random = [torch.Generator().manual_seed(5) for _ in range(8)]
    for kind, function, settings in (
        ("fgsm", fgsm, {"step_size": 0.02, "norm": "l2", "loss": "dlr"}),
        ("pgd", pgd, {"step_size": 0.02, "norm": "l2", "loss": "cw", **iterated}),
        ("apgd", apgd, {"step_size": 0.02, "norm": "l2", "targeted": True, **iterated}),
        ("square", square, {"loss": "ce", **iterated}),
    ):
        by_class = Attack(kind, **common, **settings)(model, inputs, targets, generator=random.pop())
        generator = {} if kind == "fgsm" else {"generator": random.pop()}
        assert torch.equal(by_class, function(model, inputs, targets, **common, **settings, **generator))


def test_square_has_the_margin_unless_told_otherwise() -> None:
    model, (inputs, targets) = network(), batch()
    default, margin, entropy = (
        Attack("square", 0.05, steps=40, loss=loss)(model, inputs, targets) for loss in (None, "cw", "ce")
    )
    assert torch.equal(default, margin)
    assert not torch.equal(default, entropy)


def test_an_attack_can_be_compared_and_is_readable() -> None:
    assert Attack("pgd", 0.1) == Attack(eps=0.1)
    assert len({Attack(), Attack(), Attack("fgsm")}) == 2
    assert repr(Attack("fgsm", 0.5)).startswith("Attack(kind='fgsm', eps=0.5, norm='linf', steps=10")


def test_the_ensemble() -> None:
    assert auto(0.1) == [
        Attack("apgd", 0.1, steps=100, loss="ce"),
        Attack("apgd-t", 0.1, steps=100, loss="dlr", target_classes=9),
        Attack("square", 0.1, steps=5000, loss="cw"),
    ]
    assert [(attack.kind, attack.norm) for attack in auto(0.5, "l2", steps=20)] == [
        ("apgd", "l2"), ("apgd-t", "l2"), ("square", "l2"),
    ]  # fmt: skip
    assert [attack.gradient_passes for attack in auto(0.1)] == [100, 900, 0]
    untargeted = auto(0.1, target_classes=0)[1]
    assert untargeted == Attack("apgd", 0.1, steps=100, loss="dlr")
    both = auto(0.1, through=("real", "full"), steps=5, queries=9)
    assert [(attack.through, attack.steps) for attack in both] == [
        ("real", 5), ("real", 5), ("real", 9), ("full", 5), ("full", 5), ("full", 9),
    ]  # fmt: skip
    assert [attack.loss for attack in auto(0.1, through="dummy")] == ["ce", "cw", "cw"]


@pytest.mark.parametrize(
    ("classes", "dummies", "through", "second"),
    [
        (2, 0, "real", ("apgd", "cw")),
        (2, 2, "real", ("apgd", "cw")),
        (2, 1, "full", ("apgd", "dlr")),
        (2, 2, "full", ("apgd-t", "dlr")),
        (3, 0, "real", ("apgd", "dlr")),
        (4, 0, "real", ("apgd-t", "dlr")),
    ],
)
def test_the_ensemble_of_few_classes(classes: int, dummies: int, through: str, second: tuple[str, str]) -> None:
    """DLR needs three logits, targeted DLR four. What is chosen runs."""
    attacks = auto(0.1, through=through, steps=3, queries=3, num_classes=classes, dummies=dummies)
    assert (attacks[1].kind, attacks[1].loss) == second
    model, (inputs, targets) = network(classes=classes, dummies=dummies), batch(classes=classes)
    for attack in attacks:
        assert attack(model, inputs, targets).shape == inputs.shape


def test_normalised_by_hand() -> None:
    """Raw 0 … 200 with mean 100 and 50, std 10 and 20: 0.5 is 100, so (100 - 100) / 10 and (100 - 50) / 20."""
    mean, std = torch.tensor([100.0, 50.0]).view(2, 1, 1), torch.tensor([10.0, 20.0]).view(2, 1, 1)
    model = Normalised(nn.Identity(), mean, std, scale=200)
    seen = model(torch.full((3, 2, 4, 4), 0.5))
    torch.testing.assert_close(seen[:, 0], torch.zeros(3, 4, 4))
    torch.testing.assert_close(seen[:, 1], torch.full((3, 4, 4), 2.5))
    assert repr(model).startswith("Normalised(\n  mean=[100.0, 50.0], std=[10.0, 20.0], scale=200")


def test_normalised_is_a_module_like_any_other() -> None:
    inner = durm.widen(nn.Linear(4, 3), 2)
    model = Normalised(inner, torch.zeros(4), torch.ones(4))
    assert durm.dummies(model) == 2
    assert {name for name, _ in model.named_buffers()} == {"mean", "std"}
    with durm.full_logits(model.eval()):
        assert model(torch.rand(2, 4)).shape == (2, 5)
    assert model.double().mean.dtype == torch.float64
    assert model(torch.rand(2, 4, dtype=torch.float64)).shape == (2, 3)
    assert isinstance(durm.narrow(model).model, nn.Linear)


@pytest.mark.parametrize(
    ("mean", "std", "scale", "message"),
    [
        (torch.zeros(3, 1, 1), torch.tensor([1.0, 0.0, 1.0]).view(3, 1, 1), 1.0, "std has the value 0: expected"),
        (torch.tensor(0.0), torch.tensor(1.0), 0.0, "scale=0.0: expected the raw value of white"),
        (torch.zeros(3), torch.ones(3, 1, 1), 1.0, r"mean of shape \(3,\): expected one number, or one axis for each"),
        (torch.zeros(3, 1, 1), torch.ones(3), 1.0, r"std of shape \(3,\).* for channels \(channels, 1, 1\)"),
    ],
)
def test_a_normalisation_that_cannot_be_meant(mean: Tensor, std: Tensor, scale: float, message: str) -> None:
    """(3,) against images of width 3 would normalise columns, and say nothing."""
    with pytest.raises(ValueError, match=message):
        Normalised(nn.Identity(), mean, std, scale)(torch.rand(2, 3, 3, 3))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"kind": "pdg"},
            ValueError,
            "kind='pdg': expected one of 'fgsm', 'pgd', 'apgd', 'apgd-t', 'square'; did you mean 'pgd'",
        ),
        ({"norm": "l1"}, ValueError, "norm='l1': expected one of 'linf', 'l2'"),
        ({"loss": "mse"}, ValueError, "loss='mse': expected one of 'ce', 'cw', 'dlr'$"),
        ({"through": "fall"}, ValueError, "expected one of 'real', 'full', 'dummy'; did you mean 'full'"),
        ({"eps": -0.1}, ValueError, "eps=-0.1: expected a number of at least 0"),
        ({"eps": float("nan")}, ValueError, "eps=nan: expected a number of at least 0"),
        ({"eps": 8.0}, ValueError, r"eps=8.0: ε is in units of \[0, 1\]; did you mean 8/255\?"),
        ({"steps": 0}, ValueError, "steps=0: expected an int of at least 1"),
        ({"steps": 2.5}, TypeError, "steps=2.5: expected an int, not float"),
        ({"restarts": 0}, ValueError, "restarts=0: expected an int of at least 1"),
        ({"step_size": 0.0}, ValueError, "step_size=0.0: expected a number above 0, or None"),
        ({"target_classes": 0}, ValueError, "target_classes=0: expected an int of at least 1"),
        ({"kind": "apgd-t", "restarts": 2}, ValueError, "restarts=2: kind='apgd-t' chooses its classes"),
        ({"kind": "apgd-t", "targeted": True}, ValueError, "targeted=True: kind='apgd-t' chooses its classes"),
        ({"kind": "apgd-t", "through": "dummy"}, ValueError, "through='dummy' wants the dummies"),
        ({"kind": "square", "step_size": 0.1}, ValueError, "step_size=0.1: kind='square' takes no steps of a size"),
        ({"kind": "fgsm", "restarts": 2}, ValueError, "restarts=2: kind='fgsm' always begins at the inputs"),
        ({"through": "dummy", "targeted": True}, ValueError, "through='dummy' wants the dummies"),
        ({"through": "dummy", "loss": "dlr"}, ValueError, "loss='dlr' has no meaning with through='dummy'"),
    ],
)
def test_settings_that_are_refused(settings: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Attack(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"eps": -0.1}, "eps=-0.1: expected a number of at least 0"),
        ({"eps": 0.1, "norm": "l3"}, "norm='l3'.*did you mean 'l2'"),
        ({"eps": 0.1, "through": "all"}, "through='all': expected one of"),
        ({"eps": 0.1, "loss": "kl"}, "loss='kl': expected one of"),
    ],
)
@pytest.mark.parametrize("function", [fgsm, pgd, apgd, square])
def test_the_functions_refuse_them_too(function, settings: dict, message: str) -> None:
    model, (inputs, targets) = network(), batch()
    with pytest.raises(ValueError, match=message):
        function(model, inputs, targets, **settings)
    for name in () if function is fgsm else ("steps", "restarts"):
        with pytest.raises(ValueError, match=f"{name}=0: expected an int of at least 1"):
            function(model, inputs, targets, eps=0.1, **{name: 0})
    if function is not square:
        with pytest.raises(ValueError, match="step_size=-1: expected a number above 0"):
            function(model, inputs, targets, eps=0.1, step_size=-1)


IMAGES, LABELS = torch.full((4, 1, 6, 6), 0.5), torch.tensor([0, 1, 2, 3])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": 255 * IMAGES + 1}, r"inputs from 128.5 to 128.5: expected values in \[0, 1\]; durm.attacks.Norm"),
        ({"inputs": IMAGES - 0.75}, r"inputs from -0.25 to -0.25: expected values in \[0, 1\]"),
        ({"inputs": IMAGES * torch.nan}, r"inputs from nan to nan: expected values in \[0, 1\]"),
        ({"inputs": IMAGES.byte()}, r"inputs of dtype torch.uint8: expected float32 .* \(divide bytes by 255\)"),
        ({"inputs": IMAGES.half()}, "inputs of dtype torch.float16: expected float32 or float64"),
        ({"inputs": torch.tensor(0.5)}, r"inputs of shape \(\): expected a batch"),
        (
            {"targets": LABELS[:3]},
            r"targets of shape \(3,\) and dtype torch.int64: expected class indices of shape \(4,",
        ),
        ({"targets": LABELS.float()}, "targets of shape .* and dtype torch.float32: expected class indices"),
        ({"targets": LABELS + 2}, "target 5 is outside 0 … 4, the real classes"),
        ({"targets": LABELS - 1}, "target -1 is outside 0 … 4, the real classes"),
        ({"start": IMAGES[:2]}, r"start of shape \(2, 1, 6, 6\): expected that of the inputs, \(4, 1, 6, 6\)"),
        ({"model": nn.Identity()}, r"an output of shape \(4, 1, 6, 6\): an attack needs logits, \(4, classes\)"),
    ],
)
@pytest.mark.parametrize("through", ["real", "full"])
def test_batches_that_are_refused(change: dict, message: str, through: str) -> None:
    arguments = {"model": network(dtype=torch.float32), "inputs": IMAGES, "targets": LABELS} | change
    with pytest.raises(ValueError, match=message):
        Attack(through=through)(**arguments)


def test_models_that_are_refused() -> None:
    class Listing(nn.Module):
        def forward(self, inputs: Tensor) -> list[Tensor]:
            return [inputs]

    class Stepped(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return (inputs.flatten(1)[:, :5] > 0.5).float()

    with pytest.raises(ValueError, match="the model gives an output of type list"):
        pgd(Listing(), IMAGES, LABELS, eps=0.1)
    with pytest.raises(ValueError, match="no gradient with respect to its inputs; 'square' needs none"):
        pgd(Stepped(), IMAGES, LABELS, eps=0.1)
    square(Stepped(), IMAGES, LABELS, eps=0.1, steps=3)
    plain = network(dummies=0, dtype=torch.float32)
    with pytest.raises(ValueError, match="through='dummy': this model has no dummies"):
        pgd(plain, IMAGES, LABELS, eps=0.1, through="dummy")
    two = network(classes=2, dummies=2, dtype=torch.float32)
    with pytest.raises(ValueError, match="the DLR loss needs at least 3 logits, and there are 2"):
        pgd(two, IMAGES, LABELS % 2, eps=0.1, loss="dlr")
    pgd(two, IMAGES, LABELS % 2, eps=0.1, loss="dlr", through="full")
    with pytest.raises(ValueError, match="the targeted DLR loss needs at least 4 logits, and there are 3"):
        targeted_apgd(network(classes=3, dtype=torch.float32), IMAGES, LABELS % 3, eps=0.1)


def test_the_public_names() -> None:
    room = import_module("durm.attacks")
    assert {"Attack", "Normalised", "apgd", "auto", "fgsm", "pgd", "square"} <= set(room.__all__)
    for name in ("Attack", "Normalised", "apgd", "auto", "fgsm", "pgd", "square"):
        assert getattr(room, name).__doc__


def test_the_room_needs_nothing_but_torch() -> None:
    code = (
        "import sys\n"
        "class Wall:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'numpy', 'scipy', 'sklearn', 'timm', 'torchvision', 'pydantic'}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Wall())\n"
        "import torch\n"
        "from durm.attacks import auto\n"
        "for attack in auto(0.1, steps=2, queries=2):\n"
        "    attack(torch.nn.Linear(8, 5), torch.rand(3, 8), torch.tensor([0, 1, 2]))\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)

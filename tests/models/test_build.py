"""Models by name: built for the data, without a download, and what is refused."""

import re
import socket
from pathlib import Path

import pytest
import torch
from torch import nn

from durm import models
from durm.errors import InputError


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever tries to download something fails the test that it is in."""

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("a test of building models wants to go to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's own, in a package, on the path."""
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "my_module.py").write_text(
        "from torch import nn\n"
        "number = 3\n"
        "def network(num_classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(12, num_classes))\n"
        "def nothing(num_classes):\n"
        "    return None\n"
        "def needs_more(num_classes, width):\n"
        "    return nn.Linear(width, num_classes)\n"
        "def takes_nothing():\n"
        "    return nn.Linear(3, 2)\n"
        "class Network(nn.Linear):\n"
        "    def __init__(self, num_classes):\n"
        "        super().__init__(12, num_classes)\n"
    )
    (package / "broken.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    return "my_package.my_module"


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("cnn", (1, 8, 8)),
        ("cnn", (3, 32, 32)),
        ("cnn", (3, 7, 15)),
        ("mlp", (4,)),
        ("mlp", (1, 8, 8)),
        ("mlp", (3, 5, 9)),
        ("resnet18", (3, 32, 32)),
        ("resnet18", (1, 32, 32)),
        ("vit_tiny_patch16_224", (3, 32, 32)),
        ("vit_tiny_patch16_224", (1, 32, 48)),
    ],
)
def test_a_model_takes_the_samples_and_gives_a_logit_for_each_class(name: str, shape: tuple[int, ...]) -> None:
    model = models.build(name, 7, shape).eval()
    with torch.no_grad():
        assert model(torch.zeros(2, *shape)).shape == (2, 7)


def test_weights_are_a_function_of_the_seed() -> None:
    built = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        built.append(models.build("cnn", 10, (1, 8, 8))[0].weight)
    assert torch.equal(built[0], built[1])
    assert not torch.equal(built[0], built[2])


@pytest.mark.parametrize("function", ["network", "Network"])
def test_a_function_or_class_of_one_s_own_is_called_with_the_number_of_classes(function: str, own: str) -> None:
    model = models.build(f"{own}:{function}", 5, (3, 2, 2))
    assert isinstance(model, nn.Module)
    assert model(torch.zeros(1, 12)).shape == (1, 5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{own}:netwrok", "'{own}' has no function 'netwrok'; did you mean 'network'"),
        ("{own}:zzz", "'{own}' has no function 'zzz'"),
        ("{own}:", "'{own}' has no function ''"),
        ("{own}:number", "'{own}' has no function 'number'"),
        ("{own}:nothing", "gave a NoneType; expected a torch.nn.Module"),
        ("{own}:needs_more", "num_classes"),
        ("{own}:takes_nothing", "num_classes"),
        ("my_package.missing:network", "there is no module 'my_package.missing'"),
        ("my_package.broken:network", "there is no module 'a_module_that_is_not_there'"),
        ("nowhere:network", "there is no module 'nowhere'"),
        (":network", "package.module:function"),
        (".my_module:network", "package.module:function"),
    ],
)
def test_a_function_that_cannot_be_used_is_named(name: str, message: str, own: str) -> None:
    name, message = name.format(own=own), message.format(own=own)
    with pytest.raises(InputError, match=re.escape(message)) as refusal:
        models.build(name, 5, (3, 2, 2))
    assert f"model {name!r}" in str(refusal.value)


def test_a_thing_that_is_no_function_is_not_proposed_for_itself(own: str) -> None:
    with pytest.raises(InputError) as refusal:
        models.check(f"{own}:number")
    assert "did you mean 'number'" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "close"),
    [("cn", "cnn"), ("mpl", "mlp"), ("resnet8", "resnet18"), ("vit_tiny_patch16_24", "vit_tiny_patch16_224")],
)
def test_an_unknown_name_is_told_with_the_closest(name: str, close: str) -> None:
    with pytest.raises(InputError, match=rf"model '{name}' is unknown: did you mean .*'{close}'"):
        models.build(name, 10, (3, 32, 32))


@pytest.mark.parametrize("name", ["", "nothing like it at all"])
def test_a_name_that_is_close_to_none_is_told_with_some(name: str) -> None:
    with pytest.raises(InputError, match=rf"model '{name}' is unknown: `durm models` lists all \d+"):
        models.check(name)


@pytest.mark.parametrize("name", ["cnn", "resnet18", "vit_tiny_patch16_224"])
def test_models_of_images_refuse_flat_inputs(name: str) -> None:
    message = f"model '{name}' takes images, and the samples have shape (4,); use 'mlp' for flat inputs"
    with pytest.raises(InputError, match=re.escape(message)):
        models.build(name, 10, (4,))


@pytest.mark.parametrize("name", ["cnn", "mlp", "without"])
def test_weights_that_there_are_not_are_refused(name: str) -> None:
    import timm

    if name == "without":
        name = next(known for known in timm.list_models() if not timm.is_model_pretrained(known))
    with pytest.raises(InputError, match=f"model '{name}' has no pretrained weights"):
        models.build(name, 10, (3, 32, 32), pretrained=True)


def test_the_names_that_match_a_pattern() -> None:
    every = models.names()
    assert every[:2] == ["cnn", "mlp"]
    assert len(every) > 1000
    assert models.names("resnet1?") == [name for name in every if re.fullmatch("resnet1.", name)]
    assert "resnet18" in models.names("resnet1*")
    assert models.names("tiny_patch16_224") == [name for name in every if "tiny_patch16_224" in name]
    assert models.names("nothing like it") == []

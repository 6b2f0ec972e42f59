"""Files for other programs: what they compute is what the model computes, or there is no file."""

import copy
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

import durm
import durm.models  # before timm: it cures the import of torchvision
from durm import exporting
from durm.errors import InputError

# isort: split
import timm


def cnn() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    )


def vit() -> nn.Module:
    torch.manual_seed(0)
    sizes = {"img_size": 8, "patch_size": 4, "embed_dim": 16, "depth": 1, "num_heads": 2}
    return timm.create_model("vit_tiny_patch16_224", num_classes=5, **sizes)


def bert() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return BertForSequenceClassification(BertConfig(vocab_size=30, num_labels=5, max_position_embeddings=16, **sizes))


def images(samples: int = 3) -> Tensor:
    return torch.randn(samples, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def text() -> dict[str, Tensor]:
    tokens = torch.randint(1, 30, (3, 10), generator=torch.Generator().manual_seed(1))
    tokens[0, 6:] = 0
    return {"input_ids": tokens, "attention_mask": (tokens != 0).long()}


def run(path: Path, inputs: Tensor | dict[str, Tensor]) -> list[np.ndarray]:
    """What the file computes, read by those who do not know durm."""
    named = inputs if isinstance(inputs, dict) else {"input": inputs}
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(str(path))
        return session.run(None, {name: value.numpy() for name, value in named.items()})
    found = torch.export.load(path).module()(*named.values())
    return [one.detach().numpy() for one in (found if isinstance(found, tuple) else (found,))]


def logits_of(model: nn.Module, inputs: Tensor | dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        given = model(**inputs) if isinstance(inputs, dict) else model(inputs)
    return getattr(given, "logits", given)


SLOW = [pytest.param(make, id=make.__name__, marks=pytest.mark.slow) for make in (vit, bert)]


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
@pytest.mark.parametrize("make", [cnn, *SLOW])
def test_logits_and_dummy_mass(make, suffix: str, tmp_path: Path) -> None:
    inputs = text() if make is bert else images()
    model = durm.widen(make(), 2).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    plain, both = tmp_path / f"plain{suffix}", tmp_path / f"both{suffix}"
    found = durm.export(model, inputs, plain)
    assert (found.path, found.outputs) == (plain, ("logits",))
    assert found.difference <= 1e-5
    assert durm.export(model, inputs, both, dummy_mass=True).outputs == ("logits", "dummy_mass")
    assert model.training
    assert durm.dummies(model) == 2
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())

    model.eval()
    with durm.full_logits(model):
        mass = durm.dummy_mass(logits_of(model, inputs), num_classes=5)
    narrowed = durm.narrow(copy.deepcopy(model))
    for size in (3, 2, 1):
        part = {k: v[:size] for k, v in inputs.items()} if isinstance(inputs, dict) else inputs[:size]
        expected = logits_of(narrowed, part)
        (alone,), (logits, given) = run(plain, part), run(both, part)
        np.testing.assert_allclose(alone, expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(given, mass[:size], rtol=0, atol=1e-5)
    assert plain.stat().st_size < both.stat().st_size


@pytest.mark.parametrize("kind", ["learned", "frozen", "constant", "copies"])
def test_safetensors_load_into_the_plain_model(kind: str, tmp_path: Path) -> None:
    model = durm.widen(cnn(), 2, kind=kind)
    found = durm.export(model, images(), tmp_path / "weights", to="safetensors")
    assert (found.format, found.difference) == ("safetensors", 0)
    plain = cnn()
    for parameter in plain.parameters():
        nn.init.zeros_(parameter)
    plain.load_state_dict(safetensors.torch.load_file(found.path))
    assert torch.equal(plain.eval()(images()), model.eval()(images()))


class Scenes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Conv2d(3, 5, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"out": self.classifier(x)}


def test_pixels_tokens_and_several_inputs(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    scenes = durm.widen(Scenes(), 2).eval()
    durm.export(scenes, images(), path, dummy_mass=True)
    logits, mass = run(path, images())
    assert (logits.shape, mass.shape) == ((3, 5, 8, 8), (3, 8, 8))
    tokens = durm.widen(nn.Linear(8, 5), 2).eval()
    durm.export(tokens, torch.randn(3, 4, 8), path, dummy_mass=True)
    logits, mass = run(path, torch.randn(2, 4, 8))
    assert (logits.shape, mass.shape) == ((2, 4, 5), (2, 4))
    found = durm.export(nn.Bilinear(4, 4, 5), [torch.randn(3, 4), torch.randn(3, 4)], path)
    assert found.inputs == {"input_0": (3, 4), "input_1": (3, 4)}


class Attending(nn.Module):
    """A head that widens itself: its classes are normalised together."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(5, 8))

    def forward(self, x: Tensor) -> Tensor:
        logits = x @ self.tokens.T
        return logits - logits.mean(1, keepdim=True)

    def class_parameters(self) -> dict[str, None]:
        return {"tokens": None}

    def resize_classes(self, count: int) -> None: ...


def test_a_head_that_cannot_be_narrowed_gives_its_real_logits(tmp_path: Path) -> None:
    model, x = durm.widen(Attending(), 2).eval(), torch.randn(3, 8)
    durm.export(model, x, tmp_path / "model.pt2")
    (logits,) = run(tmp_path / "model.pt2", x)
    np.testing.assert_allclose(logits, model(x).detach(), atol=1e-6)
    assert logits.shape == (3, 5)


def test_a_file_that_computes_something_else_is_not_written(tmp_path: Path, monkeypatch) -> None:
    write = exporting._WRITERS["torch.export"]

    def spoiled(served, inputs):
        content, honest = write(served, inputs)
        return content, lambda batch: [one + 1e-3 for one in honest(batch)]

    monkeypatch.setitem(exporting._WRITERS, "torch.export", spoiled)
    path = tmp_path / "model.pt2"
    path.write_text("the one before")
    with pytest.raises(ValueError, match=r"model\.pt2 is not written.*0\.001.*1e-05"):
        durm.export(durm.widen(cnn(), 2), images(), path)
    assert path.read_text() == "the one before"
    assert [file.name for file in tmp_path.iterdir()] == ["model.pt2"]


class Counting(nn.Module):
    """Its forward depends on values, which no graph can follow."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) if x.sum() > 0 else -self.fc(x)


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        ({"path": "model.onx"}, ["`to` '.onx'", ".onnx"]),
        ({"to": "onxx"}, ["`to` 'onxx'", "'onnx'"]),
        ({"inputs": torch.zeros(1, 8)}, ["inputs", "two samples"]),
        ({"to": "safetensors", "dummy_mass": True}, ["`dummy_mass`", "safetensors"]),
        ({"model": nn.Linear(8, 5), "dummy_mass": True}, ["`dummy_mass`", "none"]),
        ({"model": Counting()}, ["`to` 'torch.export'", "cannot export"]),
        ({"model": nn.LSTM(8, 5)}, ["tuple", "logits"]),
    ],
)
def test_bad_input_is_named(arguments: dict, fragments: list[str], tmp_path: Path) -> None:
    given = {"model": durm.widen(nn.Linear(8, 5), 2), "inputs": torch.zeros(2, 8), "path": "model.pt2", **arguments}
    path = tmp_path / given.pop("path")
    with pytest.raises(InputError) as caught:
        durm.export(given.pop("model"), given.pop("inputs"), path, **given)
    for fragment in fragments:
        assert fragment in str(caught.value)
    assert not list(tmp_path.iterdir())

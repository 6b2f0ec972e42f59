"""`durm evaluate --open-set`: what scores of uncertainty of a saved model are worth."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

import durm
from durm.training.building import build_model, load_bundle
from durm.training.inference import load_model
from durm.training.trial import Trial
from tests.cli.calling import call, refusal


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model that was never trained, and is wrong most of the time."""
    trial = Trial(data="digits", model="mlp", dummies=2)
    with torch.random.fork_rng():
        model = build_model(trial, load_bundle(trial))
    path = tmp_path_factory.mktemp("open-set") / "checkpoint.pt"
    torch.save({"trial": trial.model_dump_json(), "model": model.state_dict()}, path)
    return path


def arrays(folder: Path, shape: tuple[int, ...] = (8, 8), samples: int = 40) -> str:
    random = np.random.default_rng(0)
    parts = {}
    for part in ("train", "val", "test"):
        parts[f"x_{part}"] = (16 * random.random((samples, *shape))).astype(np.float32)
        parts[f"y_{part}"] = np.arange(samples) % 2
    np.savez(folder / "noise.npz", **parts)
    return f"arrays:{folder / 'noise.npz'}"


def test_it_measures_every_score(checkpoint: Path, tmp_path: Path) -> None:
    answer = call("evaluate", checkpoint, "--open-set", arrays(tmp_path), "--json")
    found = json.loads(answer.out)
    model, _, bundle = load_model(checkpoint)
    noise = torch.tensor(np.load(tmp_path / "noise.npz")["x_test"])[:, None]
    with torch.no_grad(), durm.full_logits(model):
        logits = [model(bundle.input.normalise(inputs)) for inputs in (bundle.test.inputs, noise)]
    inside, outside = (durm.dummy_mass(z.double(), 10).numpy() for z in logits)
    labels = np.r_[np.zeros(len(inside)), np.ones(40)]
    assert found["scores"]["dummy_mass"]["auroc"] == pytest.approx(100 * roc_auc_score(labels, np.r_[inside, outside]))
    wrong = (logits[0][:, :10].argmax(1) != bundle.test.labels).numpy()
    assert (found["known"], found["unknown"], found["wrong"]) == (len(inside), 40, wrong.sum())
    risks = np.cumsum(wrong[np.argsort(inside)]) / np.arange(1, len(wrong) + 1)
    assert found["scores"]["dummy_mass"]["aurc"] == pytest.approx(100 * risks.mean(), abs=1e-3)
    for one in found["scores"].values():
        assert one["risk"]["100"] == pytest.approx(100 * wrong.mean())

    printed = call("evaluate", checkpoint, "--open-set", arrays(tmp_path)).out.splitlines()
    assert printed[0].split()[:3] == ["score", "AUROC", "%"]
    assert [line.split()[0] for line in printed[1:6]] == ["dummy_mass", "msp", "max_logit", "energy", "entropy"]
    assert f"{len(inside)} known samples" in printed[6]


def test_bad_input_is_one_line(checkpoint: Path, tmp_path: Path) -> None:
    other = arrays(tmp_path, (9, 9))
    said = refusal(call("evaluate", checkpoint, "--open-set", other))
    assert all(part in said for part in ("--open-set", other, "(1, 9, 9)", "(1, 8, 8)"))
    said = refusal(call("evaluate", checkpoint, "--open-set", "digit"))
    assert "'digit'" in said
    assert "digits" in said
    said = refusal(call("evaluate", checkpoint, "--open-set", "digits", "--attack", "fgsm"))
    assert "--open-set digits" in said
    assert "--attack fgsm" in said

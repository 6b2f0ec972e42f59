"""`durm export`: a checkpoint becomes a file that others can run."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from durm.training.inference import fixed_samples, load_model
from tests.cli.calling import call, refusal


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that was trained for an epoch, with two dummies."""
    folder = tmp_path_factory.mktemp("export") / "out"
    answer = call("train", "--model", "mlp", "--epochs", 1, "--dummies", 2, "--quiet", "--out", folder)
    assert answer.code == 0, answer
    (found,) = (folder / "trials").iterdir()
    return found


def test_onnx_with_the_dummy_mass(trial: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.onnx"
    answer = call("export", trial, "--to", "onnx", "--out", out, "--dummy-mass", "--json")
    assert (answer.code, answer.err) == (0, "")
    said = json.loads(answer.out)
    assert (said["path"], said["outputs"]) == (str(out), ["logits", "dummy_mass"])
    assert said["difference"] <= 1e-5
    model, _, bundle = load_model(trial / "checkpoint.pt")
    raw = bundle.test.inputs[:7]
    by_hand = (raw.numpy().astype(np.float32) - said["mean"][0]) / said["std"][0]
    logits, mass = onnxruntime.InferenceSession(str(out)).run(None, {"input": by_hand})
    with torch.no_grad():
        expected = model(bundle.input.normalise(raw))
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5)
    assert mass.shape == (7,)
    assert ((mass > 0) & (mass < 1)).all()


def test_files_stand_beside_the_checkpoint_unless_told_otherwise(trial: Path) -> None:
    answer = call("export", trial, "--to", "torch.export")
    assert (answer.code, answer.err) == (0, "")
    file = trial / "model.pt2"
    assert str(file) in answer.out
    assert "mean" in answer.out
    model, _, bundle = load_model(trial / "checkpoint.pt")
    inputs, _ = fixed_samples(bundle, "test", 5)
    torch.testing.assert_close(torch.export.load(file).module()(inputs), model(inputs))
    assert call("export", trial / "checkpoint.pt", "--to", "safetensors").code == 0
    assert (trial / "model.safetensors").exists()
    assert call("verify", trial.parents[1]).code == 0


def test_bad_input_is_one_line(trial: Path, tmp_path: Path) -> None:
    wrong = refusal(call("export", trial, "--to", "onx"))
    assert "--to 'onx'" in wrong
    assert "'onnx'" in wrong
    assert "--dummy-mass" in refusal(call("export", trial, "--to", "safetensors", "--dummy-mass"))
    assert "nothing.pt" in refusal(call("export", tmp_path / "nothing.pt"))
    assert str(tmp_path / "no" / "model.onnx") in refusal(
        call("export", trial, "--to", "torch.export", "--out", tmp_path / "no" / "model.onnx")
    )

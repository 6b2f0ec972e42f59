"""`durm evaluate --attack`: two classes, both norms, warnings, and a run that goes on where it was interrupted."""

import json
from pathlib import Path

import numpy as np
import pytest

from durm.training import inference
from durm.training.robustness import robustness
from durm.training.trainer import RunContext, run
from durm.training.trial import Trial
from tests.cli.calling import call

ATTACK = ("--attack", "auto", "--steps", "2", "--json", "--eps", "0.2")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An mlp for two classes of images of 4 × 4 bytes: dark ones and bright ones."""
    folder = tmp_path_factory.mktemp("two")
    random = np.random.default_rng(0)
    labels = np.arange(400) % 2
    images = (random.integers(0, 160, (400, 4, 4)) + 95 * labels[:, None, None]).astype(np.uint8)
    np.savez(folder / "two.npz", x_train=images[:200], y_train=labels[:200], x_test=images[200:], y_test=labels[200:])
    train = {"iterations": 30}
    trial = Trial.model_validate({"data": f"arrays:{folder / 'two.npz'}", "model": "mlp", "train": train})
    run(trial, RunContext(folder=folder))
    return folder / "checkpoint.pt"


@pytest.mark.parametrize(("norm", "eps"), [("linf", 0.2), ("l2", 0.8)])
def test_auto_on_two_classes(norm: str, eps: float, checkpoint: Path) -> None:
    answer = call("evaluate", checkpoint, *ATTACK[:-1], eps, "--norm", norm)
    assert answer.code == 0, answer
    left = {key: entry["accuracy"] for key, entry in json.loads(answer.out)["robustness"].items()}
    assert left["auto_real"] < left["clean"]


def test_an_interrupted_run_goes_on(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.loads(call("evaluate", checkpoint, *ATTACK).out)
    done: list[int] = []

    def interrupted(*given: object, on_batch: object = None, **settings: object) -> object:
        def stop() -> None:
            done.append(1)
            if len(done) == 1:
                raise KeyboardInterrupt

        return robustness(*given, on_batch=stop, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(inference, "robustness", interrupted)
    file = tmp_path / "attacked.pt"
    assert call("evaluate", checkpoint, *ATTACK, "--resume", file).code == 130
    assert json.loads(call("evaluate", checkpoint, *ATTACK, "--resume", file).out) == whole
    assert len(done) == 2  # 200 samples are two batches, and none was attacked twice
    assert json.loads(call("evaluate", checkpoint, *ATTACK, "--resume", file).out) == whole
    assert len(done) == 2
    other = call("evaluate", checkpoint, *ATTACK, "--samples", "100", "--resume", file)
    assert (other.code, "another model, attack or test set" in other.err) == (2, True)
    file.write_bytes(b"nothing")
    assert f"--resume {file} is damaged" in call("evaluate", checkpoint, *ATTACK, "--resume", file).err
    alone = call("evaluate", checkpoint, "--resume", file)
    assert (alone.code, "goes with --attack" in alone.err) == (2, True)

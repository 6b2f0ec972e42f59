"""Checkpoints: any bit that changed is found, and none of another trial or of other data is taken up."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from durm.errors import InputError
from durm.training import checkpoint
from durm.training.checkpoint import DamagedCheckpoint
from durm.training.trainer import Interrupted, RunContext, run
from durm.training.trial import TrainSpec, Trial, read_trial

VERSION_1 = Path(__file__).parents[1] / "study" / "version1" / "interrupted" / "trials"
STATE = {"trial": "{}", "data": "0123456789abcdef", "model": {"weight": torch.arange(6.0)}}


def trial(**changes: object) -> Trial:
    train = TrainSpec.model_validate({"epochs": 2})
    return Trial.model_validate({"data": "digits", "model": "mlp", "train": train, **changes})


def interrupt(one: Trial, folder: Path, steps: int = 4) -> None:
    """Trains so many steps, and leaves a checkpoint."""
    left = iter([False] * steps)
    with pytest.raises(Interrupted):
        run(one, RunContext(folder=folder, stop=lambda: next(left, True)))


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, STATE)
    whole = path.read_bytes()
    assert torch.equal(checkpoint.load(path)["model"]["weight"], torch.arange(6.0))
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8  # each byte, and each of its bits in turn
        path.write_bytes(flipped)
        with pytest.raises(DamagedCheckpoint, match="is damaged"):
            checkpoint.load(path)


@pytest.mark.parametrize("end", [1, 2, 40, 64, 65, 66, 77, 78, 79, 500])
def test_a_checkpoint_that_lost_its_end_is_damaged(end: int, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, STATE)
    path.write_bytes(path.read_bytes()[:-end])
    with pytest.raises(DamagedCheckpoint, match="is damaged"):
        checkpoint.load(path)


def test_the_seal_is_the_hash_of_what_torch_wrote_and_torch_still_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, STATE)
    content, _, seal = path.read_bytes().rpartition(b"\ndurm sha256 ")
    assert seal.decode().strip() == hashlib.sha256(content).hexdigest()
    assert torch.load(path, weights_only=True)["data"] == "0123456789abcdef"


def test_a_folder_in_its_place_is_damage(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.pt").mkdir()
    with pytest.raises(DamagedCheckpoint, match="is a folder"):
        checkpoint.load(tmp_path / "checkpoint.pt")
    assert run(trial(), RunContext(folder=tmp_path)).weights_sha256 == run(trial()).weights_sha256


def test_a_flipped_weight_is_not_trained_on(tmp_path: Path) -> None:
    interrupt(trial(), tmp_path)
    path = tmp_path / "checkpoint.pt"
    content = bytearray(path.read_bytes())
    weight = checkpoint.load(path)["model"]["1.weight"].numpy().tobytes()
    content[content.index(weight) + 2] ^= 64  # of a float32, a bit of its exponent
    path.write_bytes(content)
    lines: list[str] = []
    assert run(trial(), RunContext(folder=tmp_path, warn=lines.append)).weights_sha256 == run(trial()).weights_sha256
    assert len(lines) == 1
    assert "checkpoint.pt.damaged-1" in lines[0]


def test_a_checkpoint_of_another_trial_is_set_aside_and_named(tmp_path: Path) -> None:
    interrupt(trial(seed=1), tmp_path)
    lines: list[str] = []
    assert run(trial(), RunContext(folder=tmp_path, warn=lines.append)).weights_sha256 == run(trial()).weights_sha256
    assert len(lines) == 1
    assert "is of another trial" in lines[0]
    assert read_trial(checkpoint.load(tmp_path / "checkpoint.pt.damaged-1")["trial"]).seed == 1


def test_data_that_changed_are_refused_with_what_changed(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    images = random.integers(0, 255, (40, 8, 8), dtype=np.uint8)
    arrays = {"x_train": images, "y_train": np.arange(40) % 4, "x_test": images[:8], "y_test": np.arange(8) % 4}
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    one = trial(data=f"arrays:{path}")
    interrupt(one, tmp_path, steps=1)
    before: str = checkpoint.load(tmp_path / "checkpoint.pt")["data"]
    arrays["x_train"] = images + 1
    np.savez(path, **arrays)
    with pytest.raises(InputError) as caught:
        run(one, RunContext(folder=tmp_path))
    for word in (f"arrays:{path}", "checkpoint.pt", before, "take another folder with `out`"):
        assert word in str(caught.value)
    assert checkpoint.load(tmp_path / "checkpoint.pt")["data"] == before  # it stays, for when the data are back
    arrays["x_train"] = images
    np.savez(path, **arrays)
    assert run(one, RunContext(folder=tmp_path)).weights_sha256 == run(one).weights_sha256


def test_a_damaged_checkpoint_of_version_1_that_can_be_read_is_set_aside(tmp_path: Path) -> None:
    """It has no checksum, so that only what does not fit shows."""
    source = min(VERSION_1.iterdir())
    shutil.copyfile(source / "checkpoint.pt", tmp_path / "checkpoint.pt")
    state = checkpoint.load(tmp_path / "checkpoint.pt")
    assert "data" not in state
    name = next(iter(state["model"]))
    state["model"][name] = state["model"][name][:1]
    torch.save(state, tmp_path / "checkpoint.pt")
    one = read_trial(json.dumps(json.loads((source / "trial.json").read_text())))
    with pytest.raises(InputError, match=r"is damaged .* set aside as checkpoint.pt.damaged-1"):
        run(one, RunContext(folder=tmp_path))
    assert not (tmp_path / "checkpoint.pt").exists()

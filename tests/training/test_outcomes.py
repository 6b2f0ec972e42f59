"""outcomes.npz of real trials: what the checkpoint gives when it is evaluated by hand, in one order for all arms."""

import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import durm
from durm.data.bundle import DataBundle, Samples
from durm.training.inference import load_model
from durm.training.outcomes import pack_outcomes, samples_sha256, unpack_outcomes
from durm.training.result import Result
from durm.training.robustness import attacked_samples
from durm.training.trainer import RunContext, run
from durm.training.trial import Trial
from tests.training import scenes

ATTACKED = 40
ATTACK: dict[str, Any] = {"kind": "fgsm", "eps": 8 / 255, "through": ["real", "full"]}


def trial(dummies: int = 0, seed: int = 0) -> Trial:
    settings = {"attacks": [ATTACK, {"kind": "pgd", "eps": 4 / 255, "steps": 3}], "attack_samples": ATTACKED}
    described = {"data": "digits", "model": "cnn", "dummies": dummies, "seed": seed, "train": {"epochs": 1}, **settings}
    return Trial.model_validate(described)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], tuple[Result, Path]]:
    """(dummies, seed) → what came of it, and the folder with the checkpoint."""
    found = {}
    for key in ((0, 0), (2, 0), (2, 1)):
        folder = tmp_path_factory.mktemp("trial")
        found[key] = run(trial(*key), RunContext(folder=folder)), folder
    return found


@torch.no_grad()
def logits_of(folder: Path) -> tuple[torch.Tensor, DataBundle]:
    """The real logits of the test samples, seven at a time."""
    model, _, bundle = load_model(folder / "checkpoint.pt")
    inputs = bundle.input.normalise(bundle.test.inputs)
    return torch.cat([model(part) for part in inputs.split(7)]).double(), bundle


@pytest.mark.parametrize("key", [(0, 0), (2, 0), (2, 1)])
def test_they_are_what_the_checkpoint_makes_of_the_test_samples(
    key: tuple[int, int], runs: dict[tuple[int, int], tuple[Result, Path]]
) -> None:
    result, folder = runs[key]
    kept = unpack_outcomes(result.outcomes)
    logits, bundle = logits_of(folder)
    labels = bundle.test.labels
    assert len(labels) == result.samples.test
    assert (kept["correct"].dtype, {kept[name].dtype for name in ("margin", "log_p", "brier")}) == (
        np.uint8, {np.dtype(np.float32)},
    )  # fmt: skip
    p = logits.softmax(1).numpy()
    one_hot = np.eye(10)[labels.numpy()]
    right = (logits.numpy() * one_hot).sum(1)
    others = np.where(one_hot == 1, -np.inf, logits.numpy()).max(1)
    assert kept["correct"].tolist() == (p.argmax(1) == labels.numpy()).tolist()
    assert kept["margin"] == pytest.approx(right - others, abs=1e-4)
    assert kept["log_p"] == pytest.approx(np.log((p * one_hot).sum(1)), abs=1e-4)
    assert kept["brier"] == pytest.approx(((p - one_hot) ** 2).sum(1), abs=1e-4)
    assert 100 * kept["correct"].mean(dtype=float) == pytest.approx(result.metrics["accuracy"])
    soft = 100 * (1 / (1 + np.exp(-kept["margin"].astype(float) / 0.1))).mean()
    assert soft == pytest.approx(result.metrics["soft_accuracy"], abs=1e-4)


def test_the_samples_are_the_same_in_one_order_for_all_arms_and_seeds(
    runs: dict[tuple[int, int], tuple[Result, Path]],
) -> None:
    """Digits has a test set of its own, whatever the seed."""
    assert len({result.test_sha256 for result, _ in runs.values()}) == 1
    bundle = load_model(runs[0, 0][1] / "checkpoint.pt")[2]
    assert runs[0, 0][0].test_sha256 == samples_sha256(bundle.test)


def test_another_order_another_sample_or_another_label_is_another_test_set() -> None:
    inputs, labels = torch.arange(12, dtype=torch.uint8).view(4, 1, 1, 3), torch.tensor([0, 1, 0, 1])
    order = torch.tensor([2, 1, 0, 3])  # the same labels
    several = [
        Samples(inputs, labels), Samples(inputs[order], labels[order]), Samples(inputs, 1 - labels),
        Samples(inputs[:3], labels[:3]), Samples(inputs + 1, labels),
    ]  # fmt: skip
    assert len({samples_sha256(one) for one in several}) == 5
    assert samples_sha256(Samples(inputs.clone(), labels.clone())) == samples_sha256(several[0])


def test_the_flags_of_each_attack(runs: dict[tuple[int, int], tuple[Result, Path]]) -> None:
    """Of FGSM by hand: one step of ε along the sign of the gradient, through the real logits and through all."""
    result, folder = runs[2, 0]
    kept = unpack_outcomes(result.outcomes)
    keys = {name for name in kept if name.startswith("robust_")}
    assert keys == {f"robust_{key}" for key in ("clean", "fgsm_real", "fgsm_full", "pgd_real")}
    for name in keys:
        assert len(kept[name]) == ATTACKED
        assert 100 * kept[name].mean(dtype=float) == pytest.approx(result.metrics[name])
    model, _, bundle = load_model(folder / "checkpoint.pt")
    chosen = attacked_samples(bundle.test, ATTACKED)
    whole = {one.tobytes(): place for place, one in enumerate(bundle.test.inputs.numpy())}
    places = [whole[one.tobytes()] for one in chosen.inputs.numpy()]
    assert kept["robust_clean"].tolist() == kept["correct"][places].tolist()
    unit = (chosen.inputs.float() / bundle.input.pixel_max).requires_grad_()
    for through in ("real", "full"):
        with durm.full_logits(model):
            logits = model(bundle.input.normalise(unit * bundle.input.pixel_max))
        seen = logits[:, :10] if through == "real" else logits
        (gradient,) = torch.autograd.grad(torch.nn.functional.cross_entropy(seen, chosen.labels, reduction="sum"), unit)
        changed = (unit + ATTACK["eps"] * gradient.sign()).clamp(0, 1)
        right = model(bundle.input.normalise(changed * bundle.input.pixel_max)).argmax(1) == chosen.labels
        robust = right & torch.tensor(kept["robust_clean"]).bool()  # who was wrong before is not attacked
        assert kept[f"robust_fgsm_{through}"].tolist() == robust.tolist()


def test_confusion_counts_of_each_image_make_that_of_the_result(tmp_path: Path) -> None:
    data = scenes.write_scenes(tmp_path / "scenes", {"train": 6, "val": 2, "test": 5})
    described = {"data": data, "model": scenes.MODEL, "dummies": 1, "train": {"epochs": 2, "batch_size": 2}}
    result = run(Trial.model_validate(described), RunContext(folder=tmp_path))
    kept = unpack_outcomes(result.outcomes)
    counts = kept["confusion"]
    assert (counts.shape, counts.dtype) == ((5, 3, 3), np.int32)
    iou = counts.sum(0).diagonal() / (counts.sum((0, 1)) + counts.sum((0, 2)) - counts.sum(0).diagonal())
    assert 100 * iou.mean() == pytest.approx(result.metrics["miou"])
    rows = np.array(result.confusion).sum(1)  # with a column for the dummy; its rows are the true classes
    assert counts.sum((0, 2)).tolist() == rows.tolist()
    model, _, bundle = load_model(tmp_path / "checkpoint.pt", trust_code=True)
    assert bundle.test.masks is not None
    for place in range(5):
        image = bundle.input.normalise(bundle.test.inputs[[place]] if isinstance(bundle.test.inputs, torch.Tensor)
                                       else bundle.test.inputs[place][None])  # fmt: skip
        mask = bundle.test.masks[place]
        predicted = model(image)[0].argmax(0)
        by_hand = [
            [int(((mask == true) & (predicted == found)).sum()) for found in range(3)] for true in range(3)
        ]  # fmt: skip
        assert counts[place].tolist() == by_hand


# The file.


def test_the_same_arrays_give_the_same_bytes(runs: dict[tuple[int, int], tuple[Result, Path]]) -> None:
    result = runs[0, 0][0]
    arrays = unpack_outcomes(result.outcomes)
    assert pack_outcomes(arrays) == pack_outcomes(dict(arrays)) == result.outcomes
    assert hashlib.sha256(result.outcomes).hexdigest() == result.outcomes_sha256


class Harmful:
    """What a pickle could run."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("code was run",)


def with_objects() -> bytes:
    file = io.BytesIO()
    np.savez(file, correct=np.array([Harmful(), None], dtype=object))
    return file.getvalue()


def one_array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.arange(3))
    return file.getvalue()


def larger_than_any_memory() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": "<f8", "fortran_order": False, "shape": (2**58,)}
        )  # fmt: skip
        archive.writestr("correct.npy", header.getvalue())
    return file.getvalue()


WHOLE = pack_outcomes({"correct": np.ones(50, np.uint8)})
DAMAGED = {
    "empty": b"",
    "text": b"no archive",
    "cut": WHOLE[:-30],
    "another bit": WHOLE[:150] + bytes([WHOLE[150] ^ 1]) + WHOLE[151:],
    "an archive of text": WHOLE.replace(b"\x93NUMPY", b"\x93NUMBY"),
    "objects": with_objects(),
    "one array": one_array(),
    "too large": larger_than_any_memory(),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_damaged_is_refused_and_runs_no_code(name: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        unpack_outcomes(DAMAGED[name])

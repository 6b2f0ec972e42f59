"""CIFAR-10-C from tiny files of the published format."""

from pathlib import Path

import numpy as np
import pytest
import torch

from durm.data import DataOptions, load
from durm.errors import InputError
from tests.data.test_cifar import write_cifar10

COUNT = 4


def write(root: Path) -> tuple[np.ndarray, np.ndarray]:
    """Two corruptions of four test images at five severities, the images with their channels last."""
    write_cifar10(root, "cifar-10-batches-bin")
    folder = root / "CIFAR-10-C"
    folder.mkdir()
    random = np.random.default_rng(5)
    fog, snow = (random.integers(0, 256, (5 * COUNT, 32, 32, 3), dtype=np.uint8) for _ in range(2))
    labels = np.tile(np.array([3, 1, 4, 1], np.uint8), 5)
    for name, array in (("fog", fog), ("snow", snow), ("labels", labels)):
        np.save(folder / f"{name}.npy", array)
    return fog, labels


def test_all_severities_and_each(tmp_path: Path) -> None:
    fog, labels = write(tmp_path)
    options = DataOptions(tmp_path)
    clean, every = load("cifar10", seed=1, options=options), load("cifar10-c:fog", seed=1, options=options)
    assert torch.equal(every.test.inputs, torch.from_numpy(fog.transpose(0, 3, 1, 2).copy()))  # type: ignore[arg-type]
    assert every.test.labels.tolist() == labels.tolist()
    assert torch.equal(every.train.inputs, clean.train.inputs)  # type: ignore[arg-type]
    assert torch.equal(every.val.labels, clean.val.labels)
    assert torch.equal(every.input.mean, clean.input.mean)
    assert every.class_names == clean.class_names
    assert "fog, severities 1 … 5" in every.notes[-1]
    for severity in range(1, 6):
        one = load(f"cifar10-c:fog:{severity}", seed=1, options=options)
        part = fog[(severity - 1) * COUNT : severity * COUNT].transpose(0, 3, 1, 2).copy()
        assert torch.equal(one.test.inputs, torch.from_numpy(part))  # type: ignore[arg-type]
        assert one.test.labels.tolist() == [3, 1, 4, 1]


def test_a_part_of_the_training_images(tmp_path: Path) -> None:
    write(tmp_path)
    bundle = load("subset:samples=5:cifar10-c:snow", seed=0, options=DataOptions(tmp_path))
    assert (len(bundle.train) + len(bundle.val), len(bundle.test)) == (50, 5 * COUNT)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar10-c:fogg", "corruption 'fogg' is unknown: did you mean 'fog'"),
        ("cifar10-c:labels", "corruption 'labels' is unknown"),
        ("cifar10-c:../fog", "is unknown"),
        ("cifar10-c:fog:6", "'cifar10-c:fog:6': expected a severity of 1 … 5"),
        ("cifar10-c:fog:0", "expected a severity of 1 … 5"),
        ("cifar10-c", "needs a path"),
        ("cifar100-c:fog", "data 'cifar100'"),
    ],
)
def test_what_is_not_there(name: str, message: str, tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(InputError, match=message):
        load(name, seed=0, options=DataOptions(tmp_path))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("fog", np.zeros((20, 3, 32, 32), np.uint8), r"uint8 of shape \(20, 3, 32, 32\); expected bytes"),
        ("fog", np.zeros((20, 32, 32, 3)), "float64 of shape"),
        ("fog", np.zeros((21, 32, 32, 3), np.uint8), r"expected bytes of shape \(5 · N"),
        ("labels", np.zeros(19, np.uint8), r"labels.npy has shape \(19,\); expected \(20,\)"),
        ("labels", np.full(20, 10, np.uint8), "has the class 10; expected 0 … 9"),
        ("labels", np.array([{}] * 20), "labels.npy cannot be read as an array"),
    ],
)
def test_files_of_another_format(file: str, content: np.ndarray, message: str, tmp_path: Path) -> None:
    write(tmp_path)
    np.save(tmp_path / "CIFAR-10-C" / f"{file}.npy", content)
    with pytest.raises(InputError, match=message):
        load("cifar10-c:fog", seed=0, options=DataOptions(tmp_path))


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "CIFAR-10-C" / "fog.npy"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"fog\.npy cannot be read as an array"):
        load("cifar10-c:fog", seed=0, options=DataOptions(tmp_path))

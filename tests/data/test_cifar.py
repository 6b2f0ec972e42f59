"""CIFAR in both layouts, from files that the tests write byte by byte."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from durm.data import DataOptions, load
from durm.errors import InputError
from tests.data.samples import write_sample

LAYOUTS = {
    "cifar10": ("cifar-10-batches-bin", "cifar-10-batches-py"),
    "cifar100": ("cifar-100-binary", "cifar-100-python"),
}


def known_images(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)


def write_cifar10(root: Path, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """Five batches of 20 and a test batch of 20; gives the images and labels of the training batches, in order."""
    folder = root / layout
    folder.mkdir(parents=True)
    labels = np.arange(20) % 10
    batches = {**{f"data_batch_{i}": known_images(20, i) for i in range(1, 6)}, "test_batch": known_images(20, 9)}
    names = [f"thing {i}" for i in range(10)]
    for name, images in batches.items():
        if layout.endswith("bin"):
            content = b"".join(bytes([label]) + image.tobytes() for label, image in zip(labels, images, strict=True))
            (folder / f"{name}.bin").write_bytes(content)
        else:
            batch = {b"data": images.reshape(20, -1), b"labels": labels.tolist(), b"batch_label": b"a batch"}
            (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    if layout.endswith("bin"):
        (folder / "batches.meta.txt").write_text("\n".join(names) + "\n\n")
    else:
        (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [n.encode() for n in names]}, protocol=2))
    every = [batches[f"data_batch_{i}"] for i in range(1, 6)]
    return np.concatenate(every), np.tile(labels, 5)


@pytest.mark.parametrize("layout", LAYOUTS["cifar10"])
def test_both_layouts_give_the_images_that_were_written(layout: str, tmp_path: Path) -> None:
    images, labels = write_cifar10(tmp_path, layout)
    bundle = load("cifar10", seed=3, options=DataOptions(tmp_path))
    assert (len(bundle.train), len(bundle.val), len(bundle.test)) == (90, 10, 20)
    assert bundle.class_names[3] == "thing 3"
    assert isinstance(bundle.train.inputs, torch.Tensor)
    assert isinstance(bundle.val.inputs, torch.Tensor)
    found = torch.cat([bundle.train.inputs, bundle.val.inputs]).numpy()
    found_labels = torch.cat([bundle.train.labels, bundle.val.labels]).numpy()
    by_content = {image.tobytes(): label for image, label in zip(images, labels, strict=True)}
    assert {image.tobytes(): label for image, label in zip(found, found_labels, strict=True)} == by_content
    assert torch.equal(bundle.test.inputs, torch.from_numpy(known_images(20, 9)))  # type: ignore[arg-type]


def test_both_layouts_are_the_same_data(tmp_path: Path) -> None:
    bundles = []
    for layout in LAYOUTS["cifar10"]:
        write_cifar10(tmp_path / layout, layout)
        bundles.append(load("cifar10", seed=0, options=DataOptions(tmp_path / layout)))
    assert bundles[0].fingerprint == bundles[1].fingerprint
    assert bundles[0].class_names == bundles[1].class_names


def test_cifar100_takes_the_fine_label(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    for name, seed in (("train.bin", 0), ("test.bin", 1)):
        images = known_images(300, seed)
        records = [bytes([7, index % 100]) + image.tobytes() for index, image in enumerate(images)]
        (folder / name).write_bytes(b"".join(records))
    (folder / "fine_label_names.txt").write_text("\n".join(f"fine {i}" for i in range(100)))
    bundle = load("cifar100", seed=0, options=DataOptions(tmp_path))
    assert bundle.num_classes == 100
    assert bundle.test.labels.tolist() == [index % 100 for index in range(300)]
    assert bundle.class_names[42] == "fine 42"


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_sample_can_be_loaded(name: str, tmp_path: Path) -> None:
    write_sample(name, tmp_path)
    bundle = load(name, seed=0, options=DataOptions(tmp_path))
    assert bundle.train.labels.unique().numel() == bundle.num_classes == len(bundle.class_names)


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (print, ("this must not run",))


def test_a_pickle_that_wants_to_run_something_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_cifar10(tmp_path, "cifar-10-batches-py")
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps({b"data": Evil()}))
    with pytest.raises(InputError, match=r"test_batch cannot be read.*builtins\.print"):
        load("cifar10", seed=0, options=DataOptions(tmp_path))
    assert capsys.readouterr().out == ""


def damage(folder: Path, what: str) -> None:
    if what == "cut":
        (folder / "data_batch_2.bin").write_bytes(bytes(3072))
    elif what == "empty":
        (folder / "data_batch_2.bin").write_bytes(b"")
    elif what == "label":
        (folder / "data_batch_2.bin").write_bytes(bytes([77]) + bytes(3072))
    elif what == "names":
        (folder / "batches.meta.txt").write_text("one\ntwo\n")
    elif what == "missing":
        (folder / "data_batch_2.bin").unlink()


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("cut", "data_batch_2.bin has 3072 bytes, no multiple of 3073"),
        ("empty", "data_batch_2.bin has 0 bytes"),
        ("label", "the label 77; there are 10 classes"),
        ("names", "names 2 classes; expected 10"),
        ("missing", "data_batch_2.bin not found in .*`data_root`"),
    ],
)
def test_damaged_files_are_named(what: str, message: str, tmp_path: Path) -> None:
    write_cifar10(tmp_path, "cifar-10-batches-bin")
    damage(tmp_path / "cifar-10-batches-bin", what)
    with pytest.raises(InputError, match=message):
        load("cifar10", seed=0, options=DataOptions(tmp_path))


def test_what_is_missing_is_told_with_the_place(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        load("cifar10", seed=0, options=DataOptions(tmp_path))
    told = str(refused.value)
    assert "data_batch_1.bin" in told
    assert str(tmp_path / "cifar-10-batches-bin") in told
    assert "cifar-10-batches-py" in told

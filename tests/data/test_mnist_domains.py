"""Rotated and colored MNIST and digits, against scipy, the published probabilities and the files themselves."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import ndimage, stats
from sklearn.datasets import load_digits
from torch import Tensor

from durm.data import DataOptions, load
from durm.errors import InputError
from tests.data.samples import write_sample

DEGREES = [0, 15, 30, 45, 60, 75]
OTHER = {"+90": 0.1, "+80": 0.2, "-90": 0.9}
ORIGINALS = load_digits().images
LABELS = load_digits().target


def whole(data: str, options: DataOptions | None = None) -> tuple[np.ndarray, np.ndarray]:
    """All images of the held-out domain and their labels."""
    test = load(data, seed=0, options=options or DataOptions()).test
    assert isinstance(test.inputs, Tensor)
    assert test.inputs.dtype == torch.uint8
    return test.inputs.numpy().astype(int), test.labels.numpy()


def turned(image: np.ndarray, degrees: int) -> np.ndarray:
    return ndimage.rotate(image, degrees, reshape=False, order=1, mode="grid-constant")


def test_every_digit_is_in_one_rotated_domain() -> None:
    """Each image of a domain is that of an original, turned by scipy; no original is used twice or left out."""
    free = set(range(1797))
    for degrees in DEGREES:
        truths = np.array([turned(image, degrees) for image in ORIGINALS])
        for image, label in zip(*whole(f"rotated-digits:{degrees}"), strict=True):
            near = np.abs(truths - image[0]).max((1, 2)) <= 0.5 + 1e-6
            found = [index for index in np.flatnonzero(near & (label == LABELS)) if index in free]
            assert found, f"an image at {degrees} degrees has no original"
            free.remove(found[0])
    assert not free


def test_the_rotated_domains_of_the_digits_are_alike_in_size() -> None:
    sizes = [len(whole(f"rotated-digits:{degrees}")[1]) for degrees in DEGREES]
    assert sum(sizes) == 1797
    assert max(sizes) - min(sizes) <= 1


def facts(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of colored images: the channel that holds the digit, and the digit without its colour."""
    lit = images.max((2, 3)) > 0
    assert (lit.sum(1) == 1).all()
    return lit.argmax(1), images.sum(1)


def test_colours_and_labels_have_the_published_probabilities() -> None:
    """The counts lie within the 99.99 % interval of the binomial; the shape is known from scikit-learn's label."""
    truth = {image.astype(int).tobytes(): label for image, label in zip(ORIGINALS, LABELS, strict=True)}
    seen = []
    for domain, other in OTHER.items():
        images, labels = whole(f"colored-digits:{domain}")
        colour, shapes = facts(images)
        keys = [shape.tobytes() for shape in shapes]
        below = np.array([truth[key] < 5 for key in keys])
        seen += keys
        for count, share in (((colour != labels).sum(), other), ((labels != below).sum(), 0.25)):
            low, high = stats.binom.interval(0.9999, len(labels), share)
            assert low <= count <= high
        assert stats.fisher_exact(np.histogram2d(colour != labels, labels != below, 2)[0]).pvalue > 1e-4
    assert sorted(seen) == sorted(image.astype(int).tobytes() for image in ORIGINALS)


@pytest.mark.parametrize(
    ("name", "domains", "classes", "shape"),
    [
        ("rotated-digits", [*map(str, DEGREES)], 10, (1, 8, 8)),
        ("colored-digits", [*OTHER], 2, (2, 8, 8)),
    ],
)
def test_the_bundles_of_the_digits(name: str, domains: list[str], classes: int, shape: tuple[int, ...]) -> None:
    for domain in domains:
        data, again, other = (load(f"{name}:{domain}", seed=seed) for seed in (0, 0, 1))
        assert len(data.train) + len(data.val) + len(data.test) == 1797
        assert data.domain_names == [each for each in domains if each != domain]
        assert (data.num_classes, data.input.shape, data.augment) == (classes, shape, "none")
        assert data.fingerprint == again.fingerprint != other.fingerprint
        assert torch.equal(torch.as_tensor(data.test.inputs), torch.as_tensor(other.test.inputs))


def published(root: Path) -> list[bytes]:
    """Every image of the files, read without durm."""
    folder = root / "MNIST" / "raw"
    parts = [gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())[16:] for part in ("train", "t10k")]
    return [part[start : start + 784] for part in parts for start in range(0, len(part), 784)]


def test_mnist_is_read_from_its_files(tmp_path: Path) -> None:
    write_sample("mnist", tmp_path)
    data = load("mnist", seed=0, options=DataOptions(tmp_path))
    parts = [torch.as_tensor(part.inputs).numpy() for part in (data.train, data.val, data.test)]
    assert sorted(image.tobytes() for part in parts for image in part) == sorted(published(tmp_path))
    assert (data.num_classes, data.class_names[3], data.input.shape) == (10, "3", (1, 28, 28))


def test_colored_mnist_pools_training_and_test_images(tmp_path: Path) -> None:
    write_sample("coloredmnist", tmp_path)
    shapes = [facts(whole(f"coloredmnist:{domain}", DataOptions(tmp_path))[0])[1] for domain in OTHER]
    images = sorted(shape.astype(np.uint8).tobytes() for each in shapes for shape in each)
    assert images == sorted(published(tmp_path))


def test_rotated_mnist_is_turned_as_scipy_does_it(tmp_path: Path) -> None:
    write_sample("rotatedmnist", tmp_path)
    originals = np.frombuffer(b"".join(published(tmp_path)), np.uint8).reshape(-1, 28, 28).astype(float)
    used = []
    for degrees in DEGREES:
        truths = np.array([turned(image, degrees) for image in originals])
        for image in whole(f"rotatedmnist:{degrees}", DataOptions(tmp_path))[0]:
            gaps = np.abs(truths - image[0]).max((1, 2))
            assert gaps.min() <= 0.5 + 1e-3
            used.append(int(gaps.argmin()))
    assert sorted(used) == [*range(len(originals))]


@pytest.mark.parametrize("name", ["mnist", "rotatedmnist:0", "coloredmnist:+90"])
def test_files_that_are_missing_are_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as told:
        load(name, seed=0, options=DataOptions(tmp_path))
    assert "MNIST/raw" in str(told.value)


@pytest.mark.parametrize("name", ["rotated-digits", "colored-digits"])
def test_a_domain_that_is_unknown(name: str) -> None:
    with pytest.raises(InputError) as told:
        load(f"{name}:quarter", seed=0)
    text = str(told.value)
    assert f"data '{name}'" in text
    assert "'quarter'" in text
    assert ("+90" if name == "colored-digits" else "75") in text

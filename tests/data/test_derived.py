"""Long tails and subsets, by the formula and by hand."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from durm.data import DataOptions, base_name, load
from durm.data.bundle import DataBundle
from durm.data.derived import class_counts, long_tailed, subset
from durm.errors import InputError


def arrays(folder: Path, each: int = 50, classes: int = 5) -> str:
    """A file of distinct samples, `each` of every class for training and 4 for the test set."""
    random = np.random.default_rng(0)
    labels, test_labels = np.tile(np.arange(classes), each), np.tile(np.arange(classes), 4)
    path = folder / "made.npz"
    x, x_test = random.normal(size=(len(labels), 3)), random.normal(size=(len(test_labels), 3))
    np.savez(path, x_train=x, y_train=labels, x_test=x_test, y_test=test_labels)
    return f"arrays:{path}"


def contents(bundle: DataBundle) -> set[bytes]:
    assert isinstance(bundle.train.inputs, torch.Tensor)
    return {row.numpy().tobytes() for row in bundle.train.inputs}


def test_the_published_counts_of_long_tailed_cifar10() -> None:
    """As in the table of Cui et al. and everywhere since: 12,406 images at ratio 100, 20,431 at 10."""
    assert class_counts(5000, 10, 100) == [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    assert sum(class_counts(5000, 10, 100)) == 12_406
    assert sum(class_counts(5000, 10, 10)) == 20_431
    assert class_counts(5000, 10, 1) == [5000] * 10
    assert class_counts(500, 100, 100)[-1] == 5


@pytest.mark.parametrize("ratio", [1, 2, 7.5, 50])
def test_a_long_tail_has_exactly_the_counts_of_the_formula(ratio: float, tmp_path: Path) -> None:
    bundle = load(f"longtail:{ratio}:{arrays(tmp_path)}", seed=0)
    expected = [max(1, math.floor(50 * ratio ** (-label / 4) + 1e-9)) for label in range(5)]
    assert torch.bincount(bundle.train.labels, minlength=5).tolist() == expected
    assert torch.bincount(bundle.test.labels).tolist() == [4] * 5


def test_all_seeds_share_one_long_tail(tmp_path: Path) -> None:
    """The base is split by seed, and the tail is drawn from both parts together."""
    name = arrays(tmp_path)
    first, second = (load(f"longtail:10:{name}", seed=seed) for seed in (0, 7))
    assert contents(first) == contents(second)
    assert first.notes == second.notes
    assert load(name, seed=0).fingerprint != load(name, seed=7).fingerprint
    other = long_tailed(load(name, seed=0), 10, draw=1)
    assert contents(other) != contents(first)
    assert other.notes[1] != first.notes[1]


def test_the_hash_is_the_same_everywhere(tmp_path: Path) -> None:
    """Pinned: the samples and the draw are functions of fixed seeds alone."""
    samples = DataOptions()
    bundle = load("longtail:10:digits", seed=3, options=samples)
    assert bundle.notes[0] == (
        "long tail of ratio 10: 309 of 797 training samples, 77 of the first class to 7 of the last"
    )
    assert bundle.notes[1] == "the sha256 of the chosen samples is e4fa279fcf0a6f10"


def test_validation_comes_from_what_is_left(tmp_path: Path) -> None:
    bundle = load(f"longtail:10:{arrays(tmp_path)}", seed=0)
    assert isinstance(bundle.val.inputs, torch.Tensor)
    val = {row.numpy().tobytes() for row in bundle.val.inputs}
    assert not val & contents(bundle)
    assert len(val) + len(contents(bundle)) == 250


def test_head_medium_and_tail_are_groups(tmp_path: Path) -> None:
    """Counts 200, 63, 20, 6, 2 at ratio 100: more than 100 is the head, fewer than 20 the tail."""
    bundle = load(f"longtail:100:{arrays(tmp_path, each=200)}", seed=0)
    assert bundle.groups == {"head": [0], "medium": [1, 2], "tail": [3, 4]}


@pytest.mark.parametrize("path", ["", "100", "0.5:digits", "x:digits", "inf:digits", "nan:digits", "-3:digits"])
def test_a_wrong_ratio_is_refused(path: str) -> None:
    with pytest.raises(InputError, match="longtail"):
        load(f"longtail:{path}", seed=0)


# Subsets.


def test_a_subset_has_so_many_samples_of_so_many_classes(tmp_path: Path) -> None:
    bundle = load(f"subset:samples=10,classes=3:{arrays(tmp_path)}", seed=0)
    both = torch.cat([bundle.train.labels, bundle.val.labels])
    assert torch.bincount(both).tolist() == [10, 10, 10]
    assert bundle.num_classes == len(bundle.class_names) == 3
    assert torch.bincount(bundle.test.labels).tolist() == [4, 4, 4]


def test_labels_follow_their_classes(tmp_path: Path) -> None:
    name = arrays(tmp_path)
    whole, part = load(name, seed=0), load(f"subset:classes=3:{name}", seed=0)
    assert isinstance(whole.test.inputs, torch.Tensor)
    assert isinstance(part.test.inputs, torch.Tensor)
    class_of = {row.numpy().tobytes(): int(y) for row, y in zip(whole.test.inputs, whole.test.labels, strict=True)}
    for row, label in zip(part.test.inputs, part.test.labels.tolist(), strict=True):
        assert part.class_names[label] == str(class_of[row.numpy().tobytes()])


def test_draws_differ_and_seeds_do_not(tmp_path: Path) -> None:
    base = load(arrays(tmp_path), seed=0)

    def learned(seed: int, draw: int, samples: int = 10) -> set[bytes]:
        made = subset(load(arrays(tmp_path), seed=seed), seed=seed, samples=samples, draw=draw)
        assert isinstance(made.train.inputs, torch.Tensor)
        assert isinstance(made.val.inputs, torch.Tensor)
        return {row.numpy().tobytes() for row in torch.cat([made.train.inputs, made.val.inputs])}

    assert learned(0, 0) == learned(5, 0)
    assert learned(0, 0) != learned(0, 1)
    assert learned(0, 0, samples=5) < learned(0, 0, samples=10)
    assert len(base.train) == 225


def test_they_can_be_nested(tmp_path: Path) -> None:
    name = arrays(tmp_path)
    bundle = load(f"longtail:4:subset:samples=20,classes=3:{name}", seed=0)
    assert torch.bincount(bundle.train.labels).tolist() == [20, 10, 5]
    assert base_name(f"longtail:4:subset:samples=20:{name}") == "arrays"
    assert base_name("longtail:100:cifar10") == "cifar10"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("samples=10", "expected whole numbers"),
        ("sample=10:digits", "expected whole numbers"),
        ("samples=x:digits", "expected whole numbers"),
        ("samples=1:digits", "at least 2 samples"),
        ("classes=1:digits", "at least 2 samples and 2 classes"),
        ("classes=11:digits", "a subset of 11 classes: the data have 10"),
        ("samples=10000:digits", "10000 samples a class: class '0' has"),
        ("samples=10:digts", "did you mean 'digits'"),
    ],
)
def test_a_wrong_subset_is_refused(path: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(f"subset:{path}", seed=0)

"""The pieces that data sets are made of: splits, formats, fingerprints, names."""

import re
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from durm.data import load
from durm.data.bundle import DataBundle, FileSubset, Samples, measure, split_by_seed, stratified_split
from durm.errors import InputError

LABELS = st.lists(st.integers(0, 5), min_size=1, max_size=60)
SHARES = st.floats(0.01, 0.99)


def split(labels: list[int], share: float, seed: int) -> tuple[list[int], list[int]]:
    rest, part = stratified_split(torch.tensor(labels), share, torch.Generator().manual_seed(seed))
    return rest.tolist(), part.tolist()


def bundle() -> DataBundle:
    inputs, labels = torch.arange(24, dtype=torch.uint8).reshape(6, 1, 2, 2), torch.tensor([0, 1, 0, 1, 0, 1])
    parts = [Samples(inputs[i : i + 2], labels[i : i + 2]) for i in (0, 2, 4)]
    return DataBundle(*parts, num_classes=2, class_names=["a", "b"], input=measure(inputs))


@settings(max_examples=200, deadline=None)
@given(LABELS, SHARES, st.integers(0, 1000))
def test_a_split_is_a_partition_in_ascending_order(labels: list[int], share: float, seed: int) -> None:
    rest, part = split(labels, share, seed)
    assert sorted(rest + part) == list(range(len(labels)))
    assert rest == sorted(rest)
    assert part == sorted(part)


@settings(max_examples=200, deadline=None)
@given(LABELS, SHARES, st.integers(0, 1000))
def test_a_split_takes_the_share_of_every_class(labels: list[int], share: float, seed: int) -> None:
    """Of n members the share, to the nearest whole number, but at least one and never all of them."""
    _, part = split(labels, share, seed)
    taken = Counter(labels[index] for index in part)
    for label, members in Counter(labels).items():
        nearest = abs(taken[label] - share * members) <= 0.5
        least = taken[label] == 1 and share * members < 1
        all_but_one = taken[label] == members - 1 and share * members > members - 1
        alone = members == 1 and taken[label] == 0
        assert nearest or least or all_but_one or alone
        assert taken[label] < members
        assert taken[label] >= 1 or members == 1


@settings(max_examples=50, deadline=None)
@given(LABELS, SHARES, st.integers(0, 1000))
def test_a_split_is_a_function_of_its_generator(labels: list[int], share: float, seed: int) -> None:
    assert split(labels, share, seed) == split(labels, share, seed)


def test_splits_of_different_seeds_and_purposes_differ() -> None:
    samples = Samples(torch.arange(200), torch.arange(200) % 4)
    parts = {
        tuple(split_by_seed(samples, 0.25, seed, purpose)[1].inputs.tolist())
        for seed in range(5)
        for purpose in ("val", "test")
    }
    assert len(parts) == 10


def test_a_split_draws_nothing_from_the_global_generator() -> None:
    before = torch.get_rng_state()
    split_by_seed(Samples(torch.arange(20), torch.arange(20) % 2), 0.25, 0, "val")
    assert torch.equal(torch.get_rng_state(), before)


class Numbers:
    """Files of which the i-th holds i."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor([index])


def test_a_subset_of_a_subset_of_files_reads_the_right_ones() -> None:
    samples = Samples(Numbers(), torch.arange(10))
    twice = samples.subset(torch.tensor([1, 3, 5, 7])).subset(torch.tensor([2, 0]))
    assert isinstance(twice.inputs, FileSubset)
    assert [int(twice.inputs[i]) for i in range(len(twice.inputs))] == twice.labels.tolist() == [5, 1]


@pytest.mark.parametrize("shape", [(50, 4), (50, 3, 5, 5)])
def test_normalised_inputs_have_mean_zero_and_deviation_one(shape: tuple[int, ...]) -> None:
    """Per feature for flat inputs, per channel for images."""
    inputs = 7 + 3 * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    normalised = measure(inputs).normalise(inputs)
    axes = (0,) if len(shape) == 2 else (0, 2, 3)
    torch.testing.assert_close(normalised.mean(axes), torch.zeros(shape[1]), atol=1e-5, rtol=0)
    torch.testing.assert_close(normalised.std(axes), torch.ones(shape[1]))


def test_a_constant_feature_is_not_divided_by_zero() -> None:
    inputs = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
    assert measure(inputs).normalise(inputs)[:, 1].tolist() == [0.0, 0.0]


def test_normalising_leaves_the_raw_values_alone() -> None:
    inputs = torch.tensor([[1.0, 5.0], [3.0, 7.0]])
    measure(inputs).normalise(inputs)
    assert inputs.tolist() == [[1.0, 5.0], [3.0, 7.0]]


@pytest.mark.parametrize("part", ["train", "val", "test"])
@pytest.mark.parametrize("what", ["inputs", "labels"])
def test_the_fingerprint_sees_every_pixel_and_every_label(part: str, what: str) -> None:
    data = bundle()
    changed = getattr(getattr(data, part), what).clone()
    changed.view(-1)[-1] += 1
    other = replace(data, **{part: replace(getattr(data, part), **{what: changed})})
    assert data.fingerprint == bundle().fingerprint
    assert data.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digit", "data 'digit' is unknown: did you mean 'digits'?"),
        ("imagnet21k", "data 'imagnet21k' is unknown: "),
        ("", "data '' is unknown: there are "),
        ("folder", "data 'folder' needs a path: folder:PATH"),
        ("arrays:", "data 'arrays:' needs a path: arrays:PATH"),
        ("digits:here", "data 'digits:here': 'digits' takes no path"),
    ],
)
def test_a_wrong_name_is_told_with_what_would_be_right(name: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        load(name, seed=0)

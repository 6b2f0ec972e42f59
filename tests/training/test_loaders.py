"""Batches: their order and augmentation are functions of the seed, the epoch and the sample, and of nothing else."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from durm.data import load
from durm.data.bundle import InputFormat, Samples, measure
from durm.training.loaders import Augmentation, TrainLoader, domain_order, epoch_order, evaluation_batches
from tests.training.images import write_folder

SAMPLES = 23


def numbered(shape: tuple[int, ...] = (3, 16, 16)) -> Samples:
    """Images of which the i-th has the label i, so that a test can tell which it has before it."""
    random = torch.Generator().manual_seed(0)
    inputs = torch.randint(256, (SAMPLES, *shape), generator=random, dtype=torch.uint8)
    return Samples(inputs, torch.arange(SAMPLES))


def loader(
    samples: Samples, augment: str = "crop-flip", batch_size: int = 5, seed: int = 1, **options: int
) -> TrainLoader:
    return TrainLoader(samples, measure(samples.inputs), augment, batch_size, seed, **options)


def by_label(batches: Iterator) -> dict[int, Tensor]:
    return {int(label): image for batch in batches for image, label in zip(batch.inputs, batch.targets, strict=True)}


# The order.


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 100), st.integers(1, 120), st.integers(0, 1000), st.integers(0, 50))
def test_an_epoch_has_whole_batches_and_no_sample_twice(samples: int, batch_size: int, seed: int, epoch: int) -> None:
    order = [batch.tolist() for batch in epoch_order(samples, batch_size, seed, epoch)]
    flat = [index for batch in order for index in batch]
    assert len(flat) == len(set(flat))
    assert set(flat) <= set(range(samples))
    if samples <= batch_size:
        assert [len(batch) for batch in order] == [samples]
    else:
        assert [len(batch) for batch in order] == [batch_size] * (samples // batch_size)


def test_the_order_is_a_function_of_the_seed_and_the_epoch() -> None:
    orders = [[tuple(torch.cat(epoch_order(50, 10, seed, epoch)).tolist()) for seed in range(3)] for epoch in range(3)]
    again = [[tuple(torch.cat(epoch_order(50, 10, seed, epoch)).tolist()) for seed in range(3)] for epoch in range(3)]
    assert orders == again
    assert len({order for row in orders for order in row}) == 9


def test_the_batch_size_cuts_the_same_order_differently() -> None:
    assert torch.equal(torch.cat(epoch_order(60, 6, 0, 0)), torch.cat(epoch_order(60, 20, 0, 0)))


# The order of data with domains.


def numbered_domains(sizes: list[int], seed: int = 0) -> Tensor:
    """So many samples of each domain, one among the other."""
    domains = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return domains[torch.randperm(len(domains), generator=torch.Generator().manual_seed(seed))]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(1, 12), st.integers(0, 99), st.integers(0, 9))
def test_a_batch_has_equally_many_samples_of_every_domain(
    sizes: list[int], batch_size: int, seed: int, epoch: int
) -> None:
    """Domain by domain; an epoch has N // (B D) of them, at least one, and a domain smaller than a batch fills it."""
    domains = numbered_domains(sizes)
    order = domain_order(domains, batch_size, seed, epoch)
    assert len(order) == max(1, sum(sizes) // (batch_size * len(sizes)))
    expected = [domain for domain in range(len(sizes)) for _ in range(batch_size)]
    assert all(domains[indices].tolist() == expected for indices in order)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(1, 12), st.integers(0, 99), st.integers(0, 9))
def test_a_domain_comes_round_in_whole_permutations(sizes: list[int], batch_size: int, seed: int, epoch: int) -> None:
    """No sample comes again before all others of its domain have come: of a large domain none comes twice."""
    domains = numbered_domains(sizes)
    order = domain_order(domains, batch_size, seed, epoch)
    for domain, size in enumerate(sizes):
        drawn = torch.cat([indices[domain * batch_size : (domain + 1) * batch_size] for indices in order]).tolist()
        for first in range(0, len(drawn), size):
            turn = drawn[first : first + size]
            assert len(set(turn)) == len(turn)
        if size <= len(drawn):
            assert set(drawn[:size]) == {index for index, each in enumerate(domains.tolist()) if each == domain}


def test_a_small_domain_comes_round_in_a_new_order() -> None:
    """4 samples against 44: 6 steps of 4 of each domain, the small one in six permutations that are not all equal."""
    domains = numbered_domains([4, 44])
    turns = {tuple(indices[:4].tolist()) for indices in domain_order(domains, 4, 0, 0)}
    assert len(domain_order(domains, 4, 0, 0)) == 6
    assert len(turns) > 1
    assert {frozenset(turn) for turn in turns} == {frozenset((domains == 0).nonzero().flatten().tolist())}
    large = [index for indices in domain_order(domains, 4, 0, 0) for index in indices[4:].tolist()]
    assert len(set(large)) == len(large) == 24


def test_the_order_of_domains_is_a_function_of_the_seed_and_the_epoch() -> None:
    domains = numbered_domains([20, 30])

    def order(seed: int, epoch: int) -> tuple[int, ...]:
        return tuple(torch.cat(domain_order(domains, 5, seed, epoch)).tolist())

    torch.manual_seed(5)
    before = torch.get_rng_state()
    orders = [order(seed, epoch) for seed in range(3) for epoch in range(3)]
    torch.manual_seed(6)
    assert orders == [order(seed, epoch) for seed in range(3) for epoch in range(3)]
    assert len(set(orders)) == 9
    torch.manual_seed(5)
    assert torch.equal(torch.get_rng_state(), before)
    order(0, 0)
    assert torch.equal(torch.get_rng_state(), before)


def test_domains_of_one_size_are_drawn_in_orders_of_their_own() -> None:
    domains = torch.arange(2).repeat_interleave(30)
    (indices,) = domain_order(domains, 30, 0, 0)
    assert indices[:30].tolist() != (indices[30:] - 30).tolist()


# Augmentation.


def plainly_augmented(image: Tensor, draw: list[int], pad: int) -> Tensor:
    """One image: zeros around it, a window out of it, mirrored or not; pixel by pixel."""
    top, left, flip, *_ = draw
    height, width = image.shape[1:]
    result = torch.zeros_like(image)
    for row in range(height):
        for column in range(width):
            source_row, source_column = row + top - pad, column + left - pad
            if 0 <= source_row < height and 0 <= source_column < width:
                target = width - 1 - column if flip else column
                result[:, row, target] = image[:, source_row, source_column]
    return result


@pytest.mark.parametrize(
    ("kind", "shape", "pad"),
    [
        ("crop-flip", (3, 16, 16), 2),
        ("crop-flip", (1, 8, 8), 1),
        ("crop-flip", (3, 7, 7), 0),
        ("crop-flip", (2, 10, 24), 3),
        ("flip", (3, 16, 16), 0),
    ],
)
def test_augmentation_is_that_of_a_plain_loop(kind: str, shape: tuple[int, ...], pad: int) -> None:
    images = numbered(shape).inputs
    augmentation = Augmentation(kind)
    draws = augmentation.draws(SAMPLES, shape[-1], seed=0, epoch=0)
    expected = torch.stack([plainly_augmented(*each, pad) for each in zip(images, draws.tolist(), strict=True)])
    before = images.clone()
    augmented = augmentation.apply(images, draws)
    assert torch.equal(augmented, expected)
    assert augmented.dtype == images.dtype
    assert torch.equal(images, before)


def test_draws_reach_every_place_and_both_sides() -> None:
    offsets = Augmentation("crop-flip").draws(2000, 32, seed=0, epoch=0)
    assert {tuple(pair) for pair in offsets[:, :2].tolist()} == {(top, left) for top in range(9) for left in range(9)}
    assert 900 < offsets[:, 2].sum() < 1100
    flips = Augmentation("flip").draws(2000, 32, seed=0, epoch=0)
    assert not flips[:, :2].any()
    assert 900 < flips[:, 2].sum() < 1100
    assert Augmentation("none").draws(2000, 32, seed=0, epoch=0) is None


def test_draws_are_a_function_of_the_seed_and_the_epoch() -> None:
    drawn = {
        tuple(Augmentation("crop-flip").draws(50, 32, seed, epoch).flatten().tolist())
        for _ in range(2)
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(drawn) == 9


# Feeds.


@pytest.mark.parametrize("augment", ["none", "flip", "crop-flip"])
def test_a_feed_is_a_plain_loop_over_order_draws_and_normalisation(augment: str) -> None:
    samples = numbered()
    format = measure(samples.inputs)
    draws = Augmentation(augment).draws(SAMPLES, 16, seed=1, epoch=3)
    batches = list(loader(samples, augment).epoch(3))
    order = epoch_order(SAMPLES, 5, seed=1, epoch=3)
    assert len(batches) == len(order) == loader(samples, augment).steps_per_epoch == 4
    for batch, indices in zip(batches, order, strict=True):
        assert torch.equal(batch.targets, indices)
        for image, index in zip(batch.inputs, indices.tolist(), strict=True):
            raw = samples.inputs[index]
            if draws is not None:
                raw = plainly_augmented(raw, draws[index].tolist(), 2 if augment == "crop-flip" else 0)
            assert torch.equal(image, (raw.float() - format.mean) / format.std)


def test_a_sample_looks_the_same_whatever_the_batch_size_and_the_start() -> None:
    samples = numbered()
    whole = by_label(loader(samples, batch_size=1).epoch(2))
    assert len(whole) == SAMPLES
    for batch_size in (2, 5, 7, SAMPLES, 100):
        for start in (0, 1, 2):
            for label, image in by_label(loader(samples, batch_size=batch_size).epoch(2, start)).items():
                assert torch.equal(image, whole[label])


def test_a_start_leaves_out_the_batches_before_it() -> None:
    every = list(loader(numbered()).epoch(1))
    for start in range(len(every) + 1):
        rest = list(loader(numbered()).epoch(1, start))
        assert [batch.targets.tolist() for batch in rest] == [batch.targets.tolist() for batch in every[start:]]


def test_epochs_and_seeds_look_different() -> None:
    samples = numbered()
    first = by_label(loader(samples).epoch(0))
    for other in (by_label(loader(samples).epoch(1)), by_label(loader(samples, seed=2).epoch(0))):
        assert any(not torch.equal(first[label], other[label]) for label in first.keys() & other.keys())


def test_the_ranks_share_each_batch() -> None:
    samples = numbered()
    parts = [list(loader(samples, batch_size=6, rank=rank, ranks=2).epoch(0)) for rank in (0, 1)]
    for whole, one, two in zip(loader(samples, batch_size=6).epoch(0), *parts, strict=True):
        assert len(one.targets) == len(two.targets) == 3
        shared = {**by_label(iter([one])), **by_label(iter([two]))}
        assert all(torch.equal(shared[label], image) for label, image in by_label(iter([whole])).items())


def test_flat_inputs_are_fed_as_they_are() -> None:
    samples = Samples(torch.randn(10, 4), torch.arange(10))
    (batch,) = loader(samples, "none", batch_size=10).epoch(0)
    assert torch.equal(batch.inputs, measure(samples.inputs).normalise(samples.inputs)[batch.targets])


# Feeds of data with domains.


def with_domains(sizes: list[int]) -> Samples:
    """Images of which the i-th has the label i and is equal to no other, nor to its own mirror image."""
    domains = numbered_domains(sizes)
    random = torch.Generator().manual_seed(0)
    inputs = torch.randint(256, (len(domains), 3, 16, 16), generator=random, dtype=torch.uint8)
    return Samples(inputs, torch.arange(len(domains)), domains)


@pytest.mark.parametrize("augment", ["none", "flip", "crop-flip"])
def test_a_feed_of_domains_is_a_plain_loop_over_order_draws_and_normalisation(augment: str) -> None:
    """The i-th place of the epoch has the i-th draw, whichever sample stands there."""
    samples = with_domains([3, 20])
    assert isinstance(samples.inputs, Tensor)
    format = measure(samples.inputs)
    order = domain_order(samples.domains, 4, seed=1, epoch=3)
    draws = Augmentation(augment).draws(2 * 2 * 4, 16, seed=1, epoch=3)
    fed = loader(samples, augment, batch_size=4)
    assert (fed.steps_per_epoch, fed.samples_per_step) == (2, 8)
    place = 0
    for batch, indices in zip(fed.epoch(3), order, strict=True):
        assert torch.equal(batch.targets, indices)
        assert batch.domains.tolist() == [0] * 4 + [1] * 4
        for image, index in zip(batch.inputs, indices.tolist(), strict=True):
            raw = samples.inputs[index]
            if draws is not None:
                raw = plainly_augmented(raw, draws[place].tolist(), 2 if augment == "crop-flip" else 0)
            assert torch.equal(image, (raw.float() - format.mean) / format.std)
            place += 1


def test_a_sample_that_comes_twice_in_an_epoch_looks_different() -> None:
    """The small domain has one sample, which stands in 4 of 8 places of a batch."""
    (batch,) = loader(with_domains([1, 8]), batch_size=4).epoch(0)
    assert batch.targets[:4].unique().numel() == 1
    looks = {tuple(image.flatten().tolist()) for image in batch.inputs[:4]}
    assert len(looks) > 1


def test_a_start_leaves_out_the_batches_of_domains_before_it() -> None:
    every = list(loader(with_domains([10, 30]), batch_size=4).epoch(1))
    assert len(every) == 5
    for start in range(6):
        for batch, expected in zip(
            loader(with_domains([10, 30]), batch_size=4).epoch(1, start), every[start:], strict=True
        ):
            assert torch.equal(batch.inputs, expected.inputs)
            assert torch.equal(batch.domains, expected.domains)


def test_the_ranks_share_each_domain_of_a_batch() -> None:
    samples = with_domains([10, 30])
    parts = [list(loader(samples, batch_size=4, rank=rank, ranks=2).epoch(0)) for rank in (0, 1)]
    for whole, *shares in zip(loader(samples, batch_size=4).epoch(0), *parts, strict=True):
        for rank, share in enumerate(shares):
            assert share.domains.tolist() == [0, 0, 1, 1]
            assert torch.equal(share.targets, whole.targets[rank::2])
            assert torch.equal(share.inputs, whole.inputs[rank::2])


def test_data_without_domains_have_batches_without() -> None:
    assert all(batch.domains is None for batch in loader(numbered()).epoch(0))


# LazyImages, and the global generator.


@pytest.fixture
def kept_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Samples, Samples, InputFormat]:
    name = write_folder(tmp_path / "images", per_class=8)
    kept = load(name, seed=0)
    monkeypatch.setattr("durm.data.reading.MEMORY_LIMIT", 0)
    read = load(name, seed=0)
    assert isinstance(kept.train.inputs, Tensor)
    assert not isinstance(read.train.inputs, Tensor)
    return kept.train, read.train, kept.input


@pytest.mark.parametrize("augment", ["none", "crop-flip"])
def test_files_give_the_batches_of_memory_whatever_the_number_of_workers(
    augment: str, kept_and_read: tuple[Samples, Samples, InputFormat]
) -> None:
    kept, read, format = kept_and_read
    expected = list(TrainLoader(kept, format, augment, 4, 0).epoch(1, 1))
    for workers in (0, 2):
        batches = list(TrainLoader(read, format, augment, 4, 0, num_workers=workers).epoch(1, 1))
        for batch, other in zip(batches, expected, strict=True):
            assert torch.equal(batch.inputs, other.inputs)
            assert torch.equal(batch.targets, other.targets)


@pytest.mark.parametrize("batch_size", [4, 1000])
def test_evaluation_sees_every_sample_once_in_its_own_order(
    batch_size: int, kept_and_read: tuple[Samples, Samples, InputFormat]
) -> None:
    kept, read, format = kept_and_read
    expected = format.normalise(kept.inputs)
    for samples, workers in ((kept, 0), (read, 0), (read, 2)):
        assert torch.equal(torch.cat(list(evaluation_batches(samples, format, batch_size, workers))), expected)


ITERATIONS: dict[str, Callable[[Samples, InputFormat, int], Iterator]] = {
    "training": lambda samples, format, workers: TrainLoader(
        samples, format, "crop-flip", 4, 0, num_workers=workers
    ).epoch(0),
    "evaluation": lambda samples, format, workers: evaluation_batches(samples, format, 4, workers),
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ITERATIONS)
def test_iterating_draws_nothing_from_the_global_generator(
    name: str, workers: int, kept_and_read: tuple[Samples, Samples, InputFormat]
) -> None:
    kept, read, format = kept_and_read
    before = torch.get_rng_state()
    for samples in (kept, read):
        assert len(list(ITERATIONS[name](samples, format, workers))) > 1
    assert torch.equal(torch.get_rng_state(), before)


def test_randaugment_is_a_function_of_the_draws_and_comes_after_the_crop() -> None:
    """Neither the other images of the batch nor the global generator have a part in it."""
    images = torch.randint(0, 256, (6, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    augmentation = Augmentation("randaugment")
    draws = augmentation.draws(6, 32, seed=0, epoch=0)
    assert draws is not None
    torch.manual_seed(1)
    state = torch.get_rng_state()
    whole = augmentation.apply(images, draws)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(augmentation.apply(images[2:4], draws[2:4]), whole[2:4])
    assert whole.dtype == torch.uint8
    cropped = Augmentation("crop-flip").apply(images, draws)
    assert not torch.equal(whole, cropped)
    other = draws.clone()
    other[:, 3] += 1
    assert not torch.equal(augmentation.apply(images, other), whole)

"""The digits: all of scikit-learn's images, each in one part, the test set the same for all seeds."""

import numpy as np
import torch
from sklearn.datasets import load_digits

from durm.data import load
from durm.data.bundle import DataBundle, Samples


def digits(seed: int) -> DataBundle:
    return load("digits", seed=seed)


def rows(*parts: Samples) -> list[tuple[float, ...]]:
    """Every image with its label as one tuple, in an order of their own."""
    return sorted(
        tuple(row)
        for part in parts
        for row in torch.cat([part.inputs.flatten(1).double(), part.labels[:, None].double()], 1).tolist()
    )


def test_every_image_of_the_library_is_in_one_part() -> None:
    images, labels = load_digits(return_X_y=True)
    data = digits(0)
    assert rows(data.train, data.val, data.test) == sorted(map(tuple, np.column_stack([images, labels]).tolist()))


def test_the_sizes_are_those_that_are_promised() -> None:
    data = digits(0)
    assert (len(data.train), len(data.val), len(data.test)) == (598, 199, 1000)
    assert data.num_classes == len(data.class_names) == 10
    assert data.train.inputs.shape[1:] == data.input.shape == (1, 8, 8)
    assert data.train.inputs.dtype == torch.uint8
    assert int(data.train.inputs.max()) == 16


def test_the_parts_are_stratified() -> None:
    data = digits(3)
    every = torch.bincount(torch.cat([data.train.labels, data.val.labels, data.test.labels]))
    for part in (data.train, data.val, data.test):
        expected = every * len(part) / 1797
        assert (torch.bincount(part.labels) - expected).abs().max() <= 1


def test_the_split_is_a_function_of_the_seed() -> None:
    first, again, other = digits(1), digits(1), digits(2)
    assert first.fingerprint == again.fingerprint
    assert torch.equal(first.train.inputs, again.train.inputs)
    assert torch.equal(first.val.labels, again.val.labels)
    assert rows(first.val) != rows(other.val)


def test_the_test_set_is_the_same_for_all_seeds() -> None:
    tests = [digits(seed).test for seed in range(4)]
    for other in tests[1:]:
        assert torch.equal(other.inputs, tests[0].inputs)
        assert torch.equal(other.labels, tests[0].labels)


def test_the_format_is_measured_on_the_training_part_alone() -> None:
    data = digits(0)
    values = data.train.inputs.double()
    torch.testing.assert_close(data.input.mean.double().flatten(), values.mean().flatten(), rtol=1e-5, atol=0)
    torch.testing.assert_close(data.input.std.double().flatten(), values.std().flatten(), rtol=1e-5, atol=0)


def test_loading_draws_nothing_from_the_global_generator() -> None:
    before = torch.get_rng_state()
    digits(7)
    assert torch.equal(torch.get_rng_state(), before)

"""Dummy mass, dummy hits and the two normalisations, against plain Python and numbers worked out by hand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import durm
from tests.oracle import cross_entropy as oracle


@st.composite
def logits_of(draw: st.DrawFn) -> tuple[Tensor, int, int]:
    """Logits with the class axis last, C, and an axis to move it to."""
    classes, dummies = draw(st.integers(1, 6)), draw(st.integers(0, 4))
    outer = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    random = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    logits = 5 * torch.randn(*outer, classes + dummies, generator=random, dtype=torch.float64)
    return logits, classes, draw(st.integers(-logits.ndim, logits.ndim - 1))


@settings(max_examples=100, deadline=None)
@given(logits_of())
def test_mass_hits_and_probabilities_follow_their_definitions(case: tuple[Tensor, int, int]) -> None:
    logits, classes, dim = case
    moved = logits.movedim(-1, dim)
    rows = logits.flatten(0, -2).tolist()
    shape = logits.shape[:-1]

    mass = durm.dummy_mass(moved, classes, dim=dim)
    assert mass.shape == shape
    expected = torch.tensor([oracle.dummy_mass(row, classes) for row in rows], dtype=torch.float64)
    torch.testing.assert_close(mass.flatten(), expected, rtol=1e-10, atol=0)

    hits = durm.dummy_hits(moved, classes, dim=dim)
    assert hits.shape == shape
    assert hits.dtype == torch.bool
    assert hits.flatten().tolist() == [row.index(max(row)) >= classes for row in rows]

    every = durm.probabilities(moved, classes, over="all", dim=dim).movedim(dim, -1)
    real = durm.probabilities(moved, classes, dim=dim).movedim(dim, -1)
    assert every.shape == logits.shape
    assert real.shape == (*shape, classes)
    torch.testing.assert_close(real.sum(-1), torch.ones(shape, dtype=torch.float64))
    torch.testing.assert_close(every[..., classes:].sum(-1), mass)
    torch.testing.assert_close(every[..., :classes], real * (1 - mass[..., None]))


def test_by_hand() -> None:
    """e^z = (3, 2, 1): p_D = 1/6, and without the dummy 3/5 and 2/5."""
    logits = torch.tensor([[3.0, 2.0, 1.0]]).log()
    torch.testing.assert_close(durm.dummy_mass(logits, num_classes=2), torch.tensor([1 / 6]))
    torch.testing.assert_close(durm.probabilities(logits, 2), torch.tensor([[3 / 5, 2 / 5]]))
    torch.testing.assert_close(durm.probabilities(logits, 2, over="all"), torch.tensor([[3 / 6, 2 / 6, 1 / 6]]))


def test_a_tiny_mass_keeps_its_relative_precision() -> None:
    logits = torch.tensor([[60.0, 0.0, -30.0]])
    assert durm.dummy_mass(logits, 2).item() == pytest.approx(math.exp(-90), rel=1e-5)


def test_masked_dummies_have_no_mass() -> None:
    logits = torch.tensor([[1.0, 2.0, -math.inf, -math.inf]])
    assert durm.dummy_mass(logits, 2).tolist() == [0.0]
    assert durm.dummy_hits(logits, 2).tolist() == [False]


def test_a_tie_counts_for_the_real_class() -> None:
    assert not durm.dummy_hits(torch.zeros(1, 4), 2).any()


def test_pixels() -> None:
    logits = torch.zeros(2, 5, 4, 6)
    logits[0, 4, 1, 2] = 1.0
    assert durm.dummy_mass(logits, 4).shape == (2, 4, 6)
    assert durm.dummy_hits(logits, 4).nonzero().tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("score", [durm.dummy_mass, durm.dummy_hits, durm.probabilities])
def test_bad_input_is_named(score) -> None:
    with pytest.raises(ValueError, match="7 classes along dim 1, fewer than num_classes=10"):
        score(torch.zeros(3, 7), 10)
    with pytest.raises(TypeError, match="num_classes='10': expected an int, not str"):
        score(torch.zeros(3, 7), "10")
    with pytest.raises(ValueError, match="dim=4"):
        score(torch.zeros(3, 7), 5, dim=4)


def test_an_unknown_normalisation_is_named() -> None:
    with pytest.raises(ValueError, match="over='dummy': expected 'real' or 'all'"):
        durm.probabilities(torch.zeros(3, 7), 5, over="dummy")

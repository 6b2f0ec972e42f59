"""What is told from values and names alone: steps, units, margins, directions."""

import numpy as np
import pytest

from durm.errors import InputError
from durm.statistics.scale import assume_metric, lattice_step
from durm.statistics.verdict import compare

# Steps


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([93.1, 92.8], 0.1),
        ([93.1, 92.8, 94.0, 93.5], 0.1),
        ([90.1, 90.4, 90.3, 90.6], 0.1),
        ([0.931, 0.928, 0.935], 0.001),
        ([93.12, 93.14, 93.17], 0.01),
        ([1.0, 3.0, 4.0], 1.0),
        ([-0.3, 0.2, 0.5], 0.1),
        ([0.0, 0.25], 0.25),
        ([90.0, 90.2, 90.4], 0.2),  # the largest that does it
    ],
)
def test_the_step_of_decimals(values: list[float], step: float) -> None:
    assert lattice_step(values) == pytest.approx(step, rel=1e-9)


@pytest.mark.parametrize("samples", [7, 100, 360, 500, 1797, 10_000])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_the_step_of_accuracies(samples: int, scale: float) -> None:
    """Right answers a few samples apart; as shares and in percent."""
    right = samples - 3 + np.array([0, 1, 3, 0, 2])
    assert lattice_step(scale * right / samples) == pytest.approx(scale / samples, rel=1e-6)


def test_a_step_that_is_seen_only_in_part() -> None:
    """Gaps of 6 and 9 samples of 360: the step of 3 explains them only if the values are multiples of it too."""
    assert lattice_step([100 * count / 360 for count in (300, 306, 315)]) == pytest.approx(300 / 360)
    assert lattice_step([100 * count / 360 for count in (301, 307, 316)]) == pytest.approx(100 / 360)


@pytest.mark.parametrize("n", [2, 3, 10, 50, 500])
def test_random_numbers_have_no_step(n: int) -> None:
    random = np.random.default_rng(n)
    for values in (random.random(n), random.normal(90, 1, n), random.exponential(1e-5, n), random.normal(1e6, 1, n)):
        assert lattice_step(values.tolist()) == 0


def test_two_ways_to_compute_one_number_make_no_step() -> None:
    assert lattice_step([0.1 + 0.2, 0.3, 0.7, 0.8]) == pytest.approx(0.1)


def test_a_gap_below_a_millionth_of_the_range_is_no_step() -> None:
    assert lattice_step([0.0, 1e-7, 1.0]) == 0


def test_equal_values_have_the_step_of_their_last_decimal() -> None:
    assert lattice_step([93.25, 93.25]) == pytest.approx(0.01)
    assert lattice_step([93.5, 93.5], ["93.50", "93.50"]) == pytest.approx(0.01)
    assert lattice_step([93.0, 93.0], ["93", "93"]) == pytest.approx(1)
    assert lattice_step([93.5, 93.5], ["93.5 ", " 93.500"]) == pytest.approx(0.001)
    assert lattice_step([]) == 0


# Names


@pytest.mark.parametrize(
    "name",
    [
        *("loss", "val-loss", "test_loss", "classification_error", "err", "top1.err", "RMSE", "mae", "Perplexity"),
        *("ppl", "wall time", "error rate", "loss2", "my/nll"),
    ],
)
def test_names_of_what_is_better_when_smaller_need_a_direction(name: str) -> None:
    with pytest.raises(InputError, match=r"lower_is_better"):
        assume_metric(name, [0.1, 0.2])
    assert assume_metric(name, [0.1, 0.2], higher_is_better=False).metric.higher_is_better is False
    assert assume_metric(name, [0.1, 0.2], higher_is_better=True).metric.higher_is_better is True


@pytest.mark.parametrize("name", ["value", "terror", "lossless", "timely", "f1", "map", "reward", "errata"])
def test_other_names_are_better_when_larger(name: str) -> None:
    found = assume_metric(name, [0.1, 0.2])
    assert found.metric.higher_is_better is True
    assert "higher is better" in found.note


# Margins


@pytest.mark.parametrize(
    ("values", "rope", "unit"),
    [
        ([0.0, 1.0], 0.001, ""),
        ([0.93, 0.91], 0.001, ""),
        ([93.0, 91.0], 0.1, "%"),
        ([0.5, 100.0], 0.1, "%"),
        ([-0.01, 0.5], 0.0, ""),
        ([0.5, 100.1], 0.0, ""),
        ([], 0.0, ""),
    ],
)
def test_the_margin_of_a_name_that_is_not_registered(values: list[float], rope: float, unit: str) -> None:
    found = assume_metric("value", values)
    assert (found.rope, found.metric.unit) == (rope, unit)
    assert ("nothing is called equal" in found.note) == (rope == 0)


def test_registered_metrics_bring_margin_and_direction() -> None:
    percent = assume_metric("accuracy", [93.0, 91.0])
    assert (percent.rope, percent.metric.unit, percent.metric.higher_is_better) == (0.1, "%", True)
    nll = assume_metric("nll", [0.3, 0.2])
    assert (nll.rope, nll.metric.higher_is_better) == (0.01, False)
    assert assume_metric("nll", [3.0, 2.0]).rope == 0.01


def test_registered_percentages_in_shares() -> None:
    shares = assume_metric("accuracy", [0.93, 0.91])
    assert (shares.rope, shares.metric.unit) == (0.001, "")
    assert "shares" in shares.note
    assert assume_metric("accuracy", [0.93, 1.01]).rope == 0.1


def test_what_is_given_is_not_assumed() -> None:
    found = assume_metric("value", [0.93, 0.91], rope=0.02, higher_is_better=False)
    assert (found.rope, found.metric.higher_is_better, found.note) == (0.02, False, "")
    assert assume_metric("accuracy", [93.0], rope=0.0, higher_is_better=False).metric.higher_is_better is False
    assert assume_metric("value", [0.93], rope=0.0).rope == 0


@pytest.mark.parametrize(
    ("name", "values", "note"),
    [
        ("value", [0.93], "assumed of 'value': shares from 0 to 1, equivalence margin ±0.001; higher is better"),
        ("accuracy", [93.0], "assumed of 'accuracy': percent, equivalence margin ±0.1; higher is better"),
        ("nll", [0.3], "assumed of 'nll': equivalence margin ±0.01; lower is better"),
        (
            "value",
            [250.0],
            "assumed of 'value': no equivalence margin, so nothing is called equal; higher is better",
        ),
    ],
)
def test_one_line_says_what_was_assumed(name: str, values: list[float], note: str) -> None:
    assert assume_metric(name, values).note == note


# The same table in percent and in shares


def judged(name: str, table: dict[str, np.ndarray]) -> list[str | None]:
    every = [float(value) for values in table.values() for value in values]
    arms = {arm: {str(seed): float(value) for seed, value in enumerate(values)} for arm, values in table.items()}
    found = compare("base", arms, rope=assume_metric(name, every).rope, step=lattice_step(every))
    return [one.verdict for one in found]


@pytest.mark.parametrize("name", ["value", "accuracy"])
@pytest.mark.parametrize("samples", [360, 10_000, None])
def test_percent_and_shares_have_the_same_words(name: str, samples: int | None) -> None:
    random = np.random.default_rng(0)
    seen = set()
    for effect, spread in ((0.0, 0.001), (0.01, 0.002), (-0.01, 0.002), (0.0, 0.0003), (0.002, 0.002)):
        base = random.normal(0.9, 0.01, 12)
        table = {"base": base} | {arm: base + random.normal(effect, spread, 12) for arm in ("one", "two")}
        if samples:
            table = {arm: np.round(values * samples) / samples for arm, values in table.items()}
        found = judged(name, table)
        assert judged(name, {arm: 100 * values for arm, values in table.items()}) == found
        seen |= {*found}
    assert {"better", "worse", "undecided"} <= seen
    assert samples == 360 or "equal" in seen


def test_two_agreeing_pairs_of_a_table_decide_nothing() -> None:
    assert judged("value", {"base": np.array([90.1, 90.4]), "b": np.array([90.3, 90.6])}) == ["undecided"]

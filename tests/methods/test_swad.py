"""SWAD: where its valley begins and ends, by hand and by the published algorithm; the average, from a plain list."""

import io
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import durm
from durm.methods import Averager, Length
from durm.methods.averager import Averaged
from durm.methods.swad import DenselyAveraged

EVERY = 2
"""Steps from one look to the next, in the curves that are made by hand."""


class Counting(nn.Module):
    """Two weights and a buffer of whole numbers; `move` puts them where they are after a step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1, dtype=torch.float64)
        self.register_buffer("steps", torch.tensor(0))

    def move(self, step: int) -> None:
        with torch.no_grad():
            self.layer.weight.fill_(weight(step))
            self.layer.bias.fill_(-step)
            self.steps.fill_(step)


def weight(step: int) -> float:
    """Such that no two runs of steps have the same mean."""
    return step**3 + 0.5


def swad(model: nn.Module, converge: int, tolerance: int, ratio: float) -> DenselyAveraged:
    settings = DenselyAveraged.Config(converge=converge, tolerance=tolerance, ratio=ratio)
    return DenselyAveraged(settings, model, Length(100, 10))


def look_steps(looks: int, every: int, steps: int | None = None) -> list[int]:
    """The steps after which the loop looks; the last look is at the end, wherever that is."""
    return [min(every * (look + 1), steps or every * looks) for look in range(looks)]


def drive(
    averager: DenselyAveraged, model: Counting, losses: Sequence[float], every: int, steps: int | None = None
) -> None:
    """A training with these losses at its looks."""
    looks = look_steps(len(losses), every, steps)
    for step in range(1, looks[-1] + 1):
        model.move(step)
        averager.on_step(model, step)
        if step in looks:
            averager.on_validation(model, step, losses[looks.index(step)])


def assert_mean_of(model: Counting, first: int, last: int) -> None:
    """The weights are the plain mean over the steps from the first to the last, the whole number that of the last."""
    steps = range(first, last + 1)
    assert model.layer.weight.item() == pytest.approx(sum(map(weight, steps)) / len(steps), rel=1e-12)
    assert model.layer.bias.item() == pytest.approx(-sum(steps) / len(steps), rel=1e-12)
    assert model.steps.item() == last


VALLEY = (5, 3, 1, 2, 2, 3, 6, 6, 6)
"""Its third look is undercut by neither of the next two. The mean of these three is 5/3."""

FALLING = (5, 4, 3, 2, 1)
FLAT = (5, 3, 1, 1, 1, 1)


@pytest.mark.parametrize(
    ("losses", "converge", "tolerance", "ratio", "start", "end"),
    [
        # Threshold 2.17: the looks 6, 7, 8 are the first three above it, so the valley ends with the fifth.
        (VALLEY, 3, 3, 1.3, 3, 5),
        (VALLEY, 3, 2, 1.3, 3, 5),
        (VALLEY, 3, 1, 1.3, 3, 5),
        (VALLEY, 3, 4, 1.3, 3, 5),
        # Five in a row there are none.
        (VALLEY, 3, 5, 1.3, 3, None),
        # Threshold 3.33: the sixth look, 3, still belongs to the valley.
        (VALLEY, 3, 3, 2.0, 3, 6),
        (VALLEY, 3, 1, 2.0, 3, 6),
        # Threshold 3: no loss that equals it lies above it.
        (VALLEY, 3, 3, 1.8, 3, 6),
        # Threshold 6.67: nothing lies above.
        (VALLEY, 3, 1, 4.0, 3, None),
        # Threshold 1.67: the looks 4, 5, 6 lie above it already. What remains is one step.
        (VALLEY, 3, 3, 1.0, 3, 3),
        # The same with the end sought only after the beginning is found, at the fifth look: first at the sixth.
        (VALLEY, 3, 1, 1.0, 3, 5),
        (VALLEY, 3, 2, 1.0, 3, 4),
        # Two looks: the beginning is the third as well, the threshold 1.3 · 3/2 = 1.95.
        (VALLEY, 2, 3, 1.3, 3, 3),
        # Four looks, and the threshold 1.3 · 2 = 2.6; five, and it is 1.3 · 14/5 = 3.64.
        (VALLEY, 4, 3, 1.3, 3, 5),
        (VALLEY, 5, 3, 1.3, 3, 6),
        # One look: the first is the beginning, whatever comes; nothing lies above 1.3 · 5 until the end.
        (VALLEY, 1, 3, 1.3, 1, None),
        (VALLEY, 1, 3, 1.0, 1, 6),
        ((1, 2), 1, 1, 1.0, 1, 1),
        ((1,), 1, 1, 1.0, 1, None),
        # Losses that are equal do not undercut.
        (FLAT, 3, 2, 1.3, 3, None),
        ((2, 2, 2, 2), 3, 1, 1.0, 1, None),
        # The beginning is found with the last look.
        ((5, 4, 1, 2, 3), 3, 1, 1.0, 3, None),
        # It has been left and entered again: a single look below the threshold is enough to go on.
        ((1, 1, 9, 9, 1, 9, 9, 9), 2, 3, 1.0, 1, 5),
    ],
)
def test_the_valley_of_a_curve_by_hand(
    losses: Sequence[float], converge: int, tolerance: int, ratio: float, start: int, end: int | None
) -> None:
    model = Counting()
    averager = swad(model, converge, tolerance, ratio)
    drive(averager, model, losses, EVERY)
    assert averager.start == EVERY * start
    assert averager.end == (None if end is None else EVERY * end)
    averager.finish(model, lambda: iter(()))
    first, last = EVERY * start, EVERY * (len(losses) if end is None else end)
    assert_mean_of(model, first, last)
    steps = EVERY * len(losses)
    assert averager.averaged(steps) == Averaged(first, last, last - first + 1)
    told = averager.without_effect(steps)
    assert told == ([f"swad averaged nothing: it took the weights after step {last} alone"] if first == last else [])


def test_a_threshold_is_a_multiple_of_the_mean_of_the_first_losses() -> None:
    model = Counting()
    averager = swad(model, 3, 9, 1.3)
    drive(averager, model, VALLEY, EVERY)
    assert averager.threshold == pytest.approx(1.3 * 5 / 3, abs=1e-12)


@pytest.mark.parametrize(("losses", "converge"), [(FALLING, 3), (FALLING, 2), ((1,), 3), ((1, 2), 3)])
def test_without_a_valley_it_is_the_mean_of_the_steps_between_the_last_two_looks(
    losses: Sequence[float], converge: int
) -> None:
    model = Counting()
    averager = swad(model, converge, 2, 1.3)
    drive(averager, model, losses, 4)
    assert averager.start is averager.end is None
    averager.finish(model, lambda: iter(()))
    assert_mean_of(model, 4 * len(losses) - 3, 4 * len(losses))
    assert averager.averaged(4 * len(losses)) == Averaged(4 * len(losses) - 3, 4 * len(losses), 4)
    (told,) = averager.without_effect(4 * len(losses))
    assert told.startswith(f"swad found no valley in the validation loss, which takes {converge} validations")
    assert ("everything, steps 1 to 4 of 4" in told) == (len(losses) == 1)


def test_the_last_stretch_may_be_shorter() -> None:
    """17 steps and a look after every fifth: at 5, 10, 15 and 17."""
    for losses, first in (((2, 1, 1, 1), 10), ((4, 3, 2, 1), 16)):
        model = Counting()
        averager = swad(model, 2, 3, 1.3)
        drive(averager, model, losses, 5, 17)
        averager.finish(model, lambda: iter(()))
        assert_mean_of(model, first, 17)


def test_after_the_end_nothing_is_taken_in() -> None:
    """A second valley, deeper than the first, comes too late."""
    model = Counting()
    averager = swad(model, 2, 2, 1.0)
    drive(averager, model, (3, 2, 2, 5, 5, 0.1, 0.1, 0.1), EVERY)
    assert (averager.start, averager.end) == (2 * EVERY, 3 * EVERY)
    assert not averager.queue
    averager.finish(model, lambda: iter(()))
    assert_mean_of(model, 2 * EVERY, 3 * EVERY)


# The published algorithm.


def published(losses: Sequence[float], converge: int, tolerance: int, ratio: float) -> tuple[int | None, int]:
    """Algorithm 1 of Cha et al. (2021) on the losses of the looks, counted from 1: (t_s, t_e).

    Where no valley is found the paper leaves t_s = 0; here it is None.
    """
    loss = dict(enumerate(losses, 1))
    start, end, threshold = None, len(losses), None
    for look in loss:
        if threshold is None:
            if look < converge:
                continue
            last = [loss[look - back] for back in range(converge)]
            if loss[look - converge + 1] == min(last):
                start = look - converge + 1
                threshold = ratio * sum(last) / converge
        elif look >= tolerance and threshold < min(loss[look - back] for back in range(tolerance)):
            end = look - tolerance
            break
    return start, end


def test_the_transcription_finds_the_valley_by_hand() -> None:
    assert published(VALLEY, 3, 3, 1.3) == (3, 5)
    assert published(FALLING, 3, 3, 1.3) == (None, 5)


def test_the_algorithm_of_the_paper_on_random_curves() -> None:
    """400 noisy curves, down and up again, under random settings; the averages from a plain list of all weights."""
    draw = random.Random(0)
    outcomes = set()
    for _ in range(400):
        looks, every = draw.randint(1, 25), draw.randint(1, 4)
        converge, tolerance, ratio = draw.randint(1, 5), draw.randint(1, 6), draw.choice([1.0, 1.1, 1.3, 2.0])
        bottom, noise = draw.uniform(0, 25), draw.choice([0.0, 0.3, 2.0])
        losses = [1 + ((look - bottom) / 8) ** 2 + noise * draw.random() for look in range(looks)]
        if draw.random() < 0.3:
            losses = [float(round(loss)) for loss in losses]  # with ties
        start, end = published(losses, converge, tolerance, ratio)
        model = Counting()
        averager = swad(model, converge, tolerance, ratio)
        drive(averager, model, losses, every)
        averager.finish(model, lambda: iter(()))
        if start is None:
            assert averager.start is None
            assert_mean_of(model, every * (looks - 1) + 1, every * looks)
        else:
            assert averager.start == every * start
            assert averager.end in (every * end, None if end == looks else every * end)
            assert_mean_of(model, every * start, every * end)
        outcomes.add((start is None, end < looks, start == end))
    assert len(outcomes) >= 4  # none found, found and left, found and not left, a single step


# State.


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """As checkpoints do: written, and read without running code."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


@pytest.mark.parametrize(
    ("losses", "cut"), [(losses, cut) for losses in (VALLEY, FALLING, FLAT) for cut in range(1, 3 * len(losses))]
)
def test_a_checkpoint_after_any_step_changes_nothing(losses: Sequence[float], cut: int) -> None:
    """After each look, and between: the same beginning, the same end, the same bits."""
    looks = look_steps(len(losses), 3)
    whole, resumed = Counting(), Counting()
    averager = swad(whole, 3, 3, 1.3)
    drive(averager, whole, losses, 3)
    averager.finish(whole, lambda: iter(()))

    again = swad(resumed, 3, 3, 1.3)
    for step in range(1, looks[-1] + 1):
        resumed.move(step)
        again.on_step(resumed, step)
        if step in looks:
            again.on_validation(resumed, step, losses[looks.index(step)])
        if step == cut:
            state, weights = through_a_file(again.state_dict()), through_a_file(dict(resumed.state_dict()))
            resumed = Counting()
            resumed.load_state_dict(weights)
            again = swad(resumed, 3, 3, 1.3)
            again.load_state_dict(state)
    again.finish(resumed, lambda: iter(()))
    assert (again.start, again.end, again.threshold) == (averager.start, averager.end, averager.threshold)
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name


def test_it_is_told_the_validation_loss() -> None:
    assert type(swad(Counting(), 3, 6, 1.3)).on_validation is not Averager.on_validation


# Batch normalisation.


def test_batch_statistics_are_those_of_the_averaged_weights() -> None:
    """Mean and variance of what comes into the layer, over the batches, with the mean weights; dummies included."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).double()
    durm.widen(model, 2)
    batches = [torch.randn(10, 4, dtype=torch.float64) for _ in range(5)]
    averager = swad(model, 1, 2, 1.3)
    every: list[dict[str, Tensor]] = []
    for step in range(1, 7):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += torch.randn_like(parameter)
        model.train()(batches[0])
        averager.on_step(model, step)
        every.append({name: value.clone() for name, value in model.named_parameters()})
        if step % 2 == 0:
            averager.on_validation(model, step, 1.0)
    averager.finish(model, lambda: iter(batches))
    expected = {name: sum(weights[name] for weights in every[1:]) / 5 for name in every[0]}
    for name, value in model.named_parameters():
        assert torch.allclose(value, expected[name], atol=1e-12), name
    coming = [batch @ expected["0.weight"].T + expected["0.bias"] for batch in batches]
    norm = model[1]
    assert torch.allclose(norm.running_mean, sum(part.mean(0) for part in coming) / 5, atol=1e-12)
    assert torch.allclose(norm.running_var, sum(part.var(0) for part in coming) / 5, atol=1e-12)
    assert norm.num_batches_tracked == 5
    assert norm.momentum == 0.1
    assert model[3].weight.shape == (5, 6)

"""Learning rates against torch's schedulers, step by step, and optimizers against torch's."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from durm.training.schedules import learning_rate, make_optimizer, without_effect
from durm.training.trial import TrainSpec

LR, MIN_LR, STEPS_PER_EPOCH, EPOCHS = 0.3, 0.02, 7, 9
TOTAL = STEPS_PER_EPOCH * EPOCHS

Make = Callable[[torch.optim.Optimizer, int], lr_scheduler.LRScheduler]


def torch_rates(lr: float, steps: int, make: Make) -> list[float]:
    """The learning rates that a scheduler of torch's gives for so many steps."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr)
    scheduler = make(optimizer, steps)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def rates(**options: object) -> list[float]:
    spec = TrainSpec(lr=LR, epochs=EPOCHS, **options)
    return [learning_rate(spec, step, TOTAL, STEPS_PER_EPOCH) for step in range(TOTAL)]


SCHEDULES: dict[str, tuple[dict, Make]] = {
    "constant": ({}, lambda optimizer, steps: lr_scheduler.ConstantLR(optimizer, factor=1)),
    "cosine": ({}, lambda optimizer, steps: lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)),
    "poly": ({"power": 0.9}, lambda optimizer, steps: lr_scheduler.PolynomialLR(optimizer, steps, power=0.9)),
    "poly squared": ({"power": 2}, lambda optimizer, steps: lr_scheduler.PolynomialLR(optimizer, steps, power=2)),
    "step": (
        {"step_epochs": 2, "gamma": 0.5},
        lambda optimizer, steps: lr_scheduler.StepLR(optimizer, 2 * STEPS_PER_EPOCH, gamma=0.5),
    ),
    "step once": (
        {"step_epochs": 5},
        lambda optimizer, steps: lr_scheduler.StepLR(optimizer, 5 * STEPS_PER_EPOCH, gamma=0.1),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_those_of_torch(name: str) -> None:
    options, make = SCHEDULES[name]
    assert rates(schedule=name.split()[0], **options) == pytest.approx(
        torch_rates(LR, TOTAL, make), rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("warmup", [1, 2, 5, 20])
@pytest.mark.parametrize("name", ["constant", "cosine", "poly"])
def test_warm_up_is_linear_and_the_schedule_takes_the_steps_that_remain(name: str, warmup: int) -> None:
    options, make = SCHEDULES[name]
    ours = rates(schedule=name, warmup=warmup, **options)
    rising = torch_rates(LR, warmup, lambda o, steps: lr_scheduler.LinearLR(o, 1 / warmup, 1, max(1, warmup - 1)))
    assert ours[:warmup] == pytest.approx(rising)
    assert ours[warmup:] == pytest.approx(torch_rates(LR, TOTAL - warmup, make), rel=1e-9, abs=1e-12)


def test_warm_up_does_not_shift_the_epochs_of_the_steps() -> None:
    options, make = SCHEDULES["step"]
    assert rates(schedule="step", warmup=5, **options)[5:] == pytest.approx(torch_rates(LR, TOTAL, make)[5:])


def test_cosine_ends_at_the_smallest_rate_as_torch_s_does() -> None:
    theirs = torch_rates(LR, TOTAL, lambda optimizer, steps: lr_scheduler.CosineAnnealingLR(optimizer, steps, MIN_LR))
    assert rates(schedule="cosine", min_lr=MIN_LR) == pytest.approx(theirs)


def test_poly_ends_at_the_smallest_rate() -> None:
    above = torch_rates(LR - MIN_LR, TOTAL, SCHEDULES["poly"][1])
    assert rates(schedule="poly", min_lr=MIN_LR) == pytest.approx([MIN_LR + rate for rate in above])


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        ({"schedule": "constant"}, 0.3, 0.3),
        ({"schedule": "cosine"}, 0.3, 0.15 * (1 + math.cos(math.pi * 62 / 63))),
        ({"schedule": "cosine", "min_lr": 0.1}, 0.3, 0.1 + 0.1 * (1 + math.cos(math.pi * 62 / 63))),
        ({"schedule": "poly", "power": 1}, 0.3, 0.3 / 63),
        ({"schedule": "step", "step_epochs": 4, "gamma": 0.1}, 0.3, 0.003),
        ({"schedule": "step", "step_epochs": 30}, 0.3, 0.3),
        ({"schedule": "constant", "warmup": 3}, 0.1, 0.3),
        ({"schedule": "cosine", "warmup": 30}, 0.01, 0.15 * (1 + math.cos(math.pi * 32 / 33))),
        ({"schedule": "cosine", "warmup": 63}, 0.3 / 63, 0.3),
        ({"schedule": "cosine", "warmup": 630}, 0.3 / 630, 0.03),
    ],
)
def test_the_first_and_the_last_rate_by_hand(options: dict, first: float, last: float) -> None:
    ours = rates(**options)
    assert ours[0] == pytest.approx(first)
    assert ours[-1] == pytest.approx(last)


def test_a_warm_up_that_never_ends_is_told() -> None:
    """Over 84 steps to 0.3; the last of 63 has the index 62, and 0.3 · 63 / 84 = 0.225."""
    long, short = TrainSpec(lr=0.3, warmup=84), TrainSpec(lr=0.3, warmup=63)
    assert learning_rate(long, 62, 63, 7) == pytest.approx(0.225)
    told = "`lr` 0.3 was never reached: `warmup` is 84, the training had 63 steps and ended at 0.225"
    assert without_effect(long, 63) == [told]
    assert learning_rate(short, 62, 63, 7) == 0.3
    assert without_effect(short, 63) == []


@pytest.mark.parametrize("schedule", ["constant", "step", "cosine", "poly"])
def test_a_run_of_one_step_has_the_full_rate(schedule: str) -> None:
    assert learning_rate(TrainSpec(lr=LR, schedule=schedule), 0, 1, 1) == LR


@pytest.mark.parametrize(
    ("options", "kind", "expected"),
    [
        ({}, torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4, "nesterov": False}),
        (
            {"lr": 0.2, "momentum": 0.5, "nesterov": True, "weight_decay": 0.1},
            torch.optim.SGD,
            {"lr": 0.2, "momentum": 0.5, "nesterov": True, "weight_decay": 0.1},
        ),
        (
            {"optimizer": "adam", "lr": 0.01, "betas": (0.8, 0.99), "weight_decay": 0.0},
            torch.optim.Adam,
            {"lr": 0.01, "betas": (0.8, 0.99), "weight_decay": 0.0},
        ),
        (
            {"optimizer": "adamw", "weight_decay": 0.3},
            torch.optim.AdamW,
            {"lr": 0.05, "betas": (0.9, 0.999), "weight_decay": 0.3},
        ),
    ],
)
def test_optimizers_are_those_of_torch(options: dict, kind: type[torch.optim.Optimizer], expected: dict) -> None:
    optimizer = make_optimizer(TrainSpec(**options), [nn.Parameter(torch.zeros(2))])
    assert type(optimizer) is kind
    (group,) = optimizer.param_groups
    assert {name: group[name] for name in expected} == expected


def test_frozen_parameters_are_left_out() -> None:
    model = nn.Linear(3, 2)
    model.weight.requires_grad_(False)
    (group,) = make_optimizer(TrainSpec(), model.parameters()).param_groups
    assert [id(parameter) for parameter in group["params"]] == [id(model.bias)]

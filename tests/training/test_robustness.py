"""Robust accuracy on models whose robustness is known in closed form."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import durm
from durm.data.bundle import InputFormat, Samples
from durm.errors import InputError
from durm.training import checkpoint
from durm.training.outcomes import unpack_outcomes
from durm.training.robustness import attacked_samples, robustness, transfer
from durm.training.trainer import Interrupted, RunContext, run
from durm.training.trial import AttackSpec, Trial

SIDE = 4


class Mean(nn.Module):
    """Two classes: the mean of the pixels minus a half, times a sign. Robust exactly where |mean − ½| > ε."""

    def __init__(self, sign: float = 1.0, scale: float = 1.0) -> None:
        super().__init__()
        self.head = nn.Linear(SIDE * SIDE, 2)
        with torch.no_grad():
            self.head.weight[1] = sign * scale / SIDE**2
            self.head.weight[0] = -sign * scale / SIDE**2
            self.head.bias[:] = torch.tensor([sign, -sign]) * scale / 2

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(inputs.flatten(1))
        return logits


FORMAT = InputFormat((1, SIDE, SIDE), torch.zeros(1, 1, 1), torch.full((1, 1, 1), 255.0), pixel_max=255.0)


def samples() -> Samples:
    """Grey images whose distances from the middle are 2, 10, 20, 30 and 60 of 255, on both sides."""
    grey = [127.5 + side * far for far in (2.5, 10.5, 20.5, 30.5, 60.5) for side in (-1, 1)]
    images = torch.tensor(grey).view(-1, 1, 1, 1).expand(-1, 1, SIDE, SIDE)
    return Samples(images.to(torch.uint8), torch.tensor([0, 1] * 5))


def spec(kind: str = "pgd", **changes: object) -> AttackSpec:
    return AttackSpec.model_validate({"kind": kind, "eps": 15 / 255, "steps": 20, **changes})


@pytest.mark.parametrize("kind", ["fgsm", "pgd", "apgd", "square", "auto"])
def test_what_is_left_is_what_is_farther_than_the_radius(kind: str) -> None:
    """Of five distances two are below 15/255, so 60 % are left. Auto has no DLR here: two classes are too few."""
    found = robustness(Mean(), samples(), FORMAT, [spec(kind, steps=200 if kind == "square" else 20)], limit=100)
    assert found["clean"].accuracy == 100
    assert found[f"{kind}_real"].accuracy == 60
    assert found[f"{kind}_real"].samples == 10


def test_a_radius_of_nought_leaves_the_clean_accuracy() -> None:
    model = Mean(sign=-1.0)
    found = robustness(model, samples(), FORMAT, [spec(eps=0)], limit=100)
    assert found["pgd_real"].accuracy == found["clean"].accuracy == 0


def test_the_curve_falls_where_the_distances_are() -> None:
    radii = [0.0, 5 / 255, 15 / 255, 25 / 255, 50 / 255, 80 / 255]
    found = robustness(Mean(), samples(), FORMAT, [spec(curve=radii)], limit=100)
    assert found["pgd_real"].curve == [
        (radius, left) for radius, left in zip(radii, (100, 80, 60, 40, 20, 0), strict=True)
    ]


def test_surfaces_of_a_model_without_dummies() -> None:
    """All logits are the real ones, and there is nothing to be pushed into."""
    found = robustness(Mean(), samples(), FORMAT, [spec(through=["real", "full", "dummy"])], limit=100)
    assert set(found) == {"clean", "pgd_real", "pgd_full"}
    assert found["pgd_full"] == found["pgd_real"]


def test_into_a_dummy() -> None:
    """One dummy whose logit is above both others for bright images: mean − ½ > 0.1, by ten times the real slope.

    Bright images are nearer to it than 60/255, so an attack of that radius gets the upper half of the samples, those
    that are bright already, there; of the dark ones those nearer than 60/255 − 0.1 on the other side.
    """
    model = durm.widen(Mean(), 1)
    with torch.no_grad():
        model.head.weight[2] = 10 / SIDE**2
        model.head.bias[2] = -10 * 0.6
    found = robustness(model, samples(), FORMAT, [spec(eps=60 / 255, through=["dummy"])], limit=100)
    means = samples().inputs.float().mean((1, 2, 3)) / 255 + 60 / 255
    hit = 10 * (means - 0.6) > means - 0.5
    assert found["clean"].into_dummies == 100 * (10 * (means - 60 / 255 - 0.6) > means - 60 / 255 - 0.5).float().mean()
    assert found["pgd_dummy"].into_dummies == pytest.approx(100 * hit.float().mean().item())


def test_auto_gets_no_fewer_into_dummies_than_its_members() -> None:
    """Success is to be in a dummy there, and one that is there is left there, right or wrong over the real logits."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 16), nn.ReLU(), nn.Linear(16, 3))
    model = durm.widen(net, 2)
    pixels = torch.randint(256, (60, 1, SIDE, SIDE), dtype=torch.uint8)
    many = Samples(pixels, torch.randint(3, (60,)))
    attacks = [spec(kind, through=["dummy"], eps=0.1, steps=20) for kind in ("apgd", "auto")]
    found = robustness(model, many, FORMAT, attacks, limit=60)
    clean, apgd, auto = (found[name].into_dummies for name in ("clean", "apgd_dummy", "auto_dummy"))
    assert clean < apgd <= auto


def test_what_is_wrong_without_an_attack_is_not_robust() -> None:
    """Square's stripes alone would cross the middle and make right what is wrong; one query can undo nothing."""
    wrong = Samples(samples().inputs, 1 - samples().labels)
    found = robustness(Mean(), wrong, FORMAT, [spec("square", eps=80 / 255, steps=1)], limit=100)
    assert found["clean"].accuracy == found["square_real"].accuracy == 0


def test_accuracy_is_over_the_real_logits() -> None:
    """A dummy that is always the largest takes every sample, and changes no accuracy."""
    model = durm.widen(Mean(), 1)
    with torch.no_grad():
        model.head.weight[2], model.head.bias[2] = 0.0, 50.0
    found = robustness(model, samples(), FORMAT, [spec(through=["real"])], limit=100)
    assert (found["clean"].accuracy, found["clean"].into_dummies) == (100, 100)
    assert found["pgd_real"].accuracy == 60


def test_attacks_that_were_made_on_another_model() -> None:
    """A copy's are as bad as its own; what crosses the middle for the opposite model does so here too.

    These are the 40 % nearer than the radius; with those labels this model is right there only.
    """
    attack = spec(eps=15 / 255)
    assert transfer(Mean(), Mean(), samples(), FORMAT, attack, limit=100) == 60
    assert transfer(Mean(scale=3.0), Mean(), samples(), FORMAT, attack, limit=100) == 60
    wrong = Samples(samples().inputs, 1 - samples().labels)
    assert transfer(Mean(sign=-1.0), Mean(), wrong, FORMAT, attack, limit=100) == 40


def test_each_model_sees_its_own_normalisation() -> None:
    """The source was trained on pixels in other units; seen in the target's, none would be near its boundary."""
    halved = InputFormat((1, SIDE, SIDE), torch.full((1, 1, 1), -255.0), torch.full((1, 1, 1), 510.0), pixel_max=255.0)
    source = Mean()
    with torch.no_grad():  # on (x + 1) / 2 what Mean is on x
        source.head.weight *= 2
        source.head.bias[:] = torch.tensor([1.5, -1.5])
    attack = spec(eps=15 / 255)
    assert transfer(source, Mean(), samples(), FORMAT, attack, limit=100, source_format=halved) == 60


def test_the_same_samples_are_attacked_whatever_the_model() -> None:
    chosen = attacked_samples(samples(), 4)
    again = attacked_samples(samples(), 4)
    assert len(chosen) == 4
    assert torch.equal(chosen.inputs, again.inputs)
    assert attacked_samples(samples(), 10) is not None
    assert len(attacked_samples(samples(), 1000)) == 10


def test_inputs_without_a_range_are_refused() -> None:
    plain = InputFormat((1, SIDE, SIDE), torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
    with pytest.raises(InputError, match="attacks need images"):
        robustness(Mean(), samples(), plain, [spec()], limit=10)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "pgd", "eps": 8}, "did you mean 8/255"),
        ({"kind": "pgd", "eps": -0.1}, "greater than or equal to 0"),
        ({"kind": "pgd", "steps": 0}, "greater than 0"),
        ({"kind": "pgd", "through": "all"}, "'real', 'full' or 'dummy'"),
        ({"kind": "cw"}, "'fgsm', 'pgd'"),
        ({"kind": "pgd", "target_classes": 3}, "target_classes 3: pgd has none; auto has"),
        ({"kind": "auto", "target_classes": -1}, "greater than or equal to 0"),
        ({"kind": "auto", "curve": [0.1]}, "auto draws none"),
        ({"kind": "pgd", "curve": [0.2, 0.1]}, "ascending"),
    ],
)
def test_attacks_that_cannot_be(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttackSpec.model_validate(values)


@pytest.mark.parametrize(("text", "value"), [("8/255", 8 / 255), ("0.5", 0.5), (" 1 / 4 ", 0.25), (0.1, 0.1)])
def test_a_radius_may_be_a_fraction(text: object, value: float) -> None:
    assert math.isclose(AttackSpec.model_validate({"kind": "pgd", "eps": text}).eps, value)


# What is kept of a run that is interrupted, and what is warned about.


class Stop(Exception):
    pass


def many(count: int = 300) -> Samples:
    random = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (count, 1, SIDE, SIDE), dtype=torch.uint8, generator=random)
    return Samples(pixels, torch.randint(4, (count,), generator=random))


def four_classes() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 16), nn.ReLU(), nn.Linear(16, 4))
    return durm.widen(net, 2)


def test_an_interrupted_run_goes_on_to_the_same_numbers() -> None:
    """300 samples are three batches, and three attacks and surfaces nine; the run ends after each of the first five."""
    attacks = [spec("auto", eps=0.05, steps=2, through=["real", "full"]), spec("pgd", eps=0.05, curve=[0.01, 0.05])]
    model, data = four_classes(), many()
    whole = robustness(model, data, FORMAT, attacks, limit=300)
    attempts: dict[str, list[Tensor]] = {}
    done = 0

    def stop_soon() -> None:
        nonlocal done
        done += 1
        if done <= 5:
            raise Stop

    for _ in range(5):
        with pytest.raises(Stop):
            robustness(model, data, FORMAT, attacks, limit=300, attempts=attempts, on_batch=stop_soon)
    assert sum(map(len, attempts.values())) == 5
    assert robustness(model, data, FORMAT, attacks, limit=300, attempts=attempts, on_batch=stop_soon) == whole
    assert done == 9
    assert whole["auto_real"].right != whole["clean"].right


def test_a_trial_that_is_interrupted_in_an_attack_goes_on_with_the_next_batch(tmp_path: Path) -> None:
    attack = {"kind": "pgd", "eps": 0.2, "steps": 2}
    trial = Trial.model_validate(
        {"data": "digits", "model": "mlp", "train": {"iterations": 3}, "attacks": [attack], "attack_samples": 300}
    )
    asked = iter([False] * 4)  # before each of three steps, and after the first of three batches
    with pytest.raises(Interrupted):
        run(trial, RunContext(folder=tmp_path, stop=lambda: next(asked, True)))
    kept = checkpoint.load(tmp_path / "checkpoint.pt")["attacks"]
    assert [len(batch[0]) for batch in kept["pgd_real"]] == [128, 128]
    asked_again: list[bool] = []
    resumed = run(trial, RunContext(folder=tmp_path, stop=lambda: bool(asked_again.append(True))))
    assert len(asked_again) == 1  # the third batch
    whole = run(trial)
    assert resumed.outcomes == whole.outcomes
    assert resumed.robustness == whole.robustness


def test_flags_of_each_sample_are_outcomes_and_make_the_accuracy() -> None:
    trial = Trial.model_validate(
        {"data": "digits", "model": "mlp", "train": {"iterations": 3}, "attacks": [{"kind": "fgsm", "eps": 0.02}]}
    )
    result = run(trial)
    flags = unpack_outcomes(result.outcomes)["robust_fgsm_real"]
    assert 100 * flags.mean() == pytest.approx(result.metrics["robust_fgsm_real"])
    assert 0 < flags.sum() < len(flags)


class Steps(nn.Module):
    """Mean, but with pixels in steps of a hundredth: the same accuracy, and no gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = Mean(scale=100.0)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.mean(inputs.mul(100).round().div(100)) + 0 * inputs.flatten(1)[:, :2]
        return logits


def test_auto_says_where_gradients_are_masked() -> None:
    """Nothing leads APGD anywhere; a random start or Square finds what is nearer than the radius."""
    found = robustness(Steps(), samples(), FORMAT, [spec("auto", eps=40 / 255, steps=4)], limit=100)
    assert [text.partition(":")[0] for text in found["clean"].warnings] == ["Zero gradients"]
    assert [text.partition(":")[0] for text in found["auto_real"].warnings] == ["Masked gradients"]
    usual = robustness(Mean(), samples(), FORMAT, [spec("auto", steps=4)], limit=100)
    assert not usual["clean"].warnings
    assert not usual["auto_real"].warnings

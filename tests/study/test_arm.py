"""Arms at any path of a trial: what they change, what they leave, how they are called, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from durm.cli.flags import parse_arm, parse_method
from durm.errors import InputError
from durm.study.arm import Arm
from durm.study.reading import make_study, read_study
from durm.training.trial import Trial
from tests.cli.calling import call, refusal

SMALL = ("compare", "--model", "mlp", "--epochs", 1, "--batch-size", 128, "--workers", 1, "--quiet")


def trials(*arms: dict[str, Any], **study: Any) -> dict[str, Trial]:
    made = make_study({"arms": [{"name": "base"}, *arms], "seeds": 1, **study})
    return {trial.arm: trial for trial in made.trials()}


@pytest.mark.parametrize(
    ("override", "same"),
    [
        ({"train.lr": 0.1}, {"train": {"lr": 0.1}}),
        ({"lr": 0.1}, {"train": {"lr": 0.1}}),
        ({"method": "mixup"}, {"method": "mixup"}),
        ({"method": {"name": "mixup", "alpha": 2}}, {"method": {"name": "mixup", "alpha": 2}}),
        ({"method": "mixup", "method.alpha": 2}, {"method": {"name": "mixup", "alpha": 2}}),
        ({"method.alpha": 2, "method": "mixup"}, {"method": {"name": "mixup", "alpha": 2}}),
        ({"method": "mixup+ema"}, {"method": "mixup", "average": "ema"}),
        ({"average": "ema"}, {"average": "ema"}),
        ({"average": "ema", "average.decay": 0.5}, {"average": {"name": "ema", "decay": 0.5}}),
        ({"model": "mlp"}, {"model": "mlp"}),
        ({"data": "subset:samples=20:digits"}, {"data": "subset:samples=20:digits"}),
        ({"dummies": 3}, {"dummies": 3}),
        ({"train.iterations": 7}, {"train": {"iterations": 7}}),
    ],
)
def test_an_override_gives_the_trial_that_a_study_of_it_would(override: dict[str, Any], same: dict[str, Any]) -> None:
    """By its id, which says that nothing else differs."""
    expected = Trial.model_validate({"data": "digits", "model": "cnn", **same})
    found = trials({"name": "changed", **override})
    assert found["changed"].id == expected.id
    assert found["base"].id == Trial(data="digits", model="cnn").id


def test_settings_of_the_method_of_the_study_are_overridden_by_path() -> None:
    found = trials(
        {"name": "strong", "method.weight": 100},
        {"name": "flat", "vrex_weight": 100},
        data="digits-domains:noisy",
        method={"name": "vrex", "anneal": 7},
    )
    assert found["strong"].id == found["flat"].id
    assert found["strong"].identity()["method"] == {"name": "vrex", "version": 2, "weight": 100.0, "anneal": 7}
    assert found["base"].identity()["method"] == {"name": "vrex", "version": 2, "anneal": 7}


def test_arms_that_count_dummies_are_called_after_the_objective() -> None:
    names = {}
    for method in ("erm", "mixup", "mixup+ema", "ema", "rsc"):
        names[method] = [trial.arm for trial in make_study({"method": method, "dummies": [0, 2], "seeds": 1}).trials()]
    assert names == {
        **{"erm": ["erm", "durm-2"], "mixup": ["mixup", "mixup+2"], "mixup+ema": ["mixup", "mixup+2"]},
        **{"ema": ["erm", "durm-2"], "rsc": ["rsc", "rsc+2"]},
    }


def test_the_name_of_an_arm_is_no_part_of_its_run() -> None:
    """`erm` under another name is one run, which counts for both."""
    study = make_study({"arms": [{"name": "erm"}, {"name": "again"}, {"name": "two", "dummies": 2}], "seeds": 2})
    assert (len(study.trials()), len(study.runs())) == (6, 4)
    before = make_study({"dummies": [0], "seeds": 2, "method": "mixup"})
    after = make_study({"arms": [{"name": "plain"}], "seeds": 2, "method": "mixup"})
    assert [trial.id for trial in before.trials()] == [trial.id for trial in after.trials()]


def test_dummies_and_arms_go_together() -> None:
    study = make_study({"dummies": [0, 2], "arms": [{"name": "mixup", "method": "mixup"}], "seeds": 1})
    assert [arm.name for arm in study.arms] == ["erm", "durm-2", "mixup"]


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    arms = [{"name": "a", "method": {"name": "mixup", "alpha": 2}, "average": "ema"}, {"name": "b", "train.lr": 1}]
    study = make_study({"name": "s", "dummies": [0], "arms": arms, "seeds": 1})
    (tmp_path / "study.yaml").write_text(json.dumps(study.written()))
    again = read_study(tmp_path / "study.yaml", of_folder=True)
    assert again == study
    assert [trial.id for trial in again.trials()] == [trial.id for trial in study.trials()]


def test_a_setting_is_named_by_what_no_arm_overrides(tmp_path: Path) -> None:
    flags = ("--arm", "base: method=erm", "--arm", "mixed: method=mixup", "--seeds", 2, "--out", tmp_path, "--json")
    (setting,) = json.loads(call(*SMALL, *flags).out)["settings"]
    assert setting["setting"] == {"data": "digits", "model": "mlp"}
    assert [arm["arm"] for arm in setting["arms"]] == ["base", "mixed"]
    assert [(c["arm"], c["baseline"], c["n"]) for c in setting["comparisons"]] == [("mixed", "base", 2)]
    page = (tmp_path / "report.html").read_text()
    assert "Accuracy on digits with mlp" in page
    assert "by arm" not in page


def test_methods_are_compared_on_data_with_domains(tmp_path: Path) -> None:
    """The issue's own question: V-REx or ERM?"""
    arms = ("base: method=erm", "vrex: method=vrex", "light: method={name: vrex, weight: 1}")
    flags = [part for arm in arms for part in ("--arm", arm)]
    answer = call(*SMALL, "--data", "digits-domains", *flags, "--seeds", 2, "--out", tmp_path, "--json")
    assert answer.code == 0, answer.err
    content = json.loads(answer.out)
    (average,) = content["averages"]
    assert [arm["arm"] for arm in average["arms"]] == ["base", "vrex", "light"]
    assert len(average["domains"]) == len(content["settings"]) == 4
    assert all(c["verdict"] for c in average["comparisons"])
    assert "vrex" in (tmp_path / "report.md").read_text()


def test_dummies_and_tricks_are_compared_in_one_study(tmp_path: Path) -> None:
    flags = ("--dummies", "0,2", "--arm", "mixup: method=mixup", "--arm", "slow: train.lr=0.001", "--seeds", 7)
    answer = call(*SMALL, *flags, "--out", tmp_path)
    assert answer.code == 0, answer.err
    assert "mixup and slow are worse than erm" in answer.out


# Texts of flags.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: dummies=2", {"name": "a", "dummies": 2}),
        ("a: method={name: vrex, weight: 1}, train.lr=0.1", {"method": {"name": "vrex", "weight": 1}, "train.lr": 0.1}),
        ("a: train.betas=[0.9, 0.99], average=ema", {"train.betas": [0.9, 0.99], "average": "ema"}),
        ("a: data=subset:samples=20:digits", {"data": "subset:samples=20:digits"}),
    ],
)
def test_an_arm_in_a_flag(text: str, expected: dict[str, Any]) -> None:
    assert parse_arm(text) == {"name": "a", **expected}


def test_a_method_in_a_flag() -> None:
    assert parse_method("vrex") == "vrex"
    assert parse_method("vrex: weight=10, anneal=5") == {"name": "vrex", "weight": 10, "anneal": 5}
    assert parse_method("mixup+ema") == "mixup+ema"


# Refused.


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--arm", "a: method=erm", "--arm", "b: method=vrexx"), ("'b'", "'vrexx'", "'vrex'")),
        (("--arm", "a: method=erm", "--arm", "b: method=mixup, method.alhpa=1"), ("'b'", "'alhpa'", "'alpha'")),
        (("--arm", "a: dummies=0", "--arm", "b: average.decay=0.5"), ("'b'", "average.decay")),
        (("--arm", "a: dummies=0", "--arm", "b: train.lrr=1"), ("'train.lrr'", "'train.lr'")),
        (("--arm", "a: dummies=0", "--arm", "b: train.lr=-1"), ("'b'", "lr", "-1")),
        (("--arm", "a: dummies=0", "--arm", "b: model=3"), ("'b'", "model=3")),
        (
            (
                "--arm",
                "a: dummies=0",
            ),
            ("--arm", "one arm"),
        ),
        (
            ("--method", "erm", "--method", "mixup", "--dummies", "0", "--arm", "b: method=rsc"),
            ("'b'", "method", "one"),
        ),
        (("--method", "vrex: wieght=1"), ("--method", "'wieght'", "'weight'")),
        (("--arm", "a: data=digits", "--arm", "b: data=digits-domains:noisy"), ("'b'", "test set")),
        (("--arm", "a: dummies 2", "--arm", "b: dummies=1"), ("--arm", "path=value")),
    ],
)
def test_arms_that_cannot_be(flags: tuple[str, ...], parts: tuple[str, ...], tmp_path: Path) -> None:
    line = refusal(call(*SMALL, *flags, "--seeds", 2, "--out", tmp_path))
    assert all(part in line for part in parts), line


def test_a_name_that_durm_gives_itself_is_refused() -> None:
    with pytest.raises(InputError, match="'durm-val'"):
        make_study({"arms": [{"name": "erm"}, {"name": "durm-val", "dummies": 1}], "seeds": 1})
    with pytest.raises(InputError, match="'mixup'"):
        make_study({"method": "mixup", "arms": [{"name": "erm"}, {"name": "mixup", "dummies": 1}], "seeds": 1})


def test_an_arm_needs_a_name() -> None:
    with pytest.raises(ValueError, match="has no name"):
        Arm.model_validate({"dummies": 1})

"""Attacks in studies: every number by hand from the raw results, and when a page warns of masked gradients."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from durm.cli.flags import attack_from_flags, parse_attack
from durm.errors import InputError
from durm.metrics import describe_metric
from durm.replication.recipe import load_recipe
from durm.replication.reproduction import Reproduction, compared_table
from durm.report.page import markdown, write_report
from durm.report.tables import robustness_table, transfer_table
from durm.report.text import headline
from durm.study.check import check_study
from durm.study.reading import make_study
from durm.study.records import Summary
from durm.study.robustness import _once_each, signs_of_masking, transferred_attack
from durm.study.store import Store
from durm.study.summary import read_results, write_summary
from durm.training.trial import AttackSpec, Trial
from tests.cli.calling import call, refusal
from tests.study import synthetic

ATTACKS = [
    {"kind": "fgsm", "through": ["real", "dummy"]},
    {"kind": "pgd", "through": ["real", "full"], "curve": [0, "8/255"]},
    {"kind": "square"},
]


def left(trial: Trial, key: str) -> float:
    """Seeds shift everything, and dummies give a point for each but the first seed."""
    base = {
        "clean": 90.0,
        "fgsm_real": 50.0,
        "fgsm_dummy": 80.0,
        "pgd_real": 40.0,
        "pgd_full": 42.0,
        "square_real": 60.0,
    }
    return base[key] + trial.seed + trial.dummies * (trial.seed > 0)


def study(
    folder: Path, changes: dict[str, float] | None = None, warnings: tuple[str, ...] = (), **values: Any
) -> tuple[Store, Summary]:
    """A study that was never run; `changes` replaces what is left under an attack, for all arms and seeds.

    `warnings` are those of every run, of its clean samples.
    """
    values = {"dummies": [0, 1], "seeds": 3, "attacks": ATTACKS, "attack_samples": 100, **values}
    store = Store.create(folder, make_study(values, "a study"))
    keys = ["clean", *(key for attack in store.study.attacks for key in attack.keys)]
    for trial in store.study.trials():
        robust: dict[str, dict[str, Any]] = {
            key: {
                "accuracy": (changes or {}).get(key, left(trial, key)),
                "into_dummies": 5.0 * trial.dummies,
                "samples": 100,
            }
            for key in keys
            if trial.dummies or not key.endswith("dummy")
        }
        if "pgd_real" in robust:
            robust["pgd_real"] |= {"curve": [[0.0, 90.0], [8 / 255, robust["pgd_real"]["accuracy"]]]}
        robust["clean"] |= {"warnings": list(warnings)}
        result = synthetic.result(trial, 95.0 + trial.seed, robustness=robust)
        metrics = result.metrics | {f"robust_{key}": entry["accuracy"] for key, entry in robust.items()}
        store.begin(trial)
        store.keep(trial, result.model_copy(update={"metrics": metrics}))
    return store, write_summary(store, read_results(store))


def test_every_attack_and_surface_has_its_own_comparison(tmp_path: Path) -> None:
    _, summary = study(tmp_path)
    entries = {entry.attack: entry for entry in summary.settings[0].robustness}
    assert list(entries) == ["clean", "fgsm_real", "fgsm_dummy", "pgd_real", "pgd_full", "square_real"]
    erm, durm = entries["pgd_real"].arms
    assert list(erm.values.values()) == [40, 41, 42]
    assert list(durm.values.values()) == [40, 42, 43]
    assert (erm.mean, durm.into_dummies) == (41, 5)
    assert set(durm.into_dummies_values.values()) == {5}
    (comparison,) = entries["pgd_real"].comparisons
    assert comparison.difference == pytest.approx(statistics.fmean([0, 1, 1]))
    assert comparison.n == 3
    assert erm.curve == [(0.0, 90.0), (8 / 255, 41.0)]


def test_an_attack_into_dummies_has_no_baseline(tmp_path: Path) -> None:
    _, summary = study(tmp_path)
    (entry,) = [e for e in summary.settings[0].robustness if e.attack == "fgsm_dummy"]
    assert [arm.n for arm in entry.arms] == [0, 3]
    assert entry.comparisons == []


def test_the_verdict_may_be_about_an_attack(tmp_path: Path) -> None:
    _, summary = study(tmp_path, metric="robust_pgd_full")
    assert list(summary.settings[0].arms[0].values.values()) == [42, 43, 44]
    told = headline(summary)
    assert told.startswith("Undecided for 1 dummy on digits with cnn: too few pairs")
    assert "points of accuracy under pgd through all logits" in told
    assert describe_metric("accuracy").label == "accuracy"
    assert (tmp_path / "results.csv").read_text().splitlines()[1].split(",")[3] == "42.0"


def test_the_page_the_markdown_and_the_tables(tmp_path: Path) -> None:
    store, summary = study(tmp_path)
    page = write_report(store.folder, summary, store=store, results=read_results(store)).read_text()
    assert "Robust accuracy in percent" in page
    assert "radius ε" in page
    assert "| pgd | full | durm-1 |" in markdown(summary)
    texts = robustness_table(summary.settings[0], summary).texts()
    assert texts[0][:6] == ["none", "", "erm", "3", "91.00", "1.00"]
    assert ["fgsm", "dummy", "durm-1", "3"] in [line[:4] for line in texts]
    assert not any(line[:3] == ["fgsm", "dummy", "erm"] for line in texts)
    assert transfer_table(summary.settings[0]).rows == []


def test_without_attacks_there_is_nothing_of_it(tmp_path: Path) -> None:
    store = synthetic.store(tmp_path, lambda trial: 90.0, seeds=2, dummies=[0, 1])
    summary = write_summary(store, read_results(store))
    assert summary.settings[0].robustness == []
    assert robustness_table(summary.settings[0], summary).rows == []


# Masked gradients.


def test_square_that_beats_the_gradients_is_told(tmp_path: Path) -> None:
    _, summary = study(tmp_path, {"square_real": 20.0})
    masked = [warning for warning in summary.warnings if "Masked" in warning]
    assert len(masked) == 2
    assert (
        "square, which sees no gradients, leaves 20.0 % right, attacks by the model's own gradients 41.0 %" in masked[0]
    )
    assert "(erm, digits, cnn, erm)" in masked[0]


def test_warnings_of_runs_stand_on_the_page_once_for_each_arm_and_kind() -> None:
    """Two of three runs of an attack warn of the same thing, with other numbers."""
    texts = ["Masked gradients: Square fools another 1.0 %.", "Masked gradients: Square fools another 2.0 %."]
    (text,) = _once_each("auto_real", texts)
    assert text == "auto_real: Masked gradients: Square fools another 1.0 %. So it is in 2 runs."
    assert _once_each("clean", ["Zero gradients: 3 of 4.", "Probabilities: x."]) == [
        "Zero gradients: 3 of 4.", "Probabilities: x.",
    ]  # fmt: skip
    assert _once_each("auto_real", []) == []


def test_warnings_of_runs_reach_the_summary(tmp_path: Path) -> None:
    _, summary = study(tmp_path, warnings=("Zero gradients: of 90 samples 3.",))
    assert [text for text in summary.warnings if "Zero gradients" in text] == [
        "Zero gradients: of 90 samples 3. So it is in 3 runs. (erm, digits, cnn, erm)",
        "Zero gradients: of 90 samples 3. So it is in 3 runs. (durm-1, digits, cnn, erm)",
    ]


def test_a_point_is_not_told(tmp_path: Path) -> None:
    _, summary = study(tmp_path, {"square_real": 40.1, "pgd_real": 41.0})
    assert not any("Masked" in warning for warning in summary.warnings)


def test_transfer_that_beats_the_gradients_is_told(tmp_path: Path) -> None:
    store, _ = study(tmp_path)
    for trial in store.study.trials():
        if trial.dummies:
            store.keep_transfer(trial, {"from_baseline": 30.0 + trial.seed, "to_baseline": 70.0})
    summary = write_summary(store, read_results(store))
    assert summary.settings[0].arms[1].transfer == {"from_baseline": 31.0, "to_baseline": 70.0}
    (warning,) = [warning for warning in summary.warnings if "Masked" in warning]
    assert "what pgd made for another model leaves 31.0 % right" in warning
    assert transfer_table(summary.settings[0]).texts() == [["durm-1", "31.00", "70.00"]]


def test_attacks_of_other_radii_do_not_count() -> None:
    attacks = [
        attack_from_flags({"kind": "pgd", "eps": "8/255"}),
        attack_from_flags({"kind": "square", "eps": "16/255"}),
    ]
    assert signs_of_masking(attacks, {"pgd_real": 40.0, "square_real": 10.0}, {}) == []
    assert signs_of_masking([attacks[1]], {"square_real": 10.0}, {}) == []


def test_the_last_attack_by_gradients_is_carried_over() -> None:
    found = transferred_attack([AttackSpec.model_validate(attack) for attack in ATTACKS])
    assert found is not None
    assert found.kind == "pgd"
    assert transferred_attack([AttackSpec(kind="square")]) is None


# Studies and commands.


def test_an_attack_in_a_flag() -> None:
    assert parse_attack("pgd: eps=8/255, steps=3, through=[real, full]") == {
        **{"kind": "pgd", "eps": "8/255", "steps": 3, "through": ["real", "full"]}
    }
    assert parse_attack("fgsm") == {"kind": "fgsm"}
    with pytest.raises(InputError, match=r"unknown key 'epz': did you mean 'eps'\?"):
        parse_attack("pgd: epz=1")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--attack", "pgd: eps=8"), "did you mean 8/255"),
        (("--attack", "pdg"), "'fgsm', 'pgd'"),
        (("--attack", "pgd", "--attack", "pgd"), "two attacks are called 'pgd'"),
        (("--metric", "robust_pgd_real"), "expected one of accuracy"),
        (("--attack", "pgd", "--attack-samples", "0"), "--attack-samples"),
    ],
)
def test_what_cannot_be_attacked_is_refused(flags: tuple[str, ...], message: str, tmp_path: Path) -> None:
    assert message in refusal(call("compare", "--out", tmp_path, *flags))


def test_text_cannot_be_attacked(tmp_path: Path) -> None:
    rows = "\n".join(f"word{label} {index},{label}" for index in range(20) for label in ("a", "b"))
    (tmp_path / "texts.csv").write_text(f"text,label\n{rows}\n")
    values = {"data": f"csv:{tmp_path}/texts.csv", "model": "transformer", "attacks": [{"kind": "pgd"}], "seeds": 1}
    with pytest.raises(InputError, match="attacks need images"):
        check_study(make_study(values, "a study"), None)


def test_an_attack_that_the_arm_without_dummies_cannot_have_is_refused_before_training() -> None:
    """The DLR loss takes three logits: two classes have them with a dummy, and not without."""
    attack = {"kind": "pgd", "loss": "dlr", "through": ["full"]}
    values = {"data": "subset:classes=2:digits", "attacks": [attack], "dummies": [0, 1], "seeds": 1}
    with pytest.raises(InputError, match="needs at least 3 logits, and there are 2"):
        check_study(make_study(values, "a study"), None)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study with attacks, run from the command line."""
    folder = tmp_path_factory.mktemp("attacked")
    answer = call(
        *("compare", "--dummies", "0,2", "--seeds", "2", "--epochs", "3", "--workers", "1", "--out", folder, "--quiet"),
        *("--attack", "pgd: eps=0.1, steps=3, through=[real, full, dummy], curve=[0, 0.05, 0.1]"),
        *("--attack", "square: eps=0.1, steps=20", "--attack-samples", "60", "--metric", "robust_pgd_real"),
    )
    assert answer.code == 0, answer.err
    return folder


def test_a_study_with_attacks_from_the_command_line(attacked: Path) -> None:
    summary = json.loads((attacked / "summary.json").read_text())
    (setting,) = summary["settings"]
    assert summary["metric"] == "robust_pgd_real"
    entries = {entry["attack"]: entry for entry in setting["robustness"]}
    clean, pgd = entries["clean"]["arms"][0], entries["pgd_real"]["arms"][0]
    assert pgd["mean"] < clean["mean"]
    curve = [accuracy for _, accuracy in pgd["curve"]]
    assert curve == sorted(curve, reverse=True)
    assert curve[0] == clean["mean"]
    assert set(setting["arms"][1]["transfer"]) == {"from_baseline", "to_baseline"}


def test_evaluate_gives_what_the_study_gave(attacked: Path) -> None:
    folder = next(path for path in sorted((attacked / "trials").iterdir()) if "durm-2-seed1" in path.name)
    kept = json.loads((folder / "result.json").read_text())["robustness"]
    flags = ("--attack", "pgd", "--eps", "0.1", "--steps", "3", "--through", "real,full", "--samples", "60")
    answer = call("evaluate", folder, *flags, "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)["robustness"]
    assert found["pgd_real"]["accuracy"] == kept["pgd_real"]["accuracy"]
    assert found["pgd_full"]["accuracy"] == kept["pgd_full"]["accuracy"]
    assert found["clean"] == kept["clean"]


def test_evaluate_shows_a_table_and_transfer(attacked: Path) -> None:
    first, *_, last = sorted((attacked / "trials").iterdir())
    flags = ("--attack", "fgsm,pgd", "--eps", "0.05,0.1", "--samples", "30", "--transfer-from", last)
    answer = call("evaluate", first, *flags)
    assert answer.code == 0, answer.err
    assert "pgd-2" in answer.out
    assert "transfer of fgsm-1" in answer.out
    assert "25.5/255" in answer.out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--attack", "pgd", "--eps", "8"), "--eps 8 is larger than 1"),
        (("--attack", "pgd", "--eps", "-1"), "--eps '-1'"),
        (("--attack", "pgd", "--eps", "much"), "--eps 'much'"),
        (("--attack", "pgd", "--steps", "0"), "--steps 0"),
        (("--attack", "pgd", "--through", "both"), "--through"),
        (("--attack", "magic"), "--attack 'magic'"),
        (("--attack", "pgd", "--samples", "0"), "--samples 0"),
        (("--transfer-from", "x.pt"), "goes with --attack"),
        (("--attack", "pgd", "--transfer-from", "x.pt"), "there is no such file"),
    ],
)
def test_evaluate_refuses(flags: tuple[str, ...], message: str, attacked: Path) -> None:
    folder = next((attacked / "trials").iterdir())
    assert message in refusal(call("evaluate", folder, *flags))


def test_ours_stands_beside_theirs_for_every_surface(tmp_path: Path) -> None:
    """The paper does not say through which logits it attacks: its numbers stand beside both, and beside no dummies."""
    made = load_recipe("adversarial")
    (row,) = made.chosen("erm")
    ours = Reproduction(made, "cpu", tmp_path)
    kept, _ = study(ours.row_folder(row), dummies=[0, 1], method="erm")
    assert kept.study.attacks
    lines = {(line[0], line[1]): line for line in compared_table(list(ours.compared([row]))).texts()}
    assert lines["erm, pgd through real", "0"][2:6] == ["12.55", "", "41.00 ± 1.00", "3"]
    assert lines["erm, pgd through full", "1"][2:5] == ["13.29", "+0.74", "43.67 ± 1.53"]
    assert lines["erm, fgsm through dummy", "1"][2] == "–"
    assert lines["erm, fgsm through dummy", "1"][-1] == ""
    assert ("erm, fgsm through dummy", "0") not in lines

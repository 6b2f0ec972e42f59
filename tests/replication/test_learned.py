"""Claims about accuracy rest on no training that did not learn; those about something else do."""

from pathlib import Path

from durm.replication.claims import ledger
from durm.replication.learned import learned
from durm.replication.study_index import read_evidence
from durm.training.trial import Trial
from tests.replication.planted import gain, study


def test_near_chance_is_refused(tmp_path: Path) -> None:
    """Planted accuracies are 80 ± 3; minus 65 they are near the 10 % of ten classes, minus 50 they are not."""
    study(tmp_path, "chance", lambda trial: gain(2.0)(trial) - 65, dummies=[0, 2])
    study(tmp_path, "fine", lambda trial: gain(2.0)(trial) - 50, dummies=[0, 2], train={"epochs": 21})
    kept, refused = learned(read_evidence(tmp_path))
    assert [setting.study for setting in kept.settings] == ["fine"]
    (why,) = refused
    assert why.study == "chance"
    assert "within 10 points of chance (10.0 %)" in why.reason
    accuracy, mass = (ledger(tmp_path, [number])[0].finding for number in (1, 25))
    assert (accuracy.studies, accuracy.refused) == (("fine",), (why,))
    assert (mass.settings, mass.refused) == (2, ())


def test_a_method_far_below_erm_is_refused(tmp_path: Path) -> None:
    def validated(trial: Trial) -> dict[str, dict[str, float]]:
        return {"val": {"accuracy": {"erm": 80.0, "mixup": 74.0, "fgsm-at": 60.0}[trial.method_name]}}

    study(tmp_path, "one", gain(1.0), change=validated, method=["erm", "mixup", "fgsm-at"], dummies=[0, 2])
    kept, refused = learned(read_evidence(tmp_path))
    assert [setting.method for setting in kept.settings] == ["erm", "fgsm-at"]
    assert [why.reason for why in refused] == ["without dummies 74.0 % on validation, where ERM has 80.0 %"]

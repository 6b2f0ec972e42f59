"""What a study file means: settings × arms × seeds, defaults, and the trials that come of it."""

from pathlib import Path

import pytest
import yaml

from durm.cli.flags import study_from_flags
from durm.errors import InputError
from durm.study.reading import make_study, read_study


def test_a_study_is_a_grid() -> None:
    study = make_study({"data": ["digits", "arrays:a.npz"], "model": ["cnn", "mlp"], "dummies": [0, 2], "seeds": 3})
    trials = study.trials()
    assert len(trials) == len({trial.id for trial in trials}) == 2 * 2 * 2 * 3
    assert {(trial.arm, trial.dummies) for trial in trials} == {("erm", 0), ("durm-2", 2)}
    assert [trial.seed for trial in trials] == [0] * 8 + [1] * 8 + [2] * 8


def test_the_defaults_are_those_of_the_digits_demo() -> None:
    study = make_study({})
    assert [arm.name for arm in study.arms] == ["erm", "durm-1", "durm-2", "durm-3"]
    assert study.seeds == tuple(range(10))
    assert study.data == ("digits",)


def test_seeds_may_be_listed() -> None:
    assert make_study({"seeds": [7, 3]}).seeds == (7, 3)


def test_arms_override_the_training() -> None:
    arms = [{"name": "erm"}, {"name": "smoothing", "label_smoothing": 0.1, "lr": 0.5}, {"name": "durm", "dummies": 4}]
    erm, smoothing, durm = make_study({"arms": arms, "seeds": 1, "train": {"lr": 0.2, "epochs": 3}}).trials()
    assert (erm.train.label_smoothing, erm.train.lr, erm.train.epochs) == (0.0, 0.2, 3)
    assert (smoothing.train.label_smoothing, smoothing.train.lr, smoothing.train.epochs) == (0.1, 0.5, 3)
    assert (durm.dummies, durm.train.lr) == (4, 0.2)


def test_an_arm_may_change_the_length_to_iterations() -> None:
    arms = [{"name": "erm"}, {"name": "short", "iterations": 5}]
    erm, short = make_study({"arms": arms, "seeds": 1, "train": {"epochs": 3}}).trials()
    assert (erm.train.epochs, erm.train.iterations) == (3, None)
    assert (short.train.epochs, short.train.iterations) == (None, 5)


def test_what_is_written_reads_back_as_the_same_study(tmp_path: Path) -> None:
    values = {"name": "mine", "model": ["cnn", "mlp"], "dummies": [0, 1], "seeds": [1, 2], "train": {"iterations": 9}}
    study = make_study(values)
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(study.written()))
    assert read_study(path) == study
    assert [trial.id for trial in read_study(path).trials()] == [trial.id for trial in study.trials()]


def test_a_file_without_a_name_is_named_after_itself(tmp_path: Path) -> None:
    (tmp_path / "my-study.yaml").write_text("dummies: [0, 2]\n")
    assert read_study(tmp_path / "my-study.yaml").name == "my-study"


def test_flags_and_files_are_named_in_their_own_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^--batch-size 0: input should be greater than 0$"):
        study_from_flags({"train": {"batch_size": 0}})
    with pytest.raises(InputError, match=r"^train.batch_size=0: input should be greater than 0$"):
        make_study({"train": {"batch_size": 0}})
    with pytest.raises(InputError, match=r"^study here.yaml: train.batch_size=0: input should be greater than 0$"):
        make_study({"train": {"batch_size": 0}}, "study here.yaml")
    with pytest.raises(InputError, match=r"unknown key 'batchsize' in train: did you mean 'batch_size'"):
        make_study({"train": {"batchsize": 8}}, "study here.yaml")
    with pytest.raises(InputError, match=r"unknown key 'modle': did you mean 'model'"):
        make_study({"modle": "cnn"}, "study here.yaml")
    with pytest.raises(InputError, match=r"unknown key 'label_smoothin': did you mean 'label_smoothing'"):
        make_study({"arms": [{"name": "a", "label_smoothin": 0.1}]}, "study here.yaml")

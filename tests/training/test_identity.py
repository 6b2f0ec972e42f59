"""Ids of trials: golden ones, what they depend on and what not, and how they survive an upgrade."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic.fields import FieldInfo

from durm._config import Config
from durm.methods import AVERAGERS, OBJECTIVES
from durm.training.trial import AttackSpec, TrainSpec, Trial, read_trial

GOLDEN: dict[str, dict[str, Any]] = {
    "0c23c6d7fb9fade3": {"data": "digits", "model": "cnn"},
    "707ff4c5ae9fd81a": {"data": "digits", "model": "cnn", "seed": 3, "dummies": 2},
    "bcbcc7d5c9eff614": {"data": "digits", "model": "mlp", "train": {"epochs": 5, "lr": 0.1}},
    "d60d205affeb1183": {"data": "digits", "model": "cnn", "train": {"iterations": 100}},
    "bf97426ffbe60446": {"data": "digits", "model": "cnn", "method": "mixup+ema", "train": {"ema_decay": 0.9}},
    "2e961515f7c0ca71": {
        "data": "digits-domains:noisy",
        "model": "cnn",
        "method": {"name": "vrex", "weight": 1, "version": 1},
    },
    "54a7fb270da9d4d0": {
        "data": "pacs:sketch",
        "model": "resnet18",
        "method": {"name": "dann", "version": 1},
        "pretrained": True,
    },
    "c6acab696feaa890": {"data": "digits", "model": "cnn", "method": "pgd-at", "train": {"at_eps": 0.1}},
    "de279e66807a1c5d": {"data": "digits", "model": "cnn", "method": "fgsm-at"},
    "b4b8261452361428": {"data": "digits", "model": "cnn", "method": "rsc"},
    "a5cad8ff5ca38c64": {"data": "digits", "model": "cnn", "method": "mmd", "dummies": 1},
    "68b12c4a4f30e584": {"data": "digits", "model": "cnn", "method": "swad"},
    "56beedbd468918b2": {"data": "digits", "model": "cnn", "method": "swa"},
    "4e0d112ec0a48f3a": {"data": "longtail:100:cifar10", "model": "cnn", "method": "logit-adjustment"},
    "2c41a19df1f8cf47": {
        "data": "digits",
        "model": "cnn",
        "attacks": [{"kind": "pgd", "eps": "8/255", "steps": 20, "through": ["real", "full"]}],
        "attack_samples": 500,
    },
    "acb0fa3d78f6aba6": {"data": "digits", "model": "cnn", "probes": ["distance", "dummy_mass"], "flatness": 100},
    "c0a5413b854ff0b7": {"data": "digits", "model": "cnn", "select": "best-val", "threads": 2},
    "9edd948fe115eab7": {"data": "digits", "model": "cnn", "device": "cuda", "precision": "bf16-mixed"},
    "f6b4bb1fc04967fe": {
        "data": "camvid",
        "model": "unet-resnet18",
        "train": {"crop": [256, 256], "scales": [0.5, 1.5]},
        "window": [512, 512],
    },
    "59a296fa754fa36f": {"data": "digits-domains:noisy", "model": "cnn", "method": "vrex"},
    "800b1721b7485ade": {"data": "digits-domains:noisy", "model": "cnn", "method": "dann"},
    "c7e19cedde182f3f": {"data": "digits-domains:noisy", "model": "cnn", "method": "coral"},
    "0d1b94becaf79c7c": {"data": "digits-domains:noisy", "model": "cnn", "method": "groupdro"},
    "db6d4938fe70bcf9": {"data": "digits", "model": "cnn", "dummies": 2, "dummy_seed": 1},
    "b10eb571caf2daf5": {"data": "digits", "model": "cnn", "head_noise": 1e-06},
    "7453033258c94b2f": {
        "data": "digits",
        "model": "cnn",
        "train": {"optimizer": "adamw", "betas": [0.9, 0.99], "label_smoothing": 0.1, "patience": 3},
    },
}


AUTO = {"kind": "auto", "eps": 0.1}
OLD_AUTO = "7fa07a5ba16fcc64"
"""The id of a trial with that attack, computed before `auto` had a second version."""


def trial(**values: Any) -> Trial:
    return Trial.model_validate({"data": "digits", "model": "cnn", **values})


@pytest.mark.parametrize(("expected", "values"), GOLDEN.items())
def test_golden_ids(expected: str, values: dict[str, Any]) -> None:
    """An id that changes throws away every finished run of users that has it. Do not change one."""
    assert Trial.model_validate(values).id == expected


def test_ids_are_16_hex_digits_and_differ() -> None:
    assert len(GOLDEN) >= 20
    assert all(len(name) == 16 and int(name, 16) >= 0 for name in GOLDEN)
    assert len({Trial.model_validate(values).id for values in GOLDEN.values()}) == len(GOLDEN)


def test_what_is_hashed_is_what_differs_from_the_defaults() -> None:
    assert trial().identity() == {"data": "digits", "model": "cnn"}
    described = trial(method="vrex", dummies=2, seed=3, train={"lr": 1, "epochs": 20, "batch_size": 64})
    assert described.identity() == {
        **{"data": "digits", "model": "cnn", "method": {"name": "vrex", "version": 2}},
        **{"dummies": 2, "seed": 3, "train": {"lr": 1.0}},
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"arm": "mine"}, {"arm": "yours"}),
        ({"devices": 2}, {}),
        ({"method": "vrex"}, {"method": {"name": "vrex"}}),
        ({"method": {"name": "vrex", "weight": 10}}, {"method": "vrex"}),
        ({"method": {"name": "vrex", "weight": 3}}, {"method": "vrex", "train": {"vrex_weight": 3.0}}),
        ({"method": "mixup+ema"}, {"method": "mixup", "average": "ema"}),
        ({"method": "ema+mixup"}, {"method": {"name": "mixup", "average": {"name": "ema", "decay": 0.999}}}),
        ({"method": "ema"}, {"method": "erm", "average": "ema"}),
        ({"train": {"epochs": 20}}, {}),
        ({"train": {"epochs": 20, "iterations": None}}, {"train": {"lr": 0.05}}),
        ({"train": {"lr": 1}}, {"train": {"lr": 1.0}}),
        ({"train": {"vrex_weight": 3}}, {}),  # a setting of another method than the trial's
        ({"attacks": [{"kind": "pgd", "eps": "8/255"}]}, {"attacks": [{"kind": "pgd"}]}),
        ({"precision": 32}, {"precision": "32"}),
        ({"probes": "distance"}, {"probes": ["distance"]}),
        ({"dummies": 2, "kind": "learned"}, {"dummies": 2}),
    ],
)
def test_ways_of_writing_one_trial_have_one_id(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert trial(**one).id == trial(**other).id


@pytest.mark.parametrize(
    "change",
    [
        *({"data": "mnist"}, {"model": "mlp"}, {"seed": 1}, {"dummies": 1}, {"dummy_seed": 1}, {"head_noise": 1e-6}),
        *({"dummies": 2, "kind": kind} for kind in ("frozen", "constant", "copies")),
        *({"method": "mixup"}, {"average": "ema"}, {"train": {"lr": 0.1}}, {"train": {"iterations": 20}}),
        *({"select": "best-val"}, {"device": "cuda"}, {"precision": "64"}, {"threads": 2}, {"pretrained": True}),
        *({"attacks": [{"kind": "pgd"}]}, {"probes": ["distance"]}, {"flatness": 10}, {"image_size": 8}),
    ],
)
def test_what_bears_on_the_numbers_changes_the_id(change: dict[str, Any]) -> None:
    assert trial(**change).id != trial().id


def test_the_second_version_of_auto_changes_no_id_of_the_first_and_none_of_other_attacks() -> None:
    old = read_trial(json.dumps({"data": "digits", "model": "cnn", "attacks": [AUTO]}))
    assert old.id == trial(attacks=[{**AUTO, "version": 1}]).id == OLD_AUTO
    assert old.attacks[0].target_classes == 0
    new = trial(attacks=[AUTO])
    assert new.attacks[0].target_classes == 9
    assert new.id != old.id
    assert read_trial(new.model_dump_json()).id == new.id
    for kind in ("fgsm", "pgd", "apgd", "square"):
        for version in (1, 2):
            spec = AttackSpec.model_validate({"kind": kind, "version": version})
            assert (spec.version, spec.target_classes, spec.changed()) == (1, 0, {"kind": kind})


def test_the_kind_of_no_dummies_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'frozen'.*dummies=2"):
        trial(kind="frozen")


def test_a_copy_has_an_id_of_its_own() -> None:
    first = trial()
    assert first.model_copy(update={"seed": 5}).id == trial(seed=5).id != first.id


# Upgrades.


@pytest.fixture
def keep_configs() -> Iterator[None]:
    """Puts every Config back as it was."""
    kinds = configs()
    before = {kind: (dict(kind.model_fields), kind.VERSION, kind.EARLIER) for kind in kinds}
    yield
    for kind, (fields, version, earlier) in before.items():
        kind.__pydantic_fields__.clear()
        kind.__pydantic_fields__.update(fields)
        kind.VERSION, kind.EARLIER = version, earlier
    rebuild(kinds)


def configs() -> list[type[Config]]:
    methods = [registry[name].Config for registry in (OBJECTIVES, AVERAGERS) for name in registry.names()]
    return [*methods, AttackSpec, TrainSpec, Trial]


def rebuild(kinds: list[type[Config]]) -> None:
    for kind in kinds:
        kind.model_rebuild(force=True)


@pytest.mark.usefixtures("keep_configs")
def test_a_new_option_with_a_default_changes_no_id() -> None:
    for kind in configs():
        kind.__pydantic_fields__["brand_new"] = FieldInfo(annotation=int, default=7)
    rebuild(configs())
    assert trial().model_dump()["brand_new"] == 7
    assert trial().train.model_dump()["brand_new"] == 7
    for expected, values in GOLDEN.items():
        assert Trial.model_validate(values).id == expected
    assert trial(brand_new=8).id != trial().id
    assert trial(train={"brand_new": 8}).id != trial().id


@pytest.mark.usefixtures("keep_configs")
def test_a_changed_default_is_a_new_version_of_that_component_alone() -> None:
    """Mixup goes from an α of 1 to one of 0.2; the earlier version keeps its default, and its ids."""
    config = OBJECTIVES["mixup"].Config
    before = {name: trial(method=name).id for name in ("erm", "mixup", "rsc")}
    with_alpha = trial(method={"name": "mixup", "alpha": 0.2}).id
    config.VERSION, config.EARLIER = 2, {1: {"alpha": 1.0}}
    config.__pydantic_fields__["alpha"].default = 0.2
    rebuild(configs())
    assert trial(method="erm").id == before["erm"]
    assert trial(method="rsc").id == before["rsc"]
    newest = trial(method="mixup")
    assert newest.method.alpha == 0.2  # type: ignore[attr-defined]
    assert newest.identity()["method"] == {"name": "mixup", "version": 2}
    pinned = trial(method={"name": "mixup", "version": 1})
    assert pinned.method.alpha == 1.0  # type: ignore[attr-defined]
    assert pinned.id == before["mixup"]
    assert trial(method={"name": "mixup", "version": 1, "alpha": 0.2}).id == with_alpha
    assert len({newest.id, pinned.id, with_alpha}) == 3
    of_version_1 = '{"data": "digits", "model": "cnn", "method": "mixup", "train": {"epochs": 20}}'
    assert read_trial(of_version_1).id == before["mixup"]
    config.__pydantic_fields__["alpha"].default = 1.0


@pytest.mark.usefixtures("keep_configs")
def test_a_new_version_of_training_shows_even_where_nothing_else_is_said() -> None:
    before = trial().id
    TrainSpec.VERSION, TrainSpec.EARLIER = 2, {1: {"lr": 0.05}}
    TrainSpec.__pydantic_fields__["lr"].default = 0.1
    rebuild(configs())
    assert trial().train.lr == 0.1
    assert trial().id != before
    assert trial(train={"version": 1}).id == before
    TrainSpec.__pydantic_fields__["lr"].default = 0.05
    with pytest.raises(ValueError, match="version 3: expected 1 to 2"):
        trial(train={"version": 3})

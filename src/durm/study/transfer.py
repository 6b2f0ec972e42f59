"""Do attacks that were made on one model fool another? Between every arm and the baseline of the same seed, both ways.

If what was made on the baseline fools an arm more often than what was made on the arm itself, the arm's gradients are
masked, and its white-box robustness means little.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from durm._files import write_whole
from durm.study.store import Store
from durm.training.trial import AttackSpec, Trial

FILE = "transfer.json"
GRADIENT_ATTACKS = ("fgsm", "pgd", "apgd")


def transferred_attack(attacks: Sequence[AttackSpec]) -> AttackSpec | None:
    """The one that is carried over: the last that goes by gradients through the real logits."""
    found = [attack for attack in attacks if attack.kind in GRADIENT_ATTACKS and "real" in attack.through]
    return found[-1] if found else None


def fill(store: Store, data_root: Path | None) -> None:
    """Measures what is missing, and keeps it beside the result of each arm's trial."""
    attack = transferred_attack(store.study.attacks)
    if attack is None:
        return
    baseline = store.study.arms[0].name
    trials = {(t.data, t.model, t.method, t.arm, t.seed): t for t in store.study.trials()}
    for trial in trials.values():
        other = trials[trial.data, trial.model, trial.method, baseline, trial.seed]
        path = store.trial_folder(trial) / FILE
        both_done = store.is_done(trial) and store.is_done(other)
        if trial.arm in store.study.arm_names[1:] and both_done and not path.exists():
            write_whole(path, json.dumps(_measure(store, trial, other, attack, data_root)).encode())


def _measure(
    store: Store, trial: Trial, baseline: Trial, attack: AttackSpec, data_root: Path | None
) -> dict[str, float]:
    from durm.evaluation.robustness import transfer
    from durm.training.saved import load_model

    model, _, bundle = load_model(store.trial_folder(trial) / "checkpoint.pt", data_root)
    other, _, _ = load_model(store.trial_folder(baseline) / "checkpoint.pt", data_root)
    limit = trial.attack_samples
    return {
        "from_baseline": transfer(other, model, bundle.test, bundle.input, attack, limit=limit),
        "to_baseline": transfer(model, other, bundle.test, bundle.input, attack, limit=limit),
    }


def read(store: Store, trial: Trial) -> dict[str, float]:
    """The accuracy of the arm on what was made on the baseline, and the other way round; nothing if not measured."""
    try:
        found: dict[str, float] = json.loads((store.trial_folder(trial) / FILE).read_text())
    except FileNotFoundError:
        return {}
    return found

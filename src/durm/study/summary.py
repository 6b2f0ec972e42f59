"""The numbers of a study, setting by setting and arm by arm."""

import statistics
from itertools import product
from typing import Any

from durm.study.store import Store


def summarize(store: Store) -> dict[str, Any]:
    """What is done so far: for each setting and arm the test accuracy of every seed, and means of the other metrics.

    Values are unrounded, in percent where they are shares; numbers that are not defined are None.
    """
    study, trials = store.study, store.study.trials()
    results = {
        (trial.data, trial.model, trial.method, trial.arm, trial.seed): result
        for trial in trials
        if (result := store.result(trial)) is not None
    }
    settings = []
    for data, model, method in product(study.data, study.model, study.method):
        arms = []
        for arm in study.arms:
            found = {s: r for s in study.seeds if (r := results.get((data, model, method, arm.name, s))) is not None}
            values = [result["metrics"]["accuracy"] for result in found.values()]
            arms.append(
                {
                    "arm": arm.name,
                    "dummies": arm.dummies,
                    "n": len(found),
                    "mean": _mean(values),
                    "std": statistics.stdev(values) if len(values) > 1 else None,
                    **{
                        key: _mean([result["metrics"][key] for result in found.values()])
                        for key in ("nll", "ece", "ece_all", "dummy_mass", "dummy_hits")
                    },
                    "seconds_per_step": _mean([result["cost"]["seconds_per_step"] for result in found.values()]),
                    "values": {str(seed): result["metrics"]["accuracy"] for seed, result in found.items()},
                }
            )
        settings.append({"setting": {"data": data, "model": model, "method": method}, "arms": arms})
    return {
        "study": study.name,
        "metric": "accuracy",
        "higher_is_better": True,
        "settings": settings,
        "trials": len(trials),
        "done": len(results),
    }


def _mean(values: list[float]) -> float | None:
    return statistics.fmean(values) if values else None

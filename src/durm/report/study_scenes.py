"""Pictures of what the models of a study make of a few test scenes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from durm.errors import InputError
from durm.report.scenes import draw_scenes, picture_scene
from durm.study.store import Store
from durm.training.saved import load_model

SCENES = 3


def picture_study(
    store: Store, setting: Mapping[str, Any], data_root: Path | None = None, scenes: int = SCENES
) -> tuple[str, bytes] | None:
    """Some test scenes, spread over all, as the baseline and the first arm with dummies see them; SVG and PNG.

    Where no arm has dummies, it is the second one. The models are those of the first seed that both have. None if there
    are no such models, or their data are missing.
    """
    study = store.study
    widened = [arm.name for arm in study.arms if arm.dummies]
    chosen = [study.arms[0].name, *(widened or study.arm_names[1:])[:1]]
    where = tuple(setting["setting"].values())
    trials = {(t.arm, t.seed): t for t in study.trials() if (t.data, t.model, t.method) == where}
    for seed in study.seeds:
        paths = {arm: store.trial_folder(trials[arm, seed]) / "checkpoint.pt" for arm in chosen}
        if all(path.is_file() and store.is_done(trials[arm, seed]) for arm, path in paths.items()):
            break
    else:
        return None
    try:
        loaded = {arm: load_model(path, data_root) for arm, path in paths.items()}
    except InputError:
        return None
    models = {arm: model for arm, (model, _, _) in loaded.items()}
    _, trial, bundle = loaded[chosen[0]]
    count = min(scenes, len(bundle.test))
    pictured = [
        picture_scene(
            models, bundle.test, (2 * place + 1) * len(bundle.test) // (2 * count), bundle,
            window=trial.window, stride=trial.window_stride,
        )
        for place in range(count)
    ]  # fmt: skip
    return draw_scenes(pictured, bundle.class_names, bundle.palette, f"scenes{where}")

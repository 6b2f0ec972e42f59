"""What the models of a study make of a few test scenes: networks run here, and the report draws what they gave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor, nn

from durm._user_code import check_trusted
from durm.data.bundle import DataBundle, Samples
from durm.errors import InputError
from durm.heads import dummies
from durm.scores import dummy_hits, dummy_mass
from durm.study.config import Study
from durm.study.records import Setting
from durm.study.store import Store
from durm.training.inference import load_model
from durm.training.segmentation import Size, real_classes, segment

SCENES = 3
Palette = Sequence[Sequence[int]]
"""Red, green and blue of each class, 0 to 255."""


@dataclass(frozen=True)
class Scene:
    """An image and what models make of it.

    Attributes:
        image: raw, uint8 (3, H, W).
        truth: the classes, (H, W); `IGNORED` where there is none.
        predictions: for each arm the class of each pixel, (H, W).
        hits: for each arm with dummies, where one of them has the largest logit; bool (H, W).
        mass: for each arm with dummies p_D, (H, W).
    """

    image: Tensor
    truth: Tensor
    predictions: Mapping[str, Tensor]
    hits: Mapping[str, Tensor] = field(default_factory=dict)
    mass: Mapping[str, Tensor] = field(default_factory=dict)


def picture_scene(
    models: Mapping[str, nn.Module],
    samples: Samples,
    index: int,
    bundle: DataBundle,
    *,
    window: Size | None = None,
    stride: Size | None = None,
) -> Scene:
    """One sample as the models of several arms see it. They are left in eval mode.

    `window` and `stride` are those of `durm.training.segmentation.segment`.
    """
    if samples.masks is None:
        raise ValueError("these samples have no masks, so there is no truth to picture")
    raw, classes = samples.inputs[index], bundle.num_classes
    image = bundle.input.normalise(raw)
    logits = {arm: segment(model, image, window=window, stride=stride) for arm, model in models.items()}
    widened = [arm for arm, model in models.items() if dummies(model)]
    return Scene(
        image=raw,
        truth=samples.masks[index],
        predictions={arm: real_classes(z, classes) for arm, z in logits.items()},
        hits={arm: dummy_hits(logits[arm], classes, dim=0) for arm in widened},
        mass={arm: dummy_mass(logits[arm], classes, dim=0) for arm in widened},
    )


def collect_scenes(
    store: Store, setting: Setting, data_root: Path | None = None
) -> tuple[Sequence[Scene], Sequence[str], Palette] | None:
    """Some test scenes, spread over all, as the baseline and the first arm with dummies see them; names and colours
    of their classes.

    Where no arm has dummies, it is the second one. The models are those of the first seed that both have. None if there
    are no such models, or their data are missing.

    Raises:
        InputError: if a model is code, `package.module:function`, and the store does not trust it.
    """
    study, where = store.study, setting.key
    if not isinstance(study, Study):
        return None
    arms = study.arms_of(where)
    baseline, *others = arms
    chosen = [baseline, *([name for name, arm in arms.items() if arm.dummies] or others)[:1]]
    runs = {(arm, seed): trial for (*place, arm, seed), trial in study.cells() if tuple(place) == where}
    selected = {arm: setting.arm(arm).chosen if study.search else {} for arm in chosen}
    for seed in study.seeds:
        names = {arm: selected[arm].get(str(seed), arm) for arm in chosen}
        if any((name, seed) not in runs for name in names.values()):
            continue  # no draw of a search was selected yet
        trials = {(arm, seed): runs[name, seed] for arm, name in names.items()}
        paths = {arm: store.trial_folder(trials[arm, seed]) / "checkpoint.pt" for arm in chosen}
        if all(path.is_file() and store.is_done(trials[arm, seed]) for arm, path in paths.items()):
            break
    else:
        return None
    for arm in paths:
        check_trusted(trials[arm, seed].model, f"study {store.folder}", store.trusted_code)
    try:
        loaded = {arm: load_model(path, data_root, trust_code=store.trusted_code) for arm, path in paths.items()}
    except InputError:
        return None
    models = {arm: model for arm, (model, _, _) in loaded.items()}
    _, trial, bundle = loaded[baseline]
    test, window, stride = bundle.test, trial.window, trial.window_stride
    count = min(SCENES, len(test))
    places = [(2 * place + 1) * len(test) // (2 * count) for place in range(count)]
    pictured = [picture_scene(models, test, place, bundle, window=window, stride=stride) for place in places]
    return pictured, bundle.class_names, bundle.palette

"""A study: a grid of settings (data × model × method) × arms × seeds, read from YAML or flags, and checked.

name: digits
data: digits                  # or a list
model: [cnn, mlp]             # or a list
dummies: [0, 1, 2]            # and, or instead, arms: [{name: smoothing, train.label_smoothing: 0.1}]
seeds: 10                     # 0 … 9, or a list
train: {epochs: 20, lr: 0.05}
"""

from itertools import product
from typing import Any

from pydantic import ValidationError, model_validator

from durm._user_code import is_code
from durm.methods import Method
from durm.study.arm import AXES, BY_ARM, Arm
from durm.study.base import Key
from durm.study.fields import ACCURACY, StudyFields
from durm.study.problems import describe_problem
from durm.study.search import draw_name, short
from durm.training.trial import Conditions, Trial

DERIVED = "durm-val"
"""The derived arm: of all arms that are plain DuRM, for each seed the one with the best validation accuracy."""


class Study(StudyFields):
    """A validated study. `trials()` lists what it stands for."""

    @model_validator(mode="after")
    def _arms_can_be_trained(self) -> "Study":
        for axis in AXES:
            names = [arm.name for arm in self.arms if arm.overrides_axis(axis)]
            if names and len(getattr(self, axis)) > 1:
                raise ValueError(
                    f"arm {names[0]!r} overrides {axis}, of which the study has several values; expected one"
                )
        for _, _, method in self.settings:
            labels = [arm.label(method) for arm in self.arms]
            own = {DERIVED, *(self.null_name(arm, method) for arm in self.arms if self.null)}
            own |= {
                draw_name(label, number) for label in labels for number in (self.search.numbers if self.search else ())
            }
            if clash := {*labels} & own:
                raise ValueError(f"arm {min(clash)!r}: durm gives that name to an arm of its own; choose another")
            if len({*labels}) < len(labels):
                twice = next(label for label in labels if labels.count(label) > 1)
                raise ValueError(
                    f"two arms would be called {twice!r} under method {method.name!r}; choose another name"
                )
        for arm in self.arms:
            try:
                self._trial(*self.settings[0], arm)
            except ValueError as error:
                raise ValueError(f"arm {arm.name!r}: {_reason(error)}") from None
        return self

    @model_validator(mode="after")
    def _search_is_fair(self) -> "Study":
        """Every path is some arm's and none overrides it; no arm has more trials to select from than another."""
        if self.search is None:
            return self
        nulls = [arm.null() for arm in self.arms if self.null]
        for path in self.search.space:
            for arm in (*self.arms, *nulls):
                if arm.sets(path):
                    raise ValueError(f"search {short(path)}: arm {arm.name!r} overrides it; leave one of them out")
            draws = (self.drawn(arm, method, 1) for arm in self.arms for method in self.method)
            if not any(path in arm.overrides for arm in draws):
                part = "averaging" if path.startswith("average.") else "method"
                raise ValueError(f"search {path}: the {part} of no arm has that setting")
        for method in self.method:
            trials = {arm.name: self._different_draws(arm, method) for arm in self.arms}
            few, many = min(trials, key=trials.__getitem__), max(trials, key=trials.__getitem__)
            if trials[few] < trials[many]:
                raise ValueError(
                    f"search: arm {many!r} would be the best of {trials[many]} trials, arm {few!r} of {trials[few]}, "
                    "and selection alone gains; search a setting that all arms have as well, such as lr"
                )
        return self

    def _different_draws(self, arm: Arm, method: Method) -> int:
        """How many trials the draws are."""
        assert self.search is not None
        ids = set()
        for number in self.search.numbers:
            try:
                ids.add(self._trial(self.data[0], self.model[0], method, self.drawn(arm, method, number)).id)
            except ValueError as error:
                raise ValueError(f"search: draw {number} of arm {arm.name!r}: {_reason(error)}") from None
        return len(ids)

    def drawn(self, arm: Arm, method: Method, number: int) -> Arm:
        """The arm under that method, with the values of a draw."""
        return arm if self.search is None else arm.drawn(self.search.draw(number), method, self.versions)

    def cells(self) -> list[tuple[Key, Trial]]:
        """Every trial, with its place in the study."""
        first = []
        for place, (data, model, method) in zip(self.setting_names, self.settings, strict=True):
            named = [(arm.label(method), arm) for arm in self.arms]
            named += [(self.null_name(arm, method), arm.null()) for arm in self.arms if self.null]
            if self.search is not None:
                numbers = self.search.numbers
                named = [(draw_name(name, k), self.drawn(arm, method, k)) for k in numbers for name, arm in named]
            first += [((*place, name), self._trial(data, model, method, arm, name)) for name, arm in named]
        return [
            ((*place, seed), trial.model_copy(update={"seed": seed})) for seed in self.seeds for place, trial in first
        ]

    def pairs(self) -> list[tuple[Trial, Trial]]:
        """Every trial of another arm with the baseline's of the same setting, seed and draw."""
        trials, found = dict(self.cells()), []
        for seed, place in product(self.seeds, self.setting_names):
            arms = [*self.arms_of(place)]
            for names in [[draw_name(arm, k) for arm in arms] for k in self.search.numbers] if self.search else [arms]:
                baseline, *others = [(*place, name, seed) for name in names]
                found += [(trials[key], trials[baseline]) for key in others]
        return found

    @property
    def code(self) -> list[str]:
        return [name for name in self.every_model if is_code(name)]

    @property
    def every_model(self) -> list[str]:
        """The names of all models, those of arms included."""
        return list(dict.fromkeys(arm.overrides.get("model", model) for model in self.model for arm in self.arms))

    @property
    def settings(self) -> list[tuple[str, str, Method]]:
        """Every (data, model, method)."""
        return list(product(self.data, self.model, self.method))

    @property
    def setting_names(self) -> list[tuple[str, str, str]]:
        """What they are called; an axis that an arm overrides has no name."""

        def shown(axis: str, name: str) -> str:
            return BY_ARM if any(arm.overrides_axis(axis) for arm in self.arms) else name

        return [
            (shown("data", data), shown("model", model), shown("method", self.label(method)))
            for data, model, method in self.settings
        ]

    def method_called(self, label: str) -> Method:
        """The method of that label; where arms override it, that of the others."""
        return next((one for one in self.method if self.label(one) == label), self.method[0])

    def arms_of(self, setting: tuple[str, str, str]) -> dict[str, Arm]:
        """The arms of a setting, by what they are called there; of a mean over domains too."""
        method = self.method_called(setting[2])
        return {arm.label(method): arm for arm in self.arms}

    def null_arms_of(self, setting: tuple[str, str, str]) -> dict[str, str]:
        """The arms of the null control, and the arm that each was made from."""
        method = self.method_called(setting[2])
        return {self.null_name(arm, method): arm.label(method) for arm in self.arms} if self.null else {}

    @staticmethod
    def null_name(arm: Arm, method: Method) -> str:
        return f"{arm.label(method)} null"

    def label(self, method: Method) -> str:
        """What a method is called among those of the study: by its name, and by its settings if two have one name."""
        if sum(one.name == method.name for one in self.method) == 1:
            return method.name
        changed = {**method.objective.changed(), **(method.average.changed() if method.average else {})}
        settings = ", ".join(f"{key}={value}" for key, value in changed.items() if key not in ("name", "version"))
        return f"{method.name}: {settings}" if settings else method.name

    @property
    def validation_metric(self) -> str:
        """By which epochs and C_d are chosen. Attacks are on the test set alone, so there it is the clean accuracy."""
        return ACCURACY if self.metric.startswith("robust_") else self.metric

    def _trial(self, data: str, model: str, method: Method, arm: Arm, name: str = "") -> Trial:
        shared = {field: getattr(self, field) for field in Conditions.model_fields}
        own = arm.apply(data, model, method, self.train, self.versions)
        return Trial.model_validate({**shared, **own, "arm": name or arm.name, "seed": self.seeds[0]})

    def written(self) -> dict[str, Any]:
        """The whole spec, with every default in it, as it is written to study.yaml."""
        values = self.model_dump(mode="json", exclude=_VERSION)
        values |= {"arms": [arm.written() for arm in self.arms], "method": [one.written() for one in self.method]}
        values["search"] = None if self.search is None else self.search.written()
        return {key: values[key] for key in sorted(values, key=lambda key: key in Conditions.model_fields)}


def _reason(error: ValueError) -> Any:
    return describe_problem(error) if isinstance(error, ValidationError) else error


_VERSION: Any = {"version": True, "train": {"version"}, "attacks": {"__all__": {"version"}}}
"""Versions of components stand together, in `versions`."""

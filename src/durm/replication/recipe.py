"""The paper's experiments as recipes: YAML files next to this one, each with rows and three scales.

title: what it is
tables: [8, 1]              # where the paper's numbers stand, the fullest table first
figures: [4]                # those that the pages of its rows draw
choices: [what the paper leaves open, and what we take]
study: {dummies: [0, 1, 2, 3], train: {…}}        # of all rows, at all scales
scales:
  paper: {…}                # exactly the paper's setting
  cpu: {…}                  # real data, hours on two cores
  smoke: {…}                # two steps, on files you give or that the tests write; what is not said is taken from SMOKE
rows:
  - {id: cifar10-resnet18, data: cifar10, model: resnet18, inferred: [pretrained], cpu: {…}}

A row is a study: what it says goes before what the scale says, and that before what the recipe says.
"""

from collections.abc import Mapping
from fnmatch import fnmatch
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import yaml
from pydantic import Field

from durm._config import Strict
from durm.errors import InputError, unknown
from durm.study.base import Name
from durm.study.check import expanded
from durm.study.config import Study
from durm.study.reading import make_study

Scale = Literal["paper", "cpu", "smoke"]
SCALES: tuple[Scale, ...] = ("paper", "cpu", "smoke")
SMOKE: dict[str, Any] = {"dummies": [0, 2], "seeds": 1, "train": {"iterations": 2, "batch_size": 4}}


class Row(Strict):
    """One row of a table: a setting, and what is special about it at one scale or at all.

    `inferred` names what the paper does not say and its numbers suggest; `reported` says which of its numbers
    belong to this row, where data, model and method alone do not.
    """

    id: Name
    data: str
    model: str
    method: str = "erm"
    inferred: tuple[str, ...] = ()
    reported: dict[str, Any] = Field(default_factory=dict)
    study: dict[str, Any] = Field(default_factory=dict)
    paper: dict[str, Any] = Field(default_factory=dict)
    cpu: dict[str, Any] = Field(default_factory=dict)
    smoke: dict[str, Any] = Field(default_factory=dict)


class Recipe(Strict):
    """One experiment of the paper."""

    id: str
    title: str
    tables: tuple[int, ...] = ()
    figures: tuple[int, ...] = ()
    choices: tuple[str, ...] = ()
    study: dict[str, Any] = Field(default_factory=dict)
    scales: dict[Scale, dict[str, Any]]
    rows: tuple[Row, ...]

    def study_of(self, row: Row, scale: Scale) -> Study:
        """The row as a study at that scale."""
        values: dict[str, Any] = {"data": row.data, "model": row.model, "method": row.method}
        layers = [self.study, SMOKE if scale == "smoke" else {}, self.scales.get(scale, {}), row.study]
        for layer in [*layers, getattr(row, scale)]:
            values = _over(values, layer)
        study = make_study({**values, "name": f"{self.id}-{row.id}-{scale}"}, f"recipe {self.id}, row {row.id}")
        return expanded(study)

    def chosen(self, pattern: str | None) -> list[Row]:
        """The rows that the pattern names: ids with commas, * and ? allowed; all of them without a pattern."""
        if pattern is None:
            return list(self.rows)
        rows = []
        for part in (part.strip() for part in pattern.split(",")):
            found = [row for row in self.rows if fnmatch(row.id, part)]
            if not found:
                raise InputError(f"`rows`: {unknown('row', part, [row.id for row in self.rows])}")
            rows += [row for row in found if row not in rows]
        return rows


@cache
def recipe_ids() -> tuple[str, ...]:
    found = files("durm.replication").joinpath("recipes").iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in found if file.name.endswith(".yaml")))


@cache
def load_recipe(name: str) -> Recipe:
    """The recipe of that id."""
    if name not in recipe_ids():
        raise unknown("recipe", name, recipe_ids())
    text = files("durm.replication").joinpath("recipes").joinpath(f"{name}.yaml").read_text()
    return Recipe.model_validate({"id": name, **yaml.safe_load(text)})


def _over(values: Mapping[str, Any], layer: Mapping[str, Any]) -> dict[str, Any]:
    """The values with those of the layer over them. Arms and dummies replace each other, and so do the two lengths."""
    replaced = {"arms": "dummies", "dummies": "arms", "epochs": "iterations", "iterations": "epochs"}
    merged = {key: value for key, value in values.items() if not any(replaced.get(new) == key for new in layer)}
    for key, value in layer.items():
        merged[key] = _over(merged.get(key, {}), value) if isinstance(value, dict) else value
    return merged

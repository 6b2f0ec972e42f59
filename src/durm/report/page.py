"""The page of a study: one file that works offline; beside it the figures and a Markdown version for pull requests."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import yaml
from markupsafe import Markup

from durm._files import make_folder, write_whole
from durm._words import counted
from durm.report import figures, words
from durm.report.probes import probe_figures
from durm.report.tables import (
    beside_table,
    class_iou_table,
    domains_tables,
    groups_table,
    looks_table,
    null_table,
    overview_table,
    probes_table,
    robustness_table,
    seeds_table,
    selections_table,
    statistics_table,
    transfer_table,
    verdict_table,
)
from durm.study.spec import Study
from durm.study.store import Store
from durm.study.summary import Results

OPEN_SETTINGS = 4
"""More settings than these are folded up."""
CLASSES_SHOWN = 30


def write_report(store: Store, results: Results, summary: Mapping[str, Any], data_root: Path | None = None) -> Path:
    """Writes report.html, report.md and figures/ into the study's folder; gives the path of the page.

    Scenes that were segmented are pictured if their data are there, in `data_root` if they are published ones.
    """
    sections = _sections(summary)
    with figures.drawing():
        found = [_draw(store.study, setting, results, summary) for setting in sections]
    make_folder(store.folder / "figures")
    for index, (setting, pictures) in enumerate(zip(sections, found, strict=True)):
        prefix = f"{index + 1:03d}-" if len(found) > 1 else ""
        if setting["classes"]:
            pictures |= _scenes(store, setting, data_root, store.folder / "figures" / f"{prefix}scenes.svg")
        for name, picture in pictures.items():
            path = store.folder / "figures" / f"{prefix}{name}"
            write_whole(path.with_name(f"{path.name}.svg"), picture.svg.encode())
            if picture.png is not None:
                write_whole(path.with_name(f"{path.name}.png"), picture.png)
    write_whole(store.folder / "report.md", markdown(summary).encode())
    page = store.folder / "report.html"
    write_whole(page, _html(store.study, results, summary, found).encode())
    return page


def markdown(summary: Mapping[str, Any]) -> str:
    """The verdict and its tables, for pasting into a pull request."""
    return _environment().get_template("report.md.jinja").render(_content(summary), escape=_escape_markdown)


def _html(study: Study, results: Results, summary: Mapping[str, Any], drawn: list[dict[str, "_Picture"]]) -> str:
    settings = []
    for setting, pictures in zip(_sections(summary), drawn, strict=True):
        where = tuple(setting["setting"].values())
        runs = [result for key, result in results.items() if key[:3] == where]
        settings.append(
            {
                "summary": setting,
                "figures": {name: picture.on_page(name) for name, picture in pictures.items()},
                "seeds": counted(max((arm["n"] for arm in setting["arms"]), default=0), "seed"),
                "samples": runs[0]["samples"] if runs else {},
                "class_names": runs[0]["class_names"][:CLASSES_SHOWN] if runs else [],
                "num_classes": len(runs[0]["class_names"]) if runs else 0,
                "notes": runs[0]["provenance"]["data_notes"] if runs else [],
            }
        )
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            **_content(summary),
            settings=settings,
            study_yaml=yaml.safe_dump(study.written(), sort_keys=False, allow_unicode=True),
            open_settings=OPEN_SETTINGS,
            colours={colour: index for index, colour in enumerate(figures.COLOURS)},
            caption=words.caption,
        )
    )


def _sections(summary: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What has a part of the page to itself: of data with domains the means over these, then every setting."""
    return [*summary["averages"], *summary["settings"]]


def _scenes(store: Store, setting: Mapping[str, Any], data_root: Path | None, before: Path) -> "dict[str, _Picture]":
    """What was segmented; without data or models the picture of before, if there is one."""
    from durm.report.study_scenes import picture_study

    drawn = picture_study(store, setting, data_root)
    if drawn is not None:
        return {"scenes": _Picture(*drawn)}
    return {"scenes": _Picture(before.read_text(), ours=False)} if before.is_file() else {}


@dataclass(frozen=True)
class _Picture:
    """A figure; one that is not `ours` was found in a file, and anything may stand in there."""

    svg: str
    png: bytes | None = None
    ours: bool = True

    def on_page(self, name: str) -> Markup:
        if self.ours:
            return Markup(figures.for_page(self.svg, of_arms=name != "scenes"))
        return Markup('<img alt="" src="data:image/svg+xml;base64,{}">').format(b64encode(self.svg.encode()).decode())


def _draw(
    study: Study, setting: Mapping[str, Any], results: Results, summary: Mapping[str, Any]
) -> dict[str, _Picture]:
    key = tuple(setting["setting"].values())
    runs = {
        arm.name: [result for seed in study.seeds if (result := results.get((*key, arm.name, seed))) is not None]
        for arm in study.arms
    }
    name, metric = str(key), summary["metric"]
    if not any(arm["n"] for arm in setting["arms"]):
        return {}
    pictures = {}
    if setting["comparisons"]:
        pictures["intervals"] = figures.intervals(setting, metric, summary["rope"])
    pictures["pairs"] = figures.pairs(setting, metric)
    if any(arm["curve"] for entry in setting["robustness"] for arm in entry["arms"]):
        pictures["radius"] = figures.radius(setting)
    if any(runs.values()):
        validated = study.validation_metric
        pictures |= {
            f"val_{validated}": figures.curves(
                runs, f"val_{validated}", f"validation {words.measured(validated)}, %", name
            ),
            "val_nll": figures.curves(runs, "val_nll", "validation loss over the real classes", name),
            "calibration": figures.calibration(runs, name),
        }
    drawn = {figure: _Picture(svg) for figure, svg in pictures.items()}
    watched = probe_figures(runs, study.validation_metric, name) if any(runs.values()) else {}
    return drawn | {figure: _Picture(svg, png) for figure, (svg, png) in watched.items()}


def _content(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What the page and the Markdown have in common."""
    return {
        "study": summary,
        "headline": words.headline(summary),
        "meaning": words.meaning(summary),
        "sentences": lambda setting: words.sentences(setting, summary),
        "place": words.place,
        "measured": words.measured,
        "provenance": {key: _told(value) for key, value in summary["provenance"].items() if value is not None},
        "overview": overview_table(summary) if len(summary["settings"]) > 1 else None,
        "domains": domains_tables(summary),
        "selections": selections_table(summary),
        "selection": words.selection(summary),
        "tables": {
            "verdict": lambda setting: verdict_table(setting, summary),
            "statistics": lambda setting: statistics_table(setting, summary),
            "null": lambda setting: null_table(setting, summary),
            "robustness": lambda setting: robustness_table(setting, summary),
            "transfer": transfer_table,
            "probes": probes_table,
            "groups": groups_table,
            "classes": lambda setting: class_iou_table(setting["classes"], summary["rope"], _looks(setting, summary)),
            "beside": beside_table,
            "seeds": seeds_table,
            "looks": lambda setting: looks_table(setting, summary),
        },
    }


def _looks(setting: Mapping[str, Any], summary: Mapping[str, Any]) -> list[list[str]]:
    """The seeds of each look at a study that goes on until it is decided."""
    seeds = list(next(iter(setting["classes"].values())))
    return [seeds[:count] for count in summary["looked_at"]] if summary["max_seeds"] else []


def _told(value: object) -> str:
    """One value, or several that differ from trial to trial."""
    return " and ".join("none" if one is None else str(one) for one in (value if isinstance(value, list) else [value]))


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("durm.report", "templates"),
        autoescape=lambda name: name is not None and ".html" in name,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        lstrip_blocks=True,
    )


def _escape_markdown(text: object) -> str:
    """Text in a cell of a table: no pipe, no tag, no emphasis of its own."""
    shown = str(text)
    for character in "\\`*_[]<>|#":
        shown = shown.replace(character, f"\\{character}")
    return shown.replace("\n", " ")

"""The report of a study: one HTML file that works offline, the figures, and the verdict as Markdown and as LaTeX."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

import durm
from durm._files import write_files
from durm._text import as_csv
from durm.metrics import Metric, describe_metric
from durm.report import figures, tables, text
from durm.report.captions import alternative_text, caption
from durm.report.curves import curves, has_curves
from durm.report.estimation import estimation, forest
from durm.report.figures import Drawing
from durm.report.latex import latex
from durm.report.probes import probe_figures
from durm.report.settings import arms_of, as_yaml, changed_settings, last_day
from durm.study.records import Setting, Summary
from durm.study.selection import runs_that_count
from durm.study.store import Store
from durm.study.summary import Results
from durm.training.result import Result

OPEN_SETTINGS = 4
"""More settings than these are folded up, and have fewer files and smaller figures."""
CLASSES_SHOWN = 30

Runs = Mapping[str, Mapping[str, Result]]
"""arm → seed → result"""


def write_report(
    folder: Path,
    summary: Summary,
    *,
    store: Store | None = None,
    results: Results | None = None,
    data_root: Path | None = None,
    all_figures: bool = False,
) -> Path:
    """Writes report.html, report.md, report.tex and figures/ into a folder; gives the path of the page.

    What is not known is left out: without a store the settings, without results the curves and the calibration.

    Args:
        folder: that of the study, or any other; it is made if it is not there.
        summary: what the page is about. Without a store, it is written too, as summary.json.
        store: of a study that durm ran. Scenes that were segmented are pictured if their data are there.
        results: of its trials.
        data_root: where published data are.
        all_figures: every figure also as PDF and PNG, which takes a third of a second each; otherwise the forest plot
            and the first estimation plots.
    """
    results = runs_that_count(summary, results or {})
    found, overview = _draw_all(folder / "figures", summary, store, results, data_root, all_figures)
    files = {"forest": overview} if overview else {}
    for index, pictures in enumerate(found):
        prefix = f"{index + 1:03d}-" if len(found) > 1 else ""
        files |= {f"{prefix}{name}": picture for name, picture in pictures.items()}
    write_files(
        folder / "figures", {f"{n}.{kind}": data for n, one in files.items() for kind, data in one.files.items()}
    )
    written = {"report.md": markdown(summary), "report.tex": latex(summary)}
    written["report.html"] = _html(summary, store, results, found, overview)
    if store is None:
        written["summary.json"] = json.dumps(summary.as_json(), indent=1, allow_nan=False)
    write_files(folder, {name: content.encode() for name, content in written.items()})
    return folder / "report.html"


def markdown(summary: Summary) -> str:
    """The verdict and its tables, for pasting into a pull request."""
    return _environment().get_template("report.md.jinja").render(_content(summary), escape=_escape_markdown)


def comma_separated(summary: Summary) -> str:
    """Every value as CSV, one row for each run, as `durm verdict` reads it."""
    rows = [
        {"setting": " ".join(setting.names), "arm": arm.arm, "seed": seed, "value": value}
        for setting in summary.settings
        for arm in setting.arms
        for seed, value in arm.values.items()
    ]
    return as_csv(rows, ["setting", "arm", "seed", "value"])


@dataclass(frozen=True)
class _Picture:
    """A figure, and its files by extension; one that is not `ours` was found on disk, and anything may be in it."""

    name: str
    caption: str
    alternative: str
    files: dict[str, bytes] = field(default_factory=dict)
    ours: bool = True

    @property
    def on_page(self) -> Markup:
        svg = self.files["svg"]
        if self.ours:
            return Markup(figures.for_page(svg.decode(), self.alternative, of_arms=self.name != "scenes"))
        image = '<img alt="{}" src="data:image/svg+xml;base64,{}">'
        return Markup(image).format(self.alternative, b64encode(svg).decode())


def _draw_all(
    folder: Path, summary: Summary, store: Store | None, results: Results, data_root: Path | None, all_figures: bool
) -> tuple[list[dict[str, _Picture]], _Picture | None]:
    """The figures of each section by their names, and the one of all settings."""
    found, overview = [], None
    with figures.drawing():
        for index, (setting, runs) in enumerate(zip(summary.sections, _runs_by_setting(summary, results), strict=True)):
            pictures = {}
            for name, metric, drawn in _drawings(setting, runs, summary):
                first = name == "estimation" and index < OPEN_SETTINGS
                pictures[name] = _picture(name, drawn, setting, summary, metric, printed=first or all_figures)
            if setting.classes and store is not None:
                prefix = f"{index + 1:03d}-" if len(summary.sections) > 1 else ""
                pictures |= _scenes(store, setting, summary, data_root, folder / f"{prefix}scenes.svg")
            found.append(pictures)
        if len(summary.settings) > 1 and any(c.difference is not None for s in summary.settings for c in s.comparisons):
            overview = _picture("forest", forest(summary), summary.settings[0], summary, printed=True)
    return found, overview


def _picture(
    name: str, drawn: Drawing, setting: Setting, summary: Summary, metric: Metric | None = None, *, printed: bool
) -> _Picture:
    files = {"svg": drawn.svg().encode(), **(drawn.files() if printed else {})}
    return _Picture(name, caption(name, setting, metric), alternative_text(name, setting, summary, metric), files)


def _drawings(setting: Setting, runs: Runs, summary: Summary) -> Iterator[tuple[str, Metric | None, Drawing]]:
    """What can be drawn of a setting, one at a time; curves with their metric."""
    if any(arm.n for arm in setting.arms):
        yield "estimation", None, estimation(setting, summary)
    if any(arm.curve for entry in setting.robustness for arm in entry.arms):
        yield "radius", None, figures.radius(setting)
    name = str(setting.key)
    for metric in dict.fromkeys((_validated(summary), "nll")):
        known = summary.measured if metric == summary.metric else describe_metric(metric)
        if has_curves(runs, f"val_{metric}"):
            few = len(summary.sections) <= OPEN_SETTINGS
            drawn = curves(runs, f"val_{metric}", known, known.rope or summary.rope, name, level=few)
            yield f"val_{metric}", known, drawn
    calibrated = {arm: [run for run in found.values() if run.reliability.count] for arm, found in runs.items()}
    if any(calibrated.values()):
        yield "calibration", None, figures.calibration(calibrated, name)
    probed = {arm: list(found.values()) for arm, found in runs.items()}
    for title, drawn in probe_figures(probed, _validated(summary), name):
        yield title, None, drawn


def _validated(summary: Summary) -> str:
    """The metric of validations: attacks are on the test set alone, so there it is the clean accuracy."""
    return "accuracy" if summary.metric.startswith("robust_") else summary.metric


def _runs_by_setting(summary: Summary, results: Results) -> list[Runs]:
    """The results of each section by arm and seed, the baseline first."""
    found: dict[tuple[str, str, str], dict[str, dict[str, Result]]] = {
        setting.key: {arm.arm: {} for arm in setting.arms} for setting in summary.sections
    }
    for (data, model, method, arm, seed), result in results.items():
        found.get((data, model, method), {}).get(arm, {})[str(seed)] = result
    return [found[setting.key] for setting in summary.sections]


def _scenes(
    store: Store, setting: Setting, summary: Summary, data_root: Path | None, before: Path
) -> dict[str, _Picture]:
    """What was segmented; without data or models the picture of before, if there is one."""
    from durm.report.scenes import draw_scenes
    from durm.study.scenes import collect_scenes

    texts = "scenes", caption("scenes", setting), alternative_text("scenes", setting, summary)
    found = collect_scenes(store, setting, data_root)
    if found is not None:
        svg, png = draw_scenes(*found, f"scenes{setting.key}")
        return {"scenes": _Picture(*texts, {"svg": svg.encode(), "png": png})}
    return {"scenes": _Picture(*texts, {"svg": before.read_bytes()}, ours=False)} if before.is_file() else {}


def _html(
    summary: Summary,
    store: Store | None,
    results: Results,
    drawn: list[dict[str, _Picture]],
    overview: _Picture | None,
) -> str:
    study = store.study if store is not None else None
    first = overview or (drawn[0].get("estimation") if len(drawn) == 1 else None)
    sections = []
    for setting, pictures, runs in zip(summary.sections, drawn, _runs_by_setting(summary, results), strict=True):
        run = next((run for of_arm in runs.values() for run in of_arm.values() if run.class_names), None)
        sections.append(
            {
                "summary": setting,
                "pictures": [one for one in pictures.values() if one is not first],
                "run": run,
                "class_names": run.class_names[:CLASSES_SHOWN] if run else [],
            }
        )
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            **_content(summary),
            settings=sections,
            first=first,
            several_arms=any(len(setting.comparisons) > 1 for setting in summary.settings),
            paired=all(c.paired for setting in summary.settings for c in setting.comparisons),
            trained=any(run.class_names for run in results.values()),
            arms=arms_of(summary, study),
            changed_yaml=as_yaml(changed_settings(study)) if study is not None else "",
            study_yaml=as_yaml(study.written()) if study is not None else "",
            day=last_day(store),
            version=durm.__version__,
            exports={"Markdown": markdown(summary), "LaTeX": latex(summary), "CSV": comma_separated(summary)},
            open_settings=OPEN_SETTINGS,
            colours={colour: index for index, colour in enumerate(figures.COLOURS)},
        )
    )


def _content(summary: Summary) -> dict[str, Any]:
    """What the page and the Markdown have in common."""
    of_setting = (
        *(tables.transfer_table, tables.probes_table, tables.groups_table, tables.other_metrics_table),
        *(tables.secondary_table, tables.costs_table, tables.search_table),
    )
    of_both = (
        *(tables.verdict_table, tables.statistics_table, tables.null_table, tables.robustness_table),
        *(tables.seeds_table, tables.analyses_table, classes_table),
    )
    headline, shown = text.headline(summary), summary.averages or summary.settings
    across = [text.across_sentence(one, summary) for one in summary.across]
    return {
        "study": summary,
        "headline": headline,
        "sentences": lambda setting: text.sentences(setting, summary),
        "first_sentences": [
            rest
            for one in (text.sentences(shown[0], summary, plans=False) if len(shown) == 1 else across)
            if (rest := one.removeprefix(headline).strip())
        ],
        "plans": {
            c.arm: plan for c in (shown[0].comparisons if len(shown) == 1 else ()) if (plan := text.plan(c, summary))
        },
        "place": text.place,
        "measured": summary.measured,
        "provenance": {key: _joined(value) for key, value in summary.provenance if value is not None},
        "overview": tables.overview_table(summary) if len(summary.settings) > 1 else None,
        "across": tables.across_table(summary),
        "across_sentences": across,
        "domains": tables.domains_tables(summary),
        "selections": tables.selections_table(summary),
        "selection": text.selection(summary),
        "search": text.search(summary),
        "tables": {
            **{table.__name__.removesuffix("_table"): table for table in of_setting},
            **{table.__name__.removesuffix("_table"): partial(table, summary=summary) for table in of_both},
        },
    }


def classes_table(setting: Setting, summary: Summary) -> tables.Table:
    """The IoU of each class."""
    return tables.class_iou_table(setting.classes, summary.rope)


def _joined(value: object) -> str:
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
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", str(text)).replace("\n", " ")

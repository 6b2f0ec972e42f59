"""Writes what follows from results/: docs/replication.md with its figure, the README's figure and table of tasks, and
the rows of results/README.md. `make claims` runs it.
"""

import re
from pathlib import Path
from typing import Any

from forest import forest_svg, readme_part, tasks_svg

from durm.replication.claims import ledger
from durm.replication.ledger import page
from durm.replication.study_index import study_folders
from durm.report.settings import changed_settings
from durm.report.text import bounds, decimals, signed
from durm.study.reading import read_study
from durm.study.store import read_summary

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


def generated() -> dict[Path, str]:
    """Every file that is generated, or has a part that is, with its content."""
    entries = ledger(RESULTS)
    readme, rows = ROOT / "README.md", RESULTS / "README.md"
    return {
        ROOT / "docs" / "replication.md": page(entries),
        ROOT / "docs" / "images" / "claims.svg": forest_svg(entries),
        ROOT / "docs" / "images" / "tasks.svg": tasks_svg(entries),
        readme: with_part(readme.read_text(), "claims", readme_part(entries)),
        rows: with_part(rows.read_text(), "studies", study_rows(RESULTS)),
    }


def with_part(text: str, name: str, part: str) -> str:
    """The text with what stands between `<!-- NAME … -->` and `<!-- end of NAME -->` replaced."""
    found = re.search(rf"(<!-- {name}:[^>]*-->\n).*?(<!-- end of {name} -->)", text, flags=re.DOTALL)
    assert found is not None, f"there is no part called {name}"
    return f"{text[: found.end(1)]}{part.rstrip()}\n{text[found.start(2) :]}"


def study_rows(results: Path) -> str:
    """A table of the studies in results/studies: what, n, hardware, every comparison with interval and word."""
    lines = ["| study | what | n | hardware | outcome |", "|---|---|---|---|---|"]
    for folder in study_folders(results):
        if folder.parent.name == "studies":
            lines.append(f"| {' | '.join(_row(folder))} |")
    return "\n".join(lines)


def _row(folder: Path) -> list[str]:
    summary = read_summary(folder / "summary.json")
    settings = summary.averages or summary.settings
    outcomes = []
    for setting in settings:
        where = f"{', '.join(name for name in setting.names if name != 'erm')}: " if len(settings) > 1 else ""
        found = []
        for one in setting.comparisons:
            digits = decimals(one.ci_family, summary.rope)
            number = "–" if one.difference is None else signed(one.difference, digits)
            found.append(f"{one.arm} {number} ({bounds(one.ci_family, digits)}) {one.verdict}")
        mean = setting.arms[0].mean
        outcomes.append(f"{where}{'; '.join(found)}, at {'–' if mean is None else f'{mean:.2f}'} %")
    pairs = sorted({one.n for setting in settings for one in setting.comparisons})
    n = f"{' to '.join(str(end) for end in dict.fromkeys((pairs[0], pairs[-1])))} pairs" if pairs else "–"
    device, threads = summary.provenance.device_name, summary.provenance.threads
    lost = f"; {summary.lost} runs lost" if summary.lost else ""
    return [f"`{folder.name}`", _what(folder), n, f"{device}, {threads} thread", "; ".join(outcomes) + lost]


def _what(folder: Path) -> str:
    study = read_study(folder / "study.yaml", of_folder=True)
    changed = changed_settings(study)
    data, model = (_listed(changed[key]) for key in ("data", "model"))
    words = [f"{data}, {model}", f"arms {', '.join(arm.name for arm in study.arms)}"]
    words += [f"methods {_listed([_method(one) for one in changed['method']])}"] if "method" in changed else []
    train = {"epochs": study.train.epochs, **changed.get("train", {})}
    words += [", ".join(f"{key} {value}" for key, value in train.items() if value is not None)]
    return "; ".join(words)


def _method(one: Any) -> str:
    if isinstance(one, str):
        return one
    average = one.get("average")
    return str(average["name"] if isinstance(average, dict) else average or one["name"])


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    for path, content in generated().items():
        path.write_text(content)

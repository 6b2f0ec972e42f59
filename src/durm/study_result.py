"""What `durm.compare` and `durm.verdict` return: the verdict as text, table, figure and report."""

import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from durm._text import last_line, pluralize, some
from durm.study.base import Key
from durm.study.records import Setting, Summary
from durm.study.store import Store
from durm.training.result import Result

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class StudyResult:
    """The result of a study. A notebook shows its verdict, table and figure; `print` prints the table.

    Attributes:
        summary: all numbers of the study, as typed records (`durm.study.records.Summary`).
        store: the folder of the study; None after `durm.verdict`.
        results: the result of each finished trial, by setting, arm and seed; with a search, the arm is `erm draw 3`.
        failed: the trials that failed, with the reason. The same call runs them again.

    Examples:
        >>> from durm import verdict
        >>> result = verdict({"base": [93, 92, 94, 93, 92, 93], "trick": [95, 94, 96, 95, 94, 96]})
        >>> result.verdicts
        {'trick': 'better'}
        >>> result.table()[["arm", "n", "difference"]].round(2)
             arm  n  difference
        0   base  6         NaN
        1  trick  6        2.17
    """

    summary: Summary
    store: Store | None = None
    results: Mapping[Key, Result] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdicts(self) -> dict[str, str]:
        """arm → better, worse, equal or undecided; with several settings the key has the setting in parentheses."""
        return {
            self._named(arm.arm, setting): arm.verdict or "undecided"
            for setting in self.summary.settings
            for arm in setting.comparisons
        }

    def table(self) -> "pd.DataFrame":
        """One row for each arm, the baseline first. `low` and `high` are the interval that decides; `p` is Holm's."""
        import pandas as pd

        return pd.DataFrame([row for setting in self.summary.settings for row in _table_rows(setting)])

    def runs(self) -> "pd.DataFrame":
        """One row for each run: its setting, arm, seed and value, and all that was measured of it."""
        import pandas as pd

        rows = [
            {
                **setting.setting,
                **{"arm": arm.arm, "seed": _seed(seed), "value": value},
                **self._measured(setting, arm.chosen.get(seed, arm.arm), seed),
            }
            for setting in self.summary.settings
            for arm in setting.arms
            for seed, value in arm.values.items()
        ]
        return pd.DataFrame(rows)

    def figure(self, setting: int = 0) -> "Figure":
        """The estimation plot: every run is a dot; below are the differences, their intervals and the margin."""
        from durm.report.estimation import estimation_figure

        _show_figures_in_notebooks()
        return estimation_figure(self.summary.settings[setting], self.summary)

    def report(self, out: str | Path | None = None) -> Path:
        """Writes report.html, report.md, report.tex and the figures, and returns the path of report.html.

        They go into the study's folder, or into `out`; after `durm.verdict` the default is `runs/verdict`.
        """
        from durm.report.page import write_report

        folder = Path(out) if out is not None else self.store.folder if self.store else Path("runs") / "verdict"
        return write_report(folder, self.summary, store=self.store, results=self.results)

    def __str__(self) -> str:
        from durm.report.terminal import print_verdict

        text = io.StringIO()
        with redirect_stdout(text):
            print_verdict(self.summary)
        lines = [text.getvalue().rstrip(), *self._notes()]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from markupsafe import escape

        from durm.report.notebook import notebook_html

        return notebook_html(self.summary) + "".join(f"<p>{escape(note)}</p>" for note in self._notes())

    def _notes(self) -> Iterator[str]:
        if self.failed:
            reasons = [f"{name}: {last_line(reason)}" for name, reason in self.failed.items()]
            yield f"{pluralize(len(reasons), 'trial')} failed; the same call runs them again. {some(reasons)}"
        if self.store is not None:
            yield f"{self.summary.done} of {self.summary.trials} trials are done, kept in {self.store.folder}"

    def _named(self, arm: str, setting: Setting) -> str:
        return f"{arm} ({', '.join(setting.names)})" if len(self.summary.settings) > 1 else arm

    def _measured(self, setting: Setting, arm: str, seed: str) -> dict[str, Any]:
        result = self.results.get((*setting.key, arm, int(seed))) if seed.isdigit() else None
        if result is None:
            return {}
        cost = {name: value for name, value in result.cost if value}
        return {**result.metrics, **cost, "trial": result.trial}


def _table_rows(setting: Setting) -> Iterator[dict[str, Any]]:
    compared = {one.arm: one for one in setting.comparisons}
    for arm in setting.arms:
        one = compared.get(arm.arm)
        low, high = (one.ci_family or (None, None)) if one else (None, None)
        yield {
            **setting.setting,
            **{"arm": arm.arm, "n": arm.n, "mean": arm.mean, "std": arm.std},
            "difference": one.difference if one else None,
            **{"low": low, "high": high, "p": one.p_holm if one else None, "verdict": one.verdict if one else None},
        }


def _show_figures_in_notebooks() -> None:
    """Lets a notebook show figures that pyplot does not know; elsewhere nothing happens."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        import_module("IPython.core.pylabtools").select_figure_formats(shell, {"png"})


def _seed(text: str) -> int | str:
    return int(text) if text.isdigit() else text

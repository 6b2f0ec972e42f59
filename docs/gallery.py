"""Writes the reports of the gallery, docs/reports/*.html, from the studies in results/: `make gallery`."""

from pathlib import Path
from tempfile import TemporaryDirectory

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import durm
from durm.report.page import write_report
from durm.study.records import StudyCost, Summary
from durm.study.store import read_summary

ROOT = Path(__file__).parent.parent
REPORTS = ROOT / "docs" / "reports"
STUDIES = {
    "one-arm": "studies/digits-l2",
    "several-arms": "studies/digits-smoothing",
    "several-settings": "studies/digits-longtail",
    "domains": "pacs-small",
    "segmentation": "camvid-deeplab",
    "attacks": "digits-adversarial",
}


def train(seed: int, trees: int = 10) -> float:
    """The function of docs/start.md: a random forest on half of the digits."""
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.5, random_state=seed)
    forest = RandomForestClassifier(trees, random_state=seed).fit(x_train, y_train)
    return float(100 * forest.score(x_test, y_test))


def report(summary: Summary) -> str:
    """The page of a study, from its summary alone."""
    with TemporaryDirectory() as folder:
        return write_report(Path(folder), summary).read_text()


def without_methods(summary: Summary) -> Summary:
    """What a study of several methods says about plain training, which keeps its page short."""
    settings, averages = (
        [one for one in found if one.setting["method"] == "erm"] for found in (summary.settings, summary.averages)
    )
    runs = sum(arm.n for setting in settings for arm in setting.arms)
    parts = {"settings": settings, "averages": averages, "across": [], "trials": runs, "done": runs}
    return summary.model_copy(update={**parts, "cost": StudyCost()})


def function_report() -> str:
    """The page of a study of a function."""
    with TemporaryDirectory() as folder:
        arms = {"10 trees": {}, "50 trees": {"trees": 50}}
        options = {"seeds": 8, "metric": "accuracy", "out": Path(folder) / "trees", "workers": 0, "quiet": True}
        return Path(durm.compare(train, arms=arms, **options).report()).read_text()


def main() -> None:
    REPORTS.mkdir(exist_ok=True)
    for name, study in STUDIES.items():
        summary = read_summary(ROOT / "results" / study / "summary.json")
        (REPORTS / f"{name}.html").write_text(report(without_methods(summary) if name == "domains" else summary))
    (REPORTS / "function.html").write_text(function_report())


if __name__ == "__main__":
    main()

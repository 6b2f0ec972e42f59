"""The estimation plot and the forest plot: every run is there, none behind another, and says what it is."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import matplotlib
import numpy as np
import pytest

from durm.report.estimation import estimation, estimation_figure, forest, paired_differences, swarm
from durm.report.figures import drawing, with_titles
from durm.statistics.verdict import compare
from durm.study.records import ArmSummary, Setting, Summary


def study(arms: int, seeds: int, settings: int = 1, name: str = "durm-{}") -> Summary:
    random = np.random.default_rng(arms * seeds)
    made = []
    for number in range(settings):
        baseline = random.normal(98, 0.2, seeds)
        values = {"erm": baseline} | {
            name.format(k): baseline + random.normal(0.05, 0.2, seeds) for k in range(1, arms)
        }
        by_seed = {
            arm: {str(seed): float(round(value, 1)) for seed, value in enumerate(of)} for arm, of in values.items()
        }
        made.append(
            Setting(
                setting={"data": f"digits-{number}", "model": "cnn", "method": "erm"},
                arms=[
                    ArmSummary(arm=arm, n=seeds, mean=sum(of.values()) / seeds, values=of)
                    for arm, of in by_seed.items()
                ],
                comparisons=compare("erm", by_seed, rope=0.1, step=0.1),
            )
        )
    return Summary(study="study", metric="accuracy", rope=0.1, settings=made)


def titles(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}title")]


@pytest.mark.parametrize(("arms", "seeds"), [(2, 2), (4, 10), (8, 100)])
def test_hovering_over_a_dot_names_its_seed_and_value(arms: int, seeds: int) -> None:
    summary = study(arms, seeds)
    (setting,) = summary.settings
    with drawing():
        found = titles(estimation(setting, summary).svg())
    runs = [f"{arm.arm}, seed {seed}: {value:.2f}" for arm in setting.arms for seed, value in arm.values.items()]
    assert found[: len(runs)] == runs
    assert len(found) == len(runs) + seeds * (arms - 1)
    assert all(text.startswith("seed ") for text in found[len(runs) :])


@pytest.mark.parametrize("seeds", [6, 60])
def test_of_many_arms_every_one_is_a_row(seeds: int) -> None:
    """With 60 seeds the intervals, and so the limits, are narrow: differences of single seeds lie far outside."""
    summary = study(41, seeds)
    with drawing():
        found = estimation(summary.settings[0], summary).svg()
    assert len(titles(found)) == 40 * seeds
    assert "durm-40" in found


@pytest.mark.parametrize(("arms", "seeds", "settings"), [(12, 8, 1), (2, 6, 3), (3, 6, 5)])
def test_rows_show_their_intervals_and_dots_whole(arms: int, seeds: int, settings: int) -> None:
    """Only what reaches three times as far as nearly all the rest may run out of the figure."""
    summary = study(arms, seeds, settings)
    with drawing():
        drawn = estimation(summary.settings[0], summary) if settings == 1 else forest(summary)
    (axes,) = drawn.figure.axes
    low, high = axes.get_xlim()
    every = [end for setting in summary.settings for one in setting.comparisons for end in one.ci_family]
    if settings == 1:
        (setting,) = summary.settings
        every += [d for one in setting.comparisons for d in paired_differences(setting, one).values()]
    assert low < min(every) < max(every) < high


def test_one_very_wide_interval_does_not_make_dots_of_the_others() -> None:
    summary = study(12, 30)
    (setting,) = summary.settings
    wide = [replace(setting.comparisons[0], ci_family=(-50.0, 50.0)), *setting.comparisons[1:]]
    with drawing():
        drawn = estimation(setting.model_copy(update={"comparisons": wide}), summary)
    assert drawn.figure.axes[0].get_xlim()[1] < 5


def test_the_forest_has_a_row_for_each_setting_and_arm() -> None:
    summary = study(3, 6, settings=5)
    with drawing():
        found = forest(summary).svg()
    words = re.findall(r"n = 6  (\w+)", found)
    assert words == [c.verdict for setting in summary.settings for c in setting.comparisons]


def test_one_arm_has_no_differences() -> None:
    summary = study(1, 4)
    with drawing():
        found = estimation(summary.settings[0], summary).svg()
    assert len(titles(found)) == 4
    assert "difference" not in found


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_dots_of_one_value_stand_side_by_side(count: int) -> None:
    places, share = swarm([98.1] * count, 0.05)
    assert len(set(places.tolist())) == count
    assert places.mean() == pytest.approx(0)
    assert np.abs(places).max() <= 0.29 + 1e-9
    assert (share < 1) == (count == 40)


def test_dots_that_are_apart_are_not_moved() -> None:
    assert swarm([1.0, 3.0, 2.0], 0.5)[0].tolist() == [0, 0, 0]
    near, share = swarm([1.0, 3.0, 1.2], 0.5)
    assert near[1] == 0
    assert near[0] == -near[2] != 0
    assert share == 1


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("arms", "seeds"), [(2, 3), (4, 10), (8, 100), (12, 30)])
def test_no_dot_covers_another_of_its_arm(arms: int, seeds: int, wide: bool) -> None:
    """On paper: the middles of two dots are at least their width apart. `wide` intervals leave the dots little room."""
    summary = study(arms, seeds)
    (setting,) = summary.settings
    if wide:
        comparisons = [replace(one, ci_family=(-3.0, 3.0)) for one in setting.comparisons]
        setting = setting.model_copy(update={"comparisons": comparisons})
    figure = estimation_figure(setting, summary)
    figure.draw_without_rendering()
    groups = [
        line for axes in figure.axes for line in axes.lines if (line.get_gid() or "").startswith(("runs", "diff"))
    ]
    assert len(groups) == (2 * arms - 1 if arms <= 8 else arms - 1)
    for line in groups:
        points = line.axes.transData.transform(np.column_stack(line.get_data())) * 72 / figure.dpi
        distances = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1)) + 1e9 * np.eye(len(points))
        assert distances.min() >= 0.97 * line.get_markersize(), line.get_gid()
        assert line.get_markersize() > 0.5


def test_the_figure_is_nobody_else_s() -> None:
    """It is on white, pyplot does not know it, and the style of the reader stays."""
    before = dict(matplotlib.rcParams)
    summary = study(3, 5)
    figure = estimation_figure(summary.settings[0], summary)
    assert figure.get_facecolor() == (1.0, 1.0, 1.0, 1.0)
    assert dict(matplotlib.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_names_are_escaped() -> None:
    svg = '<svg><g id="runs-0"><g><use x="1"/></g></g></svg>'
    assert "<title>&lt;b&gt;</title>" in with_titles(svg, {"runs-0": ["<b>"]})


def test_lines_may_have_titles_too() -> None:
    svg = '<svg><g id="seeds-1"><path d="M 0 0"/><path d="M 1 1"/></g><path d="M 2 2"/></svg>'
    found = with_titles(svg, {"seeds-1": ["one", "two"]})
    assert titles(found.replace("<svg>", '<svg xmlns="http://www.w3.org/2000/svg">')) == ["one", "two"]
    assert found.endswith('<path d="M 2 2"/></svg>')


def test_differences_are_of_pairs() -> None:
    (setting,) = study(2, 5).settings
    ours, theirs = (arm.values for arm in reversed(setting.arms))
    assert paired_differences(setting, setting.comparisons[0]) == {seed: ours[seed] - theirs[seed] for seed in theirs}

"""The tables of a study, as the terminal, the page and the Markdown show them: texts, and values to sort by."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from durm.metrics import describe_metric
from durm.metrics.metric import PERCENT
from durm.metrics.robust import attack_and_surface
from durm.report.text import bounds, decimals, p_value, signed, value_decimals
from durm.statistics.scale import PERCENT_ROPE
from durm.statistics.verdict import Comparison
from durm.study.records import ClassValues, Setting, Summary


@dataclass(frozen=True)
class Cell:
    """`sort` is the number to sort by; None sorts last. Texts sort as texts."""

    text: str
    sort: float | str | None = None


@dataclass(frozen=True)
class Table:
    headings: list[str]
    rows: list[list[Cell]]

    def texts(self) -> list[list[str]]:
        return [[cell.text for cell in row] for row in self.rows]


def verdict_table(setting: Setting, summary: Summary) -> Table:
    """One row for each arm, the baseline first, the derived arm last."""
    comparisons = {c.arm: c for c in [*setting.comparisons, *setting.derived.comparisons]}
    digits = f".{value_decimals(summary)}f"
    rows = [
        [
            *_row(arm.arm, arm.n, _number(arm.mean, digits), _number(arm.std, digits)),
            *_judged(comparisons.get(arm.arm), summary.rope),
        ]
        for arm in [*setting.arms, *setting.derived.arms]
    ]
    return Table(["arm", "n", "mean", "std", *JUDGED], rows)


def search_table(setting: Setting) -> Table:
    """The selected values of each arm: the median and the range of numbers, how often of others; none of a mean."""
    paths = list(dict.fromkeys(path for arm in setting.arms for path in arm.searched))
    rows = [_row(arm.arm, *(_spread([*arm.searched.get(path, {}).values()]) for path in paths)) for arm in setting.arms]
    return Table(["arm", *paths], rows if paths else [])


def _spread(values: Sequence[object]) -> Cell:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if not values or len(numbers) < len(values):
        counts = {str(value): values.count(value) for value in values}
        return Cell(", ".join(f"{value} {count} ×" for value, count in counts.items()) or "–")
    middle, low, high = statistics.median(numbers), min(numbers), max(numbers)
    return Cell(f"{middle:.3g}" + (f" ({low:.3g} … {high:.3g})" if low < high else ""), middle)


def null_table(setting: Setting, summary: Summary) -> Table:
    """The null control: each arm against itself, after a change that should not matter."""
    changes = {
        arm.arm: "with other dummies" if arm.dummies else "with its first head disturbed by 1e-6"
        for arm in setting.null_control.arms
    }
    rows = [
        [*_row(c.baseline, changes[c.arm], c.n), *_judged(c, summary.rope)] for c in setting.null_control.comparisons
    ]
    return Table(["arm", "against itself", "n", *JUDGED], rows)


def statistics_table(setting: Setting, summary: Summary) -> Table:
    """What stands behind the verdict, for those who know the words."""
    rows = [
        _row(
            *(c.arm, _interval(c.ci, decimals(c.ci_family, summary.rope))),
            *(_interval(c.ci_samples, decimals(c.ci_family, summary.rope)), _p(c.p), _p(c.p_min)),
            *(Cell(f"{c.wins} / {c.ties} / {c.losses}", c.wins), c.correlation, c.lost),
            *(_number(c.min_difference, f".{decimals(c.ci_family, summary.rope)}f"), _planned_pairs(c)),
            *(c.variance_ratio, _p(c.p_variance_holm)),
        )
        for c in [*setting.comparisons, *setting.derived.comparisons]
    ]
    headings = [
        *("arm", "95 % over seeds", "95 % over seeds and samples", "p", "smallest p", "wins / ties / losses"),
        *("correlation of pairs", "lost", "smallest difference", "pairs for the margin"),
        *("variance ratio", "its p (Holm)"),
    ]
    return Table(headings, rows)


def _planned_pairs(comparison: Comparison) -> Cell:
    """`120 (40 … 900)`."""
    n, between = comparison.n_for_rope, comparison.n_for_rope_range
    ends = f" ({between[0]:,} … {between[1]:,})" if between else ""
    return Cell("–" if n is None else f"{n:,}{ends}", n)


def secondary_table(setting: Setting) -> Table:
    """The secondary metrics: every arm, by its own margin; no rows without any."""
    rows = []
    for entry in setting.secondary:
        comparisons = {comparison.arm: comparison for comparison in entry.comparisons}
        metric = describe_metric(entry.metric)
        digits = ".2f" if metric.unit == PERCENT else ".4f"
        for arm in entry.arms:
            values = (_number(arm.mean, digits), _number(arm.std, digits))
            judged = _without_p(_judged(comparisons.get(arm.arm), entry.rope))
            rows.append(_row(metric.label, arm.arm, arm.n, *values, f"±{entry.rope:g}", *judged))
    return Table(["secondary metric", "arm", "n", "mean", "std", "margin", "difference", "interval", "verdict"], rows)


def across_table(summary: Summary) -> Table:
    """What all settings say together about each arm; no rows for a single setting."""
    rows = []
    for one in summary.across:
        found = one.posterior
        digits = decimals(found.interval, summary.rope)
        rows.append(
            _row(
                *(one.arm, found.settings, Cell(signed(found.mean, digits), found.mean)),
                *(_interval(found.interval, digits), found.better, found.equal, found.worse),
                _interval(found.new_interval, digits),
            )
        )
    headings = ["arm", "settings", "mean effect", "95 % interval", "P(better)", "P(equal)", "P(worse)", "a new setting"]
    return Table(headings, rows)


def analyses_table(setting: Setting, summary: Summary) -> Table:
    """The interim analyses of a study that goes on until it is decided; no rows for any other."""
    rows = [
        _row(
            *(c.arm, number, analysis.n, Cell(f"{100 * (1 - analysis.alpha):.2f} %", analysis.alpha)),
            _interval(analysis.interval, decimals(c.ci_family, summary.rope)),
        )
        for c in setting.comparisons
        for number, analysis in enumerate(c.looks, 1)
    ]
    return Table(["arm", "analysis", "pairs", "level", "interval"], rows)


def groups_table(setting: Setting) -> Table:
    """The accuracy of groups of classes, such as the tail of a long-tailed set; no rows where there are none."""
    groups = list(dict.fromkeys(name for arm in setting.arms for name in arm.groups))
    arms = setting.arms if groups else []
    rows = [_row(arm.arm, arm.balanced_accuracy, *map(arm.groups.get, groups)) for arm in arms]
    return Table(["arm", "mean of the classes", *groups], rows)


def robustness_table(setting: Setting, summary: Summary) -> Table:
    """What is left of the accuracy under each attack, with differences from the baseline; no rows without attacks."""
    rows = []
    for entry in setting.robustness:
        comparisons = {comparison.arm: comparison for comparison in entry.comparisons}
        names = [name or EMPTY for name in attack_and_surface(entry.attack)]
        for arm in (arm for arm in entry.arms if arm.n):
            baseline = "baseline" if comparisons else ""
            judged = _without_p(_judged(comparisons.get(arm.arm), summary.rope, baseline))
            rows.append(_row(*names, arm.arm, arm.n, arm.mean, arm.std, *judged, arm.into_dummies))
    headings = ["attack", "through", "arm", "n", "mean", "std", "difference", "interval", "verdict", "into dummies %"]
    return Table(headings, rows)


def probes_table(setting: Setting) -> Table:
    """What the probes saw, as single numbers with three digits each; no rows without probes."""
    rows = []
    for entry in setting.probes:
        comparisons = {comparison.arm: comparison for comparison in entry.comparisons}
        for arm in (arm for arm in entry.arms if arm.n):
            judged = [EMPTY, EMPTY, Cell("baseline" if arm.arm == setting.arms[0].arm else "")]
            if c := comparisons.get(arm.arm):
                ends = [_number(end, ".3g") for end in c.ci_family or (None,)]
                interval = Cell(" … ".join(end.text for end in ends), ends[0].sort)
                judged = _row(_number(c.difference, ".3g"), interval, c.verdict)
            measured = _row(entry.label, arm.arm, arm.n, _number(arm.mean, ".3g"), _number(arm.std, ".3g"))
            rows.append([*measured, *judged])
    return Table(["quantity", "arm", "n", "mean", "std", "difference", "interval", "verdict"], rows)


def transfer_table(setting: Setting) -> Table:
    """What is left of the accuracy on what was made for another model; no rows where it was not measured."""
    baseline = setting.arms[0].arm
    measured = [(arm.arm, arm.transfer) for arm in setting.arms if arm.transfer]
    rows = [_row(arm, transfer["from_baseline"], transfer["to_baseline"]) for arm, transfer in measured]
    return Table(["arm", f"accuracy on what was made for {baseline}", f"{baseline} on what was made for it"], rows)


def other_metrics_table(setting: Setting) -> Table:
    """Other metrics that are always shown, as far as they are known: likelihood, calibration, dummies, cost."""
    ratios = {c.arm: c.cost_ratio for c in setting.comparisons}
    timed = any(arm.seconds_per_step for arm in setting.arms)
    columns = {
        "arm": [Cell(arm.arm, arm.arm) for arm in setting.arms],
        "real-class NLL": [_number(arm.nll, ".4f") for arm in setting.arms],
        "calibration error %": [_number(arm.ece) for arm in setting.arms],
        "dummy mass %": [_number(arm.dummy_mass, ".3f") for arm in setting.arms],
        "dummy hits %": [_number(arm.dummy_hits, ".3f") for arm in setting.arms],
        "training accuracy %": [_number(arm.train_accuracy) for arm in setting.arms],
        "time of a step": [
            _number(ratios.get(arm.arm, 1.0 if arm.n else None) if timed else None, ".2f", "× ") for arm in setting.arms
        ],
        "parameters": [_number(arm.parameters, ",.0f") for arm in setting.arms],
    }
    known = {name: cells for name, cells in columns.items() if any(cell.sort is not None for cell in cells)}
    rows = [list(row) for row in zip(*known.values(), strict=True)] if len(known) > 1 else []
    return Table(list(known), rows)


def costs_table(setting: Setting) -> Table:
    """What a run of code that is not durm's took, mean over the seeds; the ratio is the median over the pairs."""
    if not any(arm.cpu_seconds for arm in setting.arms):
        return Table([], [])
    ratios = {c.arm: c.cost_ratio for c in setting.comparisons}
    rows = [
        [
            Cell(arm.arm, arm.arm),
            _number(arm.seconds, ".3g"),
            _number(arm.cpu_seconds, ".3g"),
            _number(ratios.get(arm.arm, 1.0 if arm.n else None), ".2f", "× "),
            _number(None if arm.peak_memory is None else arm.peak_memory / 2**20, ",.0f"),
        ]
        for arm in setting.arms
    ]
    return Table(["arm", "seconds", "CPU seconds", "CPU time", "peak memory, MiB"], rows)


def seeds_table(setting: Setting, summary: Summary) -> Table:
    """Every number: one row for each seed, one column for each arm."""
    arms = [*setting.arms, *setting.derived.arms, *setting.null_control.arms]
    digits = f".{value_decimals(summary) + 1}f"
    seeds = dict.fromkeys(seed for arm in arms for seed in arm.values)
    rows = [
        [Cell(seed, int(seed) if seed.isdecimal() else seed), *(_number(arm.values.get(seed), digits) for arm in arms)]
        for seed in seeds
    ]
    return Table(["seed", *(arm.arm for arm in arms)], rows)


def domains_tables(summary: Summary) -> list[tuple[str, Table]]:
    """For each data set with domains and each model: which, and the accuracy on each domain when it is held out.

    Rows are method and arm; the columns end with the worst of the domains' means over the seeds, the mean over the
    domains and its difference from the baseline. The worst is of one domain for all seeds: the least over the domains
    within each seed would lie lower by chance alone. It is left open until every domain has a run, and left out where
    one domain alone is held out.
    """
    worst = min if summary.measured.higher_is_better else max
    found = {setting.key: setting for setting in summary.settings}
    tables: dict[tuple[str, str], Table] = {}
    for average in summary.averages:
        data, model, method = average.key
        domains = average.domains or []
        headings = [
            "method",
            "arm",
            *domains,
            *(["worst"] if len(domains) > 1 else []),
            "mean",
            "difference",
            "interval",
            "verdict",
        ]
        table = tables.setdefault((data, model), Table(headings, []))
        comparisons = {comparison.arm: comparison for comparison in average.comparisons}
        for arm in average.arms:
            means = [found[f"{data}:{domain}", model, method].arm(arm.arm).mean for domain in domains]
            known = [mean for mean in means if mean is not None]
            lowest = [worst(known) if len(known) == len(domains) else None] if len(domains) > 1 else []
            judged = _without_p(_judged(comparisons.get(arm.arm), summary.rope))
            table.rows.append(_row(method, arm.arm, *means, *lowest, arm.mean, *judged))
    return [(f"{data} with {model}", table) for (data, model), table in tables.items()]


def class_iou_table(results: ClassValues, rope: float = PERCENT_ROPE) -> Table:
    """The IoU of each class of a segmentation: its mean over the seeds for each arm, and differences from the baseline.

    The intervals of all classes and arms hold together, so they are wider than one alone would be. The last row is the
    mean over the classes.

    Args:
        results: arm → seed → metrics, among them `iou_NAME` and `miou`; the first arm is the baseline.
        rope: how finely differences are written.
    """
    from durm.study.arm_results import compare_each  # it needs scipy, which tables alone do not

    baseline, *others = results
    runs = [metrics for seeds in results.values() for metrics in seeds.values()]
    classes = list(dict.fromkeys(key for metrics in runs for key in metrics if key.startswith("iou_")))
    rows = []
    for family in (classes, ["miou"] if runs else []):
        values = {
            (key, arm): {seed: metrics[key] for seed, metrics in seeds.items() if key in metrics}
            for arm, seeds in results.items()
            for key in family
        }
        judged = compare_each(family, [*results], values, rope)
        for key in family:
            found = [values[key, arm].values() for arm in results]
            means = [sum(of_arm) / len(of_arm) if of_arm else None for of_arm in found]
            differences = [cell for arm in others for cell in _judged(judged[key, arm], rope)[:2]]
            rows.append(_row("mean" if key == "miou" else key.removeprefix("iou_"), *means, *differences))
    headings = [heading for arm in others for heading in (f"{arm} − {baseline}", "interval")]
    return Table(["class", *results, *headings], rows)


def scene_table(
    class_names: Sequence[str], classes: Mapping[str, Sequence[float | None]], confusion: Sequence[Sequence[int]]
) -> Table:
    """What one model makes of the pixels of each class: IoU, accuracy, what most of the others are taken for, dummies.

    Args:
        class_names: C of them.
        classes: `iou` and `accuracy`, C values each, in percent.
        confusion: for each class how many of its pixels have each of the C + C_d logits as their largest.
    """
    rows = []
    for number, (name, counts) in enumerate(zip(class_names, confusion, strict=True)):
        pixels, hits = sum(counts), sum(counts[len(class_names) :])
        wrong = [0 if other == number else counts[other] for other in range(len(class_names))]
        mistaken = f"{class_names[wrong.index(max(wrong))]} ({100 * max(wrong) / pixels:.1f} %)" if any(wrong) else "–"
        dummies = _number(100 * hits / pixels if pixels else None, ".3f")
        rows.append(
            _row(name, _number(pixels, ","), classes["iou"][number], classes["accuracy"][number], mistaken, dummies)
        )
    return Table(["class", "pixels", "IoU %", "accuracy %", "most taken for", "dummy hits %"], rows)


def selections_table(summary: Summary) -> Table:
    """The mean accuracy on the held-out domains under each rule of selecting weights."""
    rules = ("last", "best-val", "oracle", "average")
    rows = [
        _row(*average.setting.values(), arm.arm, *map(arm.selections.get, rules))
        for average in summary.averages
        for arm in average.arms
    ]
    axes = summary.averages[0].setting if summary.averages else ("data", "model", "method")
    return Table([*axes, "arm", *rules], rows)


def overview_table(summary: Summary) -> Table:
    """Every comparison of a grid, one row each; before them, of data with domains, the means over these."""
    rows = []
    for setting in summary.sections:
        names = setting.names
        if setting.domains is not None:
            names[0] += f", mean of {len(setting.domains)} domains"
        rows += [[*_row(*names, c.arm, c.n), *_judged(c, summary.rope)] for c in setting.comparisons]
    return Table([*summary.settings[0].setting, "arm", "n", *JUDGED], rows)


EMPTY = Cell("")
JUDGED = ("difference", "interval", "p (Holm)", "verdict")


def _judged(comparison: Comparison | None, rope: float, otherwise: str = "baseline") -> list[Cell]:
    """The cells below `JUDGED`; where there is no comparison, the last has the other word."""
    if comparison is None:
        return [EMPTY, EMPTY, EMPTY, Cell(otherwise)]
    digits = decimals(comparison.ci_family, rope)
    difference = Cell(signed(comparison.difference, digits), comparison.difference)
    word = comparison.verdict or "not judged"
    return _row(difference, _interval(comparison.ci_family, digits), _p(comparison.p_holm), word)


def _without_p(judged: list[Cell]) -> list[Cell]:
    difference, interval, _, verdict = judged
    return [difference, interval, verdict]


def _row(*values: Cell | str | float | None) -> list[Cell]:
    """Texts and whole numbers as they are, other numbers with two decimals."""
    return [
        value
        if isinstance(value, Cell)
        else Cell(str(value), value)
        if isinstance(value, str | int)
        else _number(value)
        for value in values
    ]


def _number(value: float | None, form: str = ".2f", before: str = "") -> Cell:
    """With a real minus; a dash for what is not defined."""
    return Cell("–" if value is None else before + f"{value:{form}}".replace("-", "−"), value)


def _interval(interval: Sequence[float] | None, digits: int) -> Cell:
    return Cell(bounds(interval, digits), interval[0] if interval else None)


def _p(value: float | None) -> Cell:
    return Cell(p_value(value), value)

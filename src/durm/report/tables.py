"""The tables of a study, as the terminal, the page and the Markdown show them: texts, and values to sort by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from durm.report.words import attack_and_surface, bounds, decimals, p_value, plain, signed
from durm.study.rules import ROPE


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


def verdict_table(setting: Mapping[str, Any], summary: Mapping[str, Any]) -> Table:
    """One row for each arm, the baseline first, the derived arm last."""
    comparisons = {c["arm"]: c for c in [*setting["comparisons"], *setting["derived"]["comparisons"]]}
    rows = []
    for arm in [*setting["arms"], *setting["derived"]["arms"]]:
        comparison = comparisons.get(arm["arm"])
        judged = _judged(comparison, summary) if comparison else [Cell(""), Cell(""), Cell(""), Cell("baseline")]
        rows.append([_text(arm["arm"]), _count(arm["n"]), _plain(arm["mean"]), _plain(arm["std"]), *judged])
    return Table(["arm", "n", "mean", "std", "difference", "interval", "p (Holm)", "verdict"], rows)


def null_table(setting: Mapping[str, Any], summary: Mapping[str, Any]) -> Table:
    """The null control: each arm against itself, after a change that should not matter."""
    rows = [
        [
            _text(c["baseline"]),
            _text(_CHANGES[c["arm"] in _with_dummies(setting)]),
            _count(c["n"]),
            *_judged(c, summary),
        ]
        for c in setting["null_control"]["comparisons"]
    ]
    return Table(["arm", "against itself", "n", "difference", "interval", "p (Holm)", "verdict"], rows)


_CHANGES = {True: "with other dummies", False: "with its first head disturbed by 1e-6"}


def _with_dummies(setting: Mapping[str, Any]) -> set[str]:
    return {arm["arm"] for arm in setting["null_control"]["arms"] if arm["dummies"]}


def statistics_table(setting: Mapping[str, Any], summary: Mapping[str, Any]) -> Table:
    """What stands behind the verdict, for those who know the words."""
    rows = []
    for c in [*setting["comparisons"], *setting["derived"]["comparisons"]]:
        digits = decimals(c, summary["rope"])
        rows.append(
            [
                _text(c["arm"]),
                _interval(c["ci"], digits),
                _p(c["p"]),
                _p(c["p_min"]),
                Cell(f"{c['wins']} / {c['ties']} / {c['losses']}", c["wins"]),
                _plain(c["correlation"]),
                Cell("–" if c["seeds_needed"] is None else f"{c['seeds_needed']:,}", c["seeds_needed"]),
                _plain(c["variance_ratio"]),
                _p(c["p_variance_holm"]),
            ]
        )
    headings = [
        *("arm", "plain 95 % interval", "p", "smallest p", "wins / ties / losses", "correlation of pairs"),
        *("seeds needed", "variance ratio", "its p (Holm)"),
    ]
    return Table(headings, rows)


def looks_table(setting: Mapping[str, Any], summary: Mapping[str, Any]) -> Table:
    """What each look of a study that goes on until decided has seen; no rows for any other."""
    rows = []
    for c in setting["comparisons"]:
        digits = decimals(c, summary["rope"])
        for number, look in enumerate(c.get("looks", ()), 1):
            level = f"{100 * (1 - look['alpha']):.2f} %"
            rows.append(
                [
                    *(_text(c["arm"]), _count(number), _count(look["n"])),
                    *(Cell(level, look["alpha"]), _interval(look["interval"], digits)),
                ]
            )
    return Table(["arm", "look", "pairs", "level", "interval"], rows)


def groups_table(setting: Mapping[str, Any]) -> Table:
    """The accuracy of groups of classes, such as the tail of a long-tailed set; no rows where there are none."""
    groups = list(dict.fromkeys(name for arm in setting["arms"] for name in arm["groups"]))
    rows = [
        [_text(arm["arm"]), _plain(arm.get("balanced_accuracy")), *(_plain(arm["groups"].get(name)) for name in groups)]
        for arm in setting["arms"]
        if groups
    ]
    return Table(["arm", "mean of the classes", *groups], rows)


def robustness_table(setting: Mapping[str, Any], summary: Mapping[str, Any]) -> Table:
    """What is left of the accuracy under each attack, with differences from the baseline; no rows without attacks."""
    rows = []
    for entry in setting["robustness"]:
        comparisons = {comparison["arm"]: comparison for comparison in entry["comparisons"]}
        names = [_text(name) if name else Cell("") for name in attack_and_surface(entry["attack"])]
        for arm in (arm for arm in entry["arms"] if arm["n"]):
            judged = [Cell(""), Cell(""), Cell("baseline" if comparisons else "")]
            if comparison := comparisons.get(arm["arm"]):
                difference, interval, _, verdict = _judged(comparison, summary)
                judged = [difference, interval, verdict]
            measured = [_count(arm["n"]), _plain(arm["mean"]), _plain(arm["std"])]
            rows.append([*names, _text(arm["arm"]), *measured, *judged, _plain(arm["into_dummies"])])
    headings = ["attack", "through", "arm", "n", "mean", "std", "difference", "interval", "verdict", "into dummies %"]
    return Table(headings, rows)


def probes_table(setting: Mapping[str, Any]) -> Table:
    """What the probes saw, as single numbers; no rows without probes."""
    rows = []
    for entry in setting["probes"]:
        comparisons = {comparison["arm"]: comparison for comparison in entry["comparisons"]}
        for arm in entry["arms"]:
            if not arm["n"]:
                continue
            judged = [Cell(""), Cell(""), Cell("baseline" if arm["arm"] == setting["arms"][0]["arm"] else "")]
            if comparison := comparisons.get(arm["arm"]):
                interval = comparison["ci_family"]
                judged = [
                    _short_number(comparison["difference"]),
                    Cell("–") if interval is None else Cell(" … ".join(map(_significant, interval)), interval[0]),
                    _text(comparison["verdict"]),
                ]
            measured = [_count(arm["n"]), _short_number(arm["mean"]), _short_number(arm["std"])]
            rows.append([_text(entry["label"]), _text(arm["arm"]), *measured, *judged])
    return Table(["quantity", "arm", "n", "mean", "std", "difference", "interval", "verdict"], rows)


def _short_number(value: float | None) -> Cell:
    return Cell("–") if value is None else Cell(_significant(value), value)


def _significant(value: float) -> str:
    """With three digits, however large or small it is."""
    return f"{value:.3g}".replace("-", "−")


def transfer_table(setting: Mapping[str, Any]) -> Table:
    """What is left of the accuracy on what was made for another model; no rows where it was not measured."""
    rows = [
        [_text(arm["arm"]), _plain(arm["transfer"]["from_baseline"]), _plain(arm["transfer"]["to_baseline"])]
        for arm in setting["arms"]
        if arm.get("transfer")
    ]
    baseline = setting["arms"][0]["arm"]
    return Table(["arm", f"accuracy on what was made for {baseline}", f"{baseline} on what was made for it"], rows)


def beside_table(setting: Mapping[str, Any]) -> Table:
    """What is always looked at beside the metric: likelihood, calibration, what the dummies take, cost."""
    ratios = {c["arm"]: c["cost_ratio"] for c in setting["comparisons"]}
    rows = []
    for arm in setting["arms"]:
        ratio = ratios.get(arm["arm"], 1.0 if arm["n"] else None)
        rows.append(
            [
                *(_text(arm["arm"]), _plain(arm["nll"], 4), _plain(arm["ece"]), _plain(arm["dummy_mass"], 3)),
                *(_plain(arm["dummy_hits"], 3), _plain(arm["train_accuracy"])),
                Cell("–" if ratio is None else f"× {ratio:.2f}", ratio),
                Cell("–" if arm["parameters"] is None else f"{arm['parameters']:,.0f}", arm["parameters"]),
            ]
        )
    headings = [
        *("arm", "real-class NLL", "calibration error %", "dummy mass %", "dummy hits %", "training accuracy %"),
        *("time of a step", "parameters"),
    ]
    return Table(headings, rows)


def seeds_table(setting: Mapping[str, Any]) -> Table:
    """Every number: one row for each seed, one column for each arm."""
    arms = [*setting["arms"], *setting["derived"]["arms"], *setting["null_control"]["arms"]]
    seeds = list(dict.fromkeys(seed for arm in arms for seed in arm["values"]))
    rows = [[Cell(seed, int(seed)), *(_plain(arm["values"].get(seed), 3) for arm in arms)] for seed in seeds]
    return Table(["seed", *(arm["arm"] for arm in arms)], rows)


def domains_tables(summary: Mapping[str, Any]) -> list[tuple[str, Table]]:
    """For each data set with domains and each model: which, and the accuracy on each domain when it is held out.

    Rows are method and arm; the columns end with the mean over the domains and its difference from the baseline.
    """
    found = {tuple(setting["setting"].values()): setting for setting in summary["settings"]}
    tables: dict[tuple[str, str], Table] = {}
    for average in summary["averages"]:
        data, model, method = average["setting"].values()
        headings = ["method", "arm", *average["domains"], "mean", "difference", "interval", "verdict"]
        table = tables.setdefault((data, model), Table(headings, []))
        comparisons = {comparison["arm"]: comparison for comparison in average["comparisons"]}
        for arm in average["arms"]:
            means = [_mean_of(found[(f"{data}:{domain}", model, method)], arm["arm"]) for domain in average["domains"]]
            judged = [Cell(""), Cell(""), Cell("baseline")]
            if comparison := comparisons.get(arm["arm"]):
                difference, interval, _, verdict = _judged(comparison, summary)
                judged = [difference, interval, verdict]
            row = [_text(method), _text(arm["arm"]), *map(_plain, means), _plain(arm["mean"]), *judged]
            table.rows.append(row)
    return [(f"{data} with {model}", table) for (data, model), table in tables.items()]


def _mean_of(setting: Mapping[str, Any], name: str) -> float | None:
    mean: float | None = next(arm["mean"] for arm in setting["arms"] if arm["arm"] == name)
    return mean


def class_iou_table(
    results: Mapping[str, Mapping[str, Mapping[str, float]]], rope: float = ROPE, looks: Sequence[Sequence[str]] = ()
) -> Table:
    """The IoU of each class of a segmentation: its mean over the seeds for each arm, and differences from the baseline.

    The intervals of all classes and arms hold together, so they are wider than one alone would be. The last row is the
    mean over the classes.

    Args:
        results: arm → seed → metrics, among them `iou_NAME` and `miou`; the first arm is the baseline.
        rope: how finely differences are written.
        looks: the seeds of each look, if there were several.
    """
    baseline, *others = results
    runs = [metrics for seeds in results.values() for metrics in seeds.values()]
    keys = list(dict.fromkeys(key for metrics in runs for key in metrics if key.startswith("iou_")))
    rows = [row for family in (keys, ["miou"] if runs else []) for row in _iou_rows(results, family, rope, looks)]
    differences = [heading for arm in others for heading in (f"{arm} − {baseline}", "interval")]
    return Table(["class", *results, *differences], rows)


def _iou_rows(
    results: Mapping[str, Mapping[str, Mapping[str, float]]],
    keys: Sequence[str],
    rope: float,
    looks: Sequence[Sequence[str]],
) -> list[list[Cell]]:
    """A row for each of the metrics, which are compared as one family."""
    from durm.study.arms import compare_each  # it needs scipy, which tables alone do not

    _, *others = results
    values = {
        (key, arm): {seed: metrics[key] for seed, metrics in seeds.items() if key in metrics}
        for arm, seeds in results.items()
        for key in keys
    }
    judged = compare_each(keys, [*results], values, rope, looks)
    rows = []
    for key in keys:
        found = [values[key, arm].values() for arm in results]
        row = [_text("mean" if key == "miou" else key.removeprefix("iou_"))]
        row += [_plain(sum(of_arm) / len(of_arm) if of_arm else None) for of_arm in found]
        for arm in others:
            difference, interval, _, _ = _judged(judged[key, arm], {"rope": rope})
            row += [difference, interval]
        rows.append(row)
    return rows


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
    for number, name in enumerate(class_names):
        counts = confusion[number]
        pixels, hits = sum(counts), sum(counts[len(class_names) :])
        wrong = [0 if other == number else counts[other] for other in range(len(class_names))]
        mistaken = f"{class_names[wrong.index(max(wrong))]} ({100 * max(wrong) / pixels:.1f} %)" if any(wrong) else "–"
        row = [_text(name), Cell(f"{pixels:,}", pixels), _plain(classes["iou"][number])]
        row += [_plain(classes["accuracy"][number]), _text(mistaken)]
        rows.append([*row, _plain(100 * hits / pixels if pixels else None, 3)])
    return Table(["class", "pixels", "IoU %", "accuracy %", "most taken for", "dummy hits %"], rows)


def selections_table(summary: Mapping[str, Any]) -> Table:
    """The mean accuracy on the held-out domains under each rule of selecting weights."""
    rules = ("last", "best-val", "oracle", "average")
    rows = [
        [
            *(_text(part) for part in average["setting"].values()),
            *(_text(arm["arm"]), *(_plain(arm["selections"].get(rule)) for rule in rules)),
        ]
        for average in summary["averages"]
        for arm in average["arms"]
    ]
    return Table(["data", "model", "method", "arm", *rules], rows)


def overview_table(summary: Mapping[str, Any]) -> Table:
    """Every comparison of a grid, one row each; before them, of data with domains, the means over these."""
    rows = []
    for setting in [*summary["averages"], *summary["settings"]]:
        for comparison in setting["comparisons"]:
            words = [_text(part) for part in setting["setting"].values()]
            if "domains" in setting:
                words[0] = _text(f"{words[0].text}, mean of {len(setting['domains'])} domains")
            rows.append([*words, _text(comparison["arm"]), _count(comparison["n"]), *_judged(comparison, summary)])
    return Table(
        [*summary["settings"][0]["setting"], "arm", "n", "difference", "interval", "p (Holm)", "verdict"], rows
    )


def _judged(comparison: Mapping[str, Any], summary: Mapping[str, Any]) -> list[Cell]:
    digits = decimals(comparison, summary["rope"])
    return [
        Cell(signed(comparison["difference"], digits), comparison["difference"]),
        _interval(comparison["ci_family"], digits),
        _p(comparison["p_holm"]),
        _text(comparison["verdict"]),
    ]


def _text(text: str) -> Cell:
    return Cell(text, text)


def _count(n: int) -> Cell:
    return Cell(str(n), n)


def _plain(value: float | None, digits: int = 2) -> Cell:
    return Cell(plain(value, digits), value)


def _interval(interval: Sequence[float] | None, digits: int) -> Cell:
    return Cell(bounds(interval, digits), interval[0] if interval else None)


def _p(value: float | None) -> Cell:
    return Cell(p_value(value), value)

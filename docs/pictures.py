"""The plots of the documentation, docs/images/*.svg, from committed results or by calculation: `make figures`."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import torch
from flows import FLOWS, flow
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

import durm
from durm.report.estimation import estimation_figure, forest
from durm.report.figures import as_svg, compact
from durm.report.figures import drawing as report_style
from durm.statistics.planning import half_width
from durm.statistics.sequential import analysis_levels, analysis_sizes
from durm.study.store import read_summary

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
PLAIN = {"font.size": 10, "svg.fonttype": "none"}
FONT = '<svg font-family="DejaVu Sans, Verdana, Arial, sans-serif" '
BLUE, ORANGE, GREEN, GREY = "#2a5d9c", "#c8701e", "#2b7a3f", "#777777"
DRAWINGS: dict[str, tuple[Callable[[Axes], None], tuple[float, float]]] = {}


def drawing(name: str, width: float = 6.0, height: float = 2.8) -> Callable[..., Callable[[Axes], None]]:
    """Registers a plot on one pair of axes under the name of its file."""

    def register(draw: Callable[[Axes], None]) -> Callable[[Axes], None]:
        DRAWINGS[name] = draw, (width, height)
        return draw

    return register


@drawing("smoothing")
def smoothing(axes: Axes) -> None:
    """What label smoothing gives to each logit, over all of them and over the real classes."""
    real, dummies, amount = 5, 2, 0.1
    width = real + dummies
    over_all = np.full(width, amount / width)
    over_all[1] += 1 - amount
    over_real = np.concatenate([np.full(real, amount / real), np.zeros(dummies)])
    over_real[1] += 1 - amount
    places = np.arange(width)
    axes.bar(places - 0.2, over_all, 0.38, color=ORANGE, label="F.cross_entropy: dummies are targets")
    axes.bar(places + 0.2, over_real, 0.38, color=BLUE, label="durm.cross_entropy: they are not")
    axes.axvspan(real - 0.5, width - 0.5, color="#eeeeee", zorder=0)
    axes.set(ylim=(0, 0.06), xlim=(-0.5, width - 0.5), ylabel="target")
    axes.set_xticks(places, [f"class {n}" for n in range(real)] + [f"dummy {n}" for n in range(dummies)])
    axes.text(1.45, 0.052, "the true class\ngoes on to 0.91", color=GREY, fontsize=8, va="center")
    axes.legend(frameon=False, fontsize=8, loc="upper right", bbox_to_anchor=(0.99, 1.2), ncols=2)


@drawing("guard")
def guard(axes: Axes) -> None:
    """Gradient against probability, in a right loss and in one that smooths over the dummies."""
    logits = torch.randn(24, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 1.2
    real = 20
    for smoothed, colour, name in ((0.0, BLUE, "right loss"), (0.3, ORANGE, "smoothed over the dummies")):
        z = logits.clone()[None].requires_grad_()
        torch.nn.functional.cross_entropy(z, torch.tensor([0]), label_smoothing=smoothed).backward()
        assert z.grad is not None
        p, g = logits.softmax(0)[1:].numpy(), z.grad[0, 1:].numpy()
        axes.scatter(p[: real - 1], g[: real - 1], s=14, color=colour, alpha=0.5)
        axes.scatter(p[real - 1 :], g[real - 1 :], s=40, marker="D", color=colour, label=f"{name}: dummies")
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.set(xlabel="probability p", ylabel="gradient g")
    axes.legend(frameon=False, fontsize=8)


@drawing("pairs")
def pairs(axes: Axes) -> None:
    """Runs of eight seeds whose differences are clearer than the runs."""
    random = np.random.default_rng(4)
    base = 93 + random.normal(0, 0.5, 8)
    trick = base + 0.3 + random.normal(0, 0.08, 8)
    for one, other in zip(base, trick, strict=True):
        axes.plot([0, 1], [one, other], color="#bbbbbb", zorder=1)
    axes.scatter(np.zeros(8), base, color=GREY, zorder=2)
    axes.scatter(np.ones(8), trick, color=BLUE, zorder=2)
    axes.set_xticks([0, 1, 2.2], ["base", "trick", "difference"])
    axes.set(ylabel="accuracy, %", xlim=(-0.4, 2.7))
    right = axes.twinx()
    right.axhspan(-0.1, 0.1, xmin=0.72, color="#dddddd", zorder=0)
    right.scatter(np.full(8, 2.2) + np.linspace(-0.15, 0.15, 8), trick - base, s=16, color=BLUE)
    half = stats.t.isf(0.025, 7) * (trick - base).std(ddof=1) / math.sqrt(8)
    right.errorbar(2.45, (trick - base).mean(), yerr=half, color=BLUE, marker="o", capsize=3)
    right.set(ylim=(-0.8, 0.8), ylabel="points")


@drawing("pairs-needed")
def pairs_needed(axes: Axes) -> None:
    """2/2ⁿ, the smallest p value that n pairs can give."""
    n = np.arange(2, 13)
    p = 2.0 / 2**n
    axes.bar(n, p, color=[BLUE if one <= 0.05 else "#bbbbbb" for one in p])
    axes.axhline(0.05, color=ORANGE, linewidth=1)
    axes.text(12.6, 0.056, "0.05", color=ORANGE, ha="right")
    axes.set(yscale="log", xlabel="pairs of runs", ylabel="smallest possible p", xticks=n)


@drawing("grid", height=2.4)
def grid(axes: Axes) -> None:
    """Two settings, three arms, seeds."""
    for setting, title in enumerate(("digits, cnn", "digits, mlp")):
        left = setting * 5.2
        axes.text(left + 1.5, 3.55, title, ha="center", fontsize=10)
        for row, arm in enumerate(("erm (baseline)", "durm-1", "durm-2")):
            if setting == 0:
                axes.text(-0.3, 2.5 - row, arm, ha="right", va="center")
            for seed in range(4):
                colour = ("#bbbbbb", "#8fb3dc", BLUE)[row]
                axes.add_patch(matplotlib.patches.Rectangle((left + seed * 0.8, 2.1 - row), 0.7, 0.8, color=colour))
        for seed in range(4):
            axes.text(left + seed * 0.8 + 0.35, -0.25, f"seed {seed}", ha="center", fontsize=8)
    axes.set(xlim=(-2.2, 8.6), ylim=(-0.5, 4))
    axes.axis("off")


@drawing("seeds")
def seeds(axes: Axes) -> None:
    """Half the interval against the number of pairs."""
    n = np.arange(6, 101)
    for spread, colour in ((0.2, GREEN), (0.5, BLUE), (1.0, ORANGE)):
        label = f"differences spread by {spread} points"
        axes.plot(n, [half_width(int(one), spread) for one in n], color=colour, label=label)
    axes.axhspan(0, 0.1, color="#dddddd", zorder=0, label="within a margin of 0.1: can be called equal")
    axes.set(xlabel="pairs of runs", ylabel="half the interval, points", ylim=(0, 1.1), xlim=(6, 100))
    axes.legend(frameon=False, fontsize=8)


@drawing("sequential")
def sequential(axes: Axes) -> None:
    """How often studies without any effect find one, by the number of analyses so far."""
    sizes = analysis_sizes(40)
    plain, planned = false_alarms(sizes, [0.05] * len(sizes)), false_alarms(sizes, analysis_levels(sizes))
    axes.plot(sizes, 100 * plain, "o-", color=ORANGE, label="plain 95 % interval each time")
    axes.plot(sizes, 100 * planned, "o-", color=BLUE, label="--until-decided")
    axes.axhline(5, color=GREY, linewidth=0.8)
    axes.set(xlabel="pairs of runs at the analysis", ylabel="false alarms so far, %", xticks=sizes, ylim=(0, None))
    axes.legend(frameon=False, fontsize=8)


def false_alarms(sizes: list[int], levels: list[float], studies: int = 20_000) -> np.ndarray:
    """The share of studies of normal differences without an effect that any analysis so far found one in."""
    values = np.random.default_rng(0).normal(size=(studies, sizes[-1]))
    found, shares = np.zeros(studies, dtype=bool), []
    for n, level in zip(sizes, levels, strict=True):
        t = values[:, :n].mean(1) / (values[:, :n].std(1, ddof=1) / math.sqrt(n))
        found |= np.abs(t) > stats.t.isf(level / 2, n - 1)
        shares.append(found.mean())
    return np.array(shares)


@drawing("extra-gradient")
def extra_gradient(axes: Axes) -> None:
    """The mean of the extra gradient in standard errors, for each class, while a small network learns the digits."""
    from sklearn.datasets import load_digits

    images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    images = images.float() / 16
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    durm.widen(model, dummies=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    rows = []
    for _ in range(21):
        with torch.no_grad():
            found = durm.theory.check_assumptions(model(images), labels, num_classes=10)
        rows.append((found.mean / found.standard_error).numpy())
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    axes.axhspan(-2.8, 2.8, color="#dddddd", zorder=0)
    axes.plot(rows, color=BLUE, alpha=0.5, linewidth=1)
    axes.text(20, 3.2, "where Theorem 1 has all ten classes", ha="right", va="bottom", fontsize=8, color="#555555")
    axes.set(yscale="symlog", xlabel="epochs", xticks=range(0, 21, 5), ylim=(-1200, 30))
    axes.set_ylabel("mean of the extra gradient,\nin standard errors")


@drawing("theory")
def theory(axes: Axes) -> None:
    """Theorem 2's probability, and the one that its use would need."""
    ratios = np.linspace(1, 4, 31)
    for steps, dash in ((10, "--"), (100, "-")):
        signed, size = durm.theory.minimum_probability, durm.theory.size_probability
        axes.plot(ratios, [signed(one, steps) for one in ratios], dash, color=BLUE, label=f"smallest g, T = {steps}")
        axes.plot(ratios, [size(one, steps) for one in ratios], dash, color=ORANGE, label=f"smallest |g|, T = {steps}")
    axes.axhline(0.5, color=GREY, linewidth=0.8)
    axes.set(xlabel="σ̂ / σ, DuRM's standard deviation to ERM's", ylabel="P(DuRM's is the smaller)", ylim=(0, 1.05))
    axes.set_xlim(1, 4)
    axes.legend(frameon=False, fontsize=8, loc="center right", bbox_to_anchor=(1, 0.68))


@drawing("open-set", height=2.2)
def open_set(axes: Axes) -> None:
    """The table of how-to/uncertainty.md: AUROC over 10 seeds."""
    scores = {
        "entropy": (95.4, 1.9),
        "energy": (95.1, 2.1),
        "max_logit": (95.2, 2.1),
        "msp": (95.1, 1.9),
        "dummy_mass": (91.7, 2.9),
    }
    for place, (name, (mean, deviation)) in enumerate(scores.items()):
        axes.errorbar(mean, place, xerr=deviation, fmt="o", capsize=3, color=ORANGE if name == "dummy_mass" else BLUE)
    axes.set_yticks(range(len(scores)), list(scores))
    axes.set(xlabel="AUROC, %: mean and standard deviation over 10 seeds", ylim=(-0.6, len(scores) - 0.4))


@drawing("speed", height=2.2)
def speed(axes: Axes) -> None:
    """The ratios of results/loop.json."""
    cases = json.loads((ROOT / "results" / "loop.json").read_text())["results"]
    for place, one in enumerate(reversed(cases)):
        error = [[one["ratio"] - one["low"]], [one["high"] - one["ratio"]]]
        colour = GREY if "control" in one["case"] else BLUE
        axes.errorbar(one["ratio"], place, xerr=error, fmt="o", capsize=3, color=colour)
    axes.axvline(1, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(cases)), [one["case"] for one in reversed(cases)], fontsize=8)
    axes.set(xlabel="ratio of times", ylim=(-0.6, len(cases) - 0.4))


@drawing("verdict", width=7.0)
def verdict_cases(axes: Axes) -> None:
    """Where the interval lies, and which verdict that is."""
    cases = [
        ("better", 0.34, 0.14, GREEN),
        ("worse", -0.36, 0.17, "#a8322d"),
        ("equal", 0.015, 0.06, BLUE),
        ("undecided: it crosses the margin", 0.16, 0.17, "#666666"),
        ("undecided: too wide to tell", 0.02, 0.31, "#666666"),
    ]
    axes.axvspan(-0.1, 0.1, color="#dddddd", zorder=0)
    axes.axvline(0, color="#999999", linewidth=0.8, zorder=1)
    for row, (word, middle, half, colour) in enumerate(cases):
        axes.errorbar(middle, -row, xerr=half, fmt="o", color=colour, capsize=3, linewidth=2)
        axes.text(0.62, -row, word, va="center", color=colour)
    axes.text(0, 0.75, "equivalence margin ±rope", ha="center", va="bottom", color="#555555", fontsize=9)
    axes.set(xlim=(-0.6, 1.35), ylim=(-len(cases) + 0.4, 1.2), yticks=[], xticks=[-0.4, -0.2, 0, 0.2, 0.4])
    axes.set_xlabel("difference from the baseline, points", loc="left")
    axes.spines["left"].set_visible(False)


@drawing("rates", height=3.0)
def rates(axes: Axes) -> None:
    """Wrong verdicts of fixed studies of six seeds and one arm, by how the differences are distributed: rates.md."""
    rows = re.findall(
        r"^\| ([^|]+) \| 6 \| 1 \| ([\d.]+) \|", (ROOT / "docs/concepts/rates.md").read_text(), re.MULTILINE
    )
    for place, (_, rate) in enumerate(reversed(rows)):
        axes.scatter(float(rate), place, color=BLUE if float(rate) < 6 else ORANGE)
        axes.hlines(place, 0, float(rate), color="#cccccc", zorder=0)
    axes.axvline(5, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(rows)), [name for name, _ in reversed(rows)], fontsize=8)
    axes.set(xlabel="studies with a wrong verdict, % (6 pairs, 1 arm)", xlim=(0, None))


@drawing("attacks")
def attacks(axes: Axes) -> None:
    """Accuracy of ERM and of two dummies under each attack through the real logits, in results/digits-adversarial."""
    (setting, *_) = json.loads((ROOT / "results/digits-adversarial/summary.json").read_text())["settings"]
    found = [one for one in setting["robustness"] if one["attack"] == "clean" or one["attack"].endswith("_real")]
    for shift, arm, colour in ((-0.19, "erm", GREY), (0.19, "durm-2", BLUE)):
        (values, errors) = (
            [next(a[key] for a in one["arms"] if a["arm"] == arm) for one in found] for key in ("mean", "std")
        )
        axes.bar(np.arange(len(found)) + shift, values, 0.36, yerr=errors, color=colour, label=arm, capsize=3)
    axes.set_xticks(range(len(found)), [one["attack"].removesuffix("_real") for one in found])
    axes.set(ylabel="accuracy, %")
    axes.legend(frameon=False, fontsize=8)


@drawing("dummies")
def dummies(axes: Axes) -> None:
    """The difference from ERM by the number of dummies, in results/studies/digits-dummies."""
    settings = json.loads((ROOT / "results/studies/digits-dummies/summary.json").read_text())["settings"]
    axes.axhspan(-0.1, 0.1, color="#dddddd", zorder=0)
    axes.axhline(0, color="#999999", linewidth=0.8, zorder=1)
    for shift, setting, colour in zip((-0.1, 0.1), settings, (BLUE, ORANGE), strict=True):
        found = [one for one in setting["comparisons"] if not one["arm"].endswith("-null")]
        middles, (lows, highs) = (
            [one["difference"] for one in found],
            zip(*(one["ci_family"] for one in found), strict=True),
        )
        errors = [np.subtract(middles, lows), np.subtract(highs, middles)]
        places = np.arange(len(found)) + shift
        axes.errorbar(places, middles, yerr=errors, fmt="o", color=colour, capsize=3, label=setting["setting"]["model"])
    axes.set_xticks(range(len(found)), [one["arm"].removeprefix("durm-") for one in found])
    axes.set(xlabel="number of dummies (grey: the equivalence margin)", ylabel="difference, points")
    axes.legend(frameon=False, fontsize=8, loc="lower left")


@drawing("eigenvalue")
def eigenvalue(axes: Axes) -> None:
    """The largest eigenvalue of the Hessian at the end of training, in results/studies/digits-curvature."""
    (setting,) = json.loads((ROOT / "results/studies/digits-curvature/summary.json").read_text())["settings"]
    (found,) = (one for one in setting["probes"] if one["label"].startswith("largest eigenvalue"))
    for place, arm in enumerate(found["arms"]):
        values = list(arm["values"].values())
        axes.scatter(np.full(len(values), place), values, s=14, color=BLUE if place else GREY)
        axes.hlines(np.mean(values), place - 0.2, place + 0.2, color=BLUE if place else GREY, linewidth=2.5)
    for seed in found["arms"][0]["values"]:
        axes.plot([arm["values"][seed] for arm in found["arms"]], color="#dddddd", linewidth=0.8, zorder=0)
    axes.set_xticks(range(len(found["arms"])), [arm["arm"] for arm in found["arms"]])
    axes.set(ylabel="largest eigenvalue")


@drawing("watch")
def watch(axes: Axes) -> None:
    """The probability on two dummies of a small network that learns the digits, as `durm.probes.watch` sees it."""
    from sklearn.datasets import load_digits

    images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    durm.widen(model, dummies=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    masses = []
    with durm.probes.watch(model, ["dummy_mass"]) as seen:
        for _ in range(20):
            for batch in torch.randperm(len(images)).split(64):
                logits = model(images[batch].float() / 16)
                torch.nn.functional.cross_entropy(logits, labels[batch]).backward()
                masses.append(durm.dummy_mass(logits.detach(), num_classes=10).mean().item())
                seen.step(logits, labels[batch])
                optimizer.step()
                optimizer.zero_grad()
            seen.epoch()
    axes.plot(np.arange(1, 21), 100 * np.reshape(masses, (20, -1)).mean(1), "o-", color=BLUE)
    axes.set(yscale="log", xlabel="epoch", ylabel="mean dummy mass, %", xticks=range(0, 21, 5))


def domains() -> str:
    """What results/pacs-small says about each method."""
    with report_style():
        return forest(read_summary(ROOT / "results/pacs-small/summary.json")).svg()


def committed(name: str) -> Figure:
    """The estimation plot of a study in results/."""
    summary = read_summary(ROOT / "results" / name / "summary.json")
    return estimation_figure(summary.settings[0], summary)


def start() -> Figure:
    """What the second step of start.md shows."""
    result = durm.compare(data="digits", model="mlp", dummies=[0, 2], seeds=6, epochs=5, workers=0, quiet=True)
    return result.figure()


def save(svg: str, name: str) -> None:
    """Without the file header, and with one font for all text."""
    (IMAGES / f"{name}.svg").write_text(compact(svg[svg.index("<svg") :]).replace("<svg ", FONT, 1))


def main() -> None:
    with matplotlib.rc_context(PLAIN):
        for name, (draw, size) in DRAWINGS.items():
            figure = Figure(figsize=size, layout="constrained")
            axes = figure.add_subplot()
            axes.spines[["right", "top"]].set_visible(False)
            draw(axes)
            save(as_svg(figure, name), name)
        for name, plot in (
            ("estimation", committed("studies/digits-smoothing")),
            ("camvid", committed("camvid-deeplab")),
        ):
            save(as_svg(plot, name), name)
        save(as_svg(start(), "start"), "start")
    save(domains(), "domains")
    for name, steps in FLOWS.items():
        (IMAGES / f"flow-{name}.svg").write_text(flow(steps))


if __name__ == "__main__":
    main()

"""Claims that need no runs: theorems as numbers, and what the paper's own tables say of each other."""

import torch

from durm._random import generator
from durm.replication.finding import Finding, Part
from durm.replication.paper_tables import cell_gains, pool
from durm.replication.reported import reported_cells
from durm.replication.study_index import Evidence
from durm.report.text import bounds, signed
from durm.statistics.intervals import decide, interval, smallest_p
from durm.theory import check_assumptions, minimum_probability, size_probability

RATIOS = (1.01, 1.1, 1.5, 2.0, 4.0, 10.0)
STEPS = (1, 2, 10, 100, 10**4, 10**6)
"""σ̂/σ and T at which Theorem 2 is computed."""
SAMPLES, CLASSES, DUMMIES = 1000, 10, 2
MARGINS = (0.0, 2.0, 5.0)
"""By how much the logit of the true class stands above the others: at the beginning of training, later, at its end."""
ROUNDING = 1e-9


def theorem_1(evidence: Evidence) -> Finding:
    """Has the extra gradient mean 0, and is it independent of ERM's? On normal logits, which become surer.

    It is −p_D q_c on any logits, so the sum over the classes is −p_D: the effect that is shown.
    """
    parts, hold = [], []
    for margin in MARGINS:
        random = generator(0, "claims", "theorem 1")
        targets = torch.randint(CLASSES, (SAMPLES,), generator=random)
        logits = torch.randn(SAMPLES, CLASSES + DUMMIES, generator=random, dtype=torch.float64)
        logits[torch.arange(SAMPLES), targets] += margin
        found = check_assumptions(logits, targets, CLASSES)
        mass = logits.softmax(1)[:, CLASSES:].sum(1)
        sums = interval(-mass.numpy(), 0.05 / len(MARGINS))
        what = f"true class {margin:g} above the others"
        parts.append(Part(what, (), SAMPLES, -found.dummy_mass, sums, decide(sums, 0.0)))
        hold.append(found.hold)
    nearest = max(parts, key=lambda part: part.effect)
    return Finding(
        verdict="holds" if all(hold) else "undecided" if any(hold) else "does not hold",
        reading=(
            f"Summed over the classes it is minus the dummies' probability: nearest to 0 with the "
            f"{nearest.what}, {signed(nearest.effect, 4)} ({bounds(nearest.interval, 4)}, {SAMPLES:,} samples). "
            f"The assumptions are compatible with {sum(hold)} of {len(hold)} sets of logits."
        ),
        effect=nearest.effect,
        interval=nearest.interval,
        n=SAMPLES,
        counted="sample",
        unit="gradient",
        parts=tuple(parts),
    )


def theorem_2(evidence: Evidence) -> Finding:
    """Is P(g₍₁₎ ≥ ĝ₍₁₎) at least 1/2 wherever DuRM's variance is the larger?"""
    found = {(ratio, steps): minimum_probability(ratio, steps) for ratio in RATIOS for steps in STEPS}
    smallest, largest = min(found.values()), max(found.values())
    return Finding(
        verdict="holds" if smallest >= 0.5 - ROUNDING else "does not hold",
        reading=(
            f"Over {len(found)} pairs of ratio and T the probability goes from {smallest:.3f}, at T = 1, to "
            f"{largest:.3f}; at a ratio of 2 and T = 10 it is {found[2.0, 10]:.3f}. It is about signed gradients."
        ),
        effect=smallest,
        n=len(found),
        counted="case",
        unit="probability",
    )


def nearest_to_zero(evidence: Evidence) -> Finding:
    """And is the gradient that is nearest to zero more often DuRM's, as flatness would need?"""
    found = {(ratio, steps): size_probability(ratio, steps) for ratio in RATIOS for steps in STEPS}
    smallest, largest = min(found.values()), max(found.values())
    return Finding(
        verdict="holds" if smallest >= 0.5 else "does not hold" if largest < 0.5 else "undecided",
        reading=(
            f"Over {len(found)} pairs of ratio and T the probability goes from {smallest:.3f} to {largest:.3f}; one "
            f"half would be chance. At a ratio of 2 and T = 10 it is {found[2.0, 10]:.3f}."
        ),
        effect=largest,
        n=len(found),
        counted="case",
        unit="probability",
    )


def error_bars(evidence: Evidence) -> Finding:
    """In how many cells of Table 8 does DuRM stand above ERM by more than both standard deviations together?"""
    cells = {(cell["data"], cell["model"], cell["dummies"]): cell for cell in reported_cells(8)}
    compared = [(cell, cells[data, model, 0]) for (data, model, dummies), cell in cells.items() if dummies]
    gains = [(ours["value"] - theirs["value"], ours["std"] + theirs["std"]) for ours, theirs in compared]
    above = sum(gain - bars > ROUNDING for gain, bars in gains)
    below = sum(gain + bars < -ROUNDING for gain, bars in gains)
    return Finding(
        verdict="holds" if above > len(gains) / 2 else "does not hold",
        reading=(
            f"In Table 8 the bars of one standard deviation are apart in DuRM's favour in {above} of {len(gains)} "
            f"comparisons and against it in {below}; in the other {len(gains) - above - below} they overlap. Each "
            f"rests on three seeds, with which no sign-flip test gets below p = {smallest_p(3):g}. {_pooled()}"
        ),
        effect=100 * above / len(gains),
        n=len(gains),
        counted="comparison",
        unit="% apart",
    )


def _pooled() -> str:
    """What Table 8 says as a whole, at the two dummies of Table 1."""
    found = pool(cell_gains(8, [2]))
    assert found.random is not None
    return (
        f"Pooled over its {found.cells} settings, the gain of two dummies is {signed(found.mean, 2)} "
        f"({bounds(found.interval, 2)}), {found.wins} wins; weighted by precision, with effects that differ between "
        f"settings, {signed(found.random, 2)} ({bounds(found.random_interval, 2)})."
    )

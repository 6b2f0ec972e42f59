"""The ledger: what the paper claims and what its reviewers asked, each with a verdict that committed results give.

A claim is a statement that can be tested, with the place where it stands, how it is tested, and a function that makes a
finding of the evidence: holds, does not hold, undecided, or not tested. No verdict is written by hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durm.paper import computed
from durm.paper.combining import Finding, Verdict
from durm.paper.evidence import IMBALANCE, SAMPLES, read_evidence
from durm.paper.measures import (
    CORRELATION_ROPE,
    DISTANCE_ROPE,
    Measure,
    attack_surface,
    attacked_into_dummies,
    cost,
    dummy_share,
    equal_dummies,
    everywhere,
    gain,
    hard_over_easy,
    is_plain,
    is_plain_pair,
    is_regularizable,
    is_regularized,
    is_trained_on_attacks,
    more_than_a_trick,
    number_of_dummies,
    probe_change,
    robust_gain,
    spread_over_seeds,
    tail_over_head,
    trend,
    within_runs,
)

VERDICTS: tuple[Verdict, ...] = ("holds", "does not hold", "undecided", "not tested")


@dataclass(frozen=True)
class Claim:
    """What is claimed.

    Attributes:
        statement: in our words.
        where: in the paper, or by whom it was asked.
        test: what is measured, and when it holds.
        measure: does it.
        needs: what a study must have to speak to it.
    """

    statement: str
    where: str
    test: str
    measure: Measure
    needs: str = "a study"


@dataclass(frozen=True)
class Entry:
    """A claim with its number and what was found."""

    number: int
    heading: str
    claim: Claim
    finding: Finding

    def as_dict(self) -> dict[str, Any]:
        told = {name: getattr(self.claim, name) for name in ("statement", "where", "test")}
        return {"number": self.number, "heading": self.heading, **told, **self.finding.as_dict()}


HELPS = (
    Claim(
        "DuRM makes ordinary classification more accurate",
        "Tables 1 and 8",
        "accuracy with 1 to 3 dummies minus without, ERM on balanced data; above 0.1 points",
        gain(is_plain, is_plain_pair),
        "a study of classification with ERM",
    ),
    Claim(
        "The gain is consistent: every setting of every task is better",
        "abstract",
        "each setting by itself, as one family; better in all of them. One that is worse or equal contradicts",
        everywhere,
    ),
    Claim(
        "DuRM makes segmentation better",
        "Tables 2, 3, 9 and 10",
        "mean IoU with dummies minus without; above 0.1 points",
        gain(lambda setting: setting.is_segmentation),
        "a study of segmentation",
    ),
    Claim(
        "In segmentation, hard classes gain more than the others",
        "section 3.1, appendix C.2",
        "gain in IoU of the half of the classes that the baseline finds hardest in the other seeds, minus that of the "
        "other half; above 0.1 points",
        hard_over_easy,
        "a study of segmentation with the IoU of each class",
    ),
    Claim(
        "DuRM generalizes better to held-out domains, with every method",
        "Tables 4 and 11",
        "accuracy averaged over the held-out domains, with dummies minus without, over all methods; above 0.1 points",
        gain(lambda setting: setting.has_domains),
        "a study of data with domains",
    ),
    Claim(
        "DuRM makes ordinary training more robust to attacks",
        "Tables 5 and 12",
        "accuracy under FGSM and PGD through the real logits, with dummies minus without; above 0.1 points",
        robust_gain(lambda setting: not is_trained_on_attacks(setting), ("fgsm", "pgd")),
        "a study with attacks",
    ),
    Claim(
        "DuRM makes adversarial training more robust",
        "Tables 5 and 12",
        "the same for models that were trained on FGSM or PGD; above 0.1 points",
        robust_gain(is_trained_on_attacks, ("fgsm", "pgd")),
        "a study of fgsm-at or pgd-at with attacks",
    ),
    Claim(
        "DuRM makes long-tailed recognition more accurate",
        "Tables 6 and 13",
        "accuracy on a balanced test set after training on a long tail, with dummies minus without; above 0.1 points",
        gain(lambda setting: bool(setting.imbalance)),
        "a study of longtail: data",
    ),
    Claim(
        "The longer the tail, the larger the gain",
        "appendix C.5",
        "change of the gain from the smallest to the largest imbalance of a study; above 0.1 points",
        trend(IMBALANCE),
        "a study of longtail: data with several ratios",
    ),
    Claim(
        "Of a long tail, the tail gains more than the head",
        "appendix C.2, of rare classes",
        "gain in the tail minus gain in the head; above 0.1 points",
        tail_over_head,
        "a study of longtail: data with a head and a tail",
    ),
    Claim(
        "DuRM adds to other regularizers",
        "Tables 7 and 14",
        "gain on top of mixup, EMA, SWA, early stopping, label smoothing, L2 alone or momentum alone; above 0.1 points",
        gain(is_regularizable, is_regularized),
        "a study with mixup, ema, swa, patience, label smoothing, or with L2 or momentum alone",
    ),
    Claim(
        "The fewer samples there are, the larger the gain",
        "Fig. 5",
        "change of the gain from the most samples of a class to the fewest; above 0.1 points",
        trend(SAMPLES, downwards=True),
        "a study of subset: data with several numbers of samples",
    ),
    Claim(
        "DuRM lowers the variance over seeds",
        "section 3.1",
        "variance over seeds with dummies relative to that without, mean over all settings; more than 10 % lower",
        spread_over_seeds,
    ),
    Claim(
        "It is almost free",
        "abstract, section 4",
        "time of a training step with dummies relative to one without; at most 1 % more",
        cost,
        "benchmarks/overhead.py, or a study",
    ),
    Claim(
        "It does not matter how many dummies there are",
        "section 3.2, Figs. 4a, 4b and 9; reviewers",
        "change of the result from the fewest dummies to the most, by least squares over log C_d; within 0.1 points",
        number_of_dummies,
        "a study with several numbers of dummies",
    ),
)
WHY = (
    Claim(
        "Dummies raise the variance of the gradient",
        "Theorem 1, Fig. 2",
        "variance of the gradient that a class's logit gets, mean over classes and epochs, relative to ERM's; more "
        "than 1 % higher",
        probe_change("mean_gradient_variance", "more"),
        "a study with the probe gradient_variance",
    ),
    Claim(
        "The extra gradient has mean 0 and is independent of ERM's",
        "section 2.2, which Theorem 1 rests on",
        "computed on normal logits of ten classes and two dummies: mean and correlation within their errors of 0",
        computed.theorem_1,
    ),
    Claim(
        "The smallest of T gradients is DuRM's at least every second time",
        "Theorem 2",
        "computed for normal gradients whose standard deviation is 1.01 to 10 times as large, T from 1 to a million: a "
        "probability of at least one half",
        computed.theorem_2,
    ),
    Claim(
        "So the gradient nearest to zero is more often DuRM's",
        "section 2.3, what Theorem 2 is used for",
        "computed for the same cases, of the size of the gradient: a probability of at least one half",
        computed.nearest_to_zero,
    ),
    Claim(
        "Top eigenvalue and norm of the gradient rise together",
        "Proposition 1",
        "correlation of the Hessian's largest eigenvalue and the norm, over the epochs of each run; above 0.1",
        within_runs("eigenvalue_norm_correlation", "more", CORRELATION_ROPE, "correlation"),
        "a study with flatness",
    ),
    Claim(
        "DuRM ends in flatter minima",
        "section 2.3; reviewers, who ask for eigenvalues",
        "top eigenvalue of the Hessian relative to ERM's; more than 1 % lower",
        probe_change("top_eigenvalue", "less"),
        "a study with flatness",
    ),
    Claim(
        "The gradient is larger with DuRM",
        "Fig. 3b",
        "norm of the gradient over training relative to ERM's; more than 1 % higher",
        probe_change("gradient_norm", "more"),
        "a study with the probe gradient_norm",
    ),
    Claim(
        "The weights go equally far from their start",
        "Fig. 3a",
        "squared distance from the initial weights relative to ERM's; within 5 %",
        probe_change("distance", "same", DISTANCE_ROPE),
        "a study with the probe distance",
    ),
    Claim(
        "All dummies end with an equal part of the gradient",
        "section 3.3, Figs. 4c, 4d and 10",
        "largest part of a dummy at the end of training, relative to 1/C_d; at most 10 % more",
        equal_dummies,
        "a study with the probe dummy_gradient and two dummies or more",
    ),
    Claim(
        "What the dummies get shrinks to nothing",
        "section 2.2: they are only pushed away",
        "mean probability of the dummies on the test set, which is their gradient; at most 0.1 % in every setting",
        dummy_share("dummy_mass", "% of probability"),
    ),
    Claim(
        "No sample is classified as a dummy",
        "section 2.2; reviewers",
        "test samples whose largest logit is a dummy's; at most 0.1 % in every setting",
        dummy_share("dummy_hits", "% of samples"),
    ),
)
ASKED = (
    Claim(
        "No sample can be attacked into a dummy",
        "reviewers",
        "samples that an attack which aims at a dummy brings into one; at most 0.1 % in every setting",
        attacked_into_dummies,
        "a study with attacks through dummy",
    ),
    Claim(
        "It makes no difference whether attacks use DuRM's own loss",
        "reviewers",
        "accuracy under attacks through all logits minus that through the real ones, with dummies; within 0.1 points",
        attack_surface,
        "a study with attacks through real and full",
    ),
    Claim(
        "Stronger attacks agree that DuRM is more robust",
        "reviewers, who ask for AutoAttack",
        "accuracy under APGD, Square or both through the real logits, with dummies minus without; above 0.1 points",
        robust_gain(lambda setting: True, ("apgd", "square", "auto")),
        "a study with the attacks apgd, square or auto",
    ),
    Claim(
        "The paper's gains stand clear of its error bars",
        "reviewers; Table 8",
        "computed from the table: bars of one standard deviation that do not overlap, in DuRM's favour, in most cells",
        computed.error_bars,
    ),
    Claim(
        "DuRM does more than label smoothing",
        "reviewers",
        "accuracy with 1 to 3 dummies minus that with label smoothing instead; above 0.1 points",
        more_than_a_trick,
        "a study with an arm that sets label_smoothing alone",
    ),
)
HEADINGS = {"Does it help?": HELPS, "Why should it?": WHY, "What reviewers asked": ASKED}
NUMBERED = [(heading, claim) for heading, claims in HEADINGS.items() for claim in claims]


def ledger(results: Path, only: Sequence[int] | None = None) -> list[Entry]:
    """The claims, or those of these numbers, with what the studies in the folder say about each.

    Raises:
        InputError: if the folder or a file in it cannot be read.
    """
    evidence = read_evidence(results)
    entries = []
    for number, (heading, claim) in enumerate(NUMBERED, 1):
        if only is None or number in only:
            found = claim.measure(evidence)
            missing = Finding("not tested", f"No study here speaks to it; it takes {claim.needs}.")
            entries.append(Entry(number, heading, claim, found or missing))
    return entries

"""The claims: what the paper says and what its reviewers asked, each as a statement that can be tested.

A claim has the place where it stands, how it is tested, a function that makes a finding of the evidence, and the
criterion with its margin and, of gains, the paper's own mean: of Table 8 at the two dummies of Table 1, of Table 12
over one to three (Table 5 shows the best of them), of the other tables as the main text has them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from durm.replication import computed
from durm.replication.claim_tests import (
    CLASSES,
    CORRELATION_ROPE,
    DISTANCE_ROPE,
    FRACTION_ROPE,
    RELATIVE_ROPE,
    SHARE_ROPE,
    VARIANCE_ROPE,
    Measure,
    cost,
    data_level,
    gain,
    hard_over_easy,
    is_plain,
    is_plain_pair,
    is_regularizable,
    is_regularized,
    is_trained_on_attacks,
    model_level,
    number_of_dummies,
    over_fitting,
    robust_gain,
    share_of_wins,
    spread_over_seeds,
    tail_over_head,
    trend,
)
from durm.replication.dummy_tests import attack_surface, attacked_into_dummies, dummy_share, more_than_a_trick
from durm.replication.every_setting import HALF
from durm.replication.finding import Criterion, Finding
from durm.replication.paper_tables import cell_gains, mean_gain
from durm.replication.probe_tests import equal_dummies, probe_change, variance_explains_failure, within_runs
from durm.replication.reported import reported_number
from durm.replication.study_index import IMBALANCE, SAMPLES, Evidence

MORE = Criterion("more")
"""By more than 0.1 points."""
CHANGE = Criterion("more", RELATIVE_ROPE, "%", relative=True)
"""By more than 1 %."""
SHARE = Criterion("at most", SHARE_ROPE, "% of samples")
NO_MARGIN = Criterion("more", 0.0, "", varied=False)
"""Of claims that are computed, which have a test of their own."""


@dataclass(frozen=True)
class Claim:
    """What is claimed.

    Attributes:
        statement: in our words.
        where: in the paper, or by whom it was asked.
        test: what is measured, and when it holds.
        measure: does it.
        needs: what a study must have to speak to it.
        criterion: when it holds, with the margin and the paper's mean gain.
        of_accuracy: it is about how well models do, so it rests on no training that did not learn.
    """

    statement: str
    where: str
    test: str
    measure: Measure
    needs: str = "a study"
    criterion: Criterion = MORE
    of_accuracy: bool = True


def _paper(*gains: Sequence[Any]) -> Criterion:
    """More than the margin, and the paper's mean gain over these cells of its tables."""
    return replace(MORE, paper_gain=mean_gain(*gains))


def _computed(found: Callable[[Evidence], Finding]) -> Measure:
    return lambda evidence, criterion: found(evidence)


TABLE_7 = ("mixup", "ema", "swa", "early-stop", "l2", "momentum")

HELPS = (
    Claim(
        "DuRM makes ordinary classification more accurate",
        "Tables 1 and 8",
        "accuracy with 1 to 3 dummies minus without, ERM on balanced data; above 0.1 points",
        gain(is_plain, is_plain_pair),
        "a study of classification with ERM",
        _paper(cell_gains(8, [2])),
    ),
    Claim(
        "The gain is consistent: DuRM beats ERM in most cases, 39 of 52",
        "section 3.1, of classification; abstract, of all tasks",
        "share of the settings of all tasks whose mean difference is above 0, with its exact interval, against 39/52 "
        "and one half (Table 8 has 54 cells)",
        share_of_wins,
        "a study",
        Criterion(
            "more",
            HALF,
            "% of settings",
            counted="setting",
            paper_gain=100 * reported_number("wins") / reported_number("wins-out-of"),
            varied=False,
        ),
    ),
    Claim(
        "DuRM makes segmentation better",
        "Tables 2, 3, 9 and 10",
        "mean IoU with dummies minus without; above 0.1 points",
        gain(lambda setting: setting.is_segmentation),
        "a study of segmentation",
        _paper(cell_gains(3, [1], metric="miou", split="val"), cell_gains(2, [1], metric="miou", derived="average")),
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
        _paper(cell_gains(4, [1])),
    ),
    Claim(
        "DuRM makes ordinary training more robust to attacks",
        "Tables 5 and 12",
        "accuracy under FGSM and PGD through the real logits, with dummies minus without; above 0.1 points",
        robust_gain(lambda setting: not is_trained_on_attacks(setting), ("fgsm", "pgd")),
        "a study with attacks",
        _paper(cell_gains(12, method="erm")),
    ),
    Claim(
        "DuRM makes adversarial training more robust",
        "Tables 5 and 12",
        "the same for models that were trained on FGSM or PGD; above 0.1 points",
        robust_gain(is_trained_on_attacks, ("fgsm", "pgd")),
        "a study of fgsm-at or pgd-at with attacks",
        _paper(cell_gains(12, method="fgsm-at"), cell_gains(12, method="pgd-at")),
    ),
    Claim(
        "DuRM makes long-tailed recognition more accurate",
        "Tables 6 and 13",
        "accuracy on a balanced test set after training on a long tail, with dummies minus without; above 0.1 points",
        gain(lambda setting: bool(setting.imbalance)),
        "a study of longtail: data",
        _paper(cell_gains(6, [2])),
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
        "gain in the tail (fewer than 20 samples of a class) minus gain in the head (more than 100; of data without "
        "such classes, from 20 to 100); above 0.1 points",
        tail_over_head,
        "a study of longtail: data with a head and a tail",
    ),
    Claim(
        "DuRM adds to other regularizers",
        "Tables 7 and 14",
        "gain on top of mixup, EMA, SWA, early stopping, label smoothing, L2 alone or momentum alone; above 0.1 points",
        gain(is_regularizable, is_regularized),
        "a study with mixup, ema, swa, patience, label smoothing, or with L2 or momentum alone",
        _paper(*(cell_gains(7, [3], regularizer=name) for name in TABLE_7)),
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
        "a study",
        Criterion("less", VARIANCE_ROPE, "%", relative=True),
    ),
    Claim(
        "It is almost free",
        "abstract, section 4",
        "time of a training step with dummies relative to one without; at most 1 % more",
        cost,
        "benchmarks/overhead.py, or a study",
        replace(CHANGE, wanted="at most"),
        of_accuracy=False,
    ),
    Claim(
        "It does not matter how many dummies there are",
        "section 3.2, Figs. 4a, 4b and 9; reviewers",
        "change of the result from the fewest dummies to the most, by least squares over log C_d; within 0.1 points",
        number_of_dummies,
        "a study with several numbers of dummies",
        Criterion("same"),
    ),
)
WHY = (
    Claim(
        "Dummies raise the variance of the gradient",
        "Theorem 1, Fig. 2",
        "variance of the gradient that a class's logit gets, mean over classes and epochs, relative to ERM's; more "
        "than 1 % higher",
        probe_change("mean_gradient_variance"),
        "a study with the probe gradient_variance",
        CHANGE,
        of_accuracy=False,
    ),
    Claim(
        "The extra gradient has mean 0 and is independent of ERM's",
        "section 2.2, which Theorem 1 rests on",
        "computed on normal logits of ten classes and two dummies: mean and correlation within their errors of 0",
        _computed(computed.theorem_1),
        criterion=NO_MARGIN,
        of_accuracy=False,
    ),
    Claim(
        "The smallest of T gradients is DuRM's at least every second time",
        "Theorem 2",
        "computed for normal gradients whose standard deviation is 1.01 to 10 times as large, T from 1 to a million: a "
        "probability of at least one half",
        _computed(computed.theorem_2),
        criterion=NO_MARGIN,
        of_accuracy=False,
    ),
    Claim(
        "So the gradient nearest to zero is more often DuRM's",
        "section 2.3, what Theorem 2 is used for",
        "computed for the same cases, of the size of the gradient: a probability of at least one half",
        _computed(computed.nearest_to_zero),
        criterion=NO_MARGIN,
        of_accuracy=False,
    ),
    Claim(
        "Top eigenvalue and norm of the gradient rise together",
        "Proposition 1",
        "correlation of the Hessian's largest eigenvalue and the norm, over the epochs of each run; above 0.1",
        within_runs("eigenvalue_norm_correlation"),
        "a study with flatness",
        Criterion("more", CORRELATION_ROPE, "correlation"),
        of_accuracy=False,
    ),
    Claim(
        "DuRM ends in flatter minima",
        "section 2.3; reviewers, who ask for eigenvalues",
        "top eigenvalue of the Hessian relative to ERM's; more than 1 % lower",
        probe_change("top_eigenvalue"),
        "a study with flatness",
        replace(CHANGE, wanted="less"),
        of_accuracy=False,
    ),
    Claim(
        "The gradient is larger with DuRM",
        "Fig. 3b",
        "norm of the gradient over training relative to ERM's; more than 1 % higher",
        probe_change("gradient_norm"),
        "a study with the probe gradient_norm",
        CHANGE,
        of_accuracy=False,
    ),
    Claim(
        "The weights go equally far from their start",
        "Fig. 3a",
        "squared distance from the initial weights relative to ERM's; within 5 %",
        probe_change("distance"),
        "a study with the probe distance",
        Criterion("same", DISTANCE_ROPE, "%", relative=True),
        of_accuracy=False,
    ),
    Claim(
        "All dummies end with an equal part of the gradient",
        "section 3.3, Figs. 4c, 4d and 10",
        "largest part of a dummy at the end of training, relative to 1/C_d; at most 10 % more",
        equal_dummies,
        "a study with the probe dummy_gradient and two dummies or more",
        Criterion("at most", FRACTION_ROPE, "%"),
        of_accuracy=False,
    ),
    Claim(
        "What the dummies get shrinks to nothing",
        "section 2.2: they are only pushed away",
        "mean probability of the dummies on the test set, which is their gradient; at most 0.1 % in every setting",
        dummy_share("dummy_mass", counts=False),
        "a study",
        replace(SHARE, unit="% of probability"),
        of_accuracy=False,
    ),
    Claim(
        "No sample is classified as a dummy",
        "section 2.2; reviewers",
        "test samples whose largest logit is a dummy's; at most 0.1 % of all by exact bounds, and no setting above it",
        dummy_share("dummy_hits", counts=True),
        "a study",
        SHARE,
        of_accuracy=False,
    ),
)
ASKED = (
    Claim(
        "No sample can be attacked into a dummy",
        "reviewers",
        "samples that an attack which aims at a dummy brings into one; at most 0.1 % of all by exact "
        "bounds, and no setting above it",
        attacked_into_dummies,
        "a study with attacks through dummy",
        SHARE,
        of_accuracy=False,
    ),
    Claim(
        "It makes no difference whether attacks use DuRM's own loss",
        "reviewers",
        "accuracy under attacks through all logits minus that through the real ones, with dummies; within 0.1 points",
        attack_surface,
        "a study with attacks through real and full",
        Criterion("same"),
        of_accuracy=False,
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
        _computed(computed.error_bars),
        criterion=NO_MARGIN,
        of_accuracy=False,
    ),
    Claim(
        "DuRM does more than label smoothing",
        "reviewers",
        "accuracy with 1 to 3 dummies minus that with label smoothing instead; above 0.1 points",
        more_than_a_trick,
        "a study with an arm that sets label_smoothing alone",
    ),
)
WHERE = (
    Claim(
        "Of models of several sizes, the one that overfits most gains most",
        "Fig. 5, model scale",
        "gain with the model whose training accuracy is furthest above its test accuracy without dummies, minus that "
        "with the one that overfits least; above 0.1 points",
        over_fitting(model_level),
        "a study with several models on the same data",
    ),
    Claim(
        "Of several numbers of classes, the one at which ERM overfits most gains most",
        "Fig. 5, number of classes",
        "the same over numbers of classes: gain where ERM overfits most minus that where it overfits least; above 0.1 "
        "points",
        over_fitting(lambda setting: data_level(setting, CLASSES)),
        "a study of subset: data with several numbers of classes",
    ),
    Claim(
        "DuRM fails where it does not raise the variance of the gradient",
        "appendix C.6",
        "in each seed, accuracy with the number of dummies whose gradient varies most minus that with the one whose "
        "gradient varies least; above 0.1 points",
        variance_explains_failure,
        "a study with the probe gradient_variance and two numbers of dummies",
    ),
)
HEADINGS = {
    "Does it help?": HELPS,
    "Why should it?": WHY,
    "What reviewers asked": ASKED,
    "Where it should help most, and why it may fail": WHERE,
}

"""How well a score of uncertainty finds samples of no known class, and predictions that are wrong.

Scores are higher where a model is less sure. All functions take tensors of any floating dtype and compute in double
precision; ties are counted exactly, so the order of the samples does not matter.
"""

import math

import torch
from torch import Tensor

from durm.scores import dummy_log_odds

RECALL = 0.95
"""Of FPR95: the share of known samples that the threshold accepts."""


def uncertainty_scores(logits: Tensor, num_classes: int) -> dict[str, Tensor]:
    """Scores of uncertainty from logits `(N, C + C_d)`, each `(N,)`. With real logits z, p = softmax(z), dummies d:

        dummy_mass   logsumexp(d) - logsumexp(z), the log-odds of p_D, which orders samples as p_D does; left out
                     without dummies
        msp          log(1 - max_c p_c), which orders as 1 - max_c p_c (Hendrycks and Gimpel, 2017)
        max_logit    -max_c z_c (Hendrycks et al., 2022)
        energy       -logsumexp(z) (Liu et al., 2020)
        entropy      -sum_c p_c log p_c

    Logarithms keep apart what would round to 0 or 1.

    Examples:
        >>> scores = uncertainty_scores(torch.tensor([[2.0, 1.0, 0.0]]), num_classes=2)
        >>> {name: round(value.item(), 4) for name, value in scores.items()}
        {'dummy_mass': -2.3133, 'msp': -1.3133, 'max_logit': -2.0, 'energy': -2.3133, 'entropy': 0.5822}
    """
    every = logits.double()
    real = every[:, :num_classes]
    log_p = real.log_softmax(1)
    others = log_p.scatter(1, real.argmax(1, keepdim=True), -torch.inf)  # all but the predicted class
    scores = {
        "msp": others.logsumexp(1),
        "max_logit": -real.amax(1),
        "energy": -real.logsumexp(1),
        "entropy": torch.special.entr(log_p.exp()).sum(1),
    }
    has_dummies = every.shape[1] > num_classes
    return ({"dummy_mass": dummy_log_odds(every, num_classes)} if has_dummies else {}) | scores


def auroc(known: Tensor, unknown: Tensor) -> float:
    """The probability that a sample of no known class has the higher score, ties counted half.

        AUROC = mean over pairs of 1[s_unknown > s_known] + 1[s_unknown = s_known] / 2

    Examples:
        >>> auroc(known=torch.tensor([0.1, 0.4]), unknown=torch.tensor([0.3, 0.4, 0.9]))
        0.75
    """
    _check(known, unknown)
    order = known.sort().values
    below = torch.searchsorted(order, unknown.contiguous())
    up_to = torch.searchsorted(order, unknown.contiguous(), right=True)
    return float((below + up_to).double().mean() / (2 * len(known)))


def fpr95(known: Tensor, unknown: Tensor) -> float:
    """The share of samples of no known class that are accepted by the threshold that accepts 95 % of the known ones.

    The threshold is the ⌈0.95 n⌉-th smallest score of the n known samples; what is not above it is accepted.

    Examples:
        >>> fpr95(known=torch.arange(20.0), unknown=torch.tensor([17.0, 18.0, 18.5, 40.0]))
        0.5
    """
    _check(known, unknown)
    threshold = known.kthvalue(math.ceil(RECALL * len(known) - 1e-9)).values
    return float((unknown <= threshold).double().mean())


def risk_coverage(score: Tensor, wrong: Tensor) -> Tensor:
    """The risk–coverage curve `(N,)`: at k - 1 the share of wrong predictions among the k samples of lowest score.

    Of samples with equal scores it is the mean over their orders: j of g such samples, e of them wrong, count as
    j e / g wrong ones.

    Examples:
        >>> risk_coverage(torch.tensor([0.1, 0.2, 0.3, 0.3]), torch.tensor([False, False, True, False]))
        tensor([0.0000, 0.0000, 0.1667, 0.2500], dtype=torch.float64)
    """
    _check(score, wrong)
    _, group, sizes = score.unique(return_inverse=True, return_counts=True)
    errors = torch.zeros(len(sizes), dtype=torch.double).index_add_(0, group, wrong.double())
    each = (errors / sizes).repeat_interleave(sizes)
    curve: Tensor = each.cumsum(0) / torch.arange(1, len(score) + 1)
    return curve


def aurc(score: Tensor, wrong: Tensor) -> float:
    """The area under the risk–coverage curve, the mean of `risk_coverage` (Geifman and El-Yaniv, 2017). Less is better.

    A score that orders at random has, in expectation, the error rate; the best possible depends on it too, so AURC
    compares scores of one model, and models of one accuracy.

    Examples:
        >>> round(aurc(torch.tensor([0.1, 0.2, 0.3, 0.3]), torch.tensor([False, False, True, False])), 4)
        0.1042
    """
    return float(risk_coverage(score, wrong).mean())


def _check(one: Tensor, other: Tensor) -> None:
    if not (len(one) and len(other)):
        raise ValueError("no samples: expected at least one of each kind")
    if one.isnan().any() or other.isnan().any():
        raise ValueError("a score is NaN")

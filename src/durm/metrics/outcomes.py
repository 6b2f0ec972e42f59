"""What a classifier makes of each single sample: all that metrics and intervals over test samples need.

Logits of N samples and C classes take N × C numbers; what is computed here from each row takes a few numbers a sample.
So logits are reduced chunk by chunk as they come from the model, and none are kept.
"""

from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from durm.scores import dummy_hits, dummy_log_odds, probabilities

OUTCOMES = ("correct", "margin", "log_p", "brier")
"""Those that a trial keeps of its test samples."""
CHUNK = 2**20
"""So many logits are reduced at a time, or one row of more. In float64 they take 8 MB, and a handful of copies."""


def reduce_logits(batches: Iterable[Tensor], targets: Tensor, num_classes: int) -> dict[str, Tensor]:
    """The columns of `sample_columns`, each (N,), from batches of logits (n, C + C_d) in the order of the targets (N,).

    A row's values do not depend on the rows that it is reduced with.
    """
    columns: dict[str, Tensor] = {}
    done = 0
    for logits in _chunks(batches):
        rows = slice(done, done + len(logits))
        done = rows.stop
        if done > len(targets):
            break
        for name, values in sample_columns(logits, targets[rows], num_classes).items():
            if name not in columns:  # whole ones from the start: small parts that stay would fragment the memory
                columns[name] = values.new_empty(len(targets))
            columns[name][rows] = values
    if done != len(targets):
        raise ValueError(f"logits of {done} and targets of {len(targets)} samples: expected as many")
    return columns


def _chunks(batches: Iterable[Tensor]) -> Iterator[Tensor]:
    """The same rows, in parts of up to `CHUNK` logits: small batches are joined, as a short one costs as much time."""
    held: list[Tensor] = []
    for batch in batches:
        most = max(1, CHUNK // batch.shape[1])
        for part in batch.split(most):
            if sum(map(len, held)) + len(part) > most:
                yield torch.cat(held)
                held = []
            held.append(part)
    if held:
        yield torch.cat(held)


def sample_columns(logits: Tensor, targets: Tensor, num_classes: int) -> dict[str, Tensor]:
    """From all logits, (N, C + C_d), and the true classes, (N,); each of shape (N,).

    Returns:
        Those of `sample_outcomes`, and `predicted`: the class of the largest real logit. `confidence`: the largest
        probability over the real classes; `confidence_all`: the same with the dummies in the normalisation. `hit` and
        `hit_all`: whether it is that of the true class (of equal probabilities the first counts, so that it can differ
        from `correct`, which goes by logits). `dummy_log_odds`: the logit of p_D (torch's sigmoid, other than what is
        used here, gives a number other last bits at another place). `dummy_hit`: whether the largest of all logits is
        a dummy's.
    """
    real = logits[:, :num_classes]
    predicted = real.argmax(1)
    confidence, surest = probabilities(logits, num_classes).max(1)
    confidence_all, surest_all = confidence, surest
    if logits.shape[1] > num_classes:
        confidence_all, surest_all = probabilities(logits, num_classes, over="all")[:, :num_classes].max(1)
    return {
        **sample_outcomes(real, targets, predicted),
        "predicted": predicted,
        "confidence": confidence,
        "hit": surest == targets,
        "confidence_all": confidence_all,
        "hit_all": surest_all == targets,
        "dummy_log_odds": dummy_log_odds(logits, num_classes),
        "dummy_hit": dummy_hits(logits, num_classes),
    }


def sample_outcomes(real: Tensor, targets: Tensor, predicted: Tensor) -> dict[str, Tensor]:
    """From the logits of the real classes, (N, C), their argmax, and the true classes; each of shape (N,), float64.

    Returns:
        `correct`: 1 if the argmax is the true class. `margin`: the right logit minus the largest other one. `log_p`:
        the logarithm of the true class's probability. `brier`: Σ_c (p_c − 1[c = y])² = Σ_c p_c² − 2 p_y + 1.
    """
    real, index = real.double(), targets[:, None]
    right = real.gather(1, index)[:, 0]
    log_p = F.log_softmax(real, 1)
    others = real.scatter(1, index, -torch.inf).amax(1)
    true = log_p.gather(1, index)[:, 0]
    return {
        "correct": (predicted == targets).double(),
        "margin": right - others,
        "log_p": true,
        "brier": log_p.mul_(2).exp_().sum(1) - 2 * true.exp() + 1,
    }

"""How well a score separates wrong predictions from right ones, when there are too many of them to sort."""

import torch
from torch import Tensor


class Ranking:
    """How well a score separates wrong samples from right ones, from histograms of the score's logit.

    The AUROC is the probability that a wrong sample has a higher score than a right one, ties counted half. Scores of
    one bin count as ties, which puts it off by at most

        ½ Σ_b (share of the wrong samples that is in bin b) × (share of the right samples that is in bin b).

    So the error is known; it is some ten-thousandths for logits that are spread over several units.

    On the scale of the logit, x = log(s / (1 − s)), scores of 10⁻⁹ and 10⁻⁸ are about as far apart as 0.1 and 0.5. Bins
    are of equal width in x / (8 + |x|), so there are 4,000 to a unit of x at 0, 800 at ±10 and 300 at ±20.

    Examples:
        >>> ranking = Ranking()
        >>> ranking.add(torch.tensor([-9.0, -5.0, -7.0, 1.0]), wrong=torch.tensor([False, False, True, True]))
        >>> ranking.auroc(), ranking.auroc_error()
        (0.75, 0.0)
    """

    BINS = 2**16

    def __init__(self) -> None:
        self.counts = torch.zeros(2, self.BINS, dtype=torch.long)
        """Of right and of wrong samples."""

    def add(self, logit: Tensor, wrong: Tensor) -> None:
        """Counts N samples: the logits of their scores, (N,), and whether they are wrong, bool (N,)."""
        finite = logit.nan_to_num(0.0)
        share = (finite / (8 + finite.abs()) + 1) / 2
        place = (self.BINS * share).long().clamp(max=self.BINS - 1) + self.BINS * wrong
        self.counts += torch.bincount(place, minlength=2 * self.BINS).view(2, self.BINS)

    def auroc(self) -> float | None:
        """None without samples of both kinds."""
        shares = self._shares()
        if shares is None:
            return None
        right, wrong = shares
        below = right.cumsum(0) - right
        return float((wrong * (below + right / 2)).sum())

    def auroc_error(self) -> float | None:
        """By how much it can be off."""
        shares = self._shares()
        return None if shares is None else float((shares[0] * shares[1]).sum() / 2)

    def _shares(self) -> Tensor | None:
        totals = self.counts.sum(1, keepdim=True)
        return self.counts.double() / totals if totals.all() else None

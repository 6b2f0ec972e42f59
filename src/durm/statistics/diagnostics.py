"""What a reader has to know about differences on which Student's interval is less reliable than it says."""

import math

import numpy as np

OUTLIER = 5.0
"""Robust standard deviations from the median."""
FEWEST = 6
"""Of fewer differences none is said to lie far from the others: there is no word about them anyway."""


def warn_about(differences: np.ndarray, step: float = 0.0) -> list[str]:
    """Sentences about a difference far from the others, and about skewed differences.

    An outlier has |d_i − median| > 5 · 1.4826 · MAD, the MAD being at least step/√6; skewed is an adjusted skewness
    |G₁| > 2√(6/n).
    """
    n = len(differences)
    if n < FEWEST:
        return []
    found = []
    distances = np.abs(differences - np.median(differences))
    scale = 1.4826 * max(float(np.median(distances)), step / math.sqrt(6))
    far = int((distances > OUTLIER * scale).sum()) if scale > 0 else 0
    if far:
        found.append(
            f"{far} of {n} differences {'lies' if far == 1 else 'lie'} more than {OUTLIER:g} robust standard "
            "deviations from the median: look at those runs; one that collapsed makes the interval unreliable"
        )
    skewness = adjusted_skewness(differences)
    if skewness is not None and abs(skewness) > 2 * math.sqrt(6 / n):
        found.append(
            f"the differences are skewed (G1 = {skewness:.1f}): with few pairs the interval then misses the true mean "
            "more often than it says"
        )
    return found


def adjusted_skewness(values: np.ndarray) -> float | None:
    """G₁ = √(n(n − 1))/(n − 2) · m₃/m₂^{3/2}; None without spread or with fewer than three values."""
    n = len(values)
    centred = values - values.mean()
    second = float((centred**2).mean())
    if n < 3 or second == 0:
        return None
    return float(math.sqrt(n * (n - 1)) / (n - 2) * (centred**3).mean() / second**1.5)

"""What is fixed before a study begins: the error rate, what counts as no difference, and when it may be looked at."""

import math

ALPHA = 0.05
ROPE = 0.1
"""Points of accuracy."""
LOOKS = (6, 10, 16, 25, 40, 63)
"""Where `--until-decided` looks at first; then ten times the last five, a hundred times, and so on."""


def look_sizes(most: int) -> list[int]:
    """The numbers of seeds at which a study of at most that many looks: 6, 10, 16, 25, 40, 63, 100, …"""
    sizes = list(LOOKS)
    while sizes[-1] < most:
        sizes += [10 * size for size in sizes[-5:]]
    return [*(size for size in sizes if size < most), most]


def look_alpha(k: int, alpha: float = ALPHA) -> float:
    """What the k-th look may spend: 6α/(π²k²), which adds up to α over all looks."""
    return 6 * alpha / (math.pi * k) ** 2

"""What the curvature of a training says to a reader: single numbers, and a figure over the epochs."""

from collections.abc import Sequence
from statistics import correlation

from durm.probes.describe import Description, ProbeFigure, Quantity


def _correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Pearson's, of three epochs or more whose values differ."""
    if len(one) < 3 or min(map(len, map(set, (one, other)))) == 1:
        return None
    return correlation(one, other)


DESCRIPTION = Description(
    rank=6,
    quantities=(
        Quantity(
            "top_eigenvalue",
            "largest eigenvalue of the Hessian of the real-class loss over the shared weights, at the end",
            lambda run: run.seen["end"]["real"]["eigenvalues"]["values"][0],
        ),
        Quantity("hessian_trace", "trace of that Hessian", lambda run: run.seen["end"]["real"]["trace"]["value"]),
        Quantity(
            "worst_rise",
            "largest rise of that loss that was found in a ball of 5 % of each filter's norm",
            lambda run: run.seen["end"]["real"]["stability"]["worst"],
        ),
        Quantity(
            "mean_rise",
            "mean rise of that loss in that ball",
            lambda run: run.seen["end"]["real"]["stability"]["mean"],
        ),
        Quantity(
            "eigenvalue_norm_correlation",
            "correlation of the largest eigenvalue and the norm of the gradient over the epochs of a run",
            lambda run: _correlation(run.seen["top_eigenvalue"], run.seen["gradient_norm"]),
        ),
    ),
    figures=(
        ProbeFigure(
            "top_eigenvalue",
            "largest eigenvalue of the Hessian",
            "The largest eigenvalue of the Hessian of the real-class loss over the shared weights, on the same "
            "training samples each time; mean and standard deviation over the seeds.",
            lambda run: run.seen["top_eigenvalue"],
        ),
    ),
)

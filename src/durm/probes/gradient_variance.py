"""The variance of the gradient that each real class's logit gets, over the samples of an epoch (Figs. 2 and 8).

    g_c = ∂L/∂z_c = p_c − y_c,    one value for each sample and class;    D(g_c) over the samples of an epoch

The paper records, over an epoch, what the logit of each class gets, and does not say more. We take, as Eq. (5) and
Theorem 1 do, the gradient of each sample's own loss (not divided by the batch size), all samples of an epoch together
whether they are of class c or not, each as the training saw it: in training mode, augmented, with the weights of its
step. The variance is the unbiased one, over n − 1.

The mean is that of ∂L/∂z_c, so −E(g_c) in the sign of Eq. (3). Theorem 1 says that dummies do not change it; the means
of the C real classes add up to −E(p_D).
"""

from typing import ClassVar

from durm.probes import PROBES, State, StepState
from durm.probes._running import EpochProbe, Moments
from durm.probes.describe import Description, ProbeFigure, Quantity, mean

DESCRIPTION = Description(
    rank=1,
    quantities=(
        Quantity(
            "gradient_variance",
            "variance of the logits' gradient at the marked epoch, mean over the classes",
            lambda run: mean(run.seen["variance"][run.marked]),
        ),
        Quantity(
            "mean_gradient_variance",
            "variance of the logits' gradient, mean over the classes and all epochs",
            lambda run: mean([value for classes in run.seen["variance"] for value in classes]),
        ),
    ),
    figures=(
        ProbeFigure(
            "gradient_variance",
            "variance of ∂L/∂z, mean over classes",
            "The variance, over the samples of an epoch, of the gradient that the logit of a class gets: mean over the "
            "classes and the seeds, with a band of one standard deviation over the seeds. Dashed: the epoch with the "
            "best validation, mean over the seeds.",
            lambda run: [mean(classes) for classes in run.seen["variance"]],
            marks=True,
        ),
        ProbeFigure(
            "class_variance",
            "variance of ∂L/∂z at the marked epoch",
            "The same class by class, at the epoch with the best validation; mean and standard deviation over the "
            "seeds.",
            lambda run: run.seen["variance"][run.marked],
            kind="classes",
        ),
        ProbeFigure(
            "class_accuracy",
            "test accuracy, %",
            "Test accuracy class by class, of the selected weights; mean and standard deviation over seeds.",
            lambda run: run.class_accuracy,
            kind="classes",
            corner="lower right",
        ),
    ),
)


@PROBES.register("gradient_variance")
class GradientVariance(EpochProbe[Moments]):
    """`variance` and `mean`: for each epoch C values. `samples`: for each epoch how many they are over."""

    description: ClassVar = DESCRIPTION
    entries: ClassVar = ("variance", "mean", "samples")
    gathered = Moments

    def on_step(self, state: StepState) -> None:
        self.running.add(state.gradient[:, : state.num_classes], state.counted)

    def on_epoch(self, state: State) -> None:
        samples, mean, variance = self.running.take()
        self.enter(variance=variance, mean=mean, samples=samples)

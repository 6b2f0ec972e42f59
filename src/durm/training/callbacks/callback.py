"""What a callback is: one optional part of a training. Whatever it does not override does nothing."""

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from durm.training.trainer import Trainer


class Callback:
    """Called by the trainer, in the order in which callbacks are listed there.

    Attributes:
        key: where its state stands in a checkpoint; None if it has none.
    """

    key: ClassVar[str | None] = None

    def __init__(self, trainer: "Trainer") -> None:
        self.trainer = trainer
        self.setup()

    def setup(self) -> None:
        """Before the first step, when the model, the objective and the optimizer are there."""

    def on_backward(self) -> None:
        """The gradients of a step are there, its update is still to come."""

    def on_step(self) -> None:
        """After the update; `trainer.progress.step` counts it."""

    def before_validation(self) -> None:
        """At the end of an epoch, or of as many steps as there are between two validations."""

    def on_validation(self, entry: dict[str, float]) -> None:
        """After a validation; the entry of the curves has its metrics, as `val_NAME`, and may be added to."""

    def should_stop(self) -> bool:
        """Whether the training is to end before its last step."""
        return False

    def on_end(self) -> None:
        """After the last step. Here the weights that count are put into the model."""

    def result(self) -> dict[str, Any]:
        """What it adds to the result; entries of one name that are mappings are joined."""
        return {}

    def state(self, *, finished: bool) -> Any:
        """What the rest of the training depends on; of a finished one, what its result is made of."""
        return None

    def load_state(self, state: Any) -> None:
        """Takes up such a state, which is None if there was nothing to keep."""

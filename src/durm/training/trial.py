"""A trial: the whole description of one run, validated, hashable, and nothing that does not bear on its numbers."""

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Positive = Annotated[int, Field(gt=0)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Precision = Annotated[
    Literal["32", "bf16-mixed", "16-mixed", "bf16-true", "64"],
    BeforeValidator(lambda value: str(value) if isinstance(value, int) else value),  # YAML reads 32 as a number
]


MOST_DUMMIES = 10_000
"""Far beyond any use; a slip of the keyboard should not fill the memory."""


class Strict(BaseModel):
    """A model that cannot be changed and that takes no key it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TrainSpec(Strict):
    """How a model is trained.

    Attributes:
        epochs: passes over the training data; or give `iterations`.
        iterations: optimizer steps, instead of epochs.
        batch_size: samples in a step, or of each domain in a step, where the data have domains. A last batch that is
            not full is dropped, unless it is the only one.
        lr: the learning rate after the warm-up.
        optimizer: sgd, adam or adamw.
        momentum: of SGD.
        nesterov: whether SGD's momentum is Nesterov's.
        betas: of Adam and AdamW.
        weight_decay: L2 for SGD and Adam, decoupled for AdamW.
        schedule: constant, step, cosine or poly, over the steps after the warm-up.
        warmup: steps over which the learning rate rises linearly to `lr`.
        min_lr: where cosine and poly end.
        step_epochs: epochs after which `step` multiplies the learning rate by `gamma`.
        gamma: the factor of `step`.
        power: of `poly`.
        label_smoothing: over the real classes.
        mixup_alpha: of the method `mixup`, whose shares are drawn from Beta(α, α).
        ema_decay: of the method `ema`.
        swa_start: the share of the training after which the method `swa` begins to average.
        swad_converge: looks at the validation loss that must not undercut the one where the method `swad` begins.
        swad_tolerance: looks in a row above the threshold that end its valley.
        swad_ratio: its threshold as a multiple of the mean loss of the first `swad_converge` looks.
        dann_weight: by how much the method `dann` scales the reversed gradient.
        dann_lr_scale: the learning rate of its discriminator, as a multiple of the model's.
        vrex_weight: of the variance of the risks in the method `vrex`.
        vrex_anneal: steps in which that weight is still 1.
        rsc_features: the share of the features that the method `rsc` mutes.
        rsc_batch: the share of the batch in which it does so.
        mmd_weight: of the discrepancy of the features in the method `mmd`.
        validate_every: steps from one validation to the next; null is an epoch.
        patience: validations without a better accuracy after which training stops; the best weights count then.
        clip_norm: the largest norm of the gradient; null clips nothing.
        channels_last: the memory format of images and convolutions.
        augment: none, flip, crop-flip, randaugment; null is what suits the data set.
    """

    epochs: Positive | None = None
    iterations: Positive | None = None
    batch_size: Positive = 64
    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.05
    optimizer: Literal["sgd", "adam", "adamw"] = "sgd"
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    nesterov: bool = False
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    weight_decay: NotNegative = 5e-4
    schedule: Literal["constant", "step", "cosine", "poly"] = "cosine"
    warmup: Annotated[int, Field(ge=0)] = 0
    min_lr: NotNegative = 0.0
    step_epochs: Positive = 30
    gamma: Annotated[float, Field(gt=0, le=1)] = 0.1
    power: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.9
    label_smoothing: Annotated[float, Field(ge=0, le=1)] = 0.0
    mixup_alpha: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    ema_decay: Annotated[float, Field(ge=0, lt=1)] = 0.999
    swa_start: Annotated[float, Field(ge=0, lt=1)] = 0.75
    swad_converge: Positive = 3
    swad_tolerance: Positive = 6
    swad_ratio: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.3
    dann_weight: NotNegative = 1.0
    dann_lr_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    vrex_weight: NotNegative = 10.0
    vrex_anneal: Annotated[int, Field(ge=0)] = 500
    rsc_features: Annotated[float, Field(gt=0, lt=1)] = 1 / 3
    rsc_batch: Annotated[float, Field(gt=0, le=1)] = 1 / 3
    mmd_weight: NotNegative = 1.0
    validate_every: Positive | None = None
    patience: Positive | None = None
    clip_norm: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    channels_last: bool = False
    augment: Literal["none", "flip", "crop-flip", "randaugment"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _length(cls, values: Any) -> Any:
        """20 epochs where nothing is said, so that naming `iterations` alone is enough."""
        if isinstance(values, dict) and values.get("epochs") is None and values.get("iterations") is None:
            return {**values, "epochs": 20}
        return values

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainSpec":
        if self.epochs is not None and self.iterations is not None:
            raise ValueError("epochs and iterations exclude each other: give one of them")
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov needs momentum, which is 0")
        return self


class Conditions(Strict):
    """What all trials of a study have in common.

    `threads` is part of it, because the number of threads changes the order of sums and with it the last bits.
    """

    pretrained: bool = False
    image_size: Positive | None = None
    skip_bad: bool = False
    select: Literal["last", "best-val"] = "last"
    device: str = "cpu"
    devices: Positive = 1
    precision: Precision = "32"
    threads: Positive = 1


class Trial(Conditions):
    """One run: a setting (data, model, method), an arm (its name, its dummies, its way of training) and a seed.

    `dummy_seed` draws other dummies under the same seed; `head_noise` disturbs the real rows of the initial head by
    normal noise of that size. Both are for null controls: they change a run in a way that should not matter.
    """

    data: str
    model: str
    method: str = "erm"
    arm: str = "erm"
    dummies: Annotated[int, Field(ge=0, le=MOST_DUMMIES)] = 0
    dummy_seed: Annotated[int, Field(ge=0)] = 0
    head_noise: NotNegative = 0.0
    seed: Annotated[int, Field(ge=0)] = 0
    train: TrainSpec = Field(default_factory=TrainSpec)

    def canonical(self) -> str:
        """The one JSON text of this trial."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    @property
    def id(self) -> str:
        return hashlib.sha256(self.canonical().encode()).hexdigest()[:8]

    @property
    def folder_name(self) -> str:
        """Readable first, then the hash: `digits-cnn-erm-durm-2-seed3-0123abcd`."""
        words = "-".join([self.data.rsplit("/", 1)[-1], self.model, self.method, self.arm, f"seed{self.seed}"])
        readable = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in words)
        return f"{readable[:80]}-{self.id}"

"""How a model is trained, attacked and under which conditions: the settings that a study file and flags give.

Neither torch nor a method is imported here, so that the command line has its flags from these classes at once.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from durm._config import Config, Epsilon, NotNegative, Positive, StepSize
from durm.errors import unknown

Precision = Annotated[
    Literal["32", "bf16-mixed", "16-mixed", "bf16-true", "64"],
    BeforeValidator(lambda value: str(value) if isinstance(value, int) else value),  # YAML reads 32 as a number
]

EPOCHS = 20
"""Where no length is given."""
Surface = Literal["real", "full", "dummy"]


class TrainSpec(Config):
    """How a model is trained, whatever the method.

    Attributes:
        epochs: passes over the training data; or give `iterations`.
        iterations: optimizer steps, instead of `epochs`.
        batch_size: samples in a step, or of each domain in a step, where the data have domains. A last batch that is
            not full is dropped, unless it is the only one.
        lr: the learning rate after the warm-up.
        optimizer: how the weights are updated.
        momentum: of SGD.
        nesterov: SGD's momentum is Nesterov's.
        betas: of Adam and AdamW.
        weight_decay: L2 for SGD and Adam, decoupled for AdamW.
        schedule: of the learning rate, over the steps after the warm-up.
        warmup: steps over which the learning rate rises linearly to `lr`.
        min_lr: the learning rate at which the schedules cosine and poly end.
        step_epochs: epochs after which the schedule step multiplies the learning rate by `gamma`.
        gamma: the factor of the schedule step.
        power: the exponent of the schedule poly.
        label_smoothing: over the real classes.
        validate_every: steps from one validation to the next; left out, an epoch.
        patience: validations without a better accuracy (or mean IoU) after which training stops; the best weights
            count then.
        clip_norm: the largest norm of the gradient; left out, nothing is clipped.
        freeze_batchnorm: batch normalisation keeps the statistics that the model came with, as suits pretrained ones;
            its scale and shift are trained.
        channels_last: images and convolutions have that memory format.
        augment: images with one label have none, flip, crop-flip or randaugment; those with masks none, flip, scene
            (scaled, cropped, flipped) or scene-jitter (colours too); left out, what suits the data set.
        crop: height and width of the crops of images with masks; left out, the size of the first training image.
        scales: between which images with masks are scaled before they are cropped.
        auxiliary: the weight of the loss of an auxiliary head.
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
    validate_every: Positive | None = None
    patience: Positive | None = None
    clip_norm: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    freeze_batchnorm: bool = False
    channels_last: bool = False
    augment: Literal["none", "flip", "crop-flip", "randaugment", "scene", "scene-jitter"] | None = None
    crop: tuple[Positive, Positive] | None = None
    scales: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0, allow_inf_nan=False)]] = (0.5, 2.0)
    auxiliary: NotNegative = 0.4

    @model_validator(mode="before")
    @classmethod
    def _length(cls, values: Any) -> Any:
        """20 epochs where nothing is said, so that naming `iterations` alone is enough."""
        if isinstance(values, dict) and values.get("epochs") is None and values.get("iterations") is None:
            return {**values, "epochs": EPOCHS}
        return values

    def defaults(self) -> dict[str, Any]:
        return super().defaults() | {"epochs": EPOCHS if self.iterations is None else None}

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainSpec":
        if self.epochs is not None and self.iterations is not None:
            raise ValueError("epochs and iterations exclude each other: give one of them")
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov needs momentum, which is 0")
        if self.scales[0] > self.scales[1]:
            raise ValueError(f"scales {list(self.scales)}: expected the smaller one first")
        return self


class AttackSpec(Config):
    """An attack on the test set, after training. Inputs are in [0, 1].

    Attributes:
        kind: fgsm, pgd, apgd, square, or auto, which is APGD, targeted APGD and Square, one after the other.
        name: under which it is reported; the kind unless it is given.
        eps: the radius of the ball; may be written as 8/255.
        norm: by which the radius is measured.
        steps: of pgd (10), of apgd (100), queries of square (5,000); of the APGDs of auto (100), whose queries are 50
            times as many.
        step_size: of pgd; left out, 2.5 eps / steps.
        restarts: random starts of which the best counts.
        loss: what the attack maximises; left out, cw for square and ce for the others.
        through: the logits that are attacked: the real ones, all of them (full), or into a dummy.
        curve: further radii, in ascending order, for the curve of accuracy against eps.
        target_classes: how many classes the targeted APGD of auto goes for; 0 has APGD with DLR instead, as version 1.
    """

    VERSION = 2
    EARLIER: ClassVar[Mapping[int, Mapping[str, Any]]] = {1: {"target_classes": 0}}

    kind: Literal["fgsm", "pgd", "apgd", "square", "auto"]
    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")] | None = None
    eps: Epsilon = 8 / 255
    norm: Literal["linf", "l2"] = "linf"
    steps: Positive | None = None
    step_size: StepSize | None = None
    restarts: Positive = 1
    loss: Literal["ce", "cw", "dlr"] | None = None
    through: Annotated[tuple[Surface, ...], Field(min_length=1)] = ("real",)
    curve: tuple[Epsilon, ...] = ()
    target_classes: Annotated[int, Field(ge=0)] = 9

    @model_validator(mode="before")
    @classmethod
    def _only_auto_has_changed(cls, values: Any) -> Any:
        """Version 2 is of auto; the others are what they were, and so are their ids."""
        if isinstance(values, dict) and values.get("kind") != "auto" and values.get("version", 1) in (1, 2):
            return {**values, "version": 1}
        return values

    @field_validator("through", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _in_units_of_one(self) -> "AttackSpec":
        for eps in (self.eps, *self.curve):
            if self.norm == "linf" and eps > 1:
                raise ValueError(f"eps {eps:g} is larger than 1, and inputs are in [0, 1]: did you mean {eps:g}/255?")
        if list(self.curve) != sorted(set(self.curve)):
            raise ValueError("curve: expected radii in ascending order")
        if self.kind != "auto" and self.target_classes:
            raise ValueError(f"target_classes {self.target_classes}: {self.kind} has none; auto has")
        if self.kind not in ("pgd", "apgd") and self.restarts > 1:
            raise ValueError(f"restarts {self.restarts}: {self.kind} has one; pgd and apgd have several")
        if self.kind in ("square", "auto") and self.step_size is not None:
            raise ValueError(f"step_size {self.step_size:g}: {self.kind} has none")
        if self.kind == "auto" and self.loss is not None:
            raise ValueError(f"loss {self.loss}: auto has its own")
        if self.kind in ("square", "auto") and self.curve:
            raise ValueError(f"curve: {self.kind} draws none; fgsm, pgd and apgd do")
        return self

    @property
    def label(self) -> str:
        return self.name or self.kind

    @property
    def keys(self) -> list[str]:
        """What its results are called, one for each surface: `pgd_real`, `pgd_full`."""
        return [f"{self.label}_{through}" for through in self.through]


class Conditions(Config):
    """What all trials of a study have in common.

    Attributes:
        pretrained: start from pretrained weights, which are downloaded.
        image_size: side of the images in pixels, of those with masks the shorter one; left out, as the data have it, or
            224 for photographs of different sizes.
        skip_bad: leave out files that cannot be read.
        select: the weights that are evaluated, the last ones or the best on the validation set.
        device: where it is trained: cpu, cuda, cuda:1, mps, or auto for what the machine has.
        devices: how many of them train one model; leave it out under torchrun.
        precision: of the weights and of the arithmetic.
        threads: of each trial; a condition, because their number changes the order of sums and with it the last bits.
        attacks: what the trained models are attacked with.
        attack_samples: so many samples of the test set are attacked, the same for all trials.
        probes: what is watched during training, by name.
        flatness: so many training samples on which the curvature of the loss is measured after each validation.
        window: height and width of the part of a test image that is segmented at a time; left out, all of it.
        window_stride: how far the window is moved; left out, two thirds of it.
    """

    pretrained: bool = False
    image_size: Positive | None = None
    skip_bad: bool = False
    select: Literal["last", "best-val"] = "last"
    device: str = "cpu"
    devices: Positive = 1
    precision: Precision = "32"
    threads: Positive = 1
    attacks: tuple[AttackSpec, ...] = ()
    attack_samples: Positive = 1000
    probes: tuple[str, ...] = ()
    flatness: Positive | None = None
    window: tuple[Positive, Positive] | None = None
    window_stride: tuple[Positive, Positive] | None = None

    @field_validator("attacks")
    @classmethod
    def _told_apart(cls, attacks: tuple[AttackSpec, ...]) -> tuple[AttackSpec, ...]:
        labels = [attack.label for attack in attacks]
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(f"two attacks are called {label!r}: give each a name of its own")
        return attacks

    @field_validator("probes", mode="before")
    @classmethod
    def _one_probe_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("probes")
    @classmethod
    def _probes_exist(cls, probes: tuple[str, ...]) -> tuple[str, ...]:
        if probes:
            from durm.probes import PROBES  # which takes torch

            for name in probes:
                if name not in PROBES.names():
                    raise ValueError(str(unknown("probe", name, PROBES.names())))
            if len(set(probes)) < len(probes):
                raise ValueError("a probe is given twice")
        return probes

    @model_validator(mode="after")
    def _conditions_go_together(self) -> "Conditions":
        if self.probes and self.precision == "16-mixed":
            raise ValueError("probes and precision 16-mixed exclude each other: its gradients are scaled")
        if self.window_stride is not None and self.window is None:
            raise ValueError("window_stride goes with window, which is not given")
        if self.window and self.window_stride and not all(map(int.__le__, self.window_stride, self.window)):
            raise ValueError(
                f"window_stride {list(self.window_stride)} goes past the window of {list(self.window)}: pixels in "
                "between would not be seen"
            )
        return self

"""What a study says, typed from the results to the page: the content of summary.json.

`schema_version` goes up when a name disappears or changes its meaning; names that are added do not change it. What an
older summary lacks has the default that stands here, so every older summary can be read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from durm.metrics import Metric, Task, describe_metric
from durm.statistics.hierarchical import Posterior
from durm.statistics.verdict import Comparison
from durm.study.arm import AXES, BY_ARM
from durm.training.result import Record

SCHEMA_VERSION = 2


class ArmValues(Record):
    """Values of an arm by seed, with their number, mean and standard deviation; None where these are not defined."""

    arm: str
    n: int = 0
    mean: float | None = None
    std: float | None = None
    values: dict[str, float] = Field(default_factory=dict)


class ArmSummary(ArmValues):
    """An arm in one setting. What is not a value of the metric is a mean over the seeds.

    Attributes:
        dummies: C_d; None of an arm that takes several.
        balanced_accuracy, nll, ece, ece_all, dummy_mass, dummy_hits: of the test set; None where not measured.
        groups: the accuracy of groups of classes.
        selections: for data with domains, the test accuracy by each rule of selecting weights.
        averaging: of methods that average weights, the steps from `start` to `end` whose weights were averaged, and of
            how many `models`.
        transfer: the accuracy on inputs that were attacked on another model.
        train_accuracy, val_accuracy: of those parts.
        seconds_per_step, parameters: what it costs.
        seconds, cpu_seconds, peak_memory: of a run, in seconds and bytes; CPU time of functions and commands only.
        chosen: of an arm that takes, for each seed, one of several: which. Of a search, the runs of the selected draws.
        searched: of a search, the selected values: path → seed → value.
    """

    dummies: int | None = None
    balanced_accuracy: float | None = None
    nll: float | None = None
    ece: float | None = None
    ece_all: float | None = None
    dummy_mass: float | None = None
    dummy_hits: float | None = None
    groups: dict[str, float | None] = Field(default_factory=dict)
    selections: dict[str, float] = Field(default_factory=dict)
    averaging: dict[str, float] = Field(default_factory=dict)
    transfer: dict[str, float] = Field(default_factory=dict)
    train_accuracy: float | None = None
    val_accuracy: float | None = None
    seconds_per_step: float | None = None
    parameters: float | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    peak_memory: float | None = None
    chosen: dict[str, str] = Field(default_factory=dict)
    searched: dict[str, dict[str, Any]] = Field(default_factory=dict)


class AttackedArm(ArmValues):
    """What an attack leaves of an arm's accuracy.

    Attributes:
        into_dummies: percent of the samples whose largest logit is a dummy afterwards, mean over the seeds.
        into_dummies_values: the same by seed.
        curve: pairs of radius and accuracy.
        warnings: why the accuracy may be too high, of all runs.
    """

    into_dummies: float | None = None
    into_dummies_values: dict[str, float] = Field(default_factory=dict)
    curve: list[tuple[float, float]] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)


class AttackSummary(Record):
    """One attack through one surface (`pgd_real`), or the clean samples: every arm, and each against the baseline."""

    attack: str
    arms: list[AttackedArm]
    comparisons: list[Comparison] = Field(default_factory=list)


class ProbeSummary(Record):
    """A number of what a probe saw: every arm, and each against the baseline."""

    quantity: str
    label: str = ""
    arms: list[ArmValues]
    comparisons: list[Comparison] = Field(default_factory=list)


class SecondaryMetric(Record):
    """A further metric that was chosen beforehand: every arm, and each against the baseline, by its own margin."""

    metric: str
    rope: float = 0.0
    arms: list[ArmValues]
    comparisons: list[Comparison] = Field(default_factory=list)


class AcrossSettings(Record):
    """What all settings of a study say about one arm together."""

    arm: str
    baseline: str
    posterior: Posterior


class Group(Record):
    """Arms that are not the study's own, such as those of the null control, and their comparisons."""

    arms: list[ArmSummary] = Field(default_factory=list)
    comparisons: list[Comparison] = Field(default_factory=list)


ClassValues = Mapping[str, Mapping[str, Mapping[str, float]]]
"""arm → seed → name of the value"""


class Setting(Record):
    """Data, model and method, with every arm and its comparison with the first.

    Attributes:
        setting: what it is called, `{"data": …, "model": …, "method": …}`; of others' runs, what their table says.
        arms: in the order of the study, the baseline first.
        comparisons: one for each other arm.
        secondary: one for each secondary metric.
        robustness: one for each attack.
        classes: of segmentation, arm → seed → the IoU of every class, and `miou`.
        probes: one for each quantity.
        derived: the arm that takes C_d by validation.
        null_control: each arm against itself.
        domains: of a mean over held-out domains, which.
    """

    setting: dict[str, str]
    arms: Annotated[list[ArmSummary], Field(min_length=1)]
    comparisons: list[Comparison] = Field(default_factory=list)
    secondary: list[SecondaryMetric] = Field(default_factory=list)
    robustness: list[AttackSummary] = Field(default_factory=list)
    classes: dict[str, dict[str, dict[str, float]]] = Field(default_factory=dict)
    probes: list[ProbeSummary] = Field(default_factory=list)
    derived: Group = Group()
    null_control: Group = Group()
    domains: list[str] | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Its place in the grid of the study: data, model, method; `by arm` where an arm overrides that."""
        data, model, method = (self.setting.get(axis, BY_ARM) for axis in AXES)
        return data, model, method

    @property
    def names(self) -> list[str]:
        """What it is called."""
        return list(self.setting.values())

    def arm(self, name: str) -> ArmSummary:
        return next(arm for arm in self.arms if arm.arm == name)


class StudyCost(Record):
    """Of all trials: seconds of training and steps together, and the largest memory in bytes."""

    seconds: float = 0.0
    steps: float = 0.0
    peak_memory: float = 0.0


class StudyProvenance(Record):
    """Where the trials ran. What is not the same for all of them is a list."""

    durm: str | list[str | None] | None = None
    torch: str | list[str | None] | None = None
    python: str | list[str | None] | None = None
    system: str | list[str | None] | None = None
    device: str | list[str | None] | None = None
    device_name: str | list[str | None] | None = None
    threads: int | list[int | None] | None = None
    processes: int | list[int | None] | None = None
    commit: str | list[str | None] | None = None

    @property
    def mixed(self) -> list[str]:
        """What differs between trials."""
        return [name for name, value in self if isinstance(value, list)]


class SearchSummary(Record):
    """A random search: how many draws every arm had on every seed, and from where each value was drawn.

    `draws_looked_at` are the numbers of draws at which a summary was made.
    """

    draws: int
    space: dict[str, str]
    draws_looked_at: list[int] = Field(default_factory=list)


class Summary(Record):
    """Everything that a study says.

    Attributes:
        schema_version: of this format.
        study: its name.
        metric: what the verdict is about.
        unit: of a metric that is not registered; "%" or nothing.
        higher_is_better: whether a larger value of it is the better one.
        rope: half the width of the equivalence margin, in the unit of the metric.
        select: which weights are evaluated.
        max_seeds: the last analysis of a study that goes on until it is decided.
        settings: every data × model × method.
        averages: for data with domains, the means over the held-out ones.
        across: of several settings (or means over domains), what they say together about each arm.
        trials, done, lost: how many runs there are, how many of them are finished, and how many failed for good.
        looked_at: the numbers of seeds at which a summary was made.
        search: of a study with a search, what was drawn; each seed of an arm is its best draw on validation.
        warnings: what a reader has to know before believing the verdict.
    """

    schema_version: int = 1
    study: str
    metric: str
    unit: str | None = None
    higher_is_better: bool = True
    rope: float
    select: str = "last"
    max_seeds: int | None = None
    settings: list[Setting]
    averages: list[Setting] = Field(default_factory=list)
    across: list[AcrossSettings] = Field(default_factory=list)
    trials: int = 0
    done: int = 0
    lost: int = 0
    looked_at: list[int] = Field(default_factory=list)
    search: SearchSummary | None = None
    warnings: list[str] = Field(default_factory=list)
    cost: StudyCost = StudyCost()
    provenance: StudyProvenance = StudyProvenance()

    @property
    def measured(self) -> Metric:
        """The metric that is judged, with what is known about it."""
        task: Task | None = "segmentation" if any(setting.classes for setting in self.settings) else None
        known = describe_metric(self.metric, task)
        return known if self.unit is None else replace(known, unit=self.unit, higher_is_better=self.higher_is_better)

    @property
    def analyses(self) -> int:
        """How often it was judged: with more seeds, or with more draws of a search."""
        return len(self.looked_at) + max(0, len(self.search.draws_looked_at) - 1 if self.search else 0)

    @property
    def over_samples(self) -> bool:
        """Whether every interval that decides is over test samples too."""
        judged = [c for setting in self.settings for c in setting.comparisons if c.n > 1]
        return bool(judged) and all(c.over == "seeds and samples" for c in judged)

    @property
    def is_decided(self) -> bool:
        """Whether every arm of every setting has a verdict other than undecided."""
        return all(c.verdict != "undecided" for setting in self.settings for c in setting.comparisons)

    @property
    def sections(self) -> Sequence[Setting]:
        """What has a part of the page to itself: the means over domains, then every setting."""
        return [*self.averages, *self.settings]

    def as_json(self) -> dict[str, Any]:
        """Plain values, as they stand in summary.json."""
        values: dict[str, Any] = self.model_dump(mode="json")
        return values

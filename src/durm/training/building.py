"""From a trial to its parts: the data, the model under the seed, the objective."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

from durm import data, models
from durm._random import derived_seed, generator
from durm.data.bundle import DataBundle
from durm.errors import InputError
from durm.heads import widen
from durm.heads.finding import find_heads
from durm.heads.layer import class_parameters
from durm.methods import OBJECTIVES, Objective, ObjectiveContext
from durm.training.trial import Trial


def load_bundle(trial: Trial, data_root: Path | None = None) -> DataBundle:
    """The data of the trial, split for its seed."""
    return data.load(trial.data, seed=trial.seed, options=data_options(trial, data_root))


def data_options(trial: Trial, data_root: Path | None = None) -> data.DataOptions:
    """Where the data of the trial lie, and how they are read."""
    prefix = models.HUGGING_FACE
    tokenizer = trial.model.removeprefix(prefix) if trial.pretrained and trial.model.startswith(prefix) else None
    return data.DataOptions(data_root, trial.image_size, trial.skip_bad, tokenizer)


def build_model(trial: Trial, bundle: DataBundle) -> nn.Module:
    """The C-class model under the seed, widened. The global random state is used, and left to the caller."""
    torch.manual_seed(derived_seed(trial.seed, "model"))
    model = models.build(
        trial.model,
        bundle.num_classes,
        bundle.input.shape,
        task=bundle.task,
        pretrained=trial.pretrained,
        vocabulary=bundle.input.vocabulary,
        embedding=bundle.input.embedding,
    )
    if trial.head_noise:
        random = generator(trial.seed, "head noise")
        for layer in find_heads(model, None, bundle.num_classes).values():
            for parameter in class_parameters(layer).values():
                parameter.data.add_(torch.randn(parameter.shape, generator=random), alpha=trial.head_noise)
    seed = derived_seed(trial.seed, "dummies", trial.dummy_seed) if trial.dummy_seed else trial.seed
    widen(model, trial.dummies, kind=trial.kind, num_classes=bundle.num_classes, seed=seed)
    if trial.train.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def build_objective(trial: Trial, bundle: DataBundle, model: nn.Module, steps: int = 0) -> Objective:
    """What the trial minimises, in so many steps."""
    if bundle.task == "segmentation" and trial.method.name != "erm":
        raise InputError(f"method {trial.method_name!r} is for data with one label for each sample, not for each pixel")
    context = ObjectiveContext(
        num_classes=bundle.num_classes,
        class_counts=tuple(torch.bincount(bundle.train.labels, minlength=bundle.num_classes).tolist()),
        seed=trial.seed,
        domains=len(bundle.domain_names),
        steps=steps,
        model=model,
        input=bundle.input,
        label_smoothing=trial.train.label_smoothing,
        auxiliary=trial.train.auxiliary,
    )
    return OBJECTIVES[trial.method.name](trial.method, context)


@contextmanager
def threads_and_random_state(threads: int) -> Iterator[None]:
    """The trial's number of threads, and a global generator whose state of before comes back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(enabled=True):
            yield
    finally:
        torch.set_num_threads(before)

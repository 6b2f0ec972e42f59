"""How long a study will take: a few steps of each setting are timed, and multiplied."""

import math
import time
from pathlib import Path
from typing import Any

import torch

from durm.data.bundle import DataBundle
from durm.methods import Batch
from durm.study.store import Store
from durm.training.building import build_model, build_objective, load_bundle, threads_and_random_state
from durm.training.loaders import Batches
from durm.training.schedules import make_optimizer
from durm.training.tasks import make_task
from durm.training.trial import Trial

STEPS = 2
EVALUATION = 0.35
"""What a sample costs in evaluation, in training samples: one forward pass of about three passes."""


def estimate_seconds(store: Store, data_root: Path | None, workers: int) -> float:
    """About how many seconds the trials that are not done will take. Only training and evaluation are counted."""
    pending = [trial for trial in store.study.trials() if not store.is_done(trial)]
    alike = [trial.model_copy(update={"seed": 0, "arm": "", "dummies": min(1, trial.dummies)}) for trial in pending]
    seconds = {trial: seconds_of(trial, load_bundle(trial, data_root)) for trial in dict.fromkeys(alike)}
    return sum(seconds[trial] for trial in alike) / min(workers, max(1, len(pending)))


def seconds_of(trial: Trial, bundle: DataBundle) -> float:
    """Of one trial."""
    if trial.train.augment == "none" and len(bundle.input.shape) == 3:  # all images would be normalised for a few steps
        trial = trial.model_copy(update={"train": trial.train.model_copy(update={"augment": "flip"})})
    task = make_task(trial, bundle, torch.device(trial.device))
    loader = task.loader()
    return seconds_per_sample(trial, bundle, loader) * samples(trial, bundle, loader, task.train_samples)


def samples(trial: Trial, bundle: DataBundle, loader: Batches[Any], train_samples: int) -> float:
    """How many samples a trial trains on and evaluates, in units of training ones."""
    steps = trial.train.iterations or (trial.train.epochs or 0) * loader.steps_per_epoch
    validations = -(-steps // (trial.train.validate_every or loader.steps_per_epoch))
    validated = len(bundle.val) + (len(bundle.test) if bundle.held_out is not None else 0)
    evaluated = validations * validated + len(bundle.test) + min(len(bundle.train), train_samples)
    size = 1.0  # of a sample in evaluation, in training ones: scenes are cropped in training, and whole in evaluation
    if trial.train.crop is not None:
        size = math.prod(bundle.input.shape[1:]) / math.prod(trial.train.crop)
    return steps * loader.samples_per_step + EVALUATION * evaluated * size


def seconds_per_sample(trial: Trial, bundle: DataBundle, loader: Batches[Any]) -> float:
    """The time of a training step divided by its samples: the faster of two, after one that warms up."""
    device = torch.device(trial.device)
    with threads_and_random_state(trial.threads):
        model = build_model(trial.model_copy(update={"pretrained": False}), bundle).to(device).train()
        objective = build_objective(trial, bundle, model)
        if objective.extra_module is not None:
            objective.extra_module.to(device)
        optimizer = make_optimizer(trial.train, model.parameters())
        batch = next(loader.epoch(0))
        domains = None if batch.domains is None else batch.domains.to(device)
        batch = Batch(batch.inputs.to(device), batch.targets.to(device), domains=domains)
        times = []
        for _ in range(1 + STEPS):
            started = time.perf_counter()
            optimizer.zero_grad()
            loss = objective.loss(model, batch)
            loss.backward()
            optimizer.step()
            loss.item()
            times.append(time.perf_counter() - started)
    return min(times[1:]) / len(batch.targets)

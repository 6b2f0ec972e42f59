"""The loop: from a trial to its result.

Trials with the same seed and different C_d differ in nothing but the dummy rows. The C-class model is built under the
seed and widened with generators of its own; the split, the order of batches and the augmentation come from (seed,
purpose, epoch); the global generator, which dropout draws from, is set once after the model is built, and nothing else
draws from it. So a run that is interrupted goes on from its checkpoint to the same bits.
"""

import hashlib
import math
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from durm._random import derived_seed
from durm._ranks import launched, of_all, of_first, size, sums
from durm.data.bundle import DataBundle, Samples
from durm.errors import InputError
from durm.methods import NO_TARGET, Batch
from durm.methods.averager import batch_norms
from durm.training import checkpoint, launch
from durm.training.building import build_model, build_objective, load_bundle, threads_and_random_state
from durm.training.callbacks.attacks import AttackCallback
from durm.training.callbacks.averaging import AveragingCallback
from durm.training.callbacks.callback import Callback
from durm.training.callbacks.checkpoint import CheckpointCallback
from durm.training.callbacks.curvature import CurvatureCallback
from durm.training.callbacks.log import LogCallback
from durm.training.callbacks.probes import ProbesCallback
from durm.training.callbacks.selection import DomainCallback, SelectionCallback
from durm.training.engine import Engine, check_processes, with_engine
from durm.training.engine import Interrupted as Interrupted
from durm.training.outcomes import pack_outcomes, samples_sha256
from durm.training.result import SCHEMA_VERSION, Cost, Result, SampleCounts, peak_memory, provenance
from durm.training.schedules import learning_rate, make_optimizer, without_effect
from durm.training.tasks import make_task
from durm.training.trial import Trial


class Diverged(ArithmeticError):
    """The loss is no longer a number."""


def _ignore(*_: object) -> None: ...


def _never() -> bool:
    return False


@dataclass(frozen=True)
class RunContext:
    """Where and how a trial runs: nothing of it changes its numbers.

    Attributes:
        folder: where the checkpoint and the curves are written; None writes nothing.
        data_root: the folder of downloaded data sets.
        checkpoint_seconds: the shortest time between two checkpoints.
        num_workers: processes that read streamed images.
        progress: called after each validation with its entry of the curves and the number of epochs.
        stop: asked before each step, and after each batch that is attacked; once it says yes, a checkpoint is written
            and `Interrupted` raised.
        warn: called with a sentence that the user should read.
    """

    folder: Path | None = None
    data_root: Path | None = None
    checkpoint_seconds: float = 30.0
    num_workers: int = 0
    progress: Callable[[dict[str, float], int], None] = _ignore
    stop: Callable[[], bool] = _never
    warn: Callable[[str], None] = _ignore


def run(trial: Trial, context: RunContext | None = None) -> Result:
    """Trains and evaluates one trial. A checkpoint of the same trial in the folder is taken up.

    With several devices the work is done in processes of its own, or by those that torchrun started.
    """
    context = context or RunContext()
    result: Result
    if launched() > 1:
        silent = replace(context, folder=None, progress=_ignore, stop=_never, warn=_ignore)
        launch.announce((trial, partial(_run, trial, silent)))
    elif trial.devices > 1:
        result = launch.in_processes(trial, partial(_work, trial, context), context)
        return result
    result = with_engine(trial, partial(_run, trial, context))
    return result


def _work(trial: Trial, context: RunContext, **calls: Any) -> Callable[[Engine], Result]:
    """What each process of a trial does. Only the first one writes and calls back."""
    return partial(_run, trial, replace(context, **calls))


def _run(trial: Trial, context: RunContext, engine: Engine) -> Result:
    if engine.global_rank > 0:
        context = replace(context, folder=None, progress=_ignore, stop=_never, warn=_ignore)
    with threads_and_random_state(trial.threads):
        trainer = Trainer(trial, _same_bundle(trial, context), engine, context)
        trainer.checkpoint.resume()
        trainer.fit()
        return trainer.result()


def _same_bundle(trial: Trial, context: RunContext) -> DataBundle:
    """The data, if all processes of the trial have the same; otherwise an InputError in each of them."""
    bundle, problem = None, None
    try:
        bundle = load_bundle(trial, context.data_root)
        check_processes(trial, len(bundle.train), len(bundle.domain_names))
    except (InputError, OSError) as error:
        if size() == 1:
            raise
        problem = str(error)
    seen = of_all((platform.node(), problem, bundle and size() > 1 and bundle.fingerprint))
    for node, reason, fingerprint in seen:
        if reason is not None:
            raise InputError(reason if reason == seen[0][1] else f"on node {node}: {reason}")
        if fingerprint != seen[0][2]:
            raise InputError(f"data {trial.data!r} on node {node} are not those on node {seen[0][0]}")
    assert bundle is not None
    return bundle


@dataclass
class Progress:
    """How far a trial has come: all of its state that is not in the model, the optimizer or a callback.

    `loss_sum` and `losses` are of the steps since the last validation, `best` is the best value of the task's metric
    so far, and `waited` counts the validations since.
    """

    step: int = 0
    loss_sum: float = 0.0
    losses: int = 0
    seconds: float = 0.0
    curves: list[dict[str, float]] = field(default_factory=list)
    best_epoch: float = 0
    best: float = -1.0
    waited: int = 0


class Trainer:
    """Trains a model, step by step; everything optional is a callback.

    Attributes:
        plain_model: as it was built; `model` is wrapped for the devices.
        extra_module: a module of the objective that is trained with the model.
        steps, epochs: how long the training is.
    """

    def __init__(self, trial: Trial, bundle: DataBundle, engine: Engine, context: RunContext) -> None:
        self.trial, self.bundle, self.engine, self.context = trial, bundle, engine, context
        self.progress = Progress()
        self.plain_model = build_model(trial, bundle)
        self.task = make_task(trial, bundle, engine.device, context.num_workers)
        self.loader = self.task.loader(engine.global_rank, engine.world_size)
        self.steps = trial.train.iterations or (trial.train.epochs or 0) * self.loader.steps_per_epoch
        self.epochs = -(-self.steps // self.loader.steps_per_epoch)
        self.objective = build_objective(trial, bundle, self.plain_model, self.steps)
        self.extra_module = self.objective.extra_module
        if self.extra_module is not None:
            self.objective.extra_module = engine.setup_module(self.extra_module)
        optimizer = make_optimizer(
            trial.train, self.plain_model.parameters(), self.extra_module,
            self.objective.lr_scale, self.objective.extra_weight_decay,
        )  # fmt: skip
        self.model, self.optimizer = engine.setup(self.plain_model, optimizer)
        wanted: dict[type[Callback], bool] = {  # in the order in which they are called
            ProbesCallback: bool(trial.probes),
            CurvatureCallback: trial.flatness is not None,
            DomainCallback: bundle.held_out is not None,
            SelectionCallback: True,
            AveragingCallback: trial.average is not None,
            AttackCallback: bool(trial.attacks),
            LogCallback: True,
        }
        self.checkpoint = CheckpointCallback(self)
        self.callbacks = [*(kind(self) for kind in wanted if wanted[kind]), self.checkpoint]
        self.stopping = False
        torch.manual_seed(derived_seed(trial.seed, "dropout", engine.global_rank))

    def fit(self) -> None:
        """Trains to the end, from wherever a checkpoint left off."""
        progress = self.progress
        while (progress.step < self.steps or progress.losses) and not any(one.should_stop() for one in self.callbacks):
            started = time.perf_counter()
            self._train_until(self._next_validation())
            progress.seconds += time.perf_counter() - started
            self._validate()

    def _next_validation(self) -> int:
        """The step after which it is due: the one where a run was interrupted, if there are losses since the last."""
        every = self.trial.train.validate_every or self.loader.steps_per_epoch
        done = self.progress.step - (1 if self.progress.losses else 0)
        return min(self.steps, (done // every + 1) * every)

    def _train_until(self, end: int) -> None:
        self.model.train()
        if self.trial.train.freeze_batchnorm:
            for layer in batch_norms(self.plain_model):
                layer.eval()
        while self.progress.step < end:
            epoch, start = divmod(self.progress.step, self.loader.steps_per_epoch)
            for batch in islice(self.loader.epoch(epoch, start), end - self.progress.step):
                self._train_step(batch)

    def _train_step(self, batch: Batch) -> None:
        progress, spec = self.progress, self.trial.train
        self.stop_if_asked()
        rate = learning_rate(spec, progress.step, self.steps, self.loader.steps_per_epoch)
        if progress.step == self.objective.restart_step:
            self.optimizer.state.clear()
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["lr_scale"]
        self.optimizer.zero_grad(set_to_none=True)
        batch = self.on_device(batch)
        loss = self.objective.loss(self.model, batch)
        if size() > 1:
            loss = loss * self._share(batch)
        self.engine.backward(loss)
        for one in self.callbacks:
            one.on_backward()
        for limit in (self.objective.clip_norm, spec.clip_norm):
            if limit is not None:
                nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.optimizer.step()
        value = self.agree(loss.item())
        if not math.isfinite(value):
            raise Diverged(f"the loss became {value} at step {progress.step + 1} with learning rate {rate:.3g}")
        progress.loss_sum += value
        progress.losses += 1
        progress.step += 1
        for one in self.callbacks:
            one.on_step()

    def _share(self, batch: Batch) -> float:
        """By which the loss is multiplied so that the mean over the processes is the mean over all labelled pixels."""
        if batch.targets.ndim == 1:
            return 1.0
        labelled = float((batch.targets != NO_TARGET).sum())
        (total,) = sums([labelled], self.engine.device)
        return labelled * size() / max(1.0, total)

    def agree(self, loss: float = 0.0) -> float:
        """The loss of the whole batch. All processes learn in one go whether to save, and whether to stop."""
        if size() == 1:
            return loss
        asked = [loss, self.context.stop(), self.checkpoint.is_due()]
        total, stop, due = sums(asked, self.engine.device)
        self.stopping, self.checkpoint.due = bool(stop), bool(due)
        return total / size()

    def _validate(self) -> None:
        progress, step = self.progress, self.progress.step
        for one in self.callbacks:
            one.before_validation()
        val = of_first(self.measure(self.bundle.val))
        rate = learning_rate(self.trial.train, step - 1, self.steps, self.loader.steps_per_epoch)
        if not math.isfinite(val["nll"]):  # the last step spoiled the weights, and no other loss would show it
            raise Diverged(f"the validation loss is {val['nll']} after step {step} with learning rate {rate:.3g}")
        epoch = step / self.loader.steps_per_epoch
        entry = {
            "epoch": math.ceil(epoch) if self.trial.train.validate_every is None else epoch,
            "step": step,
            "lr": rate,
            "train_loss": progress.loss_sum / progress.losses,
            **{f"val_{name}": value for name, value in val.items()},
        }
        progress.curves.append(entry)
        progress.loss_sum, progress.losses = 0.0, 0
        for one in self.callbacks:
            one.on_validation(entry)

    def measure(self, samples: Samples) -> dict[str, float]:
        """The metrics of the model as it is."""
        return self.task.scores(self.model, samples).metrics

    def result(self) -> Result:
        """What the weights that count are worth."""
        for one in self.callbacks:
            one.on_end()
        self.checkpoint.save(finished=True)
        progress, bundle, device = self.progress, self.bundle, self.engine.device
        self.scores = self.task.scores(self.model, bundle.test)
        if not math.isfinite(loss := self.scores.metrics["nll"]):
            raise Diverged(f"the test loss is {loss}")
        part = torch.arange(min(len(bundle.train), self.task.train_samples))
        found: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "trial": self.trial.id,
            **vars(self.scores),
            "val": self.measure(bundle.val),
            "train": self.measure(bundle.train.subset(part)),
            "held_out": bundle.held_out,
            "samples": SampleCounts(train=len(bundle.train), val=len(bundle.val), test=len(bundle.test)),
            "class_names": bundle.class_names,
            "curves": progress.curves,
            "warnings": self._without_effect(),
            "provenance": provenance(device, self.trial.threads, self.checkpoint.fingerprint, bundle.notes, size()),
            "weights_sha256": checkpoint.weights_sha256(self.plain_model.state_dict()),
            "test_sha256": samples_sha256(bundle.test),
        }
        for one in self.callbacks:
            for name, value in one.result().items():
                if isinstance(value, dict):
                    found[name] = {**found.get(name, {}), **value}
                else:
                    found[name] = found[name] + value if isinstance(found.get(name), list) else value
        found["outcomes"] = pack_outcomes(found["outcomes"])
        found["outcomes_sha256"] = hashlib.sha256(found["outcomes"]).hexdigest()
        cost = Cost(
            seconds=progress.seconds,
            seconds_per_step=progress.seconds / progress.step,
            steps=progress.step,
            attack_passes=progress.step * self.objective.attack_passes,
            peak_memory=peak_memory(device),
            parameters=sum(parameter.numel() for parameter in self.plain_model.parameters()),
        )
        return Result(**found, cost=cost)

    def _without_effect(self) -> list[str]:
        """Settings that changed nothing in this training."""
        steps = self.progress.step
        found = self.objective.without_effect(steps)
        found += without_effect(self.trial.train, steps)
        if self.trial.train.freeze_batchnorm and not batch_norms(self.plain_model):
            found.append("`freeze_batchnorm` had no effect: the model has no batch normalisation with statistics")
        return found

    def stop_if_asked(self, *, finished: bool = False) -> None:
        """Ends the run where it is, to go on from there later. `finished` is that of `CheckpointCallback.save`."""
        if self.stopping if size() > 1 else self.context.stop():
            self.checkpoint.save(finished=finished)
            raise Interrupted

    def on_device(self, batch: Batch) -> Batch:
        """The batch of the next step, where the model is."""
        device = self.engine.device
        inputs = batch.inputs.to(device, memory_format=self.task.memory_format)
        domains = None if batch.domains is None else batch.domains.to(device)
        return Batch(inputs, batch.targets.to(device), self.progress.step, domains)

"""The loop: from a trial to its result.

Trials with the same seed and different C_d differ in nothing but the dummy rows. The C-class model is built under the
seed and widened with generators of its own; the split, the order of batches and the augmentation come from (seed,
purpose, epoch); the global generator, which dropout draws from, is set once after the model is built, and nothing else
draws from it. So a run that is cut off goes on from its checkpoint to the same bits.
"""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from durm import data, models
from durm._files import WriteError
from durm._random import derived_seed, generator
from durm.averaging import AVERAGERS, Averager, Course, WatchesValidation, copied
from durm.data.bundle import DataBundle, Samples
from durm.errors import InputError
from durm.evaluation.robustness import robustness
from durm.heads import widen
from durm.heads.finding import find_heads
from durm.heads.layer import class_parameters
from durm.objectives import OBJECTIVES, Batch, Objective, Problem, WithAttack, WithModule
from durm.probes import Watch, watch
from durm.training import checkpoint
from durm.training.engine import Engine, with_engine
from durm.training.flat import FlatnessWatch
from durm.training.method import parse_method
from durm.training.result import Result, peak_memory, provenance
from durm.training.schedules import learning_rate, make_optimizer
from durm.training.tasks import make_task
from durm.training.trial import TrainSpec, Trial


class Interrupted(Exception):
    """Training was asked to stop; the checkpoint is written, and running the trial again goes on from there."""


class Diverged(ArithmeticError):
    """The loss is no longer a number."""


def _ignore(*_: object) -> None: ...


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Surroundings:
    """What a run needs beside its trial, and what does not change its numbers.

    Attributes:
        folder: where the checkpoint and the curves are written; None writes nothing.
        data_root: the folder of downloaded data sets.
        checkpoint_seconds: the shortest time between two checkpoints.
        num_workers: processes that read streamed images.
        progress: called after each epoch with the latest entry of the curves and the number of epochs.
        stop: asked before each step; once it says yes, a checkpoint is written and `Interrupted` raised.
        warn: called with a sentence that the user should read.
    """

    folder: Path | None = None
    data_root: Path | None = None
    checkpoint_seconds: float = 30.0
    num_workers: int = 0
    progress: Callable[[dict[str, float], int], None] = _ignore
    stop: Callable[[], bool] = _never
    warn: Callable[[str], None] = _ignore


def run(trial: Trial, surroundings: Surroundings | None = None) -> Result:
    """Trains and evaluates one trial. A checkpoint of the same trial in the folder is taken up.

    With several devices the work is done in processes of its own, which cannot call back: there is no progress then.
    """
    surroundings = surroundings or Surroundings()
    if trial.devices > 1:
        surroundings = replace(surroundings, progress=_ignore, stop=_never, warn=_ignore)
    result: Result = with_engine(trial, partial(_run, trial, surroundings))
    return result


def load_bundle(trial: Trial, data_root: Path | None = None) -> DataBundle:
    prefix = models.HUGGING_FACE
    tokenizer = trial.model.removeprefix(prefix) if trial.pretrained and trial.model.startswith(prefix) else None
    options = data.DataOptions(data_root, trial.image_size, trial.skip_bad, tokenizer)
    return data.load(trial.data, seed=trial.seed, options=options)


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
        _disturb_heads(model, bundle.num_classes, trial)
    seed = derived_seed(trial.seed, "dummies", trial.dummy_seed) if trial.dummy_seed else trial.seed
    widen(model, trial.dummies, num_classes=bundle.num_classes, seed=seed)
    if trial.train.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def build_objective(
    trial: Trial, bundle: DataBundle, model: nn.Module, look: Callable[[Tensor, Tensor], None] | None = None
) -> Objective:
    """What the trial minimises. `look` is called with the logits and targets of every cross-entropy."""
    name = parse_method(trial.method)[0]
    if bundle.task == "segmentation" and name != "erm":
        raise InputError(f"method {trial.method!r} is for data with one label for each sample, not for each pixel")
    counts = torch.bincount(bundle.train.labels, minlength=bundle.num_classes).tolist()
    problem = Problem(
        num_classes=bundle.num_classes,
        class_counts=tuple(counts),
        seed=trial.seed,
        domains=len(bundle.domain_names),
        model=model,
        input=bundle.input,
        look=look,
        **_settings(Problem, trial.train),
    )
    return OBJECTIVES[name](problem)


def _settings(kind: type[Problem] | type[Course], spec: TrainSpec) -> dict[str, Any]:
    """What a recipe says of the fields that a class has in common with it."""
    return {field.name: getattr(spec, field.name) for field in fields(kind) if field.name in TrainSpec.model_fields}


@torch.no_grad()
def _disturb_heads(model: nn.Module, num_classes: int, trial: Trial) -> None:
    random = generator(trial.seed, "head noise")
    for layer in find_heads(model, None, num_classes).values():
        for parameter in class_parameters(layer).values():
            parameter.add_(torch.randn(parameter.shape, generator=random), alpha=trial.head_noise)


def _run(trial: Trial, surroundings: Surroundings, engine: Engine) -> Result:
    with threads_and_random_state(trial.threads):
        bundle = load_bundle(trial, surroundings.data_root)
        training = _Training(trial, bundle, engine, surroundings)
        training.resume()
        training.fit()
        return training.result()


@dataclass
class _Progress:
    """How far a trial has come: all of its state that is not in the model or the optimizer.

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


class _Training:
    def __init__(self, trial: Trial, bundle: DataBundle, engine: Engine, surroundings: Surroundings) -> None:
        self.trial, self.bundle, self.engine, self.surroundings = trial, bundle, engine, surroundings
        spec = trial.train
        self.plain_model = build_model(trial, bundle)
        self.watch: Watch | None = None
        if trial.probes:
            self.watch = watch(self.plain_model, trial.probes, label_smoothing=spec.label_smoothing)
        self.flatness: FlatnessWatch | None = None
        if trial.flatness is not None:
            self.flatness = FlatnessWatch(self.plain_model, bundle, trial.flatness, engine.device)
        self.seen: list[tuple[Tensor, Tensor]] = []
        look = (lambda *seen: self.seen.append(seen)) if self.watch is not None else None
        self.objective = build_objective(trial, bundle, self.plain_model, look)
        self.beside: nn.Module | None = None
        lr_scale = 1.0
        if isinstance(self.objective, WithModule):
            self.beside, lr_scale = self.objective.module, self.objective.lr_scale
            self.objective.module = engine.wrap(self.beside)
        self.model, self.optimizer = engine.setup(
            self.plain_model, lambda model: make_optimizer(spec, model.parameters(), self.beside, lr_scale)
        )
        self.task = make_task(trial, bundle, engine.device)
        self.feed = self.task.feed(engine.rank, engine.ranks, surroundings.num_workers)
        self.steps = spec.iterations or (spec.epochs or 0) * self.feed.steps_per_epoch
        self.epochs = -(-self.steps // self.feed.steps_per_epoch)
        _, averager = parse_method(trial.method)
        self.averager: Averager | None = None
        if averager is not None:
            course = Course(self.steps, self.feed.steps_per_epoch, **_settings(Course, spec))
            self.averager = AVERAGERS[averager](self.plain_model, course)
        self.keeps_best = averager is None and (trial.select == "best-val" or spec.patience is not None)
        self.progress = _Progress()
        self.best_state: dict[str, Tensor] | None = None
        self.last_saved = time.perf_counter()
        torch.manual_seed(derived_seed(trial.seed, "dropout", engine.rank))

    def fit(self) -> None:
        while not self._is_over():
            started = time.perf_counter()
            self._train_until(self._next_validation())
            self.progress.seconds += time.perf_counter() - started
            self._validate()

    def _is_over(self) -> bool:
        return self._has_stopped_improving() or (self.progress.step >= self.steps and not self.progress.losses)

    def _next_validation(self) -> int:
        """The step after which it is due. That may be the one where a run was cut off, if there are losses since."""
        every = self.trial.train.validate_every or self.feed.steps_per_epoch
        done = self.progress.step - (1 if self.progress.losses else 0)
        return min(self.steps, (done // every + 1) * every)

    def _has_stopped_improving(self) -> bool:
        patience = self.trial.train.patience
        return patience is not None and self.progress.waited >= patience

    def _train_until(self, end: int) -> None:
        """Trains up to the step `end`."""
        self.model.train()
        while self.progress.step < end:
            epoch, start = divmod(self.progress.step, self.feed.steps_per_epoch)
            for batch in islice(self.feed.epoch(epoch, start), end - self.progress.step):
                self._train_step(batch)

    def _train_step(self, batch: Batch) -> None:
        progress, spec = self.progress, self.trial.train
        if self.surroundings.stop():
            self._save()
            raise Interrupted
        rate = learning_rate(spec, progress.step, self.steps, self.feed.steps_per_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["lr_scale"]
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.objective.loss(self.model, self._on_device(batch))
        self.engine.backward(loss)
        if self.watch is not None:
            logits, targets = (torch.cat(parts) for parts in zip(*self.seen, strict=True))
            self.seen.clear()
            self.watch.step(logits, targets)
        if spec.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.plain_model.parameters(), spec.clip_norm)
        self.optimizer.step()
        value = loss.item()
        if not math.isfinite(value):
            raise Diverged(f"the loss became {value} at step {progress.step + 1} with learning rate {rate:.3g}")
        progress.loss_sum += value
        progress.losses += 1
        progress.step += 1
        if self.averager is not None:
            self.averager.on_step(self.plain_model, progress.step)
        self._save_if_due()

    def _validate(self) -> None:
        progress, step = self.progress, self.progress.step
        if self.watch is not None:
            self.watch.epoch()
        if self.flatness is not None:
            self.flatness.look()
        val = self._evaluate(self.bundle.val)
        rate = learning_rate(self.trial.train, step - 1, self.steps, self.feed.steps_per_epoch)
        if not math.isfinite(val["nll"]):  # the last step spoiled the weights, and no other loss would show it
            raise Diverged(f"the validation loss is {val['nll']} after step {step} with learning rate {rate:.3g}")
        epoch = step / self.feed.steps_per_epoch
        entry = {
            "epoch": math.ceil(epoch) if self.trial.train.validate_every is None else epoch,
            "step": step,
            "lr": rate,
            "train_loss": progress.loss_sum / progress.losses,
            **{f"val_{name}": value for name, value in val.items()},
        }
        if self.bundle.held_out is not None:
            entry["test_accuracy"] = self._evaluate(self.bundle.test)["accuracy"]
        progress.curves.append(entry)
        progress.loss_sum, progress.losses = 0.0, 0
        progress.waited += 1
        if (score := val[self.task.metric]) > progress.best:
            progress.best, progress.best_epoch, progress.waited = score, entry["epoch"], 0
            self.best_state = copied(self.plain_model.state_dict()) if self.keeps_best else None
        if isinstance(self.averager, WatchesValidation):
            self.averager.on_validation(self.plain_model, step, val["nll"])
        self._write_curves([entry], "a")
        self.surroundings.progress(entry, self.epochs)
        self._save_if_due()

    def _evaluate(self, samples: Samples) -> dict[str, float]:
        return self.task.scores(self.model, samples).metrics

    def result(self) -> Result:
        if self.best_state is not None:
            self.plain_model.load_state_dict(self.best_state)
        if self.averager is not None:
            self.averager.finish(self.plain_model, self._epoch_of_inputs)
        state = self.plain_model.state_dict()
        self._save(finished=True)
        device, progress, bundle = self.engine.device, self.progress, self.bundle
        part = torch.arange(min(len(bundle.train), self.task.train_samples))
        scores = self.task.scores(self.model, bundle.test)
        attacked = self._attacked()
        metrics = scores.metrics | {f"robust_{key}": found["accuracy"] for key, found in attacked.items()}
        return Result(
            trial=self.trial.id,
            metrics=metrics,
            val=self._evaluate(bundle.val),
            train=self._evaluate(bundle.train.subset(part)),
            held_out=bundle.held_out,
            robustness=attacked,
            selections=self._selections(metrics["accuracy"]) if bundle.held_out is not None else {},
            classes=scores.classes,
            confusion=scores.confusion,
            reliability=scores.reliability,
            samples={"train": len(bundle.train), "val": len(bundle.val), "test": len(bundle.test)},
            class_names=bundle.class_names,
            selected_epoch=progress.best_epoch if self.keeps_best else progress.curves[-1]["epoch"],
            curves=progress.curves,
            probes=self._probed(),
            cost={
                "seconds": progress.seconds,
                "seconds_per_step": progress.seconds / progress.step,
                "steps": progress.step,
                "attack_passes": progress.step * self.objective.passes if isinstance(self.objective, WithAttack) else 0,
                "peak_memory": peak_memory(device),
                "parameters": sum(parameter.numel() for parameter in self.plain_model.parameters()),
            },
            provenance={
                **provenance(device, self.trial.threads),
                "data": bundle.fingerprint,
                "data_notes": bundle.notes,
            },
            weights_sha256=checkpoint.weights_sha256(state),
        )

    def _probed(self) -> dict[str, dict[str, Any]]:
        seen = {} if self.watch is None else self.watch.results()
        if self.flatness is not None:
            seen["flatness"] = self.flatness.result(self.trial.train.label_smoothing)
        return seen

    def _attacked(self) -> dict[str, dict[str, Any]]:
        if not self.trial.attacks:
            return {}
        return robustness(
            self.plain_model, self.bundle.test, self.bundle.input, self.trial.attacks,
            limit=self.trial.attack_samples, seed=self.trial.seed, device=self.engine.device,
        )  # fmt: skip

    def _selections(self, accuracy: float) -> dict[str, float]:
        """The test accuracy under each rule of selecting weights; `accuracy` is that of the average, if any."""
        curves = self.progress.curves
        best = max(curves, key=lambda entry: entry[f"val_{self.task.metric}"])  # the first of equals
        found = {
            "last": curves[-1]["test_accuracy"],
            "best-val": best["test_accuracy"],
            "oracle": max(entry["test_accuracy"] for entry in curves),
        }
        return found if parse_method(self.trial.method)[1] is None else {"average": accuracy, **found}

    def _epoch_of_inputs(self) -> Iterator[Tensor]:
        """An epoch of training inputs, augmented as for one more epoch, for the plain model in its own precision."""
        precision = next(self.plain_model.parameters()).dtype
        inputs = (self._on_device(batch).inputs for batch in self.feed.epoch(self.epochs))
        return (values.to(precision) if values.is_floating_point() else values for values in inputs)

    # Checkpoints.

    @property
    def _path(self) -> Path | None:
        return None if self.surroundings.folder is None else self.surroundings.folder / "checkpoint.pt"

    def _save_if_due(self) -> None:
        if time.perf_counter() - self.last_saved >= self.surroundings.checkpoint_seconds:
            self._save()

    def _save(self, *, finished: bool = False) -> None:
        """Everything that the rest of the trial depends on. A finished one keeps the selected weights alone."""
        self.last_saved = time.perf_counter()
        if self._path is None or self.engine.rank > 0:
            return
        state = {
            "trial": self.trial.canonical(),
            "num_classes": self.bundle.num_classes,
            "model": self.plain_model.state_dict(),
            "optimizer": None if finished else self.optimizer.state_dict(),
            "beside": None if finished or self.beside is None else self.beside.state_dict(),
            "progress": vars(self.progress),
            "best_state": None if finished else self.best_state,
            "watch": None if self.watch is None else self.watch.state_dict(),
            "flatness": None if self.flatness is None else self.flatness.seen,
            "averager": None if finished or self.averager is None else self.averager.state_dict(),
            "random_state": torch.get_rng_state(),
        }
        checkpoint.save(self._path, state)

    def resume(self) -> None:
        """Takes up a checkpoint of this trial, if there is one. A damaged one is reported and the trial starts anew."""
        self._write_curves([], "w")
        if self._path is None or not self._path.exists():
            return
        try:
            state = checkpoint.load(self._path)
        except ValueError as error:
            self.surroundings.warn(f"{error}; the trial starts anew")
            return
        if state["trial"] != self.trial.canonical():
            return
        self.plain_model.load_state_dict(state["model"])
        if state["optimizer"] is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        if self.beside is not None and state["beside"] is not None:
            self.beside.load_state_dict(state["beside"])
        if self.watch is not None:
            self.watch.load_state_dict(state["watch"])
        if self.flatness is not None:
            self.flatness.seen = state["flatness"]
        self.progress = _Progress(**state["progress"])
        self.best_state = state["best_state"]
        if state["optimizer"] is None:  # it is finished, and the weights are the averaged ones
            self.averager = None
        elif self.averager is not None:
            self.averager.load_state_dict(state["averager"])
        torch.set_rng_state(state["random_state"])
        self._write_curves(self.progress.curves, "w")

    def _write_curves(self, entries: list[dict[str, float]], mode: str) -> None:
        """One line of JSON for each epoch, to follow a trial while it runs."""
        if self.surroundings.folder is None or self.engine.rank > 0:
            return
        path = self.surroundings.folder / "metrics.jsonl"
        try:
            with path.open(mode) as file:
                file.writelines(json.dumps(entry) + "\n" for entry in entries)
        except OSError as error:
            raise WriteError(path, error) from None

    def _on_device(self, batch: Batch) -> Batch:
        inputs, targets, domains = batch.inputs, batch.targets, batch.domains
        inputs = inputs.to(memory_format=self.task.memory_format)
        if (device := self.engine.device).type != "cpu":
            inputs, targets = inputs.to(device), targets.to(device)
            domains = None if domains is None else domains.to(device)
        return Batch(inputs, targets, self.progress.step, domains)


@contextmanager
def threads_and_random_state(threads: int) -> Any:
    """The trial's number of threads, and a global generator whose state of before comes back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(enabled=True):
            yield
    finally:
        torch.set_num_threads(before)

"""Data with domains in the loop: every method, resumed, paired with plain PyTorch; selections; validation by steps."""

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from durm import models
from durm._random import derived_seed, generator
from durm.errors import InputError
from durm.methods import Batch, ObjectiveContext
from durm.methods.dann import DomainAdversarial
from durm.methods.swad import DenselyAveraged
from durm.training import checkpoint
from durm.training.building import load_bundle
from durm.training.checkpoint import weights_sha256
from durm.training.result import Result
from durm.training.trainer import Interrupted, RunContext, run
from durm.training.trial import Trial
from tests.training.images import write_folder

DATA = "digits-domains:rotated"
SEED = 3
EACH, STEPS, EVERY = 24, 15, 4
"""Samples of each of three domains in a step, steps, and steps between validations; an epoch has 14 steps."""

METHODS = ["erm", "dann", "vrex", "rsc", "mmd", "coral", "groupdro", "swad", "dann+swad"]


def trial(method: str = "erm", dummies: int = 0, *, data: str = DATA, select: str = "last", **train: object) -> Trial:
    recipe = {
        "iterations": STEPS,
        "batch_size": EACH,
        "validate_every": EVERY,
        "swad_converge": 2,
        "swad_ratio": 1.3,
        **train,
    }
    values = {"data": data, "model": "cnn", "method": method, "dummies": dummies, "seed": SEED, "select": select}
    return Trial.model_validate({**values, "train": recipe})


@cache
def whole(method: str, dummies: int) -> Result:
    return run(trial(method, dummies))


def assert_same(one: Result, other: Result) -> None:
    for part in ("weights_sha256", "metrics", "val", "train", "curves", "selections", "selected_epoch"):
        assert getattr(one, part) == getattr(other, part), part


# Every method.


@pytest.mark.parametrize("dummies", [0, 2])
@pytest.mark.parametrize("method", METHODS)
def test_a_run_that_is_cut_off_goes_on_to_the_same_bits(method: str, dummies: int, tmp_path: Path) -> None:
    """Stopped after 10 steps, between two validations."""
    calls = iter(range(100))
    with pytest.raises(Interrupted):
        run(trial(method, dummies), RunContext(folder=tmp_path, stop=lambda: next(calls) == 10))
    state = checkpoint.load(tmp_path / "checkpoint.pt")
    assert state["progress"]["step"] == 10
    assert (state["extra_module"] is not None) == ("dann" in method)
    assert (state.get("averager") is not None) == ("swad" in method)
    resumed = run(trial(method, dummies), RunContext(folder=tmp_path))
    assert_same(resumed, whole(method, dummies))
    if "+" in method:
        assert_same(run(trial(method, dummies), RunContext(folder=tmp_path)), resumed)  # it is finished


def test_methods_and_dummies_make_a_difference() -> None:
    shas = {whole(method, dummies).weights_sha256 for method in METHODS for dummies in (0, 2)}
    assert len(shas) == 2 * len(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns(method: str) -> None:
    curves = whole(method, 0).curves
    assert curves[-1]["train_loss"] < curves[0]["train_loss"]


@pytest.mark.parametrize("method", ["erm", "swad"])
@pytest.mark.parametrize("end", [8, STEPS])
def test_a_run_that_is_killed_while_it_validates_goes_on_to_the_same_bits(
    method: str, end: int, tmp_path: Path
) -> None:
    """The checkpoint is then of after the step and before its validation, which must not be left out."""

    class Killed(Exception):
        pass

    def kill(entry: dict[str, float], epochs: int) -> None:
        if entry["step"] == end:
            raise Killed

    with pytest.raises(Killed):
        run(trial(method), RunContext(folder=tmp_path, checkpoint_seconds=0, progress=kill))
    assert checkpoint.load(tmp_path / "checkpoint.pt")["progress"]["step"] == end
    assert_same(run(trial(method), RunContext(folder=tmp_path)), whole(method, 0))


def test_the_checkpoint_holds_the_discriminator_and_the_looks(tmp_path: Path) -> None:
    """Trained for 13 steps; the looks at 4, 8 and 12 are in the queue or in the average, step 13 is running."""
    calls = iter(range(100))
    with pytest.raises(Interrupted):
        run(trial("dann+swad"), RunContext(folder=tmp_path, stop=lambda: next(calls) == 13))
    state = checkpoint.load(tmp_path / "checkpoint.pt")
    first = DomainAdversarial(DomainAdversarial.Config(), _problem()).extra_module.state_dict()
    assert state["extra_module"].keys() == first.keys()
    assert all(not torch.equal(value, first[name]) for name, value in state["extra_module"].items())
    averager = state.get("averager")
    assert averager["running"]["count"] == 1
    looks = [look["end"] for look in averager["queue"]]
    assert looks == [4, 8, 12][-len(looks) :]
    losses = {entry["step"]: entry["val_nll"] for entry in state["progress"]["curves"]}
    assert [look["loss"] for look in averager["queue"]] == [losses[step] for step in looks]


def _problem() -> ObjectiveContext:
    bundle = load_bundle(trial())
    return ObjectiveContext(10, domains=3, seed=SEED, model=models.tiny.cnn(10, bundle.input.shape))


@pytest.mark.parametrize(
    ("method", "precision"),
    [
        *((method, precision) for method in ("rsc", "mmd") for precision in ("bf16-mixed", "bf16-true")),
        *(("dann", "bf16-mixed"), ("dann", "64"), ("vrex", "bf16-mixed"), ("swad", "bf16-true"), ("swad", "64")),
    ],
)
def test_every_method_runs_in_other_precisions(method: str, precision: str) -> None:
    described = trial(method, 2, iterations=2, validate_every=1).model_copy(update={"precision": precision})
    assert run(described).cost.steps == 2


# Plain PyTorch.


ANNEAL = 6


def made_optimizer(described: Trial, model: nn.Module, lr: float = 0.05) -> torch.optim.Optimizer:
    if described.train.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), lr=lr, weight_decay=5e-4)
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)


def plain_pytorch(described: Trial) -> nn.Module:
    """What the trial describes, in a loop without anything of durm's but the seeds for each purpose and the data."""
    bundle = load_bundle(described)
    torch.manual_seed(derived_seed(SEED, "model"))
    images, labels, domains = bundle.train.inputs, bundle.train.labels, bundle.train.domains
    assert isinstance(images, Tensor)
    assert domains is not None
    model = models.tiny.cnn(bundle.num_classes, bundle.input.shape)
    optimizer = made_optimizer(described, model)
    torch.manual_seed(derived_seed(SEED, "dropout", 0))
    model.train()
    steps_per_epoch = len(labels) // (3 * EACH)
    step = 0
    for epoch in range(math.ceil(STEPS / steps_per_epoch)):
        streams = []
        for domain in range(3):
            members = [index for index, each in enumerate(domains.tolist()) if each == domain]
            random, stream = generator(SEED, "order", epoch, domain), list[int]()
            while len(stream) < steps_per_epoch * EACH:
                stream += [members[place] for place in torch.randperm(len(members), generator=random)]
            streams.append(stream)
        random = generator(SEED, "augment", epoch)
        places = steps_per_epoch * 3 * EACH
        offsets = torch.randint(3, (places, 2), generator=random)
        flips = torch.randint(2, (places,), generator=random)
        for first in range(0, steps_per_epoch * EACH, EACH):
            if step == STEPS:
                break
            indices = [index for stream in streams for index in stream[first : first + EACH]]
            batch = []
            for place, index in enumerate(indices, 3 * first):
                image = images[index]
                if described.train.augment == "crop-flip":
                    top, left = offsets[place].tolist()
                    image = F.pad(image, (1, 1, 1, 1))[:, top : top + 8, left : left + 8]
                    image = image.flip(-1) if flips[place] else image
                batch.append((image.float() - bundle.input.mean) / bundle.input.std)
            for group in optimizer.param_groups:
                group["lr"] = 0.05 * (1 + math.cos(math.pi * step / STEPS)) / 2
            if described.method.name == "vrex" and step == ANNEAL:
                optimizer = made_optimizer(described, model, optimizer.param_groups[0]["lr"])
            optimizer.zero_grad()
            logits = model(torch.stack(batch))
            if described.method.name == "vrex":
                parts = zip(logits.split(EACH), labels[indices].split(EACH), strict=True)
                risks = torch.stack([F.cross_entropy(*part) for part in parts])
                (risks.mean() + (10 if step >= ANNEAL else 1) * risks.var(correction=0)).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            else:
                F.cross_entropy(logits, labels[indices]).backward()
            optimizer.step()
            step += 1
    return model


@pytest.mark.parametrize("augment", ["none", "crop-flip"])
def test_without_dummies_it_is_a_plain_pytorch_loop_bit_for_bit(augment: str) -> None:
    """The draw of every domain, augmentation and dropout included."""
    described = trial(augment=augment)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        model = plain_pytorch(described)
    torch.set_num_threads(threads)
    assert run(described).weights_sha256 == weights_sha256(model.state_dict())


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_vrex_clips_and_starts_the_optimizer_anew_as_plain_pytorch_does(optimizer: str, tmp_path: Path) -> None:
    """Bit for bit, with the weight going from 1 to 10 in the middle; after a resume at that very step too."""
    described = trial("vrex", optimizer=optimizer, vrex_anneal=ANNEAL)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        expected = weights_sha256(plain_pytorch(described).state_dict())
    torch.set_num_threads(threads)
    assert run(described).weights_sha256 == expected
    calls = iter(range(100))
    with pytest.raises(Interrupted):
        run(described, RunContext(folder=tmp_path, stop=lambda: next(calls) == ANNEAL))
    assert run(described, RunContext(folder=tmp_path)).weights_sha256 == expected


def test_runs_with_and_without_dummies_see_the_same_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs, domains and the state of the global generator; the discriminator is the same at the start."""
    seen: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    loss = DomainAdversarial.loss

    def recording(self: DomainAdversarial, model: nn.Module, batch: Batch) -> Tensor:
        assert batch.domains is not None
        first = next(self.extra_module.parameters()).detach().clone() if not len(seen) % 3 else torch.zeros(0)
        seen.append((batch.inputs.clone(), batch.domains.clone(), torch.get_rng_state(), first))
        assert batch.step == len(seen[:-1]) % 3
        return loss(self, model, batch)

    monkeypatch.setattr(DomainAdversarial, "loss", recording)
    for dummies in (0, 2):
        run(trial("dann", dummies, iterations=3))
    for one, other in zip(seen[:3], seen[3:], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
        assert one[1].tolist() == [0] * EACH + [1] * EACH + [2] * EACH


def test_swad_averages_the_weights_of_its_valley(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From the curves and a list of all weights: t_s the first look that the next does not undercut, t_e the look
    before the first that lies 30 % above the mean of these two, the mean over all steps between.
    """
    weights: list[dict[str, Tensor]] = []
    on_step = DenselyAveraged.on_step

    def recording(self: DenselyAveraged, model: nn.Module, step: int) -> None:
        weights.append({name: value.detach().clone() for name, value in model.named_parameters()})
        assert step == len(weights)
        on_step(self, model, step)

    monkeypatch.setattr(DenselyAveraged, "on_step", recording)
    described = trial("swad", 2, lr=1.0, schedule="constant", swad_tolerance=1, validate_every=2)
    result = run(described, RunContext(folder=tmp_path))
    looks = [(entry["step"], entry["val_nll"]) for entry in result.curves]
    begin = next(place for place in range(len(looks) - 1) if looks[place][1] <= looks[place + 1][1])
    limit = 1.3 * (looks[begin][1] + looks[begin + 1][1]) / 2
    above = next((place for place in range(begin + 2, len(looks)) if looks[place][1] > limit), len(looks))
    start, end = int(looks[begin][0]), int(looks[above - 1][0])
    assert (start, end) != (STEPS, STEPS)
    saved = checkpoint.load(tmp_path / "checkpoint.pt")["model"]
    for name in weights[0]:
        expected = torch.stack([each[name].double() for each in weights[start - 1 : end]]).mean(0)
        assert torch.allclose(saved[name].double(), expected, atol=1e-5), name


def test_the_learning_rate_of_the_discriminator_reaches_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """After one step of plain SGD it has moved ten times as far, and the model as far as before."""
    moved: dict[float, Tensor] = {}
    shas = set()
    loss = DomainAdversarial.loss
    objectives: list[DomainAdversarial] = []

    def recording(self: DomainAdversarial, model: nn.Module, batch: Batch) -> Tensor:
        objectives.append(self)
        return loss(self, model, batch)

    monkeypatch.setattr(DomainAdversarial, "loss", recording)
    start = torch.cat(
        [
            value.detach().flatten()
            for value in DomainAdversarial(DomainAdversarial.Config(), _problem()).extra_module.parameters()
        ]
    )
    for scale in (1.0, 10.0):
        plain = {"momentum": 0.0, "weight_decay": 0.0, "schedule": "constant", "lr": 0.1}
        shas.add(run(trial("dann", iterations=1, dann_lr_scale=scale, **plain)).weights_sha256)
        moved[scale] = (
            torch.cat([value.detach().flatten() for value in objectives[-1].extra_module.parameters()]) - start
        )
    assert len(shas) == 1
    assert moved[1.0].norm() > 1e-3
    assert torch.allclose(moved[10.0], 10 * moved[1.0], atol=1e-6)


# Selecting weights.


def selected_by_hand(curves: list[dict[str, float]]) -> dict[str, float]:
    best, oracle = curves[0], curves[0]["test_accuracy"]
    for entry in curves[1:]:
        if entry["val_accuracy"] > best["val_accuracy"]:
            best = entry
        if entry["test_accuracy"] > oracle:
            oracle = entry["test_accuracy"]
    return {"last": curves[-1]["test_accuracy"], "best-val": best["test_accuracy"], "oracle": oracle}


def test_selections_are_those_of_the_curves() -> None:
    rough = {"lr": 0.5, "schedule": "constant", "validate_every": 1}  # so that the three rules differ
    last, best = run(trial(**rough)), run(trial(select="best-val", **rough))
    assert last.curves == best.curves
    expected = selected_by_hand(last.curves)
    assert last.selections == best.selections == expected
    assert last.metrics["accuracy"] == expected["last"]
    assert best.metrics["accuracy"] == expected["best-val"]
    assert expected["oracle"] > max(expected["last"], expected["best-val"])
    assert expected["last"] != expected["best-val"]
    chosen = max(last.curves, key=lambda entry: entry["val_accuracy"])
    assert (last.selected_epoch, best.selected_epoch) == (last.curves[-1]["epoch"], chosen["epoch"])


@pytest.mark.parametrize("method", METHODS)
def test_selections_of_every_method(method: str) -> None:
    for dummies in (0, 2):
        result = whole(method, dummies)
        expected = selected_by_hand(result.curves)
        if "swad" in method:
            expected["average"] = result.metrics["accuracy"]
        else:
            assert expected["last"] == result.metrics["accuracy"]
        assert result.selections == expected


def test_data_without_domains_have_no_selections() -> None:
    result = run(trial(data="digits", batch_size=64))
    assert result.selections == {}
    assert "test_accuracy" not in result.curves[0]


# Validation by steps.


def test_validations_come_after_their_steps_and_after_the_last() -> None:
    curves = whole("erm", 0).curves
    steps = [4, 8, 12, 15]
    assert [entry["step"] for entry in curves] == steps
    assert [entry["epoch"] for entry in curves] == pytest.approx([step / 14 for step in steps])


def test_without_it_validations_come_after_epochs() -> None:
    """An epoch has as many samples as there are: 1,078 // 72 = 14 steps."""
    result = run(trial(validate_every=None))
    assert result.samples.train // (3 * EACH) == 14
    assert [(entry["step"], entry["epoch"]) for entry in result.curves] == [(14, 1), (15, 2)]


@pytest.mark.parametrize("method", ["erm", "rsc"])
def test_how_often_one_validates_does_not_change_the_weights(method: str) -> None:
    expected = whole(method, 0)
    for every in (None, 3):
        result = run(trial(method, validate_every=every))
        assert result.weights_sha256 == expected.weights_sha256
        assert result.metrics == expected.metrics


def test_the_training_loss_is_the_mean_since_the_last_validation() -> None:
    every_step = [entry["train_loss"] for entry in run(trial(validate_every=1)).curves]
    for entry, before in zip(whole("erm", 0).curves, [0, 4, 8, 12], strict=True):
        part = every_step[before : int(entry["step"])]
        assert entry["train_loss"] == pytest.approx(sum(part) / len(part), rel=1e-9)


SPOILED = {"lr": 3.0, "schedule": "constant", "weight_decay": 0.0}
"""A learning rate that spoils the model, so that the best weights are early ones."""


@pytest.mark.parametrize("patience", [1, 3])
def test_patience_counts_validations(patience: int, tmp_path: Path) -> None:
    """It stops that many validations after the best, whose weights are taken; also after a resume."""
    described = trial(iterations=400, validate_every=2, patience=patience, **SPOILED)
    result = run(described)
    accuracies = [entry["val_accuracy"] for entry in result.curves]
    best = accuracies.index(max(accuracies))
    assert len(accuracies) == best + 1 + patience < 200
    assert [entry["step"] for entry in result.curves] == [2 * (place + 1) for place in range(len(accuracies))]
    assert result.selected_epoch == pytest.approx(2 * (best + 1) / 14)
    assert result.val["accuracy"] == accuracies[best]
    assert result.metrics["accuracy"] == result.selections["best-val"] == result.curves[best]["test_accuracy"]
    calls = iter(range(1000))
    with pytest.raises(Interrupted):
        run(described, RunContext(folder=tmp_path, stop=lambda: next(calls) == 2 * len(accuracies) - 1))
    assert_same(run(described, RunContext(folder=tmp_path)), result)


# What had no effect.


@pytest.mark.parametrize(
    ("method", "train", "told"),
    [
        ("vrex", {}, "`weight` 10 of vrex never took effect: `anneal` is 500, the training had 15 steps"),
        ("vrex", {"vrex_anneal": 14}, None),
        ("vrex", {"vrex_weight": 1}, None),
        ("swad", {"validate_every": None}, "swad found no valley in the validation loss, which takes 2 validations"),
        ("ema", {}, None),
    ],
)
def test_a_run_says_what_had_no_effect(method: str, train: dict[str, object], told: str | None) -> None:
    result = run(trial(method, **train))
    assert [one.startswith(str(told)) for one in result.warnings] == ([] if told is None else [True])


def test_the_averaged_steps_are_in_the_result_after_a_resume_too(tmp_path: Path) -> None:
    found = whole("swad", 0)
    assert found.averaging["models"] == found.averaging["end"] - found.averaging["start"] + 1
    assert run(trial("swad"), RunContext(folder=tmp_path)).averaging == found.averaging
    again = run(trial("swad"), RunContext(folder=tmp_path))  # the training is finished, and its average made
    assert (again.averaging, again.warnings) == (found.averaging, found.warnings)
    assert whole("erm", 0).averaging == {}


# Refusals.


@pytest.mark.parametrize("method", ["dann", "vrex", "mmd", "mmd+swad"])
def test_domain_methods_need_data_with_domains(method: str) -> None:
    name = method.partition("+")[0]
    with pytest.raises(
        InputError, match=f"method '{name}' needs 2 or more domains to train on, and the data have none"
    ):
        run(trial(method, data="digits"))


@pytest.mark.parametrize("method", ["dann", "vrex", "mmd"])
def test_one_training_domain_is_not_enough(method: str, tmp_path: Path) -> None:
    for domain in ("day", "night"):
        write_folder(tmp_path / domain, per_class=5)
    data = f"domains:{tmp_path}:night"
    with pytest.raises(InputError, match=f"method '{method}' needs 2 or more domains .* the data have one alone"):
        run(trial(method, data=data))
    for other in ("erm", "rsc"):
        result = run(trial(other, data=data, batch_size=4, iterations=2))
        assert set(result.selections) == {"last", "best-val", "oracle"}


@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.parametrize("method", ["erm", "vrex"])
def test_a_training_domain_without_samples_is_refused(
    method: str, missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a small subset may leave one: of none, no batch can have as many samples as of the others."""
    bundle = load_bundle(trial())
    assert bundle.train.domains is not None
    rest = bundle.train.subset((bundle.train.domains != missing).nonzero().flatten())
    monkeypatch.setattr("durm.training.trainer.load_bundle", lambda *_: replace(bundle, train=rest))
    with pytest.raises(InputError, match="domain"):
        run(trial(method, iterations=1))


def test_rsc_and_swad_need_no_domains() -> None:
    result = run(trial("rsc+swad", 2, data="digits", batch_size=64))
    assert result.selections == {}
    assert len(result.curves) == 4


def network_with_a_convolution(num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, num_classes, 6), nn.Flatten())


def network_of_tokens(num_classes: int) -> nn.Module:
    """Its head sees (N, T, d) and the mean is taken of the logits."""
    return nn.Sequential(nn.Flatten(2), nn.Linear(64, 8), nn.Linear(8, num_classes), nn.Flatten())


@pytest.mark.parametrize("method", ["dann", "rsc", "mmd"])
@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("network_with_a_convolution", "one linear head; the head of this one is Conv2d"),
        ("network_of_tokens", r"one vector for each sample; this one's takes \(72, 1, 8\)"),
    ],
)
def test_models_without_one_vector_of_features_are_refused(method: str, model: str, told: str) -> None:
    described = trial(method, 2).model_copy(update={"model": f"{__name__}:{model}"})
    with pytest.raises(InputError, match=f"method '{method}' needs a model .*{told}"):
        run(described)

"""Segmentation in the loop: without dummies it is plain PyTorch, arms are paired, and only labelled pixels count."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from pydantic import ValidationError
from torch import Tensor, nn

import durm
from durm._random import derived_seed, generator
from durm.data import reading
from durm.data.bundle import IGNORED, DataBundle
from durm.data.segmentation_augment import DRAWN, SceneAugmentation
from durm.errors import InputError
from durm.methods import NO_TARGET, Batch, ObjectiveContext, risk
from durm.metrics.segmentation import Tally
from durm.study.estimate import samples as samples_of
from durm.study.estimate import seconds_of
from durm.training import inference
from durm.training.building import build_model, build_objective, load_bundle
from durm.training.checkpoint import weights_sha256
from durm.training.result import SampleCounts
from durm.training.tasks import make_task
from durm.training.trainer import RunContext, run
from durm.training.trial import Trial
from tests.data.masks import write_mask
from tests.training import scenes
from tests.training.pieces import run_in_pieces
from tests.training.scenes import CLASSES, MODEL, PLAIN, WITH_AUXILIARY, write_scenes
from tests.training.test_pairing import assert_paired, recorded  # noqa: F401

SEED = 3
CPU = torch.device("cpu")
CROP, SCALES = (12, 14), (0.5, 1.5)
BATCHES = 2
"""In an epoch: eleven scenes in batches of four, and three that are left over."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_scenes(tmp_path_factory.mktemp("scenes"), {"train": 11, "val": 3, "test": 3})


def trial(data: str, dummies: int = 0, model: str = MODEL, train: dict | None = None, **changes: object) -> Trial:
    recipe = {"epochs": 3, "batch_size": 4, "lr": 0.1, "weight_decay": 1e-3, "crop": CROP, "scales": SCALES}
    length = {"epochs": None} if train and "iterations" in train else {}
    spec = {**recipe, **length, **(train or {})}
    return Trial.model_validate(
        {"data": data, "model": model, "dummies": dummies, "seed": SEED, "train": spec} | changes
    )


def first_batch(described: Trial, bundle: DataBundle) -> Batch:
    return next(make_task(described, bundle, CPU).loader().epoch(0))


# Without dummies it is a plain loop.


def plain_pytorch(described: Trial, rates: list[float], **augmentation: bool) -> nn.Module:
    """What the trial describes, in a loop without anything of durm's but the seeds, the data and the augmentation."""
    torch.manual_seed(derived_seed(SEED, "model"))
    bundle = load_bundle(described)
    images, masks = bundle.train.inputs, bundle.train.masks
    mean, std = bundle.input.mean, bundle.input.std
    fill = tuple(round(value) for value in mean.flatten().tolist())
    augment = SceneAugmentation(CROP, fill=fill, **({"scales": SCALES, "flip": True} | augmentation))
    model = scenes.network(len(CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9, weight_decay=1e-3)
    torch.manual_seed(derived_seed(SEED, "dropout", 0))
    model.train()
    for step, rate in enumerate(rates):
        epoch, place = divmod(step, BATCHES)
        order = torch.randperm(len(images), generator=generator(SEED, "order", epoch))
        draws = torch.rand((len(images), DRAWN), generator=generator(SEED, "augment", epoch), dtype=torch.float64)
        indices = order[4 * place : 4 * place + 4].tolist()
        drawn = [augment.apply(images[index], masks[index], draws[index]) for index in indices]
        batch = torch.stack([(image.float() - mean) / std for image, _ in drawn])
        targets = torch.stack([mask.long() for _, mask in drawn])
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        F.cross_entropy(model(batch), targets, ignore_index=IGNORED).backward()
        optimizer.step()
    return model


COSINE = [0.1 * (1 + math.cos(math.pi * step / 6)) / 2 for step in range(6)]


@pytest.mark.parametrize(
    ("augment", "plain"),
    [
        (None, {}),
        ("scene-jitter", {"jitter": True}),
        ("flip", {"scales": (1.0, 1.0)}),
        ("none", {"scales": (1.0, 1.0), "flip": False}),
    ],
)
def test_without_dummies_it_is_a_plain_pytorch_loop_bit_for_bit(data: str, augment: str | None, plain: dict) -> None:
    """Order, scales, crops, flips, colours, padding, ignored pixels and dropout included."""
    torch.set_num_threads(1)
    ours = run(trial(data, train={"augment": augment}))
    assert ours.weights_sha256 == weights_sha256(plain_pytorch(trial(data), COSINE, **plain).state_dict())


def test_iterations_with_warm_up_and_poly(data: str) -> None:
    """As segmentation is usually trained: it ends within an epoch, and is validated every so many steps."""
    torch.set_num_threads(1)
    train = {"iterations": 7, "warmup": 2, "schedule": "poly", "power": 0.9, "min_lr": 0.01, "validate_every": 3}
    rates = [0.05, 0.1, *(0.01 + 0.09 * (1 - done / 5) ** 0.9 for done in range(5))]
    ours = run(trial(data, train=train))
    assert ours.weights_sha256 == weights_sha256(plain_pytorch(trial(data), rates).state_dict())
    assert [entry["step"] for entry in ours.curves] == [3, 6, 7]
    assert [entry["lr"] for entry in ours.curves] == pytest.approx([rates[2], rates[5], rates[6]])


# Arms are paired.


@pytest.mark.parametrize("dummies", [1, 2])
def test_other_numbers_of_dummies_see_the_same_run(
    data: str,
    dummies: int,
    recorded: Callable,  # noqa: F811
) -> None:
    """Same batches, same pixels, same dropout stream, same backbone, same real rows."""
    erm, with_dummies = recorded(trial(data)), recorded(trial(data, dummies))
    assert_paired(erm, with_dummies)
    assert with_dummies.start["4.weight"].shape[0] == len(CLASSES) + dummies
    assert {inputs.shape for inputs in erm.inputs} == {(4, 3, *CROP)}
    assert {targets.shape for targets in erm.targets} == {(4, *CROP)}
    labels = torch.cat(erm.targets).unique().tolist()
    assert labels == [NO_TARGET, 0, 1, 2]


def test_workers_and_files_on_disk_change_nothing(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory = run(trial(data, 1)).weights_sha256
    monkeypatch.setattr(reading, "MEMORY_LIMIT", 0)
    for workers in (0, 2):
        assert run(trial(data, 1), RunContext(num_workers=workers)).weights_sha256 == in_memory


@pytest.mark.parametrize("method", ["erm", "ema"])
def test_a_run_that_is_cut_off_goes_on_to_the_same_bits(data: str, method: str, tmp_path: Path) -> None:
    """Stopped in the middle of epochs and between them, again and again."""
    select = "best-val" if method == "erm" else "last"
    described = trial(data, 2, train={"optimizer": "adamw"}, method=method, select=select)
    whole = run(described)
    resumed, interruptions = run_in_pieces(described, tmp_path, steps=1)
    assert interruptions == 5
    for part in ("weights_sha256", "metrics", "val", "train", "curves", "selected_epoch", "confusion"):
        assert getattr(resumed, part) == getattr(whole, part), part


@pytest.mark.slow
def test_two_devices_train_as_one_does(tmp_path: Path) -> None:
    """Two processes with half of every batch each. Each has the mean over its own pixels, so all must be labelled."""
    data = write_scenes(tmp_path, {"train": 8, "val": 2, "test": 2}, ignored=False)
    train = {"crop": (16, 20), "scales": (1.0, 1.0), "epochs": 2}
    one, two = (run(trial(data, 2, PLAIN, train, devices=devices)) for devices in (1, 2))
    assert two.metrics["nll"] == pytest.approx(one.metrics["nll"], rel=1e-4)
    assert two.metrics["miou"] == pytest.approx(one.metrics["miou"], abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["64", "bf16-mixed"])
def test_other_precisions_run_under_fabric(data: str, precision: str) -> None:
    result = run(trial(data, 1, precision=precision, window=(8, 8)))
    assert result.metrics["miou"] > 20
    assert result.metrics["dummy_mass"] > 0


# The loss.


@pytest.mark.parametrize("auxiliary", [None, 0.0, 1.5])
def test_auxiliary_heads_count_so_much(data: str, auxiliary: float | None) -> None:
    """By hand: the loss is that of the model's own logits, and 0.4 times, or so many times, the auxiliary ones'."""
    weight = 0.4 if auxiliary is None else auxiliary
    train = {"iterations": 1, "lr": 0.2, "momentum": 0, "weight_decay": 0, "schedule": "constant"}
    train |= {} if auxiliary is None else {"auxiliary": auxiliary}
    described = trial(data, 2, WITH_AUXILIARY, train)
    bundle = load_bundle(described)
    batch = first_batch(described, bundle)
    model = build_model(described, bundle).train()
    own, other = model(batch.inputs)
    assert own.shape == other.shape == (4, len(CLASSES) + 2, *CROP)
    loss = F.cross_entropy(own, batch.targets) + weight * F.cross_entropy(other, batch.targets)
    loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.2).step()

    ours = run(described)

    assert ours.curves[0]["train_loss"] == loss.item()
    assert ours.weights_sha256 == weights_sha256(model.state_dict())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dummies", [0, 2])
def test_ignored_pixels_have_no_gradient(data: str, dummies: int, smoothing: float) -> None:
    """Neither those that the masks leave out, nor those beside a scene that is smaller than the crop."""
    described = trial(data, dummies, train={"label_smoothing": smoothing, "crop": (24, 24), "scales": (1.0, 1.0)})
    bundle = load_bundle(described)
    batch = first_batch(described, bundle)
    counted = batch.targets != NO_TARGET
    assert not counted[:, 16:].any()
    assert not counted[:, :, 20:].any()
    assert counted.sum() == 4 * (16 * 20 - 3 * 4)
    logits = build_model(described, bundle)(batch.inputs).detach().requires_grad_()
    loss = build_objective(described, bundle, nn.Identity()).loss(lambda inputs: logits, batch)
    loss.backward()
    size = logits.grad.abs().sum(1)
    assert (size[counted] > 0).all()
    assert (size[~counted] == 0).all()
    rows = logits.detach().movedim(1, -1)[counted]
    expected = durm.cross_entropy(rows, batch.targets[counted], len(CLASSES), label_smoothing=smoothing)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_risk_of_no_pixels_is_nothing(smoothing: float) -> None:
    """PyTorch's mean over none is NaN, which would look as if the training had diverged."""
    logits = torch.randn(2, 5, 4, 4, requires_grad=True)
    loss = risk((logits, logits), torch.full((2, 4, 4), NO_TARGET), ObjectiveContext(3, label_smoothing=smoothing))
    loss.backward()
    assert loss.item() == 0
    assert not logits.grad.any()


def test_crops_in_which_nothing_is_labelled(tmp_path: Path) -> None:
    """Six of eight scenes are ignored altogether, and batches are of one."""
    data = write_scenes(tmp_path, {"train": 8, "val": 2, "test": 2})
    for number in range(6):
        write_mask(tmp_path / "train" / "masks" / f"train-{number:02}.png", np.full((16, 20), 255))
    described = trial(data, 1, train={"batch_size": 1, "epochs": 1}, probes=("dummy_mass", "gradient_variance"))
    result = run(described)
    assert result.cost.steps == 8
    assert math.isfinite(result.curves[0]["train_loss"])
    assert 0 < result.probes["dummy_mass"]["samples"][0] <= 2 * 12 * 14


def test_probes_see_the_pixels_that_count(data: str) -> None:
    """One step, by autograd; auxiliary heads are not looked at."""
    names = ("gradient_variance", "gradient_norm", "distance", "dummy_gradient", "dummy_mass", "push_pull")
    described = trial(data, 2, WITH_AUXILIARY, {"iterations": 1}, probes=names)
    bundle = load_bundle(described)
    batch = first_batch(described, bundle)
    counted = batch.targets != NO_TARGET
    model = build_model(described, bundle).train()
    own, other = model(batch.inputs)
    own.retain_grad()
    (F.cross_entropy(own, batch.targets) + 0.4 * F.cross_entropy(other, batch.targets)).backward()
    rows = own.grad.movedim(1, -1)[counted] * counted.sum()
    norm = sum(parameter.grad.square().sum() for parameter in model.parameters()).sqrt()

    seen = run(described).probes

    assert seen["dummy_mass"]["samples"] == seen["gradient_variance"]["samples"] == [int(counted.sum())]
    mass = own.softmax(1)[:, 3:].sum(1)[counted].mean()
    assert seen["dummy_mass"]["mass"] == pytest.approx([mass.item()], rel=1e-5)
    assert seen["gradient_variance"]["variance"][0] == pytest.approx(rows[:, :3].var(0).tolist(), rel=1e-4)
    assert seen["gradient_norm"]["norm"] == pytest.approx([norm.item()], rel=1e-5)
    both = np.array(seen["push_pull"]["push"][0]) + np.array(seen["push_pull"]["pull"][0])
    assert both == pytest.approx(rows.mean(0).numpy(), rel=1e-3, abs=1e-6)


def test_watched_training_is_the_same_training(data: str) -> None:
    watched, alone = (run(trial(data, 2, probes=probes)) for probes in (("dummy_mass", "distance"), ()))
    assert watched.weights_sha256 == alone.weights_sha256


# What is kept and measured.


def test_a_result_holds_what_it_should(data: str) -> None:
    result = run(trial(data, 2, train={"epochs": 15, "scales": (1.0, 1.0)}))
    assert result.metrics["miou"] > 60
    assert result.metrics["accuracy"] > 90
    assert result.metrics["miou"] == pytest.approx(np.mean(result.classes["iou"]))
    assert result.metrics["iou_wide-river"] == result.classes["iou"][1]
    assert {"macc", "miou_with_dummies", "nll", "dummy_mass_ignored", "auroc_dummy_mass"} <= result.metrics.keys()
    assert np.array(result.confusion).shape == (3, 5)
    assert np.sum(result.confusion) == 3 * (16 * 20 - 3 * 4)
    assert np.trace(result.confusion) <= result.metrics["accuracy"] / 100 * np.sum(result.confusion) + 1e-6
    assert result.samples == SampleCounts(train=11, val=3, test=3)
    assert result.class_names == list(CLASSES)
    assert result.curves[0]["val_miou"] < result.curves[-1]["val_miou"]


@pytest.mark.parametrize("method", ["ema", "swa", "swad"])
def test_weights_can_be_averaged(data: str, method: str) -> None:
    """SWA also takes the batch statistics anew, from one more epoch of crops."""
    average, last = (run(trial(data, 1, method=name, train={"ema_decay": 0.5})) for name in (method, "erm"))
    assert average.weights_sha256 != last.weights_sha256
    assert average.metrics["nll"] != last.metrics["nll"]
    assert [entry["step"] for entry in average.curves] == [2, 4, 6]


@pytest.mark.parametrize(("train", "epochs"), [({"epochs": 4}, 4), ({"epochs": 9, "patience": 1}, 3)])
def test_the_best_weights_are_those_with_the_best_mean_iou(
    data: str, train: dict, epochs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is planted at the second epoch; the best accuracy and the smallest loss at the last."""
    ious = [10.0, 30.0, 20.0, 20.0][:epochs]
    planted = iter([{"miou": iou, "accuracy": 50 + epoch, "nll": 9 - epoch} for epoch, iou in enumerate(ious)])
    measured = Tally.metrics
    monkeypatch.setattr(Tally, "metrics", lambda self: measured(self) | next(planted, {}))
    constant = {**train, "schedule": "constant"}
    best = run(trial(data, 1, select="best-val", train=constant), RunContext(folder=tmp_path))
    assert len(best.curves) == epochs
    assert best.selected_epoch == 2
    two = run(trial(data, 1, train={**constant, "epochs": 2}))
    assert two.weights_sha256 == best.weights_sha256
    assert inference.score_checkpoint(tmp_path / "checkpoint.pt", trust_code=True)[0].metrics == best.metrics


def test_a_window_sees_every_pixel(data: str) -> None:
    whole, large, small = (run(trial(data, 1, window=window)) for window in (None, (99, 99), (9, 7)))
    assert large.metrics == whole.metrics
    assert small.weights_sha256 == whole.weights_sha256
    assert np.sum(small.confusion) == np.sum(whole.confusion)
    assert small.metrics["nll"] != whole.metrics["nll"]


def test_scenes_may_differ_in_size(tmp_path: Path) -> None:
    data = write_scenes(tmp_path, {"train": 5, "val": 1, "test": 2})
    for part, height, width in (("train", 20, 32), ("train", 24, 12), ("val", 18, 30), ("test", 30, 17)):
        image = tmp_path / part / "images" / f"other-{width}.png"
        Image.fromarray(np.full((height, width, 3), 90, np.uint8)).save(image)
        write_mask(tmp_path / part / "masks" / image.name, np.full((height, width), 1))
    result = run(trial(data, 1))
    assert np.sum(result.confusion) == 2 * (16 * 20 - 3 * 4) + 30 * 17


# Checkpoints.


@pytest.fixture(scope="module")
def checkpoint(data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trial")
    run(trial(data, 1, window=(12, 12)), RunContext(folder=folder))
    return folder / "checkpoint.pt"


def test_what_a_saved_model_sees_is_written(checkpoint: Path, data: str, tmp_path: Path) -> None:
    """Of the test part through the trial's window, as the evaluation has it."""
    model, _, bundle = inference.load_model(checkpoint, trust_code=True)
    assert durm.dummies(model) == 1
    written, note = inference.predict_checkpoint(checkpoint, tmp_path, trust_code=True)
    assert note is None
    assert [path.name for path in written] == ["test-00.png", "test-01.png", "test-02.png"]
    scores, _ = inference.score_checkpoint(checkpoint, trust_code=True)
    right = labelled = 0
    for index, path in enumerate(written):
        with Image.open(path) as file:
            assert (file.mode, file.size) == ("L", (20, 16))
            predicted = torch.from_numpy(np.array(file))
        mask = bundle.test.masks[index]
        right += int((predicted == mask)[mask != IGNORED].sum())
        labelled += int((mask != IGNORED).sum())
    assert 100 * right / labelled == pytest.approx(scores.metrics["accuracy"])


def test_predictions_of_other_images_have_the_numbers_of_the_masks(tmp_path: Path) -> None:
    """Of any size, in folders below; hidden files are left alone."""
    data = write_scenes(tmp_path / "data", {"train": 6, "val": 2, "test": 2})
    (tmp_path / "data" / "classes.txt").write_text("0 sky\n1 river\n2 car\n7 never seen\n")
    (tmp_path / "trial").mkdir()
    run(trial(data, 1, image_size=12), RunContext(folder=tmp_path / "trial"))
    images = tmp_path / "images"
    (images / "city").mkdir(parents=True)
    for name, size in (("a.png", (20, 16)), ("city/b.jpg", (33, 9)), (".hidden.png", (5, 5))):
        Image.new("RGB", size, (60, 110, 90)).save(images / name)
    written, note = inference.predict_checkpoint(
        tmp_path / "trial" / "checkpoint.pt", tmp_path / "out", images=images, trust_code=True
    )
    assert [path.name for path in written] == ["a.png", "b.png"]
    assert note is not None
    assert "scaled to 12 pixels" in note
    with Image.open(written[1]) as file:
        assert file.size == (33, 9)
        assert set(np.unique(np.array(file)).tolist()) <= {0, 1, 2, 7}
    (images / "city" / "a.png").write_bytes((images / "a.png").read_bytes())
    with pytest.raises(InputError, match="would both be written"):
        inference.predict_checkpoint(
            tmp_path / "trial" / "checkpoint.pt", tmp_path / "out", images=images, trust_code=True
        )


def test_other_scenes_can_be_evaluated(checkpoint: Path, tmp_path: Path) -> None:
    """Of any size, if they have as many classes."""
    other = write_scenes(tmp_path / "large", {"train": 3, "val": 1, "test": 2}, (24, 28))
    scores, bundle = inference.score_checkpoint(checkpoint, data=other, trust_code=True)
    assert np.sum(scores.confusion) == 2 * (24 * 28 - 3 * 4)
    assert bundle.input.shape == (3, 16, 20)
    (tmp_path / "large" / "classes.txt").write_text("sky\nriver\ncar\nbus\n")
    reading._read.cache_clear()
    with pytest.raises(InputError, match="has 4 classes; the model was trained on 3"):
        inference.score_checkpoint(checkpoint, data=other, trust_code=True)
    with pytest.raises(InputError, match="is for classification; the model was trained for segmentation"):
        inference.score_checkpoint(checkpoint, data="digits", trust_code=True)


# What is refused.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "mixup"}, "method 'mixup' is for data with one label for each sample, not for each pixel"),
        ({"method": "logit-adjustment+ema"}, "is for data with one label for each sample"),
        ({"method": "fgsm-at"}, "is for data with one label for each sample"),
        ({"method": "dann"}, "is for data with one label for each sample"),
        ({"attacks": ({"kind": "pgd"},)}, "attacks are on classifiers"),
        (
            {"train": {"augment": "randaugment"}},
            "augment 'randaugment' is for images with one label; .* 'scene-jitter'",
        ),
        ({"train": {"augment": "crop-flip"}}, "augment 'crop-flip' is for images with one label"),
    ],
)
def test_what_scenes_cannot_have_is_refused(data: str, changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(trial(data, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": {"augment": "scene"}}, "augment 'scene' is for images with masks, and data 'digits' have none"),
        ({"train": {"crop": (4, 4)}}, "crop 4,4 is for images with masks"),
        ({"window": (4, 6)}, "window 4,6 is for images with masks"),
    ],
)
def test_what_other_data_cannot_have_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(Trial.model_validate({"data": "digits", "model": "cnn", **changes}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window_stride": (4, 4)}, "window_stride goes with window"),
        ({"window": (8, 8), "window_stride": (4, 9)}, r"window_stride \[4, 9\] goes past the window of \[8, 8\]"),
        ({"window": (8, 0)}, "greater than 0"),
        ({"train": {"scales": (2, 1)}}, "expected the smaller one first"),
        ({"train": {"crop": (8,)}}, "crop"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Trial.model_validate({"data": "digits", "model": "cnn", **changes})


# How long it takes.


def test_the_estimate_knows_that_whole_scenes_are_larger_than_crops(data: str) -> None:
    described = trial(data, train={"crop": (8, 10), "epochs": 2})
    bundle = load_bundle(described)
    loader = make_task(described, bundle, CPU).loader()
    assert samples_of(described, bundle, loader, 200) == 2 * BATCHES * 4 + 0.35 * 4 * (2 * 3 + 3 + 11)
    assert seconds_of(described, bundle) > 0


def test_a_mask_value_is_never_a_class(data: str) -> None:
    """255, which no loss knows, does not reach one."""
    for batch in make_task(trial(data), load_bundle(trial(data)), CPU).loader().epoch(1):
        assert isinstance(batch.targets, Tensor)
        assert batch.targets.dtype == torch.long
        assert batch.targets.max() < len(CLASSES)

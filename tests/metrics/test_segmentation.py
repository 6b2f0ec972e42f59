"""Metrics of segmentation: by hand, by plain loops, and against torchmetrics and scikit-learn."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import confusion_matrix, roc_auc_score
from torch import Tensor, nn

import durm
import durm.models  # before torchmetrics, which imports torchvision
from durm.data.bundle import IGNORED, DataBundle, InputFormat, Samples
from durm.errors import InputError
from durm.metrics.classification import predictions_of
from durm.metrics.segmentation import Tally
from durm.scores import dummy_mass
from durm.training import segmentation
from durm.training.segmentation import evaluate_scenes, segment, write_predictions
from tests.metrics.measuring import classification_metrics

CPU = torch.device("cpu")


def sure(predicted: Sequence[Sequence[int]], width: int) -> Tensor:
    """Logits (width, H, W) whose largest is that of the given class."""
    return 5.0 * nn.functional.one_hot(torch.tensor(predicted), width).permute(2, 0, 1)


def random_scene(classes: int, dummies: int, seed: int, size: tuple[int, int] = (23, 31)) -> tuple[Tensor, Tensor]:
    """Logits that are right more often than not, and a mask of which some is ignored."""
    random = torch.Generator().manual_seed(seed)
    mask = torch.randint(classes, size, generator=random)
    logits = 2 * torch.randn(classes + dummies, *size, generator=random)
    logits.scatter_add_(0, mask[None], torch.full((1, *size), 3.0))
    mask[torch.rand(size, generator=random) < 0.1] = IGNORED
    return logits, mask.byte()


def tallied(logits: Tensor, mask: Tensor, classes: int, dummies: int = 0) -> Tally:
    tally = Tally(classes, dummies)
    tally.add(logits, mask)
    return tally


def test_iou_by_hand() -> None:
    """Class 3 is predicted and occurs nowhere; class 4 is seen only where nothing is labelled, which does not count.

    truth       0 0 0 1 1 2 2 – 2      confusion  0: 2 1 0 0     IoU  2 of 3 + 3 − 2
    prediction  0 0 1 1 2 2 0 4 3                 1: 0 1 1 0          1 of 2 + 2 − 1
                                                  2: 1 0 1 1          1 of 3 + 2 − 1
                                                  3: 0 0 0 0          0 of 0 + 1 − 0
    """
    mask = torch.tensor([[0, 0, 0, 1, 1, 2, 2, IGNORED, 2]], dtype=torch.uint8)
    logits = sure([[0, 0, 1, 1, 2, 2, 0, 4, 3]], 5)
    tally = Tally(5, class_names=["Road", "Sign Symbol", "car", "sky", "tree"])
    tally.add(logits, mask)
    expected = torch.zeros(5, 5, dtype=torch.long)
    expected[:3, :4] = torch.tensor([[2, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 1]])
    assert torch.equal(tally.confusion, expected)
    assert (tally.pixels, tally.ignored) == (8, 1)
    metrics = tally.metrics()
    ious = {"road": 2 / 4, "sign-symbol": 1 / 3, "car": 1 / 4, "sky": 0.0}
    for name, iou in ious.items():
        assert metrics[f"iou_{name}"] == pytest.approx(100 * iou)
    assert "iou_tree" not in metrics
    assert metrics["miou"] == metrics["miou_with_dummies"] == pytest.approx(100 * sum(ious.values()) / 4)
    accuracies = {"road": 2 / 3, "sign-symbol": 1 / 2, "car": 1 / 3}
    for name, accuracy in accuracies.items():
        assert metrics[f"acc_{name}"] == pytest.approx(100 * accuracy)
    assert "acc_sky" not in metrics
    assert metrics["macc"] == pytest.approx(100 * sum(accuracies.values()) / 3)
    assert metrics["accuracy"] == pytest.approx(100 * 4 / 8)
    assert tally.classes["iou"][4] is tally.classes["accuracy"][3] is None


def test_what_dummies_take_by_hand() -> None:
    """Predictions are of the real classes; with dummies as predictions the pixels stay in the union of their class.

    truth            0 0 0 0 1 1 –
    of the real      0 0 0 1 1 0 0
    of all           0 d d 1 e 0 d     so IoU of 0: 1 of 5 (4 in truth, 1 elsewhere), of 1: 0 of 2 + 1
    """
    real = torch.tensor([0, 0, 0, 1, 1, 0, 0])
    logits = torch.zeros(4, 1, 7)
    logits[real, 0, torch.arange(7)] = 5.0
    logits[2, 0, [1, 2, 6]], logits[3, 0, 4] = 9.0, 9.0
    tally = tallied(logits, torch.tensor([[0, 0, 0, 0, 1, 1, IGNORED]]), 2, 2)
    assert tally.confusion.tolist() == [[3, 1], [1, 1]]
    assert tally.confusion_all.tolist() == [[1, 1, 2, 0], [1, 0, 0, 1]]
    assert tally.dummy_hits_by_class.tolist() == [[2, 0], [0, 1]]
    metrics = tally.metrics()
    assert metrics["miou"] == pytest.approx(100 * (3 / 5 + 1 / 3) / 2)
    assert metrics["miou_with_dummies"] == pytest.approx(100 * (1 / 5 + 0 / 3) / 2)
    assert metrics["dummy_hits"] == pytest.approx(50)
    assert metrics["dummy_hits_ignored"] == 100
    mass = dummy_mass(logits, 2, dim=0)[0]
    assert metrics["dummy_mass"] == pytest.approx(100 * mass[:6].mean().item(), rel=1e-6)
    assert metrics["dummy_mass_ignored"] == pytest.approx(100 * mass[6].item(), rel=1e-6)


@pytest.mark.parametrize("dummies", [0, 1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_it_agrees_with_other_libraries(dummies: int, seed: int) -> None:
    from torchmetrics.classification import MulticlassJaccardIndex

    classes = 6
    logits, mask = random_scene(classes, dummies, seed)
    tally = tallied(logits, mask, classes, dummies)
    real, labelled = logits[:classes].argmax(0), mask != IGNORED
    theirs = confusion_matrix(mask[labelled], real[labelled], labels=range(classes))
    assert np.array_equal(tally.confusion.numpy(), theirs)
    every = confusion_matrix(mask[labelled], logits.argmax(0)[labelled], labels=range(classes + dummies))
    assert np.array_equal(tally.confusion_all.numpy(), every[:classes])
    jaccard = MulticlassJaccardIndex(classes, average="none", ignore_index=IGNORED)(real[None], mask[None].long())
    assert tally.classes["iou"] == pytest.approx((100 * jaccard).tolist(), rel=1e-5)
    assert tally.metrics()["miou"] == pytest.approx(100 * jaccard.mean().item(), rel=1e-5)


@pytest.mark.parametrize("dummies", [0, 2])
def test_pixels_are_samples_of_a_classifier(dummies: int) -> None:
    classes = 4
    logits, mask = random_scene(classes, dummies, 5)
    tally, labelled = tallied(logits, mask, classes, dummies), mask != IGNORED
    rows, targets = logits[:, labelled].T, mask[labelled].long()
    metrics, theirs = tally.metrics(), classification_metrics(rows, targets, classes)
    for name in ("accuracy", "nll", "ece", "ece_all", "dummy_mass", "dummy_hits"):
        assert metrics[name] == pytest.approx(theirs[name], rel=1e-5, abs=1e-6), name
    assert metrics["macc"] == pytest.approx(theirs["balanced_accuracy"])
    for name, values in predictions_of(lambda: (rows,), targets, classes).reliability.items():
        assert tally.reliability[name] == pytest.approx(values, rel=1e-5)


@pytest.mark.parametrize("offset", [0.0, -12.0, -30.0])
@pytest.mark.parametrize("scale", [0.2, 1.0, 3.0])
def test_how_well_scores_find_wrong_pixels(offset: float, scale: float) -> None:
    """Against scikit-learn's exact AUROC of scores in float64, also where p_D is far below float32's 1e-7."""
    classes = 5
    logits, mask = random_scene(classes, 2, 9, (60, 70))
    logits = scale * logits
    logits[classes:] += offset
    labelled = mask != IGNORED
    rows = logits[:, labelled].T.double()
    wrong = rows[:, :classes].argmax(1) != mask[labelled]
    real = rows[:, :classes].softmax(1)
    scores = {
        "dummy_mass": rows.softmax(1)[:, classes:].sum(1),
        "entropy": -(real * real.log()).sum(1),
        "max_probability": real.sort(1).values[:, :-1].sum(1),
    }
    tally = tallied(logits, mask, classes, 2)
    metrics = tally.metrics()
    for name, score in scores.items():
        exact = 100 * roc_auc_score(wrong, score)
        assert metrics[f"auroc_{name}"] == pytest.approx(exact, abs=0.1)
        assert abs(metrics[f"auroc_{name}"] - exact) <= tally.auroc_errors[f"auroc_{name}"] + 1e-3


def test_scores_that_cannot_be_judged_are_absent() -> None:
    mask = torch.tensor([[0, 1]])
    assert not [name for name in tallied(sure([[0, 1]], 3), mask, 2, 1).metrics() if name.startswith("auroc")]
    assert not [name for name in tallied(sure([[1, 0]], 2), mask, 2).metrics() if name.startswith("auroc")]
    found = tallied(sure([[0, 0]], 2), mask, 2).metrics()
    assert {name for name in found if name.startswith("auroc")} == {"auroc_entropy", "auroc_max_probability"}
    assert "dummy_hits_ignored" not in found


def test_image_by_image_is_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    classes, dummies = 4, 1
    scenes = [random_scene(classes, dummies, seed) for seed in range(4)]
    logits, masks = torch.stack([z for z, _ in scenes]), torch.stack([mask for _, mask in scenes])
    apart, batch, last = Tally(classes, dummies), Tally(classes, dummies), Tally(classes, dummies)
    for z, mask in scenes:
        apart.add(z, mask)
    batch.add(logits.to(memory_format=torch.channels_last), masks)
    monkeypatch.setattr("durm.metrics.segmentation.PIXELS_TALLIED", 100)
    last.add(torch.cat(list(logits), 2), torch.cat(list(masks), 1))
    for other in (batch, last):
        assert torch.equal(apart.confusion_all, other.confusion_all)
        assert other.metrics() == pytest.approx(apart.metrics(), rel=1e-6)


@pytest.mark.parametrize("dummies", [1, 3])
def test_what_is_of_the_real_classes_does_not_depend_on_the_dummies(dummies: int) -> None:
    logits, mask = random_scene(5, dummies, 1)
    wide, narrow = tallied(logits, mask, 5, dummies).metrics(), tallied(logits[:5], mask, 5).metrics()
    others = {"miou_with_dummies", "ece_all", "dummy_mass", "dummy_hits", "dummy_mass_ignored", "dummy_hits_ignored"}
    for name in narrow.keys() - others:
        assert wide[name] == pytest.approx(narrow[name], rel=1e-12)


def test_a_model_that_diverged_has_metrics() -> None:
    logits, mask = random_scene(3, 1, 0)
    metrics = tallied(torch.full_like(logits, torch.nan), mask, 3, 1).metrics()
    assert metrics["nll"] != metrics["nll"]
    assert metrics["accuracy"] < 100


def test_what_cannot_be_counted() -> None:
    logits, mask = random_scene(3, 1, 0)
    with pytest.raises(ValueError, match=r"logits of shape \(4, 23, 31\): expected \(3, 23, 31\)"):
        Tally(3).add(logits, mask)
    with pytest.raises(ValueError, match=r"expected \(4, 22, 31\), with the mask's size"):
        Tally(3, 1).add(logits, mask[1:])
    with pytest.raises(ValueError, match="the mask has class 7: expected 0 to 2, or 255"):
        Tally(3, 1).add(logits, mask.clone().fill_(7))
    with pytest.raises(ValueError, match="no labelled pixels"):
        tallied(logits, torch.full_like(mask, IGNORED), 3, 1).metrics()
    with pytest.raises(ValueError, match="2 class names for 3 classes"):
        Tally(3, class_names=["a", "b"])


# Windows.


class Place(nn.Module):
    """Knows position only: the logits of a pixel are its row and its column within what the model sees."""

    def forward(self, images: Tensor) -> Tensor:
        height, width = images.shape[-2:]
        rows = torch.arange(height, dtype=torch.float32)[:, None].expand(height, width)
        columns = torch.arange(width, dtype=torch.float32).expand(height, width)
        return torch.stack([rows, columns]).expand(len(images), 2, height, width)


def test_windows_of_a_line_by_hand() -> None:
    """Six columns through a window of three, by two: columns 0–2, 2–4 and, moved back, 3–5."""
    columns = segment(Place(), torch.zeros(3, 1, 6), window=(1, 3), stride=(1, 2))[1, 0]
    assert columns.tolist() == [0, 1, (2 + 0) / 2, (1 + 0) / 2, (2 + 1) / 2, 2]


@pytest.mark.parametrize("size", [(7, 9), (8, 8), (20, 13), (5, 30)])
@pytest.mark.parametrize(("window", "stride"), [((6, 6), None), ((6, 8), (5, 3)), ((3, 4), (1, 1)), ((8, 2), (8, 2))])
def test_windows_are_those_of_mmsegmentation(
    size: tuple[int, int], window: tuple[int, int], stride: tuple[int, int] | None
) -> None:
    """Against its `slide_inference`, written down again pixel by pixel."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 5, 3, padding=1))
    image = torch.randn(3, *size, generator=torch.Generator().manual_seed(0))
    (height, width), (tall, wide) = size, window
    down, right = stride or (2 * tall // 3, 2 * wide // 3)
    total, count = torch.zeros(5, height, width), torch.zeros(height, width)
    for row in range(max(height - tall + down - 1, 0) // down + 1):
        for column in range(max(width - wide + right - 1, 0) // right + 1):
            bottom, edge = min(row * down + tall, height), min(column * right + wide, width)
            top, left = max(bottom - tall, 0), max(edge - wide, 0)
            logits = model(image[None, :, top:bottom, left:edge])[0].detach()
            for y in range(top, bottom):
                for x in range(left, edge):
                    total[:, y, x] += logits[:, y - top, x - left]
                    count[y, x] += 1
    assert count.min() >= 1
    ours = segment(model, image, window=window, stride=stride)
    torch.testing.assert_close(ours, total / count, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("window", [(20, 30), (21, 99), None])
def test_a_window_as_large_as_the_image_is_none(window: tuple[int, int] | None) -> None:
    model = nn.Conv2d(3, 4, 5, padding=2)
    image = torch.randn(3, 20, 30, generator=torch.Generator().manual_seed(1))
    assert torch.equal(segment(model, image, window=window), model(image[None])[0])


@pytest.mark.parametrize("stride", [(0, 3), (5, 3), (3, -1)])
def test_windows_with_gaps_are_refused(stride: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"stride=.* expected at least 1 and at most the window of \(4, 4\)"):
        segment(Place(), torch.zeros(3, 9, 9), window=(4, 4), stride=stride)


def test_logits_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match=r"logits of \(4, 4\) pixels for an image of \(8, 8\)"):
        segment(nn.Conv2d(3, 2, 2, stride=2), torch.zeros(3, 8, 8))


def test_all_logits_are_given_of_a_model_in_training() -> None:
    model = durm.widen(nn.Sequential(nn.Dropout(0.5), nn.Conv2d(3, 4, 1)), 2, num_classes=4)
    image = torch.ones(3, 6, 6)
    first, second = segment(model, image), segment(model, image, window=(3, 3))
    assert first.shape == (6, 6, 6)
    torch.testing.assert_close(first, second)
    assert not first.requires_grad
    assert not model.training
    assert model(image[None]).shape == (1, 4, 6, 6)


# Whole data sets.


class InMemory:
    """Files that are none."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors

    def __len__(self) -> int:
        return len(self.tensors)

    def __getitem__(self, index: int) -> Tensor:
        return self.tensors[index]

    def key(self, index: int) -> bytes:
        return str(index).encode()


def scenes(sizes: Sequence[tuple[int, int]], classes: int) -> Samples:
    random = torch.Generator().manual_seed(0)
    images = [torch.randint(256, (3, *size), generator=random, dtype=torch.uint8) for size in sizes]
    masks = [torch.randint(classes, size, generator=random, dtype=torch.uint8) for size in sizes]
    for mask in masks:
        mask[0] = IGNORED
    return Samples(InMemory(images), torch.zeros(len(sizes), dtype=torch.long), masks=InMemory(masks))


def bundle_of(samples: Samples, classes: int) -> DataBundle:
    format = InputFormat((3, 8, 8), torch.full((3, 1, 1), 120.0), torch.full((3, 1, 1), 60.0), pixel_max=255.0)
    names, ids = [f"Class {number}" for number in range(classes)], [7 + 3 * number for number in range(classes)]
    return DataBundle(
        samples, samples, samples, classes, names, format, task="segmentation", mask_ids=ids
    )  # fmt: skip


def small_model(classes: int, dummies: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, classes, 1))
    return durm.widen(model, dummies, num_classes=classes)


SIZES = [(8, 8)] * 5 + [(6, 10)] * 2 + [(8, 8)]


@pytest.mark.parametrize("dummies", [0, 1])
@pytest.mark.parametrize("window", [None, (4, 6)])
def test_samples_of_several_sizes(
    dummies: int, window: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, model = scenes(SIZES, 3), small_model(3, dummies)
    bundle = bundle_of(samples, 3)
    monkeypatch.setattr(segmentation, "PIXELS_AT_ONCE", 3 * 64)
    batches: list[int] = []
    model.register_forward_pre_hook(lambda _, inputs: batches.append(len(inputs[0])))
    tally = evaluate_scenes(model, samples, bundle, CPU, window=window, memory_format=torch.channels_last)
    if window is None:
        assert batches == [3, 2, 2, 1]
    expected = Tally(3, dummies, bundle.class_names)
    for index in range(len(samples)):
        image = bundle.input.normalise(samples.inputs[index])
        assert samples.masks is not None
        expected.add(segment(model, image, window=window), samples.masks[index])
    assert torch.equal(tally.confusion_all, expected.confusion_all)
    assert tally.metrics() == pytest.approx(expected.metrics(), rel=1e-3)  # rounding puts pixels into other bins
    assert "iou_class-2" in tally.metrics()
    assert tally.pixels == sum((height - 1) * width for height, width in SIZES)
    assert not model.training


def test_samples_without_masks_are_refused() -> None:
    samples = scenes(SIZES, 3)
    bare = Samples(samples.inputs, samples.labels)
    with pytest.raises(ValueError, match="no masks"):
        evaluate_scenes(small_model(3, 0), bare, bundle_of(samples, 3), CPU)


def test_predictions_are_read_back(tmp_path: Path) -> None:
    samples, model = scenes([(8, 8), (6, 10)], 4), small_model(4, 2)
    bundle = bundle_of(samples, 4)
    images = {"berlin/a.b.jpg": samples.inputs[0], "c.png": samples.inputs[1]}
    written = write_predictions(model, images.items(), bundle, tmp_path / "new", CPU)
    assert written == [tmp_path / "new" / "a.b.png", tmp_path / "new" / "c.png"]
    for path, raw in zip(written, images.values(), strict=True):
        with Image.open(path) as file:
            assert file.mode == "L"
            ids = torch.from_numpy(np.array(file)).long()
        model.eval()
        assert torch.equal((ids - 7) / 3, model(bundle.input.normalise(raw)[None])[0].argmax(0))
    with pytest.raises(InputError, match=r"x/c\.jpg and y/c\.png would both be written to .*c\.png"):
        write_predictions(
            model, [("x/c.jpg", samples.inputs[0]), ("y/c.png", samples.inputs[1])], bundle, tmp_path, CPU
        )

"""Segmentation from the command line to the page, and what is refused on the way."""

import base64
import csv
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from durm.report.tables import class_iou_table
from durm.study import runner
from tests.cli.calling import Answer, call, refusal
from tests.cli.test_compare import run_here
from tests.data.masks import write_mask
from tests.data.samples import write_sample
from tests.training.scenes import CLASSES, MODEL, write_scenes

FLAGS = {"--model": MODEL, "--epochs": 2, "--batch-size": 4}
TRAINING = (*(part for flag in FLAGS.items() for part in flag), "--quiet")


def lines(answer: Answer) -> list[str]:
    """What was printed, of a command that went well."""
    assert (answer.code, answer.err) == (0, ""), answer
    return answer.out.splitlines()


def parsed(answer: Answer) -> Any:
    return json.loads("\n".join(lines(answer)))


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "run_study", run_here)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_scenes(tmp_path_factory.mktemp("scenes"), {"train": 9, "val": 3, "test": 4})


@pytest.fixture(scope="module")
def compared(data: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answer]:
    """The folder of a study of three arms and two seeds, and what was printed."""
    folder = tmp_path_factory.mktemp("compare") / "out"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runner, "run_study", run_here)
        flags = ("--dummies", "0,1,2", "--seeds", 2, "--crop", "12,14", "--window", "10,20")
        return folder, call("compare", "--data", data, *TRAINING, *flags, "--out", folder)


@pytest.fixture(scope="module")
def camvid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    write_sample("camvid", root)
    return root


# durm compare, and the page.


def test_the_verdict_is_about_the_mean_iou(compared: tuple[Path, Answer], data: str) -> None:
    folder, answer = compared
    printed = lines(answer)
    assert f"on {data} with {MODEL}" in printed[0]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["metric"] == "miou"
    (setting,) = summary["settings"]
    for arm in setting["arms"]:
        assert setting["classes"][arm["arm"]].keys() == {"0", "1"}
        for seed, values in setting["classes"][arm["arm"]].items():
            assert list(values) == [*(f"iou_{name}" for name in CLASSES), "miou"]
            assert values["miou"] == arm["values"][seed]
            assert values["miou"] == pytest.approx(np.mean(list(values.values())[:-1]))
    assert not any("One sample of the test set" in warning for warning in summary["warnings"])
    written = yaml.safe_load((folder / "study.yaml").read_text())
    assert (written["metric"], written["train"]["crop"], written["window"]) == ("miou", [12, 14], [10, 20])


def test_the_page_has_the_scenes_and_the_classes(compared: tuple[Path, Answer]) -> None:
    folder, _ = compared
    page = (folder / "report.html").read_text()
    (scenes,) = re.findall(r'<figure class="wide">.*?</figure>', page, re.DOTALL)
    assert scenes.count("<image") == 3 * 6 + 1  # image, truth, two arms, dummies and their mass of three scenes; scale
    for words in ("image", "truth", "erm", "durm-1", "durm-1, dummies red", "wide river", "taken by a dummy"):
        assert f">{words}</text>" in scenes
    assert "#009e73" in scenes  # of cars, also in the dark, although an arm may have that colour
    assert "var(--ink)" in scenes
    assert "as the models of the first seed see them" in scenes
    assert "2 seeds" not in scenes
    assert "Mean IoU on the validation set while training" in page
    assert "Samples are pixels here" in page
    setting = json.loads((folder / "summary.json").read_text())["settings"][0]
    table = class_iou_table(setting["classes"])
    assert [row[0] for row in table.texts()] == [*CLASSES, "mean"]
    for cell in (cell for row in table.texts() for cell in row):
        assert f">{cell}</td>" in page
    assert (folder / "figures" / "scenes.png").read_bytes()[:4] == b"\x89PNG"
    assert "| wide river |" in (folder / "report.md").read_text()
    rows = list(csv.DictReader((folder / "results.csv").read_text().splitlines()))
    assert rows[0]["value"] == rows[0]["miou"]
    assert {"iou_wide-river", "val_miou", "dummy_mass_ignored"} <= rows[0].keys()


def test_nothing_is_run_twice_and_the_page_comes_out_the_same(compared: tuple[Path, Answer], data: str) -> None:
    folder, _ = compared
    before = {path: path.read_bytes() for path in (folder / "report.html", folder / "figures" / "scenes.svg")}
    assert lines(call("report", folder, "--trust-code", "--quiet")) == []
    assert {path: path.read_bytes() for path in before} == before


def test_an_arm_that_is_not_done_leaves_the_baseline_the_baseline(
    compared: tuple[Path, Answer], tmp_path: Path
) -> None:
    """The table of the classes and the pictures need what is there, and nothing more."""
    folder = tmp_path / "copy"
    shutil.copytree(compared[0], folder)
    for path in folder.glob("trials/*-erm-seed*/result.json"):
        path.unlink()
    summary = parsed(call("report", folder, "--trust-code", "--json"))
    classes = summary["settings"][0]["classes"]
    assert list(classes) == ["erm", "durm-1", "durm-2"]
    assert classes["erm"] == {}
    table = class_iou_table(classes)
    assert table.headings[4:] == ["durm-1 − erm", "interval", "durm-2 − erm", "interval"]
    assert table.texts()[0][1] == "–"
    assert table.texts()[0][4] == "–"


def test_pictures_are_kept_where_the_data_are_missing(
    camvid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are drawn anew if the data root is named, and left out if there are no models.

    What was found in a file is shown as a picture, in which no script runs.
    """
    monkeypatch.chdir(tmp_path)
    flags = ("--dummies", "0,1", "--seeds", 1, "--data-root", camvid, "--out", "out")
    answer = call("compare", "--data", "camvid", *TRAINING, *flags)
    assert answer.code == 0, answer
    drawn = Path("out/figures/scenes.svg")
    first = drawn.read_text()
    changed = first.replace("truth", "TRUTH").replace("</svg>", "<script>alert(1)</script></svg>")
    drawn.write_text(changed)
    assert call("report", "out", "--trust-code", "--quiet").code == 0
    page = Path("out/report.html").read_text()
    (kept,) = re.findall(r'<img alt="[^"]*" src="data:image/svg\+xml;base64,([^"]*)">', page)
    assert base64.b64decode(kept).decode() == changed
    assert "alert(1)" not in page
    assert call("report", "out", "--trust-code", "--quiet", "--data-root", camvid).code == 0
    assert ">truth</text>" in Path("out/report.html").read_text()
    assert drawn.read_text() == first
    for path in (drawn, *Path("out").glob("trials/*/checkpoint.pt")):
        path.unlink()
    assert call("report", "out", "--trust-code", "--quiet", "--data-root", camvid).code == 0
    assert 'class="wide"' not in Path("out/report.html").read_text()


def test_a_metric_and_an_arm_of_choice(data: str, tmp_path: Path) -> None:
    arms = ("--dummies", 0, "--arm", "smoothing: label_smoothing=0.1")
    flags = (*arms, "--seeds", 1, "--metric", "macc", "--select", "best-val", "--out", tmp_path)
    assert "mean class accuracy" in lines(call("compare", "--data", data, *TRAINING, *flags))[0]
    page = (tmp_path / "report.html").read_text()
    assert "Mean class accuracy on the validation set" in page
    assert "those of the epoch with the best validation mean IoU" in page
    assert ">smoothing</text>" in (tmp_path / "figures" / "scenes.svg").read_text()


# durm run.


def test_a_study_from_a_file(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = {
        "data": data,
        "model": MODEL,
        "method": ["erm", "ema"],
        "arms": [{"name": "erm"}, {"name": "durm-1", "dummies": 1}, {"name": "jitter", "augment": "scene-jitter"}],
        "seeds": 1,
        "train": {
            **{"iterations": 4, "batch_size": 4, "schedule": "poly", "warmup": 1, "validate_every": 2},
            **{"crop": [12, 14], "scales": [0.5, 1.5]},
        },
        "window": [12, 12],
        "window_stride": [6, 12],
        "probes": ["dummy_mass", "gradient_variance"],
    }
    Path("scenes.yaml").write_text(yaml.safe_dump(study))
    assert call("run", "scenes.yaml", "--trust-code", "--quiet").code == 0
    results = [json.loads(path.read_text()) for path in Path("runs/scenes").glob("trials/*/result.json")]
    assert len(results) == 6
    assert {result["cost"]["steps"] for result in results} == {4}
    assert {len(result["curves"]) for result in results} == {2}
    page = Path("runs/scenes/report.html").read_text()
    assert page.count('<figure class="wide">') == 2
    assert page.count("What the probes saw while training") == 2
    assert len(list(Path("runs/scenes/figures").glob("*-scenes.svg"))) == 2


# durm train, evaluate and data check.


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Answer]:
    """A checkpoint, its data, and what was printed. Cars are in the validation part, and not in the test part."""
    root = tmp_path_factory.mktemp("train")
    data = write_scenes(root / "data", {"train": 5, "val": 2, "test": 2})
    for path in (root / "data" / "test" / "masks").iterdir():
        ids = np.array(Image.open(path))
        write_mask(path, np.where(ids == 2, 255, ids))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runner, "run_study", run_here)
        answer = call("train", "--data", data, *TRAINING, "--dummies", 1, "--out", root / "out")
    (checkpoint,) = root.glob("out/trials/*/checkpoint.pt")
    return checkpoint, root / "data", answer


def test_train_prints_what_each_part_has(trained: tuple[Path, Path, Answer]) -> None:
    checkpoint, _, answer = trained
    rows = {line.split()[0]: line.split()[1:] for line in lines(answer)[1:-1]}
    assert rows["miou"][0] != rows["miou"][1]
    assert rows["acc_car"][0] == "–"
    assert float(rows["acc_car"][1]) >= 0
    assert lines(answer)[-1] == f"checkpoint: {checkpoint}"


def test_evaluate_prints_the_classes(trained: tuple[Path, Path, Answer]) -> None:
    checkpoint, *_ = trained
    result = json.loads((checkpoint.parent / "result.json").read_text())
    printed = lines(call("evaluate", checkpoint, "--trust-code"))
    metrics, classes = "\n".join(printed).split("\n\n")
    shown = dict(line.split() for line in metrics.splitlines())
    assert shown["miou"] == f"{result['metrics']['miou']:.3f}"
    assert not any(name.startswith(("iou_", "acc_")) for name in shown)
    headings, *rows = [re.split(r"  +", line) for line in classes.splitlines()]
    assert headings == ["class", "pixels", "IoU %", "accuracy %", "most taken for", "dummy hits %"]
    assert [row[0] for row in rows] == list(CLASSES)
    confusion = np.array(result["confusion"])
    for number, row in enumerate(rows[:2]):
        assert row[1] == f"{confusion[number].sum():,}"
        assert row[2] == f"{result['classes']['iou'][number]:.2f}"
        assert row[5] == f"{100 * confusion[number, 3:].sum() / confusion[number].sum():.3f}"
        wrong = np.where(np.arange(3) == number, 0, confusion[number, :3])
        share = 100 * wrong.max() / confusion[number].sum()
        assert row[4] == (f"{CLASSES[wrong.argmax()]} ({share:.1f} %)" if share else "–")
    assert rows[2][1] == "0"
    assert (rows[2][3], rows[2][5]) == ("–", "–")
    as_json = parsed(call("evaluate", checkpoint, "--trust-code", "--json"))
    assert as_json["confusion"] == result["confusion"]
    assert as_json["class_names"] == list(CLASSES)
    assert as_json["miou"] == result["metrics"]["miou"]


def test_predictions_for_a_server(trained: tuple[Path, Path, Answer], tmp_path: Path) -> None:
    checkpoint, data, _ = trained
    said = lines(call("evaluate", checkpoint.parent, "--trust-code", "--predictions", tmp_path / "test"))
    assert said == [f"2 predictions in {tmp_path / 'test'}, such as test-00.png"]
    flags = ("--predictions", tmp_path / "train", "--images", data / "train")
    with pytest.raises(AssertionError, match="would both be written"):  # images/ and masks/ have the same names
        lines(call("evaluate", checkpoint, "--trust-code", *flags))
    flags = ("--predictions", tmp_path / "train", "--images", data / "train" / "images")
    answer = parsed(call("evaluate", checkpoint, "--trust-code", *flags, "--json"))
    assert answer["predictions"] == [str(tmp_path / "train" / f"train-{number:02}.png") for number in range(5)]
    assert answer["notes"] == []
    with Image.open(answer["predictions"][0]) as picture:
        assert (picture.mode, picture.size) == ("L", (20, 16))


def test_data_check_counts_the_pixels(data: str) -> None:
    facts = parsed(call("data", "check", data, "--json"))
    assert facts["task"] == "segmentation"
    assert list(facts["pixels"]) == list(CLASSES)
    assert sum(facts["pixels"].values()) + facts["ignored"] == 9 * 16 * 20
    assert "wide river" in call("data", "check", data).out


# What is refused, before the first trial.


@pytest.fixture
def _untrained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_study(*arguments: object) -> None:
        raise AssertionError("bad input was accepted, and the first trial would start")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "run_study", run_study)


def mask(number: int, ids: np.ndarray, part: str = "train", mode: str = "L") -> Callable[[Path], None]:
    def write(root: Path) -> None:
        write_mask(root / part / "masks" / f"{part}-{number:02}.png", ids, mode)

    return write


def ignore_all(part: str) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        for path in (root / part / "masks").iterdir():
            write_mask(path, np.full((16, 20), 255))

    return write


SOME = np.zeros((16, 20), int)
BAD_DATA: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "unknown ids": (mask(1, SOME + 9), ("train-01.png", "the id 9", "3 classes, with the ids 0 to 2", "255")),
    "another size": (mask(2, SOME[:8]), ("train-02.png has 20 × 8 pixels", "expected 20 × 16")),
    "no mask": (lambda root: (root / "val/masks/val-00.png").unlink(), ("1 image has no mask", "val-00.png")),
    "no image": (lambda root: (root / "val/images/val-00.png").unlink(), ("1 mask has no image", "val-00.png")),
    "colours": (mask(0, SOME, mode="RGB"), ("train-00.png has colours (RGB)", "Image.fromarray(ids)")),
    "no labels to train on": (ignore_all("train"), ("no pixel of the 6 training masks has a class",)),
    "no labels to validate on": (ignore_all("val"), ("no pixel of 2 validation masks has a class",)),
    "no labels to test on": (ignore_all("test"), ("no pixel of 2 test masks has a class",)),
    "no folder": (shutil.rmtree, ("there is no such folder",)),
    "an empty folder": (lambda root: (shutil.rmtree(root), root.mkdir()), ("there is no", "images")),
}


@pytest.mark.usefixtures("_untrained")
@pytest.mark.parametrize("name", BAD_DATA)
def test_wrong_data(name: str, tmp_path: Path) -> None:
    spoil, fragments = BAD_DATA[name]
    data = write_scenes(tmp_path / "scenes", {"train": 6, "val": 2, "test": 2})
    spoil(tmp_path / "scenes")
    said = refusal(call("compare", "--data", data, *TRAINING, "--dummies", "0,1", "--seeds", 1))
    for fragment in fragments:
        assert fragment in said


BAD_FLAGS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("--augment", "randaugment"): ("augment 'randaugment'", "one label", "'none', 'flip', 'scene', 'scene-jitter'"),
    ("--augment", "scenes"): ("--augment 'scenes'", "'scene' or 'scene-jitter'"),
    ("--metric", "f1"): ("--metric 'f1'", "miou, macc, accuracy"),
    ("--metric", "robust_pgd_real"): ("--metric 'robust_pgd_real'", "miou, macc, accuracy"),
    ("--data", "digits", "--metric", "accuracy"): ("labels of samples", "labels of pixels", "two studies"),
    ("--data", "digits"): ("--data", "labels of samples", "labels of pixels", "two studies"),
    ("--method", "mixup"): ("method 'mixup'", "not for each pixel"),
    ("--attack", "pgd"): ("attacks are on classifiers",),
    ("--model", "resnet18"): ("model 'resnet18'", "one for each pixel", "use 'unet-resnet18'"),
    ("--model", "tests.training.plain:network"): ("model 'tests.training.plain:network' cannot be trained on scenes",),
    ("--model", "tests.cli.test_segmentation_study:halved"): ("gives (1, 3, 8, 10)", "expected logits of shape"),
    ("--crop", "160"): ("--crop '160'", "a height and a width", "--crop 512,1024"),
    ("--crop", "160,0"): ("--crop '160,0'", "a height and a width"),
    ("--crop", "160x160"): ("--crop '160x160'", "a height and a width"),
    ("--window", "8,8,8"): ("--window '8,8,8'", "--window 512,1024"),
    ("--window", "8,-8"): ("--window '8,-8'", "a height and a width"),
    ("--arm", "odd: augment=crop-flip"): ("augment 'crop-flip'", "one label"),
    ("--batch-size", "1", "--model", "tests.cli.test_segmentation_study:pooled"): ("cannot be trained on scenes",),
}


def halved(num_classes: int) -> Any:
    """Logits of half the size, with targets to match while it is trained."""
    from torch import nn

    class Halved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Conv2d(3, num_classes, 1)

        def forward(self, images: Any) -> Any:
            return self.head(images if self.training else images[..., ::2, ::2])

    return Halved()


def pooled(num_classes: int) -> Any:
    """One value for each channel of an image, which batch normalisation cannot scale if there is one image only."""
    from torch import nn

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.head = nn.BatchNorm2d(3), nn.Conv2d(3, num_classes, 1)

        def forward(self, images: Any) -> Any:
            return self.head(images + self.norm(images.mean((2, 3), keepdim=True)))

    return Pooled()


@pytest.mark.usefixtures("_untrained")
@pytest.mark.parametrize("flags", BAD_FLAGS, ids=" ".join)
def test_wrong_flags(flags: tuple[str, ...], data: str) -> None:
    others = [part for flag in FLAGS.items() if flag[0] not in flags for part in flag]
    said = refusal(call("compare", "--data", data, *others, "--dummies", "0,1", "--seeds", 1, "--quiet", *flags))
    for fragment in BAD_FLAGS[flags]:
        assert fragment in said


@pytest.mark.usefixtures("_untrained")
@pytest.mark.parametrize(
    ("flags", "fragment"),
    [
        (("--model", "unet-resnet18"), "model 'unet-resnet18' gives a class to each pixel"),
        (("--crop", "4,4"), "crop 4,4 is for images with masks, and data 'digits' have none"),
        (("--window", "4,4"), "window 4,4 is for images with masks"),
        (("--augment", "scene"), "augment 'scene' is for images with masks"),
    ],
)
def test_what_other_data_cannot_have(flags: tuple[str, ...], fragment: str) -> None:
    assert fragment in refusal(call("train", "--data", "digits", *flags))


@pytest.mark.usefixtures("_untrained")
def test_a_metric_that_other_data_cannot_have() -> None:
    said = refusal(call("compare", "--data", "digits", "--metric", "miou"))
    assert all(part in said for part in ("--metric 'miou'", "images with masks", "accuracy")), said


@pytest.mark.usefixtures("_untrained")
@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("train: {crop: 160}", "train.crop=160: input should be a valid list"),
        ("train: {crop: [160, 0]}", "train.crop.1=0: input should be greater than 0"),
        ("train: {scales: [2, 0.5]}", "scales [2.0, 0.5]: expected the smaller one first"),
        ("train: {auxiliary: -1}", "train.auxiliary=-1: input should be greater than or equal to 0"),
        ("window_stride: [8, 8]", "window_stride goes with window, which is not given"),
        ("{window: [8, 8], window_stride: [9, 8]}", "window_stride [9, 8] goes past the window of [8, 8]"),
        ("data: [digits, 'segmentation:here']", "two studies"),
        ("{data: camvid, metric: f1}", "metric 'f1': expected one of miou, macc, accuracy"),
    ],
)
def test_wrong_study_files(text: str, fragment: str, tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    assert fragment in refusal(call("run", path))


@pytest.mark.usefixtures("_untrained")
def test_wrong_flags_of_evaluate(trained: tuple[Path, Path, Answer], tmp_path: Path) -> None:
    checkpoint, data, _ = trained
    (tmp_path / "empty").mkdir()
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "notes.txt").write_text("no image")
    (tmp_path / "file").touch()
    out = ("--predictions", tmp_path / "out")
    for flags, fragment in (
        (("--images", data), f"--images {data} goes with --predictions"),
        ((*out, "--images", tmp_path / "nowhere"), "nowhere: there is no such folder"),
        ((*out, "--images", tmp_path / "empty"), "empty has no images in it"),
        ((*out, "--images", tmp_path / "words"), "notes.txt cannot be read as an image"),
        ((*out, "--attack", "pgd"), "--attack pgd exclude each other"),
        ((*out, "--images", data, "--data", "digits"), "--data digits exclude each other"),
        (("--predictions", tmp_path / "file"), "is a file; expected a folder"),
        (("--attack", "pgd"), "--attack is for classifiers"),
        (("--data", "digits"), "is for classification; the model was trained for segmentation"),
    ):
        assert fragment in refusal(call("evaluate", checkpoint, "--trust-code", *flags))


def test_a_classifier_has_no_predictions_to_write(tmp_path: Path) -> None:
    assert call("train", "--epochs", 1, "--quiet", "--out", tmp_path / "out").code == 0
    (checkpoint,) = tmp_path.glob("out/trials/*/checkpoint.pt")
    said = refusal(call("evaluate", checkpoint, "--trust-code", "--predictions", tmp_path / "predictions"))
    assert said == "durm: --predictions are of models with a class for each pixel, and 'cnn' is a classifier"
    assert not (tmp_path / "predictions").exists()


# From a shell.


@pytest.mark.slow
def test_from_a_shell_with_a_model_by_name(camvid: Path, tmp_path: Path) -> None:
    """Two workers, an encoder of timm, an auxiliary head; then the same command again, which runs nothing."""
    command = [
        *(sys.executable, "-m", "durm", "compare", "--data", "camvid", "--data-root", str(camvid), "--dummies", "0,1"),
        *("--model", "unet-tu-mobilenetv3_small_050", "--model", "deeplabv3_mobilenet_v3_large", "--seeds", "2"),
        *("--epochs", "2", "--batch-size", "4", "--crop", "40,48", "--window", "32,48", "--out", str(tmp_path / "out")),
    ]
    for _ in range(2):
        shell = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=3600)
        assert shell.returncode == 0, shell.stderr
        assert "8 of 8 trials are done" in shell.stdout
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count('<figure class="wide">') == 2

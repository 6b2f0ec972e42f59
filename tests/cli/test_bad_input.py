"""Bad input is one line that names the flag or the field, the value and what would be right, and exit code 2."""

import pickle
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from durm.study.reading import make_study
from durm.study.store import Store
from tests.cli.calling import Answer, call, refusal
from tests.data.images import cut, fill


@pytest.fixture(autouse=True)
def _before_the_first_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own for each test, in which nothing is trained: bad input must not get as far as that."""

    def run_study(*arguments: object) -> None:
        pytest.fail("bad input was accepted, and the first trial would start")  # which no `except Exception` catches

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("durm.study.runner.run_study", run_study)


def check(line: str, fragments: tuple[str, ...]) -> None:
    for fragment in fragments:
        assert fragment in line, f"{fragment!r} is not in {line!r}"


# Commands and flags.

COMMAND_LINES: dict[str, tuple[str, ...]] = {
    "trian": ("'trian'", "'train'"),
    "data lst": ("'lst'", "'list'"),
    "train --epoch 1": ("--epoch ", "--epochs"),
    "train --colour red": ("--colour",),
    "train more": ("more",),
    "train --epochs": ("--epochs", "argument"),
    "run": ("Missing argument 'study'",),
    "status": ("Missing argument 'folder'",),
    "evaluate": ("Missing argument 'checkpoint'",),
    "data check": ("Missing argument 'name'",),
    # Names.
    "train --data digit": ("data 'digit' is unknown", "'digits'"),
    "train --data xyz": ("data 'xyz' is unknown", "arrays, audio, camvid"),
    "train --data ''": ("data '' is unknown", "arrays, audio, camvid"),
    "train --data folder": ("data 'folder'", "folder:PATH"),
    "train --data arrays:": ("data 'arrays:'", "arrays:PATH"),
    "train --data digits:here": ("data 'digits:here'", "takes no path"),
    "data check digit": ("data 'digit' is unknown", "'digits'"),
    "train --model ccn": ("model 'ccn' is unknown", "'cnn'"),
    "train --model resnet8": ("model 'resnet8' is unknown", "'resnet18'"),
    "models resnte50": ("model 'resnte50' is unknown", "'resnet50'"),
    "train --model nowhere:network": ("model 'nowhere:network'", "no module 'nowhere'"),
    "train --model os.path:jion": ("model 'os.path:jion'", "did you mean 'join'"),
    "train --model torch.nn:Linear": ("model 'torch.nn:Linear'", "num_classes"),
    "train --model builtins:len": ("model 'builtins:len'", "num_classes"),
    "train --model ..:network": ("model '..:network'", "package.module:function"),
    "train --method ermm": ("method 'ermm' is unknown", "'erm'"),
    "train --optimizer sdg": ("--optimizer 'sdg'", "'sgd', 'adam' or 'adamw'"),
    "train --schedule cosin": ("--schedule 'cosin'", "'constant', 'step', 'cosine' or 'poly'"),
    "train --precision 16": ("--precision '16'", "'32', 'bf16-mixed', '16-mixed', 'bf16-true' or '64'"),
    "train --augment crop": ("--augment 'crop'", "'crop-flip', 'randaugment', 'scene' or 'scene-jitter'"),
    "train --select best": ("--select 'best'", "'last' or 'best-val'"),
    "train --device gpu": ("--device 'gpu'", "it has cpu"),
    "train --device cuda:99": ("--device 'cuda:99'", "it has cpu"),
    # Numbers.
    "train --epochs 0": ("--epochs 0", "greater than 0"),
    "train --epochs -1": ("--epochs -1", "greater than 0"),
    "train --epochs one": ("--epochs", "'one'", "integer"),
    "train --epochs 1.5": ("--epochs", "'1.5'", "integer"),
    "train --iterations 0": ("--iterations 0", "greater than 0"),
    "train --epochs 1 --iterations 2": ("--epochs", "--iterations", "exclude each other"),
    "train --batch-size 0": ("--batch-size 0", "greater than 0"),
    "train --batch-size -3": ("--batch-size -3", "greater than 0"),
    "train --lr 0": ("--lr 0", "greater than 0"),
    "train --lr -0.1": ("--lr -0.1", "greater than 0"),
    "train --lr nan": ("--lr nan", "finite number"),
    "train --lr inf": ("--lr inf", "finite number"),
    "train --lr fast": ("--lr", "'fast'", "number"),
    "train --weight-decay -1": ("--weight-decay -1", "greater than or equal to 0"),
    "train --label-smoothing 1.5": ("--label-smoothing 1.5", "less than or equal to 1"),
    "train --clip-norm 0": ("--clip-norm 0", "greater than 0"),
    "train --warmup -1": ("--warmup -1", "greater than or equal to 0"),
    "train --image-size 0": ("--image-size 0", "greater than 0"),
    "train --devices 0": ("--devices 0", "greater than 0"),
    "train --seed -1": ("--seed", "-1", "0"),
    "train --dummies -1": ("--dummies", "-1", "0"),
    "train --dummies two": ("--dummies", "'two'", "integer"),
    "compare --dummies 0,²": ("--dummies '0,²'", "'²'", "whole number"),
    "compare --dummies 0,٣": ("--dummies '0,٣'", "'٣'", "whole number"),
    "compare --seeds ³": ("--seeds '³'", "'³'", "whole number"),
    "plan --spread 1 --seeds 6,①": ("--seeds '6,①'", "'①'", "whole number"),
    # What would fail every trial is found before the first.
    "train --pretrained": ("model 'cnn' has no pretrained weights",),
    "train --precision 16-mixed": ("'16-mixed'", "needs a GPU"),
    "train --model vit_tiny_patch16_224": ("model 'vit_tiny_patch16_224'", "(1, 8, 8)"),
}


@pytest.mark.parametrize("command_line", COMMAND_LINES)
def test_a_wrong_command_line(command_line: str) -> None:
    check(refusal(call(*shlex.split(command_line))), COMMAND_LINES[command_line])


# Data.


def write_arrays(path: Path, **changes: np.ndarray) -> str:
    arrays = {"x_train": np.zeros((20, 4)), "x_test": np.zeros((4, 4))}
    arrays |= {"y_train": np.arange(20) % 2, "y_test": np.arange(4) % 2}
    np.savez(path / "data.npz", **{name: value for name, value in (arrays | changes).items() if value is not None})
    return f"arrays:{path / 'data.npz'}"


def write_file(path: Path, content: bytes, family: str = "arrays") -> str:
    (path / "data.npz").write_bytes(content)
    return f"{family}:{path / 'data.npz'}"


def npy(path: Path) -> str:
    np.save(path / "data.npy", np.zeros(3))
    return f"arrays:{path / 'data.npy'}"


def corrupt(path: Path, files: int) -> str:
    name = fill(path / "images", {"a": 9, "b": 9})
    for image in sorted((path / "images").rglob("*.png"))[:files]:
        cut(image)
    return name


DATA: dict[str, tuple[Callable[[Path], str], tuple[str, ...]]] = {
    "no folder": (lambda path: f"folder:{path / 'nowhere'}", ("nowhere'", "there is no such folder")),
    "empty folder": (lambda path: f"folder:{path}", ("has no class folders", "/CLASS/IMAGE")),
    "file, not a folder": (lambda path: write_file(path, b"", "folder"), ("is a file", "a folder for each class")),
    "one class": (lambda path: fill(path / "images", {"a": 9}), ("one class only, 'a'", "at least two")),
    "corrupt images": (lambda path: corrupt(path, 5), ("5 files", "a/0000.png", "and 2 more", "--skip-bad")),
    "corrupt images only": (lambda path: corrupt(path, 18), ("18 files", "a/0000.png", "and 15 more")),
    "too few images": (lambda path: fill(path / "images", {"a": 9, "b": 2}), ("class 'b' has 2", "at least 3")),
    "no npz": (lambda path: f"arrays:{path / 'nowhere.npz'}", ("nowhere.npz'", "there is no such file")),
    "text, not npz": (lambda path: write_file(path, b"hello"), ("data.npz'", "cannot be read as an .npz file")),
    "empty npz": (lambda path: write_file(path, b""), ("data.npz'", "cannot be read as an .npz file")),
    "npy": (npy, ("data.npy'", "x_train and y_train")),
    "missing arrays": (lambda path: write_arrays(path, y_test=None), ("lacks y_test", "x_test, x_train, y_train")),
    "negative labels": (lambda path: write_arrays(path, y_train=np.arange(20) - 7), ("label -7", "from 0")),
    "float labels": (lambda path: write_arrays(path, y_train=np.zeros(20)), ("y_train integers", "float64")),
    "NaN": (lambda path: write_arrays(path, x_train=np.full((20, 4), np.nan)), ("x_train holds NaN",)),
    "too large for 32 bit": (lambda path: write_arrays(path, x_train=np.full((20, 4), 1e300)), ("infinite",)),
    "one sample of each class": (
        lambda path: write_arrays(path, x_train=np.zeros((2, 4)), y_train=np.arange(2)),
        ("y_train", "validation"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("command", ["train --data", "data check"])
def test_wrong_data(command: str, name: str, tmp_path: Path) -> None:
    make, fragments = DATA[name]
    data = make(tmp_path)
    check(refusal(call(*command.split(), data)), (f"data '{data.split(':')[0]}:{tmp_path}", *fragments))


FLAT, DOT = {}, {"x_train": np.zeros((20, 1, 1, 1)), "x_test": np.zeros((4, 1, 1, 1))}


@pytest.mark.parametrize(
    ("changes", "flags", "fragments"),
    [
        (FLAT, "--model cnn", ("model 'cnn' takes images", "(4,)", "use 'mlp'")),
        (FLAT, "--model resnet18", ("model 'resnet18' takes images", "(4,)", "use 'mlp'")),
        (FLAT, "--model mlp --augment flip", ("augment", "'flip'", "images", "(4,)")),
        (DOT, "--model cnn", ("model 'cnn'", "(1, 1, 1)")),
    ],
)
def test_a_model_or_augmentation_that_does_not_suit_the_data(
    changes: dict, flags: str, fragments: tuple[str, ...], tmp_path: Path
) -> None:
    check(refusal(call("train", "--quiet", "--data", write_arrays(tmp_path, **changes), *flags.split())), fragments)


@pytest.mark.parametrize("size", [1_000_000, 20_000, 10**30])
@pytest.mark.parametrize("command", ["train --data", "data check", "compare --data"])
def test_images_that_would_be_too_large_are_refused_before_one_is_read(
    command: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = fill(tmp_path / "images", {"a": 9, "b": 9})
    monkeypatch.setattr("durm.data.image_files.decode", lambda path, size: pytest.fail("an image was read"))
    check(refusal(call(*command.split(), data, "--image-size", size)), (f"--image-size {size}", "at most 16384"))


def test_images_that_together_do_not_fit_into_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """18 images of 3 · 4000² values, of one byte and again of four, are 4.3 GB."""
    data = fill(tmp_path / "images", {"a": 9, "b": 9})
    monkeypatch.setattr("durm.data.image_files.decode", lambda path, size: pytest.fail("an image was read"))
    monkeypatch.setattr("durm._memory.machine_bytes", lambda: 4 * 10**9)
    line = refusal(call("data", "check", data, "--image-size", 4000))
    check(line, (data, "--image-size 4000", "18 images", "4.3 GB", "4.0 GB", "smaller"))


def test_a_batch_that_does_not_fit_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 digits of 64 values of 4 bytes are 25.6 kB."""
    monkeypatch.setattr("durm._memory.machine_bytes", lambda: 20_000)
    check(refusal(call("train", "--batch-size", 100)), ("--batch-size 100", "25.6 kB", "20.0 kB", "smaller"))


@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_a_deeply_nested_arm(brackets: str) -> None:
    value = brackets[0] * 5000 + brackets[1] * 5000
    check(refusal(call("compare", "--arm", f"a: lr={value}", "--arm", "b: lr=1")), ("--arm", "cannot be read"))


# Study files.

NOT_A_STUDY: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "binary": (bytes(range(256)), ("cannot be read", "text")),
    "open bracket": (b"a: [1", ("not valid YAML", "line 1")),
    "two colons": (b"name: a: b", ("not valid YAML", "line 1")),
    "code": (b"name: !!python/object/apply:os.mkdir [ran]", ("not valid YAML", "python/object")),
    "empty": (b"", ("holds nothing", "data, model, dummies, seeds")),
    "only a comment": (b"# to do", ("holds nothing", "data, model, dummies, seeds")),
    "list": (b"- digits", ("holds a list", "data, model, dummies, seeds")),
    "word": (b"digits", ("holds a str", "data, model, dummies, seeds")),
    "nested lists": (b"data: " + b"[" * 10_000 + b"]" * 10_000, ("nested too deeply",)),
    "nested keys": (b"a: " + b"{a: " * 10_000 + b"1" + b"}" * 10_000, ("nested too deeply",)),
}


@pytest.mark.parametrize("name", NOT_A_STUDY)
def test_a_file_that_is_no_study(name: str, tmp_path: Path) -> None:
    content, fragments = NOT_A_STUDY[name]
    path = tmp_path / "study.yaml"
    path.write_bytes(content)
    check(refusal(call("run", path)), (f"study {path}", *fragments))
    assert not (tmp_path / "ran").exists()


def test_a_study_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    check(refusal(call("run", tmp_path / "nowhere.yaml")), ("nowhere.yaml", "No such file"))
    check(refusal(call("run", tmp_path)), (str(tmp_path), "Is a directory"))


STUDIES: dict[str, tuple[str, ...]] = {
    # Keys.
    "sedes: 3": ("'sedes'", "'seeds'"),
    "colour: red": ("'colour'", "arms, attack_samples, attacks, average, data"),
    "workers: 0": ("'workers'", "arms, attack_samples, attacks, average, data"),
    "train: {epoch: 3}": ("'epoch' in train", "'epochs'"),
    "train: {colour: red}": ("'colour' in train", "augment, auxiliary, batch_size"),
    "arms: [{name: a, epoch: 3}]": ("arms.0", "'epoch'", "'epochs'"),
    "arms: [{name: a, colour: red}]": ("arms.0", "'colour'", "augment, auxiliary, average, batch_size"),
    "arms: [{nme: a}]": ("arms.0", "'nme'", "has no name"),
    "seeds: 1\nseeds: 5": ("not valid YAML", "'seeds' stands twice", "line 1"),
    "seeds: 10000000000": ("seeds: 10000000000", "at most 100000"),
    "dummies: [0, 10000000000]": ("dummies=10000000000", "10000"),
    "image_size: 32": ("image size 32", "'digits'", "a size of their own"),
    "train: 3": ("train=3", "dictionary"),
    # Names.
    "data: digit": ("data 'digit' is unknown", "'digits'"),
    "model: [cnn, ccn]": ("model 'ccn' is unknown", "'cnn'"),
    "method: ermm": ("method 'ermm' is unknown", "'erm'"),
    "train: {optimizer: sdg}": ("train.optimizer='sdg'", "'sgd', 'adam' or 'adamw'"),
    "device: cuda": ("'cuda'", "it has cpu"),
    "name: a/b": ("name 'a/b'",),
    "arms: [{name: ../a}]": ("arms.0.name '../a'",),
    # Numbers.
    "seeds: 0": ("seeds: 0", "at least 1"),
    "seeds: -1": ("seeds: -1", "at least 1"),
    "seeds: [-1]": ("seeds.0=-1", "greater than or equal to 0"),
    "seeds: []": ("seeds=[]", "at least 1"),
    "seeds: many": ("seeds='many'", "list"),
    "seeds: 1.5": ("seeds=1.5", "list"),
    "train: {epochs: 0}": ("train.epochs=0", "greater than 0"),
    "train: {epochs: -1}": ("train.epochs=-1", "greater than 0"),
    "train: {epochs: many}": ("train.epochs='many'", "integer"),
    "train: {batch_size: 0}": ("train.batch_size=0", "greater than 0"),
    "train: {batch_size: 1.5}": ("train.batch_size=1.5", "integer"),
    "train: {lr: 0}": ("train.lr=0", "greater than 0"),
    "train: {lr: -1}": ("train.lr=-1", "greater than 0"),
    "train: {lr: .nan}": ("train.lr=nan", "finite number"),
    "train: {lr: .inf}": ("train.lr=inf", "finite number"),
    "train: {lr: fast}": ("train.lr='fast'", "number"),
    "train: {momentum: .nan}": ("train.momentum=nan", "finite number"),
    "train: {betas: 0.9}": ("train.betas=0.9", "list"),
    "train: {nesterov: true, momentum: 0}": ("nesterov", "momentum"),
    "threads: 0": ("threads=0", "greater than 0"),
    "image_size: 0": ("image_size=0", "greater than 0"),
    "dummies: two": ("dummies='two'", "[0, 1, 2]"),
    "dummies: [-1]": ("dummies=[-1]", "at least 0"),
    "dummies: []": ("dummies=[]", "[0, 1, 2]"),
    "arms: [{name: a, lr: fast}]": ("'a'", "lr='fast'", "number"),
    "arms: [{name: a, dummies: -1}]": ("'a'", "dummies=-1", "0"),
    "arms: [{name: a, dummies: two}]": ("'a'", "dummies='two'", "integer"),
    "arms: [{name: a, dummies: 1.5}]": ("'a'", "dummies=1.5", "integer"),
    "arms: [{name: a, dummies: null}]": ("'a'", "dummies=None", "integer"),
    # What excludes itself.
    "dummies: [0]\narms: [{name: erm}]": ("arms", "erm is given twice"),
    "train: {epochs: 1, iterations: 2}": ("train", "epochs and iterations exclude each other"),
    "arms: [{name: a, epochs: 1, iterations: 2}]": ("'a'", "epochs and iterations exclude each other"),
    "arms: [{name: a}, {name: a}]": ("arms", "a is given twice"),
    "dummies: [1, 1]": ("durm-1 is given twice",),
    "seeds: [4, 4]": ("seeds", "4 is given twice"),
    "data: [digits, digits]": ("data", "digits is given twice"),
}


@pytest.mark.parametrize("text", STUDIES)
def test_a_wrong_study(text: str, tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    check(refusal(call("run", path)), STUDIES[text])


@pytest.mark.parametrize(
    ("workers", "fragments"),
    [
        ("0", ("--workers 0", "at least 1")),
        ("-2", ("--workers -2", "at least 1")),
        ("all", ("--workers", "'all'", "integer")),
    ],
)
def test_a_wrong_number_of_workers(workers: str, fragments: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("seeds: 1")
    check(refusal(call("run", path, "--workers", workers)), fragments)


# Where it is kept.


def test_an_out_that_is_a_file_or_under_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("keep me")
    check(refusal(call("train", "--out", file)), (f"--out {file} is a file", "expected a folder"))
    check(refusal(call("train", "--out", file / "below")), (str(file / "below"), "Not a directory"))
    assert file.read_text() == "keep me"


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"train": {"epochs": 2}}, "train.epochs was 1 and is now 2"),
        ({"model": "mlp"}, 'model "cnn" would be replaced by "mlp"'),
        ({"seeds": [1, 2]}, "seeds 0 would be replaced by 2"),
        ({"dummies": [0, 2]}, "would be replaced by"),
        ({"select": "best-val"}, 'select was "last" and is now "best-val"'),
    ],
)
def test_a_changed_study_in_an_old_folder(changes: dict, difference: str, tmp_path: Path) -> None:
    study = {"name": "small", "dummies": [0, 1], "seeds": [0, 1], "train": {"epochs": 1}}
    Store.create(tmp_path / "old", make_study(study))
    before = (tmp_path / "old" / "study.yaml").read_text()
    path = tmp_path / "study.yaml"
    path.write_text("\n".join(f"{key}: {value}" for key, value in (study | changes).items()))
    line = refusal(call("run", path, "--out", tmp_path / "old"))
    check(line, (str(tmp_path / "old"), difference, "Only arms and seeds can be added", "--out"))
    assert (tmp_path / "old" / "study.yaml").read_text() == before


def test_a_folder_that_is_no_study(tmp_path: Path) -> None:
    check(refusal(call("status", tmp_path / "nowhere")), ("nowhere", "there is no such folder"))
    check(refusal(call("status", tmp_path)), (str(tmp_path), "is not the folder of a study", "study.yaml"))
    (tmp_path / "study.yaml").write_text("sedes: 3")
    check(refusal(call("status", tmp_path)), ("study.yaml", "'sedes'", "'seeds'"))


# Checkpoints.

TRIAL = '{"data": "digits", "model": "cnn"}'

NOT_A_CHECKPOINT: dict[str, object] = {
    "tensor": torch.zeros(3),
    "list": [1, 2],
    "weights alone": {"0.weight": torch.zeros(3)},
    "trial that is no text": {"trial": 3, "model": {}},
    "trial that is no JSON": {"trial": "cnn", "model": {}},
    "trial that lacks a model": {"trial": '{"data": "digits"}', "model": {}},
    "weights of another model": {"trial": TRIAL, "model": {"0.weight": torch.zeros(3)}},
    "weights that are none": {"trial": TRIAL, "model": 3},
}


@pytest.mark.parametrize("name", NOT_A_CHECKPOINT)
def test_a_file_of_torch_s_that_is_no_checkpoint(name: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    torch.save(NOT_A_CHECKPOINT[name], path)
    check(refusal(call("evaluate", path)), (f"checkpoint {path}",))


def test_a_checkpoint_that_is_not_there_or_a_text(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    check(refusal(call("evaluate", path)), (f"checkpoint {path}", "there is no such file"))
    check(refusal(call("evaluate", tmp_path)), (f"checkpoint {path}", "there is no such file"))
    for content in (b"", b"hello", b"PK\x03\x04hello"):
        path.write_bytes(content)
        check(refusal(call("evaluate", path)), (f"checkpoint {path}", "is damaged, or no checkpoint"))


class Code:
    def __reduce__(self) -> tuple:
        return exec, ("open('ran', 'w').close()",)


@pytest.mark.parametrize("protocol", [2, 4])
def test_code_in_a_checkpoint_does_not_run(protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    torch.save({"trial": Code(), "model": {}}, path, pickle_protocol=protocol)
    check(refusal(call("evaluate", path)), (f"checkpoint {path}", "no checkpoint"))
    path.write_bytes(pickle.dumps({"trial": Code(), "model": {}}, protocol))
    check(refusal(call("evaluate", path)), (f"checkpoint {path}", "no checkpoint"))
    assert not (tmp_path / "ran").exists()


# The same from a shell.


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        ("trian", ("'trian'", "'train'")),
        ("run study.yaml", ("'sedes'", "'seeds'")),
        ("evaluate checkpoint.pt", ("checkpoint.pt", "no checkpoint")),
    ],
)
def test_from_a_shell(arguments: str, fragments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("sedes: 3")
    (tmp_path / "checkpoint.pt").write_bytes(pickle.dumps(Code(), 4))
    shell = subprocess.run([sys.executable, "-m", "durm", *arguments.split()], capture_output=True, text=True)
    check(refusal(Answer(shell.returncode, shell.stdout, shell.stderr)), fragments)
    assert not (tmp_path / "ran").exists()

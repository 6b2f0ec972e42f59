"""Flags that come from the fields of a Config: they are all there, reach the study, and are checked."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from durm._config import Config
from durm.cli.fields import _flags, documented
from durm.cli.flags import options_as_flags
from durm.errors import InputError
from durm.study import runner
from durm.study.jobs import Execution
from durm.study.store import Store
from durm.training import loaders, tasks
from durm.training.spec import AttackSpec, Conditions, TrainSpec
from tests.cli.calling import call, refusal
from tests.data.samples import write_sample
from tests.training.images import write_folder

EXAMPLES: dict[str, tuple[str, Any]] = {
    # What is written, and what the study has then.
    "epochs": ("3", 3), "iterations": ("5", 5), "batch_size": ("16", 16), "lr": ("0.1", 0.1),
    "optimizer": ("adamw", "adamw"), "momentum": ("0.8", 0.8), "nesterov": ("", True), "betas": ("0.8,0.9", (0.8, 0.9)),
    "weight_decay": ("0", 0.0), "schedule": ("poly", "poly"), "warmup": ("2", 2), "min_lr": ("1e-4", 1e-4),
    "step_epochs": ("7", 7), "gamma": ("0.5", 0.5), "power": ("2", 2.0), "label_smoothing": ("0.05", 0.05),
    "validate_every": ("9", 9), "patience": ("4", 4), "clip_norm": ("1.5", 1.5), "channels_last": ("", True),
    "augment": ("none", "none"), "crop": ("12,14", (12, 14)), "scales": ("0.75, 1.5", (0.75, 1.5)),
    "auxiliary": ("0.2", 0.2), "pretrained": ("", True), "image_size": ("32", 32), "skip_bad": ("", True),
    "select": ("best-val", "best-val"), "device": ("auto", "cpu"), "devices": ("2", 2), "precision": ("64", "64"),
    "freeze_batchnorm": ("", True),
    "threads": ("2", 2), "attack_samples": ("50", 50), "flatness": ("16", 16), "window": ("10,20", (10, 20)),
    "probes": ("distance, push_pull", ("distance", "push_pull")),
    "window_stride": ("5,10", (5, 10)),
}  # fmt: skip
TOGETHER = {"window_stride": ("--window", "10,20")}


def fields(*kinds: type[Config]) -> set[str]:
    return {name for kind in kinds for name in kind.model_fields} - {"version", "attacks"}


def flag_of(name: str) -> str:
    return "--" + name.replace("_", "-")


@pytest.mark.parametrize("command", ["compare", "train"])
def test_every_field_is_a_flag_with_its_documentation(command: str) -> None:
    assert EXAMPLES.keys() == fields(TrainSpec, Conditions)
    printed = "".join(call(command, "--help").out.split())
    for kind in (TrainSpec, Conditions):
        for name, text in documented(kind).items():
            if name in EXAMPLES:
                first = "".join(options_as_flags(text).split())[1:]
                assert re.search(rf"{flag_of(name)}(<\w+>|[A-Z,…]*){text[0].upper()}{re.escape(first)}", printed), name


def test_help_names_choices_and_defaults() -> None:
    printed = " ".join(call("train", "--help").out.split())
    assert "[sgd|adam|adamw; default: sgd]" in printed
    assert "--warmup <int> Steps over which the learning rate rises linearly to --lr. [default: 0]" in printed
    assert "[default: 20] --iterations" in printed
    assert "--betas A,B Of Adam and AdamW. [default: 0.9,0.999]" in printed
    assert "--crop HEIGHT,WIDTH" in printed
    assert "--probes NAME,…" in printed


@pytest.fixture
def studies(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The studies of `durm compare`, none of which is run."""
    found: list[Any] = []
    monkeypatch.setattr("durm.cli.run.judge", lambda study, *rest, **more: found.append(study))
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_flag_reaches_the_study(name: str, studies: list[Any]) -> None:
    text, value = EXAMPLES[name]
    answer = call("compare", flag_of(name), *([text] if text else []), *TOGETHER.get(name, ()))
    assert answer.code == 0, answer.err
    (study,) = studies
    owner = study.train if name in TrainSpec.model_fields else study
    assert getattr(owner, name) == value
    changed = study.train.changed().keys() | {key for key in fields(Conditions) if getattr(study, key) != default(key)}
    assert changed - {name, "window"} == set()


def default(name: str) -> Any:
    return Conditions.model_fields[name].default


def test_what_is_not_given_is_left_to_the_study(studies: list[Any]) -> None:
    call("compare")
    assert studies[0].train == TrainSpec()
    assert all(getattr(studies[0], name) == default(name) for name in fields(Conditions))


def test_probes_may_be_repeated(studies: list[Any]) -> None:
    call("compare", "--probes", "push_pull", "--probes", "distance")
    assert studies[0].probes == ("push_pull", "distance")


WRONG: dict[str, tuple[str, ...]] = {
    "--momentum 1": ("--momentum 1", "less than 1"),
    "--momentum much": ("--momentum", "'much'", "number"),
    "--betas 0.9": ("--betas '0.9'", "two numbers", "--betas 0.9,0.999"),
    "--betas 0.9,x": ("--betas '0.9,x'", "two numbers"),
    "--betas 0.9,1": ("--betas 1", "less than 1"),
    "--scales 2,1": ("--scales [2.0, 1.0]", "the smaller one first"),
    "--gamma 2": ("--gamma 2", "less than or equal to 1"),
    "--validate-every 0": ("--validate-every 0", "greater than 0"),
    "--min-lr -1": ("--min-lr -1", "greater than or equal to 0"),
    "--nesterov --momentum 0": ("--nesterov needs --momentum",),
    "--threads 0": ("--threads 0", "greater than 0"),
    "--flatness none": ("--flatness", "'none'", "integer"),
    "--probes distanc": ("--probes", "'distanc'", "'distance'"),
    "--window-stride 4,4": ("--window-stride goes with --window",),
    "--window-stride 4": ("--window-stride '4'", "a height and a width", "--window-stride 512,1024"),
    "--loader-workers -1": ("--loader-workers", "-1", "0"),
    "--loader-workers two": ("--loader-workers", "'two'", "integer"),
}


@pytest.mark.parametrize("flags", WRONG)
@pytest.mark.parametrize("command", ["compare", "train"])
def test_a_wrong_value(command: str, flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = refusal(call(command, *flags.split()))
    assert all(part in line for part in WRONG[flags]), line


def test_the_kinds_of_fields_that_can_be_flags() -> None:
    class Made(Config):
        """What there is.

        Attributes:
            on: a switch that is on,
                in two lines.
        """

        on: bool = True
        word: str = "a"
        inner: AttackSpec | None = None
        many: tuple[int, ...] = (1, 2)

    on, word, many = _flags(Made)
    assert (on.name, word.name, many.name) == ("on", "word", "many")
    assert on.text == "a switch that is on, in two lines."
    option = on.parameter().default
    assert (option.param_decls, option.help) == (("--on/--no-on",), f"A{on.text[1:]}  [default: True]")
    assert many.read(["1,2", "3"]) == ["1", "2", "3"]


NEW_FIELD = """
import sys
import types
from pathlib import Path

import durm.training

path = Path(durm.training.__file__).with_name("spec.py")
source = path.read_text()
source = source.replace("        lr: the learning", "        sparkle: how much it sparkles.\\n        lr: the learning")
source = source.replace("    batch_size: Positive = 64", "    batch_size: Positive = 64\\n    sparkle: Positive = 7")
module = types.ModuleType("durm.training.spec")
sys.modules["durm.training.spec"] = durm.training.spec = module
exec(compile(source, str(path), "exec"), vars(module))

from durm import cli

def judge(study, *rest, **more):
    print("the study has", study.train.sparkle, study.trials()[0].train.sparkle)

if sys.argv[1] == "compare" and "--help" not in sys.argv:
    import durm.cli.run
    durm.cli.run.judge = judge
cli.main()
"""


def test_a_new_field_is_a_flag_and_reaches_the_study(tmp_path: Path) -> None:
    script = tmp_path / "new_field.py"
    script.write_text(NEW_FIELD)

    def run(*arguments: str) -> str:
        done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    for command in ("compare", "train"):
        assert "--sparkle <int> How much it sparkles. [default: 7]" in " ".join(run(command, "--help").split())
    assert run("compare", "--sparkle", "9") == "the study has 9 9\n"
    assert "--sparkle 0: input should be greater than 0" in run("compare", "--sparkle", "0")


# Processes that read images.


@pytest.fixture
def executions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Execution]:
    """How studies would have been run."""
    found: list[Execution] = []

    def run_study(store: Store, execution: Execution, send: Callable[[Any], None]) -> None:
        found.append(execution)
        raise InputError("not now")

    monkeypatch.setattr(runner, "run_study", run_study)
    monkeypatch.chdir(tmp_path)
    return found


def test_loader_workers_reach_the_execution(executions: list[Execution], tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("seeds: 1")
    write_sample("cifar10", tmp_path / "data")
    smoke = "reproduce classification --scale smoke --rows cifar10-resnet18"
    for command in ("compare", "train", "run study.yaml", smoke):
        for flags, expected in (((), 0), (("--loader-workers", 3), 3)):
            assert call(*command.split(), "--quiet", *flags).err == "durm: not now\n"
            assert executions.pop().num_workers == expected, command


def test_loader_workers_change_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of training, of validation and of the test, with images that are read from disk every time."""
    data = write_folder(tmp_path / "images")
    monkeypatch.setattr("durm.data.reading.MEMORY_LIMIT", 0)
    monkeypatch.setattr(runner, "run_study", partial_inline(runner.run_study))
    seen: list[int] = []
    plain = loaders.raw_batches

    def raw_batches(inputs: Any, order: Any, num_workers: int = 0) -> Any:
        seen.append(num_workers)
        return plain(inputs, order, num_workers)

    for module in (loaders, tasks):
        monkeypatch.setattr(module, "raw_batches", raw_batches)
    results = []
    for workers in (0, 2):
        folder = tmp_path / str(workers)
        flags = ("--data", data, "--epochs", 2, "--batch-size", 16, "--augment", "crop-flip", "--dummies", 2)
        answer = call("train", *flags, "--loader-workers", workers, "--quiet", "--out", folder)
        assert answer.code == 0, answer.err
        (path,) = folder.glob("trials/*/result.json")
        result = json.loads(path.read_text())
        results.append({key: result[key] for key in ("metrics", "val", "weights_sha256", "curves")})
        assert set(seen) == {workers}
        assert len(seen) > 4
        seen.clear()
    assert results[0] == results[1]


def partial_inline(run_study: Callable[..., Any]) -> Callable[..., Any]:
    """Trials run in this process, so that what is patched here counts."""

    def run_here(store: Store, execution: Execution, send: Callable[[Any], None]) -> Any:
        return run_study(store, Execution(0, execution.data_root, num_workers=execution.num_workers), send)

    return run_here


def test_every_field_is_documented() -> None:
    assert documented(TrainSpec).keys() == fields(TrainSpec)
    assert documented(Conditions).keys() == fields(Conditions) | {"attacks"}
    assert documented(AttackSpec).keys() == fields(AttackSpec)

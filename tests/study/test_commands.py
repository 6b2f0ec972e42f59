"""Programs as trials: the protocol, what goes wrong, kills and resumes."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from durm.errors import InputError
from durm.study.code_study import CodeStudy
from durm.study.command_line import check_command, fill, split_command, unused_parameters
from durm.study.executors import EXECUTORS
from durm.study.jobs import Execution
from durm.study.output import LimitedFile
from durm.study.reading import make_code_study
from durm.study.runner import StudyState, run_study_to_verdict
from durm.study.runners import command as command_runner
from durm.study.status import trial_states
from durm.study.store import Store

ARMS = [{"name": "base", "params": {"shift": 0}}, {"name": "up", "params": {"shift": 1}}]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the current folder; its value is 10 · shift + seed."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text("import sys\nprint('noise')\nprint(10 * float(sys.argv[2]) + float(sys.argv[1]))\n")
    return path


def study(command: str, **values: Any) -> CodeStudy:
    return make_code_study({"name": "mine", "run": {"command": command}, "arms": ARMS, "seeds": 2, **values})


def run(spec: CodeStudy, folder: str | Path = "runs", **execution: Any) -> StudyState:
    *_, state = run_study_to_verdict(Store.create(Path(folder), spec), Execution(**{"workers": 2, **execution}))
    return state


def python(code: str) -> str:
    """A command that runs the code, with the seed as its argument."""
    Path("program.py").write_text(textwrap.dedent(code))
    return f"{sys.executable} program.py {{seed}} {{shift}}"


COMMAND = f"{sys.executable} train.py {{seed}} {{shift}}"


# The command line.


def test_words_are_split_as_a_shell_would_and_then_filled() -> None:
    words = split_command("""run "two words" --name='{arm} x' {{"a": {lr}}} --out={folder}""")
    assert words == ["run", "two words", "--name={arm} x", "{{a:", "{lr}}}", "--out={folder}"]
    values = {"arm": "my arm; rm -rf $HOME", "lr": 0.1, "folder": "/a b"}
    assert fill(words, values) == ["run", "two words", "--name=my arm; rm -rf $HOME x", "{a:", "0.1}", "--out=/a b"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1e-3", "1e-3"),
        (0.001, "0.001"),
        (3, "3"),
        (True, "true"),
        (None, "null"),
        ([1, 2], "[1, 2]"),
        ("a 'b'", "a 'b'"),
    ],
)
def test_a_value_stands_in_the_command_as_the_arm_wrote_it(value: Any, text: str) -> None:
    assert fill(["{x}"], {"x": value}) == [text]


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("python train.py {sed}", ["{sed}", "base", "seed"]),
        ("python train.py {lr", ["{lr", "{{"]),
        ("python train.py {lr:.2f}", ["{lr:.2f}"]),
        ("python train.py {}", ["{}"]),
        ("python 'train.py", ["quotation"]),
        ("   ", ["empty"]),
        ("no-such-program {seed}", ["no-such-program"]),
    ],
)
def test_a_command_that_cannot_be_filled_is_refused(command: str, parts: list[str]) -> None:
    with pytest.raises(InputError) as error:
        check_command(command, {"base": {"lr": 1}})
    assert all(part in str(error.value) for part in ["command", *parts])


def test_a_parameter_that_some_arm_lacks_and_one_that_durm_fills_are_refused() -> None:
    with pytest.raises(InputError, match=r"\{lr\}.*arm 'low'"):
        check_command("python {lr}", {"base": {"lr": 1}, "low": {}})
    with pytest.raises(InputError, match="'seed'"):
        check_command("python {seed}", {"base": {"seed": 1}})


def test_parameters_that_no_word_uses_are_found() -> None:
    assert unused_parameters("python {lr}", {"a": {"lr": 1, "wd": 2}, "b": {"lr": 1, "mom": 0}}) == ["wd", "mom"]


# The protocol.


def test_the_last_line_is_the_value(script: Path) -> None:
    state = run(study(COMMAND))
    values = {arm.arm: arm.values for arm in state.summary.settings[0].arms}
    assert values == {"base": {"0": 0, "1": 1}, "up": {"0": 10, "1": 11}}
    assert state.summary.metric == "value"
    assert state.summary.done == state.summary.trials == 4
    result = next(iter(state.results.values()))
    assert result.cost.seconds > 0
    assert result.cost.cpu_seconds > 0
    assert result.cost.peak_memory > 1_000_000
    assert state.summary.settings[0].comparisons[0].cost_ratio is not None


def test_the_environment_has_everything_and_metrics_json_comes_before_stdout(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    command = python(
        """
        import json, os, sys
        params = json.loads(os.environ["DURM_PARAMS"])
        folder = os.environ["DURM_FOLDER"]
        assert not os.path.exists(os.path.join(folder, "metrics.json"))
        metrics = {"accuracy": 90 + params["shift"], "seed": int(os.environ["DURM_SEED"])}
        metrics |= {"arm": os.environ["DURM_ARM"], "threads": int(os.environ["OMP_NUM_THREADS"])}
        with open(os.path.join(folder, "metrics.json"), "w") as file:
            json.dump(metrics, file)
        print(12345)
        """
    )
    for _ in range(2):  # the second time nothing runs
        state = run(study(command, metric="accuracy"), workers=1)
    assert {arm.arm: arm.mean for arm in state.summary.settings[0].arms} == {"base": 90, "up": 91}
    metrics = {key[3:]: result.metrics for key, result in state.results.items()}
    assert metrics["up", 1]["seed"] == 1
    assert "arm" not in metrics["up", 1]  # a text is no metric
    assert metrics["up", 1]["threads"] == (os.cpu_count() or 1)


def test_a_json_object_on_the_last_line_gives_several_metrics_of_which_one_must_be_named(script: Path) -> None:
    command = python("""import sys; print('{"accuracy": %d, "loss": 1.5}\\n\\n' % (50 + int(sys.argv[1])))""")
    with pytest.raises(InputError, match=r"accuracy, loss.*`metric`"):
        run(study(command))
    with pytest.raises(InputError, match=r"'acuracy'.*'accuracy'"):
        run(study(command, metric="acuracy"))
    state = run(study(command, metric="accuracy", higher_is_better=True))  # what is done is kept
    assert state.summary.metric == "accuracy"
    with pytest.raises(InputError, match="metric was"):  # after it was judged, nothing of that can be changed
        run(study(command, metric="loss", higher_is_better=False))


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("pass", ["nothing"]),
        ("print('it went well')", ["it went well", "neither"]),
        ("print('nan')", ["nan"]),
        ("print('{\"accuracy\": NaN}')", ["accuracy", "nan"]),
        ('print(\'{"name": "x"}\')', ["number"]),
        ("print('[1, 2]')", ["[1, 2]"]),
        ("import sys; print('no such file', file=sys.stderr); sys.exit(3)", ["exit code 3", "no such file"]),
        ("import os; open(os.environ['DURM_FOLDER'] + '/metrics.json', 'w').write('{')", ["metrics.json", "JSON"]),
    ],
)
def test_what_is_wrong_with_a_program_is_one_line_and_the_others_go_on(
    code: str, parts: list[str], script: Path
) -> None:
    state = run(study(python(f"import sys\nif sys.argv[1] == '1':\n    {code}\nelse:\n    print(5)")))
    assert state.summary.done == 2
    assert state.summary.lost == 2
    reasons = list(state.outcome.failed.values())
    assert len(reasons) == 2
    for reason in reasons:
        assert "\n" not in reason.strip()
        assert all(part in reason for part in parts)


def test_a_program_that_is_killed_from_outside_is_pending_and_runs_again(script: Path) -> None:
    command = python(
        """
        import os, signal, sys
        mark = os.environ["DURM_FOLDER"] + "/tried"
        if sys.argv[1] == "1" and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        print(sys.argv[1])
        """
    )
    state = run(study(command))
    assert (state.summary.done, state.summary.lost) == (2, 0)
    assert all("SIGKILL" in reason for reason in state.outcome.failed.values())
    assert run(study(command)).summary.done == 4


def test_a_program_that_takes_too_long_is_ended_with_its_children(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour has passed once both slow programs have started their children."""
    monkeypatch.setattr(command_runner, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(command_runner, "clock", lambda: 3600.0 if len([*Path("runs").rglob("child")]) == 2 else 0.0)
    command = python(
        """
        import os, signal, subprocess, sys, time
        if sys.argv[1] == "1":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            open(os.environ["DURM_FOLDER"] + "/pid", "w").write(str(child.pid))
            os.rename(os.environ["DURM_FOLDER"] + "/pid", os.environ["DURM_FOLDER"] + "/child")
            time.sleep(600)
        print(1)
        """
    )
    state = run(study(command), time_limit=600.0)
    assert state.summary.lost == 2
    assert all("time limit of 600 seconds" in reason for reason in state.outcome.failed.values())
    for path in Path("runs").rglob("child"):
        assert not is_alive(int(path.read_text()))


def is_alive(pid: int) -> bool:
    """Not even as a zombie of somebody else's."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_lot_of_output_is_kept_at_both_ends(tmp_path: Path) -> None:
    with LimitedFile(tmp_path / "out.txt", most=100) as file:
        for number in range(1000):
            file.write_bytes(f"line {number}\n".encode())
        file.write_bytes("42 é\n".encode())
    text = (tmp_path / "out.txt").read_text()
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith("line 999\n42 é\n")
    assert "left out" in text
    assert len(text) < 200
    assert file.last_line() == "42 é"
    kept = sum(len(part) for part in text.split("\n… ")[0:1]) + len(text.split(" …\n")[1])
    total = sum(len(f"line {number}\n") for number in range(1000)) + 5
    assert f"{total - kept:,} characters" in text


def test_a_flood_of_output_does_no_harm(script: Path) -> None:
    command = python("import sys\nfor _ in range(3000):\n    sys.stdout.write('x' * 10000)\nprint('\\n7')")
    state = run(study(command, seeds=1, arms=ARMS))
    assert state.summary.done == 2
    sizes = [path.stat().st_size for path in Path("runs").rglob("stdout.txt")]
    assert len(sizes) == 2
    assert all(9_000_000 < size < 10_100_000 for size in sizes)


def test_arguments_keep_their_quotes(script: Path) -> None:
    Path("echo.py").write_text("import json, sys\nassert sys.argv[1] == 'it\\'s \"me\" $HOME', sys.argv\nprint(1)")
    arms = [{"name": name, "params": {"text": 'it\'s "me" $HOME'}} for name in ("a", "b")]
    assert run(study(f"{sys.executable} echo.py {{text}}", arms=arms, seeds=1)).summary.done == 1  # one run for both


# Code that changes.


def test_a_file_that_changed_since_the_first_run_is_refused_unless_accepted(script: Path) -> None:
    run(study(COMMAND))
    script.write_text(script.read_text().replace("10 *", "20 *"))
    with pytest.raises(InputError, match=r"train\.py.*`accept_new_code`"):
        run(study(COMMAND, seeds=3))
    state = run(study(COMMAND, seeds=3), accept_new_code=True)
    assert any("code changed" in text for text in state.summary.warnings)
    assert state.summary.settings[0].arms[1].values == {"0": 10, "1": 11, "2": 22}


def test_code_may_change_while_nothing_is_done(script: Path) -> None:
    script.write_text("raise SystemExit('a slip')")
    assert run(study(COMMAND)).summary.done == 0
    script.write_text("print(3)")
    assert run(study(COMMAND)).summary.done == 4


# Kills.

DRIVER = """
import sys
from pathlib import Path
from durm.study.jobs import Execution
from durm.study.reading import make_code_study
from durm.study.runner import run_study_to_verdict
from durm.study.store import Store
import json
spec = make_code_study(json.loads(sys.argv[1]))
for state in run_study_to_verdict(Store.create(Path("runs"), spec), Execution(workers=2)):
    pass
"""


def test_twenty_trials_survive_the_death_of_parent_and_children(script: Path) -> None:
    slow = python(
        """
        import os, sys, time
        open(os.environ["DURM_FOLDER"] + "/begun", "a").write("x")
        if os.path.exists("slow"):
            time.sleep(600)
        print(100 * float(sys.argv[2]) + float(sys.argv[1]) ** 2)
        """
    )
    spec = study(slow, seeds=10)
    Path("slow").touch()
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, json.dumps(spec.written())], stderr=subprocess.DEVNULL)
    begun = wait_for(lambda: list(Path("runs").rglob("begun")), count=2)
    driver.kill()
    driver.wait()
    left_behind = [pid for pid in processes_of("runs") if is_alive(pid)]
    assert left_behind  # a killed parent cannot end them
    states = [one.state for one in trial_states(Store.open(Path("runs")))]
    assert states.count("interrupted") == len(begun)
    Path("slow").unlink()
    whole = run(study(slow, seeds=10), folder="again")
    state = run(study(slow, seeds=10))
    assert not any(map(is_alive, left_behind))
    assert table(state) == table(whole)
    assert state.summary.done == 20


def processes_of(folder: str) -> list[int]:
    mark = f"DURM_FOLDER={Path(folder).resolve()}".encode()
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environ.read_bytes():
                found.append(int(environ.parent.name))
        except OSError:
            continue
    return found


def wait_for(find: Any, count: int) -> Any:
    for _ in range(6000):
        if len(found := find()) >= count:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


def table(state: StudyState) -> Any:
    return [(arm.arm, arm.values) for arm in state.summary.settings[0].arms]


def test_an_interrupt_ends_the_programs_and_leaves_the_study_to_go_on(script: Path) -> None:
    command = python("import sys, time, os\nif os.path.exists('slow'): time.sleep(600)\nprint(1)")
    Path("slow").touch()
    spec = study(command)
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, json.dumps(spec.written())], stderr=subprocess.DEVNULL)
    wait_for(lambda: list(Path("runs").rglob("stdout.txt")), count=2)
    running = wait_for(lambda: processes_of("runs"), count=2)
    driver.send_signal(signal.SIGINT)
    driver.wait()
    assert not any(map(is_alive, running))
    Path("slow").unlink()
    assert run(study(command)).summary.done == 4


def test_the_executors_are_one_file_each() -> None:
    assert {"inline", "processes", "threads"} <= {*EXECUTORS.names()}

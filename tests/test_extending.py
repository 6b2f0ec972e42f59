"""A method, a probe, a data set and an executor are one file each: here they are made at run time, and used."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from torch import Tensor, nn

from durm._config import NotNegative
from durm.data import LOADERS, DataOptions, load
from durm.data.bundle import DataBundle
from durm.methods import OBJECTIVES, Batch, Objective, ObjectiveConfig, risk
from durm.methods.objective import objective
from durm.probes import PROBES, State, StepState
from durm.probes.describe import Description, ProbeFigure, Quantity, WatchedRun
from durm.report.page import write_report
from durm.study.executors import EXECUTORS, work
from durm.study.jobs import Execution, Job, Send
from durm.study.reading import make_study
from durm.study.runner import run_study_to_verdict
from durm.study.store import Store
from tests.cli.calling import call, refusal

SHORT = {"epochs": 2, "batch_size": 128}


@pytest.fixture
def _clean() -> Iterator[None]:
    """What a test registers goes with it."""
    registries: tuple[Any, ...] = (OBJECTIVES, PROBES, LOADERS, EXECUTORS)
    before = {registry: dict(registry._things) for registry in registries if registry.names()}
    yield
    for registry, things in before.items():
        registry._things.clear()
        registry._things.update(things)


def run(folder: Path, execution: Execution | None = None, **study: Any) -> Any:
    store = Store.create(folder, make_study({"model": "mlp", "seeds": 2, "train": SHORT, **study}))
    *_, state = run_study_to_verdict(store, execution or Execution(workers=0))
    assert not state.outcome.failed, state.outcome.failed
    write_report(state.store.folder, state.summary, store=state.store, results=state.results)
    return state


@pytest.mark.usefixtures("_clean")
def test_an_objective_with_two_parameters(tmp_path: Path) -> None:
    """Cross-entropy plus weight · mean |z|^power: with weight 0 it is ERM, bit for bit."""

    @objective
    class Shrunk(Objective):
        class Config(ObjectiveConfig):
            name: Literal["shrunk"] = "shrunk"
            weight: NotNegative = 0.1
            power: NotNegative = 2.0

        config: Config

        def loss(self, model: nn.Module, batch: Batch) -> Tensor:
            logits = model(batch.inputs)
            penalty = logits.abs().pow(self.config.power).mean()
            return risk(logits, batch.targets, self.context) + self.config.weight * penalty

    arms = [
        {"name": "erm"},
        {"name": "none", "method": {"name": "shrunk", "weight": 0}},
        {"name": "some", "method": "shrunk"},
        {"name": "much", "method": "shrunk", "method.weight": 5, "method.power": 1},
    ]
    state = run(tmp_path, arms=arms)
    weights = {(key[3], key[4]): result.weights_sha256 for key, result in state.results.items()}
    assert weights["none", 0] == weights["erm", 0]
    assert len({weights[arm, 0] for arm in ("erm", "some", "much")}) == 3
    identity = {arm: trial.identity().get("method") for (*_, arm, seed), trial in state.store.study.cells() if not seed}
    assert identity == {
        **{"erm": None, "none": {"name": "shrunk", "weight": 0.0}, "some": {"name": "shrunk"}},
        "much": {"name": "shrunk", "weight": 5.0, "power": 1.0},
    }
    assert "much" in (tmp_path / "report.html").read_text()
    line = refusal(call("compare", "--method", "shrunk: wieght=1", "--out", tmp_path / "other"))
    assert "'wieght'" in line
    assert "'weight'" in line


@pytest.mark.usefixtures("_clean")
def test_a_probe_that_is_shown(tmp_path: Path) -> None:
    """The largest logit of each epoch: its number stands in the table, its figure and caption on the page."""

    def seen_by(run: WatchedRun) -> list[float]:
        seen: list[float] = run.seen["largest"]
        return seen

    @PROBES.register("largest_logit")
    class LargestLogit:
        description: ClassVar = Description(
            quantities=(
                Quantity("final_logit", "largest logit of the last epoch", lambda run: run.seen["largest"][-1]),
            ),
            figures=(
                ProbeFigure(
                    "largest_logit", "largest logit", "It grows as it learns.", lambda run: run.seen["largest"]
                ),
            ),
        )

        def __init__(self, model: nn.Module) -> None:
            self.now, self.largest = float("-inf"), list[float]()

        def on_step(self, state: StepState) -> None:
            self.now = max(self.now, float(state.logits.max()))

        def on_epoch(self, state: State) -> None:
            self.largest.append(self.now)

        def result(self) -> dict[str, Any]:
            return {"largest": self.largest}

        def state_dict(self) -> dict[str, Any]:
            return {"now": self.now, "largest": self.largest}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.now, self.largest = state["now"], state["largest"]

    state = run(tmp_path, dummies=[0, 2], probes=["largest_logit"])
    (entry,) = state.summary.settings[0].probes
    assert (entry.quantity, [arm.n for arm in entry.arms]) == ("final_logit", [2, 2])
    page = (tmp_path / "report.html").read_text()
    assert "largest logit of the last epoch" in page
    assert "It grows as it learns." in page
    assert (tmp_path / "figures" / "largest_logit.svg").is_file()


@pytest.mark.usefixtures("_clean")
def test_a_data_set(tmp_path: Path) -> None:
    class Even:
        """The even digits."""

        takes_path = takes_image_size = False

        def __call__(self, path: str, seed: int, options: DataOptions) -> DataBundle:
            return load("subset:classes=5:digits", seed=seed, options=options)

    LOADERS.register("even-digits")(Even())
    state = run(tmp_path, data="even-digits", dummies=[0, 1])
    assert state.summary.settings[0].setting["data"] == "even-digits"
    assert "even-digits" in call("data", "list").out


@pytest.mark.usefixtures("_clean")
def test_an_executor(tmp_path: Path) -> None:
    """One that does the jobs in the other order, in this process: the results are the same."""
    seen: list[str] = []

    @EXECUTORS.register("backwards")
    def backwards(store: Store, jobs: Sequence[Job], execution: Execution, send: Send) -> bool:
        seen.extend(job.trial.arm for job in reversed(jobs))
        work(store, jobs[::-1], execution, send, lambda: False)
        return False

    ours = run(tmp_path / "ours", Execution(executor="backwards"), dummies=[0, 2])
    theirs = run(tmp_path / "theirs", dummies=[0, 2])
    assert seen == ["durm-2", "erm", "durm-2", "erm"]
    assert ours.summary.settings[0].arms[1].values == theirs.summary.settings[0].arms[1].values

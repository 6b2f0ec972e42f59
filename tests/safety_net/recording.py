"""Runs the studies of the safety net, and keeps of them what must not change.

`python -m tests.safety_net.recording` writes `golden.json`. Do that only for a change of numbers that is meant,
and say why in the commit.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from durm.report.page import markdown
from durm.study.jobs import Execution
from durm.study.reading import make_study
from durm.study.runner import run_study_to_verdict
from durm.study.store import Store, read_summary
from durm.training.result import provenance
from tests.safety_net.studies import studies

GOLDEN = Path(__file__).with_name("golden.json")
VOLATILE = {"seconds", "seconds_per_step", "peak_memory", "cost_ratio", "provenance", "cost"}
"""What differs from run to run: times, memory, the commit."""


def machine() -> dict[str, str]:
    """What bits depend on: the processor and torch."""
    where = provenance(torch.device("cpu"), 1)
    return {
        "torch": torch.__version__,
        "processor": str(where.device_name),
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def record(name: str, folder: Path) -> dict[str, Any]:
    """The weights of every trial and the summary of one study, which is run in the folder."""
    from durm.study.check import expanded

    study = expanded(make_study({"name": name, **studies(folder / "data")[name]}))
    *_, judged = run_study_to_verdict(Store.create(folder / "study", study), Execution(workers=0))
    assert not judged.outcome.failed, judged.outcome.failed
    weights = {" ".join(map(str, key)): result.weights_sha256 for key, result in judged.results.items()}
    root = str(folder / "data")
    text = markdown(judged.summary).replace(root.replace("_", "\\_"), "ROOT")
    kept = json.dumps({"weights": weights, "summary": judged.summary.as_json(), "markdown": text})
    found: dict[str, Any] = json.loads(kept.replace(root, "ROOT"))
    found["summary"] = stable(found["summary"])
    found["markdown"] = "\n".join(line for line in found["markdown"].splitlines() if "× " not in line)  # ratios of time
    return found


def page(folder: Path) -> str:
    """The Markdown of a committed study, made of its summary."""
    return markdown(read_summary(folder / "summary.json"))


def stable(value: Any) -> Any:
    """The value without what differs from run to run."""
    if isinstance(value, dict):
        return {key: stable(inner) for key, inner in value.items() if key not in VOLATILE}
    return [stable(inner) for inner in value] if isinstance(value, list) else value


def main() -> None:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        names = list(studies(Path(folder) / "names"))
        for name in names:
            found[name] = record(name, Path(folder) / name)
    GOLDEN.write_text(json.dumps({"machine": machine(), "studies": found}, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()

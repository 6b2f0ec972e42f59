import json
from importlib import import_module
from pathlib import Path

import pytest
import torch


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield import_module("channels_last")
    torch.set_num_threads(threads)


def test_both_arms_learn_the_same_to_rounding(benchmark):
    """And the first step is where ten classes and two dummies begin, ln 12, to within the spread of a new head."""
    rows = []
    for memory_format in (torch.preserve_format, torch.channels_last):
        step = benchmark.training_step(benchmark.SUBJECTS["cnn"], memory_format)
        torch.manual_seed(1)  # of the dropout
        rows.append([step() for _ in range(3)])
    losses = torch.tensor(rows)
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=0)
    assert abs(losses[0, 0] - torch.tensor(12.0).log()) < 0.5


def test_numbers_are_written(benchmark, tmp_path, capsys):
    out = tmp_path / "numbers.json"
    assert benchmark.main(["--case", "digits", "--pairs", "6", "--out", str(out)]) == 0
    record = json.loads(out.read_text())
    (result,) = record["results"]
    assert result["case"] in capsys.readouterr().out
    assert 0 < result["low"] <= result["ratio"] <= result["high"]
    assert record["provenance"]["threads"] == 1

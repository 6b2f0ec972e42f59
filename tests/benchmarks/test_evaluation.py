import json
from importlib import import_module
from pathlib import Path

import pytest
import torch


@pytest.fixture
def benchmark_named(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield import_module
    torch.set_num_threads(threads)


@pytest.mark.parametrize("size", ["digits", "tiny"])
def test_both_arms_give_the_same_bits(benchmark_named, size):
    evaluation = benchmark_named("evaluation")
    subject = evaluation.SUBJECTS[size]
    batches, targets = evaluation.make(subject)
    assert evaluation.ours(batches, targets, subject.classes) == evaluation.kept(batches, targets, subject.classes)


@pytest.mark.parametrize(("script", "size", "limit"), [("evaluation", "tiny", 1.02), ("outcomes", "digits", 0.01)])
@pytest.mark.slow
def test_numbers_are_written(benchmark_named, script, size, limit, tmp_path, capsys):
    out = tmp_path / "numbers.json"
    code = benchmark_named(script).main(["--size", size, "--pairs", "6", "--out", str(out)])
    record = json.loads(out.read_text())
    (result,) = record["results"]
    assert result["case"] in capsys.readouterr().out
    assert (result["pairs"], result["limit"]) == (6, limit)
    assert 0 < result["low"] <= result["ratio"] <= result["high"]
    assert record["provenance"]["threads"] == 1
    assert result["holds"] == (result["low"] <= limit)
    assert code == (0 if result["holds"] else 1)

import json
from importlib import import_module
from pathlib import Path

import pytest
import torch

from durm.probes import PROBES


@pytest.fixture
def probes(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield import_module("probes")
    torch.set_num_threads(threads)


def test_both_train_the_same_weights_and_all_probes_are_at_work(probes):
    alone, watched = probes.Alone("mlp"), probes.Watched("mlp", PROBES.names())
    before = probes.Alone("mlp").model.state_dict()
    for _ in range(2):
        alone()
        watched()
    for name, value in alone.model.state_dict().items():
        assert torch.equal(value, watched.model.state_dict()[name])
        assert not torch.equal(value, before[name])
    results = watched.watch.results()
    assert results["distance"]["steps"] == [0, 10, 20]
    assert len(results["gradient_norm"]["norm"]) == 20
    assert results["gradient_variance"]["samples"] == [1280, 1280]


def test_the_resnet_is_measured_at_batch_128(probes):
    subject = probes.overhead.SUBJECTS["resnet18"]
    assert (probes.BATCH_SIZES["resnet18"], subject.batch[1:], probes.LIMIT) == (128, (3, 32, 32), 1.03)


def test_numbers_are_written(probes, tmp_path, capsys):
    out = tmp_path / "probes.json"
    code = probes.main(["--model", "mlp", "--pairs", "6", "--out", str(out)])
    record = json.loads(out.read_text())
    watched, control = record["results"]
    assert watched["limit"] == 1.03
    assert "limit" not in control
    table = capsys.readouterr().out
    for result in record["results"]:
        assert result["pairs"] == 6
        assert 0 < result["low"] <= result["ratio"] <= result["high"]
        assert result["steps_per_timing"] == 10
        assert result["case"] in table
    assert record["probes"] == PROBES.names()
    assert {"durm", "torch", "python", "cpu", "threads", "date"} <= set(record["provenance"])
    assert record["provenance"]["threads"] == 1
    assert watched["holds"] == (watched["low"] <= 1.03)
    assert code == (0 if watched["holds"] else 1)

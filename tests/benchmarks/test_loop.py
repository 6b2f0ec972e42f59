import json
from importlib import import_module
from pathlib import Path

import pytest
import torch


@pytest.fixture
def loop(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    threads = torch.get_num_threads()
    yield import_module("loop")
    torch.set_num_threads(threads)


def test_all_arms_train_the_same_weights(loop):
    subject = loop.Subject("tiny", "cnn", (1, 8, 8), batch_size=8, steps=3, pairs=6, limit=1.0)
    epochs = loop.WARM_UP + subject.pairs
    ours, bare, trainer = (arm(subject, epochs) for arm in (loop.Ours, loop.Bare, loop.Trainer))
    before = loop.Bare(subject, epochs).model.state_dict()
    for arm in (ours, bare):
        torch.manual_seed(1)  # dropout draws from the global generator
        for _ in range(epochs):
            arm()
    torch.manual_seed(1)
    trainer.compare(lambda: None, subject.pairs)
    for name, value in ours.model.state_dict().items():
        assert not torch.equal(value, before[name])
        assert torch.equal(value, bare.model.state_dict()[name])
        assert torch.equal(value, trainer.model.state_dict()[name])


@pytest.mark.slow
def test_numbers_are_written(loop, tmp_path, capsys):
    out = tmp_path / "loop.json"
    code = loop.main(["--pairs", "6", "--size", "1ms", "--out", str(out)])
    record = json.loads(out.read_text())
    ours, control, trainer = record["results"]
    assert [ours["limit"], trainer["limit"]] == [1.10, 1.0]
    assert "limit" not in control
    table = capsys.readouterr().out
    for result in record["results"]:
        assert result["pairs"] == 6
        assert 0 < result["low"] <= result["ratio"] <= result["high"]
        assert min(result["usual_milliseconds"], result["other_milliseconds"]) > 0
        assert result["steps_per_timing"] == 50
        assert result["case"] in table
    assert {"durm", "torch", "python", "cpu", "threads", "date", "lightning"} <= set(record["provenance"])
    assert record["provenance"]["threads"] == 1
    assert ours["holds"] == (ours["low"] <= 1.10)
    assert trainer["holds"] == (trainer["high"] < 1)
    assert code == (0 if ours["holds"] and trainer["holds"] else 1)

import json
from importlib import import_module
from pathlib import Path

import pytest
import torch


@pytest.fixture
def domains(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield import_module("domains")
    torch.set_num_threads(threads)


def test_both_loops_train_the_same_weights(domains):
    """Also where a domain comes round twice in an epoch, and is smaller than a batch."""
    subject = domains.Subject("tiny", "cnn", (1, 8, 8), (3, 10, 23), batch_size=4, pairs=6, limit=1.0)
    epochs = 4
    ours, by_hand = domains.Ours(subject, epochs), domains.ByHand(subject, epochs)
    before = domains.ByHand(subject, epochs).model.state_dict()
    assert ours._training.loader.steps_per_epoch == subject.steps == 3
    for arm in (ours, by_hand):
        torch.manual_seed(1)  # dropout draws from the global generator
        for _ in range(epochs):
            arm()
    assert ours._training.progress.step == by_hand._step == 12
    for name, value in ours.model.state_dict().items():
        assert not torch.equal(value, before[name])
        assert torch.equal(value, by_hand.model.state_dict()[name])


def test_three_domains_are_measured_at_64_pixels(domains):
    subject = domains.SUBJECTS["resnet"]
    assert (len(subject.images), subject.shape, subject.limit) == (3, (3, 64, 64), 1.05)
    assert subject.steps * subject.images_per_step == sum(subject.images)


def test_numbers_are_written(domains, tmp_path, capsys):
    out = tmp_path / "domains.json"
    code = domains.main(["--size", "tiny", "--pairs", "6", "--out", str(out)])
    record = json.loads(out.read_text())
    ours, control = record["results"]
    assert ours["limit"] == 1.05
    assert "limit" not in control
    table = capsys.readouterr().out
    for result in record["results"]:
        assert result["pairs"] == 6
        assert 0 < result["low"] <= result["ratio"] <= result["high"]
        assert result["steps_per_timing"] == 5
        assert result["images_per_second"] == pytest.approx(60_000 / result["other_milliseconds"])
        assert result["usual_images_per_second"] == pytest.approx(60_000 / result["usual_milliseconds"])
        assert result["case"] in table
    assert {"durm", "torch", "python", "cpu", "threads", "date"} <= set(record["provenance"])
    assert record["provenance"]["threads"] == 1
    assert ours["holds"] == (ours["low"] <= 1.05)
    assert code == (0 if ours["holds"] else 1)

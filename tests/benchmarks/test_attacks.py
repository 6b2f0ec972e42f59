import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
import torch


@pytest.fixture
def attacks(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield import_module("attacks")
    torch.set_num_threads(threads)


@pytest.mark.parametrize("size", ["resnet18", "tiny"])
def test_both_extremes_are_what_they_are_called(attacks, size):
    """Ten passes, and one more forward of the samples that are not fooled by then: the fewer, or all."""
    subject = attacks.SUBJECTS[size]
    model, images, labels = attacks.make(replace(subject, batch=(4, *subject.batch[1:])))
    seen = []
    model.register_forward_hook(lambda module, given, logits: seen.append(len(logits)))
    attacks.bare_passes(model, images, labels)()
    assert seen == [len(images)] * 10
    seen.clear()
    attacks.ours(model, images, labels, attacks.FOOLED)()
    assert seen[:10] == [len(images)] * 10
    assert sum(seen[10:]) < len(images) / 2
    seen.clear()
    changed = attacks.ours(model, images, labels, attacks.NOT_FOOLED)()
    assert seen == [len(images)] * 11
    assert torch.equal(model(changed).argmax(1), labels)


def test_a_resnet_with_dummies_is_measured_at_32_pixels(attacks):
    subject = attacks.SUBJECTS["resnet18"]
    assert (subject.batch[1:], subject.limit) == ((3, 32, 32), 1.05)
    assert attacks.durm.dummies(attacks.make(attacks.SUBJECTS["tiny"])[0]) == 2


def test_numbers_are_written(attacks, tmp_path, capsys):
    out = tmp_path / "attacks.json"
    code = attacks.main(["--size", "tiny", "--pairs", "6", "--out", str(out)])
    record = json.loads(out.read_text())
    ours, none_fooled, control = record["results"]
    assert ours["limit"] == 1.05
    assert "limit" not in none_fooled
    assert "limit" not in control
    table = capsys.readouterr().out
    for result in record["results"]:
        assert result["pairs"] == 6
        assert 0 < result["low"] <= result["ratio"] <= result["high"]
        assert min(result["usual_milliseconds"], result["other_milliseconds"]) > 0
        assert result["steps_per_timing"] == 10
        assert result["case"] in table
    assert {"durm", "torch", "python", "cpu", "threads", "date"} <= set(record["provenance"])
    assert record["provenance"]["threads"] == 1
    assert ours["holds"] == (ours["low"] <= 1.05)
    assert code == (0 if ours["holds"] else 1)

import json
from importlib import import_module
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch.nn import functional


@pytest.fixture
def curvature(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield import_module("curvature")
    torch.set_num_threads(threads)


def test_both_arms_look_at_the_same_loss(curvature):
    """All logits, in eval mode, over all parameters; and both find its top eigenvalue."""
    model, images, labels = curvature.make(curvature.SUBJECTS["tiny"])
    loss = curvature.ClassifierLoss(model, images, labels, num_classes=curvature.CLASSES)
    assert loss.size == sum(parameter.numel() for parameter in model.parameters())
    with curvature.durm.full_logits(model):
        assert loss.value() == pytest.approx(functional.cross_entropy(model(images), labels).item(), rel=1e-5)
    assert not model.training
    *_, theirs = islice(curvature.power_iteration(model, images, labels, 5), 60)
    *_, ours = islice(curvature.ours(model, images, labels, 5), 15)
    assert theirs.newest == pytest.approx(ours.newest, rel=1e-4)


def test_rules_stop_where_they_should(curvature):
    """PyHessian's when λ changes by less than the tolerance, with the λ before; told, at the first within 1 %."""
    values = [1.0, 5.0, 9.0, 9.5, 9.58, 9.95, 9.955]
    steps = zip(values, [0.0, *values], strict=False)
    estimates = [curvature.Estimate(new, old, abs(old - new) / (old + 1e-6)) for new, old in steps]
    stops = curvature.timed(iter(estimates), (1e-1, 1e-2, 1e-3), reference=10.0)
    assert {rule: (stop.products, round(stop.error, 4)) for rule, stop in stops.items()} == {
        "told": (6, 0.005),
        1e-1: (4, 0.1),
        1e-2: (5, 0.05),
        1e-3: (7, 0.005),
    }
    assert all(stop.seconds > 0 for stop in stops.values())
    assert curvature.loosest([stops], (1e-1, 1e-2, 1e-3)) == 1e-3
    with pytest.raises(RuntimeError, match="not all runs are within 1 %"):
        curvature.loosest([stops], (1e-1, 1e-2))


def test_a_resnet_is_measured_on_512_images_of_32_pixels(curvature):
    subject = curvature.SUBJECTS["resnet18"]
    assert (subject.model, subject.batch) == ("resnet18", (512, 3, 32, 32))
    assert (curvature.LIMIT, curvature.WITHIN) == (1.5, 0.01)


def test_numbers_are_written(curvature, tmp_path, capsys):
    out = tmp_path / "curvature.json"
    code = curvature.main(["--size", "tiny", "--pairs", "6", "--out", str(out)])
    record = json.loads(out.read_text())
    own, told = record["results"]
    table = capsys.readouterr().out
    for result in (own, told):
        assert result["case"] in table
        assert result["pairs"] == 6
        assert 0 < result["low"] <= result["ratio"] <= result["high"]
        assert all(error <= 0.01 for error in result["errors"].values())
        assert result["products"]["ours"] < result["products"]["power"]
        assert min(result["seconds"].values()) > 0
    assert set(own["tolerances"]) == {"power", "ours"}
    assert told["tolerances"] is None
    assert "limit" not in told
    assert {"durm", "torch", "python", "cpu", "threads", "date"} <= set(record["provenance"])
    assert own["holds"] == (own["high"] >= 1.5)
    assert code == (0 if own["holds"] else 1)

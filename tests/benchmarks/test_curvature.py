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
    """All logits, in eval mode, over all parameters; and both find its top eigenvalue within 1 %."""
    model, images, labels = curvature.make(curvature.SUBJECTS["tiny"])
    loss = curvature.ClassifierLoss(model, images, labels, num_classes=curvature.CLASSES)
    assert loss.size == sum(parameter.numel() for parameter in model.parameters())
    with curvature.durm.full_logits(model):
        assert loss.value() == pytest.approx(functional.cross_entropy(model(images), labels).item(), rel=1e-5)
    assert not model.training
    reference, second, _ = curvature.find_reference(loss)
    *_, last = islice(curvature.power_iteration(model, images, labels, 5), 60)
    assert last == pytest.approx(reference, rel=1e-4)
    assert second < reference
    for arm in (curvature.time_power, curvature.time_ours):
        run = arm(model, images, labels, reference, seed=3)
        assert run.error <= 0.01
        assert run.seconds > 0


def test_a_rule_stops_where_pyhessian_would(curvature, monkeypatch):
    """When λ changes by less than the tolerance; the λ before that is what it gives."""
    values = [1.0, 5.0, 9.0, 9.5, 9.58, 9.585, 9.586]
    monkeypatch.setattr(curvature, "power_iteration", lambda *_: iter(values))
    loose, tight = curvature.power_rules(None, None, None, reference=10.0)
    assert (loose.products, loose.error) == (5, pytest.approx(0.05))
    assert (tight.products, tight.error) == (6, pytest.approx(0.042))


def test_a_resnet_is_measured_on_512_images_of_32_pixels(curvature):
    subject = curvature.SUBJECTS["resnet18"]
    assert (subject.model, subject.batch) == ("resnet18", (512, 3, 32, 32))
    assert (curvature.LIMIT, curvature.WITHIN) == (1.5, 0.01)


def test_numbers_are_written(curvature, tmp_path, capsys):
    out = tmp_path / "curvature.json"
    code = curvature.main(["--size", "tiny", "--pairs", "6", "--out", str(out)])
    record = json.loads(out.read_text())
    (result,) = record["results"]
    table = capsys.readouterr().out
    assert result["case"] in table
    assert result["pairs"] == 6
    assert 0 < result["low"] <= result["ratio"] <= result["high"]
    assert max(result["power_error"], result["our_error"]) <= 0.01
    assert result["our_products"] <= result["power_products"]
    assert result["reference"] > result["second"]
    assert [rule["rule"] for rule in result["rules"]] == [
        "ours, residual 0.01",
        "PyHessian's, change 0.01",
        "PyHessian's, change 0.001",
        "power iteration from our start, told",
    ]
    assert all(rule["rule"] in table for rule in result["rules"])
    assert {"durm", "torch", "python", "cpu", "threads", "date"} <= set(record["provenance"])
    assert result["holds"] == (result["high"] >= 1.5)
    assert code == (0 if result["holds"] else 1)

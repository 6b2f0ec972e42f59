"""The benchmark of FGSM, with a stand-in for torchattacks: the step by hand, under its name."""

import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional


@pytest.fixture
def fgsm(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield import_module("fgsm")
    torch.set_num_threads(threads)


def by_hand(model, eps):
    def attack(images, labels):
        points = images.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(functional.cross_entropy(model(points), labels), points)
        return (images + eps * gradient.sign()).clamp(0, 1).detach()

    return attack


def test_numbers_are_written(fgsm, tmp_path, capsys, monkeypatch):
    out = tmp_path / "fgsm.json"
    monkeypatch.setattr(fgsm, "import_module", lambda name: SimpleNamespace(FGSM=by_hand))
    code = fgsm.main(["--size", "tiny", "--pairs", "6", "--out", str(out)])
    record = json.loads(out.read_text())
    ours, keep_best = record["results"]
    assert (ours["limit"], "limit" in keep_best) == (1.05, False)
    assert ours["holds"] == (ours["low"] <= 1.05)
    assert code == (0 if ours["holds"] else 1)
    table = capsys.readouterr().out
    for result in record["results"]:
        assert result["case"] in table
        assert result["pairs"] == 6
        assert 0 < result["low"] <= result["ratio"] <= result["high"]


def test_ours_is_one_pass_and_keep_best_a_forward_pass_more(fgsm):
    model, images, labels = fgsm.attacks.make(fgsm.SUBJECTS["tiny"])
    seen = []
    model.register_forward_hook(lambda module, given, logits: seen.append(logits.requires_grad))
    fgsm.ours(model, images, labels, False)()
    assert seen == [True]
    fgsm.ours(model, images, labels, True)()
    assert seen[1:] == [True, False]


def test_other_images_are_no_comparison(fgsm):
    def twice(model, eps):
        return by_hand(model, 2 * eps)

    with pytest.raises(RuntimeError, match="the images of the two differ"):
        next(fgsm.measure_fgsm(twice, fgsm.SUBJECTS["tiny"], 6))


def test_without_torchattacks_it_says_so(fgsm, capsys, monkeypatch):
    def missing(name):
        raise ImportError

    monkeypatch.setattr(fgsm, "import_module", missing)
    assert fgsm.main([]) == 2
    assert "--torchattacks takes the folder" in capsys.readouterr().err

"""The benchmark against AutoAttack: its own arm, what it refuses, and the rule for its limits."""

from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch import nn

from durm.attacks import Normalised


@pytest.fixture
def autoattack(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return import_module("autoattack")


def test_what_is_left_after_each_part_falls_to_what_the_images_leave(autoattack):
    torch.manual_seed(0)
    model = Normalised(nn.Sequential(nn.Flatten(), nn.Linear(48, 10)), torch.tensor(0.5), torch.tensor(0.2)).eval()
    images = torch.rand(40, 3, 4, 4)
    labels = model(images).argmax(1)
    changed, after = autoattack.ours(model, "linf", 0.02, 5, images, labels, 0)
    autoattack.check(changed, images, "linf", 0.02)
    assert 40 > after[0] >= after[1] >= after[2] == int((model(changed).argmax(1) == labels).sum())


def test_images_outside_the_ball_are_refused(autoattack):
    images = torch.full((2, 3, 4, 4), 0.5)
    for norm, change in (("linf", 0.03), ("l2", 0.01)):
        with pytest.raises(RuntimeError, match="an attack left the ball"):
            autoattack.check(images + change, images, norm, 0.02)


@pytest.mark.parametrize(
    ("left", "seconds", "holds"),
    [((20.0, 20.2), (9, 9), True), ((20.0, 20.4), (9, 5), False), ((20.0, 19.0), (9, 10), False)],
)
def test_the_limits(autoattack, left, seconds, holds):
    names = list(autoattack.PARTS)
    numbers = [dict(zip(names, pair, strict=True)) for pair in (left, seconds)]
    result = autoattack.Result("a case", 500, 40.0, numbers[0], {}, numbers[1], {})
    assert result.holds is holds
    assert result.row().endswith("yes" if holds else "NO")


def test_without_autoattack_it_says_so(autoattack, capsys, monkeypatch, tmp_path):
    def missing(name):
        raise ImportError

    monkeypatch.setattr(autoattack, "import_module", missing)
    assert autoattack.main(["--data", str(tmp_path)]) == 2
    assert "--autoattack takes the folder" in capsys.readouterr().err

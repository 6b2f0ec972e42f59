"""Evaluation takes memory for its samples and for a batch of logits, not for samples × classes."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from durm.data.bundle import DataBundle, Samples, measure
from durm.training.tasks import Classification
from durm.training.trial import Trial

SCRIPT = """
import sys
import torch
from torch import nn
import durm
from durm.data.bundle import DataBundle, Samples, measure
from durm.training.tasks import Classification
from durm.training.trial import Trial

samples, classes = map(int, sys.argv[1:])
torch.set_num_threads(1)
random = torch.Generator().manual_seed(0)
images = torch.randint(256, (samples, 1, 1, 2), generator=random, dtype=torch.uint8)
part = Samples(images, torch.randint(classes, (samples,), generator=random))
bundle = DataBundle(part, part, part, classes, [], measure(images))
model = nn.Sequential(nn.Flatten(), durm.widen(nn.Linear(2, classes), 1))
trial = Trial(data="random", model="linear", seed=0, dummies=1)
scores = Classification(trial, bundle, torch.device("cpu")).scores(model, part)
assert len(scores.outcomes["margin"]) == samples
assert 0 < scores.metrics["nll"] < 99
status = open("/proc/self/status").read()
print(1024 * int(status.partition("VmHWM:")[2].split()[0]))  # of this program; ru_maxrss is also of the one before exec
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak is read from /proc")
@pytest.mark.parametrize(("samples", "classes"), [(2_000, 10**5), (10_000, 10**4)])
def test_the_peak_is_far_below_2_gb(samples: int, classes: int) -> None:
    """All logits in single precision take 0.8 and 0.4 GB; torch itself takes a quarter of a GB."""
    call = [sys.executable, "-c", SCRIPT, str(samples), str(classes)]
    peak = int(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
    assert 10**8 < peak < 0.8e9


def test_a_batch_shrinks_with_a_very_wide_head_only() -> None:
    """Whole batches up to 10⁵ classes, so that small heads compute in the same order as ever."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(2, 10))
    part = Samples(torch.zeros(600, 1, 1, 2, dtype=torch.uint8), torch.zeros(600, dtype=torch.long))
    for classes, expected in ((10, [256, 256, 88]), (10**5, [256, 256, 88]), (10**6, [33] * 18 + [6])):
        bundle = DataBundle(part, part, part, classes, [], measure(torch.arange(4.0).view(2, 1, 1, 2)))
        task = Classification(Trial(data="random", model="linear", seed=0), bundle, torch.device("cpu"))
        assert [len(logits) for logits in task.logits(model, part)] == expected

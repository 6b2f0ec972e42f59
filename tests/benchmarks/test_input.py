import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "input.py"


def test_both_give_the_same_images_where_nothing_is_cropped_or_flipped(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    module = import_module("input")
    samples = module._random_samples(16)
    format = module.measure(samples.inputs)
    pictures = module._Pictures(samples, format)
    pictures._transform.transforms = pictures._transform.transforms[2:]
    per_sample = torch.stack([pictures[index][0] for index in range(16)])
    torch.testing.assert_close(per_sample, format.normalise(samples.inputs))


@pytest.mark.slow
def test_script_writes_its_numbers(tmp_path):
    out = tmp_path / "input.json"
    command = [sys.executable, str(SCRIPT), "--pairs", "6", "--images", "300", "--out", str(out)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode in (0, 1), finished.stderr
    record = json.loads(out.read_text())
    (result,) = record["results"]
    assert (result["pairs"], result["limit"]) == (6, 10)
    assert 0 < result["low"] <= result["ratio"] <= result["high"]
    assert min(result["images_per_second"], result["torchvision_images_per_second"]) > 0
    assert result["case"] in finished.stdout
    about = record["provenance"]
    assert {"durm", "torch", "torchvision", "cpu", "threads", "date", "others_share_of_cores"} <= set(about)
    assert about["threads"] == 1
    assert result["holds"] == (result["high"] >= 10)
    assert finished.returncode == (0 if result["holds"] else 1)

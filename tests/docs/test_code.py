"""The Python on the pages runs: the blocks of a page one after the other, with what the page takes for granted."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import PAGES, blocks, name

COMMON = """
import durm.models
import numpy as np, pandas as pd, timm, torch
from torch import nn
import durm

def network():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

def train(seed, smoothing=0.0):
    return 90 + np.random.default_rng(seed).normal() + smoothing

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, labels = torch.rand(16, 64), torch.arange(16) % 10
x, y, C = images, labels, 10
"""
RESNET = "model, images = timm.create_model('resnet18', num_classes=10), torch.rand(2, 3, 64, 64)\n"
STUDY = """
small = {"model": "mlp", "seeds": 2, "epochs": 1, "workers": 0, "quiet": True}
result = durm.compare(data="digits", dummies=[0, 2], out="runs/digits", **small)
summary = result.summary
"""
SETUP = {
    "docs/concepts/page.md": STUDY,
    "docs/reference/schemas.md": STUDY,
    "docs/how-to/tracking.md": STUDY,
    "docs/how-to/losses.md": """
durm.widen(model, 2)
class_weights, logits, mixed_targets = torch.ones(10), torch.randn(16, 12), torch.rand(16, 10).softmax(1)
token_logits, tags = torch.randn(4, 5, 11), torch.zeros(4, 5, dtype=torch.long)
import torchmetrics
accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=10)
""",
    "docs/how-to/deploy.md": RESNET + "durm.widen(model, 2)\n",
    "docs/how-to/segmentation-results.md": """
model, images = nn.Conv2d(3, 19, 1), torch.rand(2, 3, 8, 8)
masks = torch.zeros(2, 8, 8, dtype=torch.long)
""",
    "docs/how-to/timm.md": """
from timm.data import Mixup
from timm.optim import create_optimizer_v2
from timm.utils import ModelEmaV3
widened = durm.widen(timm.create_model("resnet18", num_classes=10), 2)
torch.save({"state_dict_ema": widened.state_dict()}, "model_best.pth.tar")
""",
    "docs/how-to/tables.md": """
rows = [{"method": arm, "fold": fold, "top1": 90 + fold + len(arm)} for arm in ("a", "bb") for fold in range(6)]
frame = pd.DataFrame(rows)
""",
    "docs/how-to/uncertainty.md": "others = torch.rand(16, 64)\ndurm.widen(model, 2)\n",
    "docs/how-to/robustness.md": """
durm.widen(model, 2)
images, mean, std = torch.rand(16, 1, 8, 8), torch.tensor([0.5]), torch.tensor([0.5])
""",
    "docs/how-to/watch.md": """
durm.widen(model, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
epochs, batches, loss_function = 2, [(images, labels)] * 3, nn.CrossEntropyLoss()
""",
    "docs/how-to/widen.md": "criterion = nn.CrossEntropyLoss()\n",
    "docs/how-to/scikit-learn.md": """
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
X, y, X_test = X[:100].astype("float32"), y[:100], X[300:310].astype("float32")
""",
    "docs/how-to/text-audio.md": "x, y = np.random.rand(900, 8), np.arange(900) % 3\n",
}
INSTEAD = {
    "seeds=10": "seeds=2, workers=0, quiet=True",
    "seeds=40, ": "seeds=2, workers=0, quiet=True, ",
    'executor="ray", address="auto"': "",
    "seeds=6, epochs=5": "seeds=2, epochs=1, workers=0, quiet=True",
    "seeds=8,": "seeds=8, workers=0, quiet=True,",
    "epochs=20": "epochs=1",
    "range(21)": "range(2)",
    "max_epochs=30": "max_epochs=1",
    "cv=5": "cv=2",
    "[0, 1, 2]": "[0, 2]",
}
"""What takes long, or a cluster, and what runs in its place."""
OTHER_TESTS = {
    "CONTRIBUTING.md": "tests/test_extending.py makes such a class",
    "docs/how-to/huggingface.md": "tests/integrations has it without a download",
    "docs/how-to/lightning.md": "tests/integrations",
    "docs/how-to/commands.md": "a program: tests/docs/test_commands.py",
    "docs/how-to/studies.md": "tests/study",
    "docs/how-to/custom-heads.md": "tests/models has the whole of it",
}
SKIPPED = (
    "lightning.Trainer",
    "bert",
    'Store.open(Path("runs/camvid"))',
    'Path("runs/camvid").glob',
    'device="cuda"',
    "roi_heads",
    "model(**batch)",
)
"""Blocks with models, data or devices that are not here; the tests of those parts have them."""
FAST = {f"docs/how-to/{page}.md" for page in ("robustness", "tables", "watch", "widen")}
APART = {f"docs/how-to/{page}.md" for page in ("losses", "uncertainty", "widen")}
"""Pages whose blocks do not build on each other."""


def cases() -> list[Any]:
    found = [page for page in PAGES if blocks(page, "python") and name(page) not in OTHER_TESTS]
    return [pytest.param(page, marks=() if name(page) in FAST else pytest.mark.slow, id=name(page)) for page in found]


@pytest.mark.filterwarnings("ignore:durm guard")
@pytest.mark.parametrize("page", cases())
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "page"}
    exec(compile(COMMON + SETUP.get(name(page), ""), "setup", "exec"), namespace)
    ran = 0
    for code in map(textwrap.dedent, blocks(page, "python")):
        compile(code, name(page), "exec")
        kept = "\n".join(line for line in code.splitlines() if "bert" not in line)
        if any(word in kept for word in SKIPPED):
            continue
        for long, short in INSTEAD.items():
            kept = kept.replace(long, short)
        if name(page) in APART:
            exec(compile(COMMON + SETUP[name(page)], "setup", "exec"), namespace)
        kept = kept.replace("def train(seed, smoothing=0.0): ...", "#")
        exec(compile(kept, name(page), "exec"), namespace)
        ran += 1
    assert ran

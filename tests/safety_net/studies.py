"""Small studies that touch every task, method, averager, probe and attack. Their numbers must survive a rebuild.

A few steps each: what is compared is bits, not accuracy. Files of data are written into the folder that a test gives.
"""

import math
import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np

from tests.training.scenes import MODEL, WITH_AUXILIARY, write_scenes

SHORT = {"epochs": 1, "batch_size": 128}


def studies(root: Path) -> dict[str, dict[str, Any]]:
    """Name → study, as it would stand in a file. `root` is where their data are written."""
    scenes = write_scenes(root / "scenes", {"train": 6, "val": 2, "test": 3})
    return {
        "methods": {
            "data": "digits",
            "model": "cnn",
            "method": ["erm", "mixup", "logit-adjustment", "fgsm-at", "pgd-at", "rsc", "ema", "swa", "mixup+ema"],
            "dummies": [0, 2],
            "seeds": 1,
            "train": {**SHORT, "at_eps": 0.1, "at_steps": 2, "at_clean": 0.25, "mixup_alpha": 0.5, "swa_start": 0.2},
        },
        "domains": {
            "data": "digits-domains:noisy",
            "model": "mlp",
            "method": ["erm", "dann", "vrex", "mmd", "swad", "vrex+swad"],
            "versions": {"verdict": 2},  # as the methods were when the bits were recorded
            "dummies": [0, 1],
            "seeds": 1,
            "train": {
                **{"iterations": 8, "batch_size": 16, "validate_every": 2, "vrex_anneal": 3, "vrex_weight": 2},
                **{"dann_weight": 0.1, "dann_lr_scale": 0.5, "swad_converge": 2, "swad_tolerance": 2},
            },
        },
        "all-domains": {"data": "digits-domains", "model": "mlp", "dummies": [0, 2], "seeds": 2, "train": {**SHORT}},
        "attacks": {
            "data": "digits",
            "model": "mlp",
            "dummies": [0, 2],
            "seeds": 2,
            "train": SHORT,
            "metric": "robust_pgd_real",
            "attacks": [
                {"kind": "fgsm", "eps": 0.1, "through": ["real", "full", "dummy"]},
                {"kind": "pgd", "eps": "8/255", "steps": 3, "restarts": 2, "curve": [0.0, 0.02]},
                {"kind": "pgd", "name": "pgd-l2", "eps": 0.5, "norm": "l2", "steps": 3},
                {"kind": "apgd", "eps": 0.1, "steps": 4, "loss": "dlr", "through": ["real", "full"]},
                {"kind": "square", "eps": 0.1, "steps": 10},
                {"kind": "auto", "eps": 0.1, "steps": 2, "target_classes": 0},
            ],
            "attack_samples": 40,
        },
        "probes": {
            "data": "digits",
            "model": "mlp",
            "dummies": [0, 3],
            "seeds": 2,
            "train": {"epochs": 3, "batch_size": 128, "label_smoothing": 0.1},
            "probes": [
                *("distance", "dummy_gradient", "dummy_mass", "gradient_norm", "gradient_variance", "push_pull"),
            ],
            "flatness": 50,
        },
        "arms": {
            "data": ["digits", "longtail:10:digits", "subset:samples=20:digits"],
            "model": ["cnn"],
            "arms": [
                {"name": "erm"},
                {"name": "durm-1", "dummies": 1},
                {"name": "durm-2", "dummies": 2},
                {"name": "adamw", "optimizer": "adamw", "lr": 0.01, "schedule": "poly", "warmup": 2},
                {"name": "step", "schedule": "step", "step_epochs": 1, "gamma": 0.5, "nesterov": True, "clip_norm": 1},
                {"name": "stopped", "patience": 1, "epochs": 4, "augment": "crop-flip", "dummies": 1},
            ],
            "seeds": [1, 4],
            "train": SHORT,
            "select": "best-val",
        },
        "until-decided": {
            "data": "digits",
            "model": "mlp",
            "dummies": [0, 2],
            "max_seeds": 10,
            "null": True,
            "rope": 5,
            "train": SHORT,
        },
        "scenes": {
            "data": scenes,
            "model": [MODEL, WITH_AUXILIARY],
            "dummies": [0, 1],
            "seeds": 2,
            "train": {"iterations": 3, "batch_size": 2, "crop": [8, 8], "auxiliary": 0.3},
            "window": [8, 12],
            "window_stride": [4, 6],
        },
        "text": {
            "data": f"csv:{write_text(root / 'text.csv')}",
            "model": "transformer",
            "dummies": [0, 2],
            "seeds": 1,
            "train": {"iterations": 3, "batch_size": 8},
        },
        "sound": {
            "data": f"audio:{write_sound(root / 'sound')}",
            "model": "lstm",
            "dummies": [0, 2],
            "seeds": 1,
            "train": {"iterations": 2, "batch_size": 4},
        },
        "precision": {
            "data": "digits",
            "model": "mlp",
            "dummies": [0, 1],
            "seeds": 1,
            "train": {"iterations": 3},
            "precision": "64",
        },
    }


def write_text(path: Path) -> Path:
    words = {"sport": ["goal", "team", "match"], "food": ["bread", "soup", "salt"]}
    random = np.random.default_rng(0)
    lines = ["text,label"]
    for label, known in words.items():
        lines += [f"{' '.join(random.choice(known, 4))} {number},{label}" for number in range(20)]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_sound(folder: Path) -> Path:
    """Two tones of a tenth of a second, ten files of each, with a little noise."""
    random = np.random.default_rng(0)
    for name, hertz in (("low", 300), ("high", 900)):
        (folder / name).mkdir(parents=True)
        for number in range(10):
            values = [math.sin(2 * math.pi * hertz * t / 8000) + random.normal(0, 0.1) for t in range(800)]
            with wave.open(str(folder / name / f"{number}.wav"), "wb") as file:
                file.setparams((1, 2, 8000, 0, "NONE", ""))
                file.writeframes(b"".join(struct.pack("<h", round(10_000 * value)) for value in values))
    return folder

"""Small scenes that can be learnt, on disk, and small models for them, for tests of the loop and the commands."""

from pathlib import Path

import numpy as np
from PIL import Image
from torch import Tensor, nn

from tests.data.masks import write_mask

CLASSES = ("sky", "wide river", "car")
COLOURS = np.array([(90, 140, 200), (60, 110, 90), (190, 60, 50)])
MODEL = "tests.training.scenes:network"
WITH_AUXILIARY = "tests.training.scenes:with_auxiliary"
PLAIN = "tests.training.scenes:without_statistics"


def write_scenes(root: Path, counts: dict[str, int], size: tuple[int, int] = (16, 20), ignored: bool = True) -> str:
    """Sky above a river with a car in it, in noisy colours, a corner ignored; gives the name of the data set."""
    random = np.random.default_rng(0)
    height, width = size
    for part, count in counts.items():
        for number in range(count):
            ids = np.zeros(size, int)
            ids[random.integers(height // 4, height // 2) :] = 1
            top, left = random.integers(height // 2, height - 4), random.integers(0, width - 6)
            ids[top : top + 4, left : left + 6] = 2
            pixels = np.clip(random.normal(COLOURS[ids], 30), 0, 255).astype(np.uint8)
            if ignored:
                ids[-3:, :4] = 255
            image = root / part / "images" / f"{part or 'scene'}-{number:02}.png"
            image.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(image)
            write_mask(root / part / "masks" / image.name, ids)
    (root / "classes.txt").write_text("\n".join(CLASSES) + "\n")
    return f"segmentation:{root}"


def network(num_classes: int) -> nn.Module:
    """With batch statistics and dropout, so that nothing random is left out."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Dropout2d(0.1),
        nn.Conv2d(8, num_classes, 1),
    )


def without_statistics(num_classes: int) -> nn.Module:
    """For batches that are split over devices."""
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.Tanh(), nn.Conv2d(8, num_classes, 1))


class WithAuxiliary(nn.Module):
    """In training mode a pair: the logits, and those of a head on the features in between."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.classifier, self.aux_classifier = nn.Conv2d(8, num_classes, 1), nn.Conv2d(8, num_classes, 1)

    def forward(self, images: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        features = self.first(images).relu()
        logits = self.classifier(self.second(features).relu())
        return (logits, self.aux_classifier(features)) if self.training else logits


def with_auxiliary(num_classes: int) -> nn.Module:
    return WithAuxiliary(num_classes)

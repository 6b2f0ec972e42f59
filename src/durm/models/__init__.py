"""Models by name. Importing this room also makes torchvision importable beside a CPU-only torch."""

from durm import _torchvision as _torchvision

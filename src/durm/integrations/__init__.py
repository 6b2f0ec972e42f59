"""Other people's training loops: Hugging Face transformers, Lightning, scikit-learn.

Import the one you need before transformers, lightning or torchvision: it lets torchvision be imported with a CPU torch.
"""

from durm import _torchvision as _torchvision

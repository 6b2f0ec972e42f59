"""Models that give a class to each pixel, by name.

- torchvision's: `fcn_resnet50`, `deeplabv3_resnet101`, `lraspp_mobilenet_v3_large`, …, FCN and DeepLabV3 with their
  auxiliary head;
- those of segmentation_models_pytorch, as architecture-encoder: `unet-resnet18`, `segformer-mit_b0`; encoders of timm
  have `tu-` before their names: `upernet-tu-swin_tiny_patch4_window7_224`;
- `segmenter-VIT` with a vision transformer of timm: `segmenter-vit_tiny_patch16_224`.

They take images of any size and give logits (N, C, H, W) at that size. Those with an auxiliary head give a pair in
training mode: the logits, and the auxiliary ones.
"""

from fnmatch import fnmatch
from importlib import import_module
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from durm.errors import InputError, unknown

TORCHVISION = (
    *("fcn_resnet50", "fcn_resnet101", "deeplabv3_resnet50", "deeplabv3_resnet101"),
    *("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"),
)
SEGMENTER = "segmenter"
DPT = "dpt"
TIMM = "tu-"
"""Before the names of timm's encoders, as segmentation_models_pytorch has it."""


class Segmentation(nn.Module):
    """Images (N, channels, H, W) of any size → logits (N, C, H, W), from a network that takes some sizes only.

    The images are padded on the right and at the bottom, to a `multiple` and to `least` pixels at least, with zeros,
    which is the mean of normalised pixels. The logits of the padding are cut off.
    """

    def __init__(self, network: nn.Module, multiple: int = 1, least: int = 1) -> None:
        super().__init__()
        self.network = network
        self.multiple, self.least = multiple, least

    def forward(self, images: Tensor) -> Tensor | tuple[Tensor, ...]:
        height, width = images.shape[-2:]
        right, below = (max(-length % self.multiple, self.least - length) for length in (width, height))
        try:
            outputs = self.outputs(F.pad(images, (0, right, 0, below)))
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise ValueError(
                "a batch of one image cannot train this network: it pools the image to one value, which batch "
                "normalisation cannot scale; use batches of 2 or more, and leave out a last one of 1"
            ) from None
        if isinstance(outputs, tuple):
            return tuple(logits[..., :height, :width] for logits in outputs)
        return outputs[..., :height, :width]

    def outputs(self, images: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The logits of images whose size the network takes."""
        logits: Tensor = self.network(images)
        return logits


class FromTorchvision(Segmentation):
    """A network of torchvision, whose auxiliary head, if it has one, is computed in training mode alone."""

    def outputs(self, images: Tensor) -> Tensor | tuple[Tensor, ...]:
        network: Any = self.network
        if getattr(network, "aux_classifier", None) is not None and not self.training:
            small = network.classifier(network.backbone(images)["out"])
            return F.interpolate(small, images.shape[-2:], mode="bilinear", align_corners=False)
        logits = tuple(network(images).values())
        return logits if len(logits) > 1 else logits[0]


def build(name: str, num_classes: int, shape: tuple[int, ...], pretrained: bool = False) -> nn.Module:
    """A segmentation model with C classes for images of that shape. Pretrained means its encoder."""
    architecture, _, encoder = name.partition("-")
    if name in TORCHVISION:
        return _from_torchvision(name, num_classes, shape, pretrained)
    if architecture != SEGMENTER:
        return _from_smp(architecture, encoder, num_classes, shape, pretrained)
    from durm.models.segmenter import segmenter

    made = segmenter(encoder, num_classes, shape, pretrained=pretrained)
    return Segmentation(made, made.patch)


def check(name: str, *, pretrained: bool = False) -> None:
    """Raises an `InputError` if there is no segmentation model of that name, with the closest ones."""
    architecture, dash, encoder = name.partition("-")
    if name in TORCHVISION:
        return
    if architecture not in architectures():
        if dash:
            raise unknown(f"model {name!r}: the architecture", architecture, architectures())
        raise unknown("segmentation model", name, [*TORCHVISION, *architectures()])
    if not encoder:
        examples = {SEGMENTER: "vit_tiny_patch16_224", DPT: f"{TIMM}vit_small_patch16_224"}
        example = f"{architecture}-{examples.get(architecture, 'resnet18')}"
        raise InputError(f"model {name!r} has no encoder; a whole name would be {example!r}")
    known = encoders(architecture, of_timm=True)
    of_timm = architecture == SEGMENTER or encoder.startswith(TIMM)
    # After a dot timm, and timm alone, names one of several pretrained weights.
    if (encoder.partition(".")[0] if of_timm else encoder) not in known:
        kind = "vision transformer" if architecture in (SEGMENTER, DPT) else "encoder"
        raise unknown(f"model {name!r}: the {kind}", encoder, known)
    if pretrained and not (
        timm().is_model_pretrained(encoder.removeprefix(TIMM))
        if of_timm
        else "imagenet" in smp().encoders.encoders[encoder]["pretrained_settings"]
    ):
        raise InputError(f"model {name!r} has no pretrained encoder")


def is_name(name: str) -> bool:
    """Whether this is the name of a segmentation model, or begins as one."""
    return name in TORCHVISION or ("-" in name and name.partition("-")[0] in architectures())


def names(pattern: str = "") -> list[str]:
    """The names that `build` knows: torchvision's, and those architectures with encoders that the pattern speaks of.

    There are thousands of the latter. `unet` lists those of U-Net, and encoders of timm are listed when the pattern has
    their `tu-`.
    """
    found = [name for name in TORCHVISION if matches(name, pattern)]
    wanted = pattern.partition("-")[0]
    for architecture in architectures() if wanted else ():
        if matches(architecture, wanted):
            every = encoders(architecture, of_timm=TIMM in pattern)
            found += [name for each in every if matches(name := f"{architecture}-{each}", pattern)]
    return found


def instead_of(classifier: str) -> str:
    """A segmentation model that has the classifier as its encoder, if there is one."""
    if classifier in smp().encoders.get_encoder_names():
        return f"unet-{classifier}"
    if classifier in encoders(SEGMENTER):
        return f"{SEGMENTER}-{classifier}"
    return f"unet-{TIMM}{classifier}" if timm().is_model(classifier) else "unet-resnet18"


def classifier_of(name: str) -> str:
    """The classifier that is the encoder of a segmentation model, if timm has it."""
    encoder = name.partition("_")[2] if name in TORCHVISION else name.partition("-")[2].removeprefix(TIMM)
    return encoder if timm().is_model(encoder) else "resnet18"


def architectures() -> list[str]:
    return [*smp().MODEL_ARCHITECTURES_MAPPING, SEGMENTER]


def encoders(architecture: str, *, of_timm: bool = False) -> list[str]:
    """The encoders of an architecture, with all of timm's if asked for; not every one goes with each architecture."""
    from durm.models import segmenter

    if architecture == SEGMENTER:
        return segmenter.encoders()
    if architecture == DPT:
        return [f"{TIMM}{name}" for name in segmenter.encoders()]
    every: list[str] = smp().encoders.get_encoder_names()
    return every + [f"{TIMM}{name}" for name in timm().list_models()] if of_timm else every


def matches(name: str, pattern: str) -> bool:
    return pattern in name or fnmatch(name, pattern)


def _from_torchvision(name: str, num_classes: int, shape: tuple[int, ...], pretrained: bool) -> nn.Module:
    from torchvision.models import segmentation

    if shape[0] != 3:
        raise InputError(f"model {name!r} takes images with 3 channels, not {shape[0]}; use 'unet-resnet18'")
    options = {} if name.startswith("lraspp") else {"aux_loss": True}
    weights = "IMAGENET1K_V1" if pretrained else None
    made = getattr(segmentation, name)(weights=None, weights_backbone=weights, num_classes=num_classes, **options)
    return FromTorchvision(made)


def _from_smp(architecture: str, encoder: str, num_classes: int, shape: tuple[int, ...], pretrained: bool) -> nn.Module:
    options: dict[str, Any] = {}
    if encoder.startswith(f"{TIMM}swin"):
        options["strict_img_size"] = False  # or it would take 224 pixels alone
    if architecture == DPT:
        options |= {"dynamic_img_size": True, "num_classes": 0}  # without the transformer's own classifier
    if architecture == "pspnet":  # as published; smp would leave out the last two stages of the encoder
        options |= {"encoder_depth": 5, "output_stride": 8}
    weights: Any = None if not pretrained else True if encoder.startswith(TIMM) else "imagenet"
    made = smp().create_model(architecture, encoder, weights, shape[0], num_classes, **options)
    stride = made.encoder.output_stride
    multiple = 2 * stride if architecture == DPT else stride  # which halves the map of the patches
    least = 8 * stride if architecture == "pan" else 1  # which halves its smallest map three times
    return Segmentation(made, multiple, least)


def timm() -> Any:
    return import_module("timm")  # which takes seconds, and tiny models need it not


def smp() -> Any:
    return import_module("segmentation_models_pytorch")

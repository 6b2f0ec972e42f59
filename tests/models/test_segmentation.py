"""Segmentation models by name: images of any size, auxiliary heads, dummies, and what is refused."""

import re
import socket
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import durm
from durm import models
from durm.errors import InputError
from durm.heads.layer import Widened
from durm.models import segmentation

CLASSES, DUMMIES = 5, 2


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever tries to download something fails the test that it is in."""

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("a test of building models wants to go to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def build(name: str, shape: tuple[int, ...] = (3, 64, 64)) -> nn.Module:
    torch.manual_seed(0)
    return models.build(name, CLASSES, shape, task="segmentation")


def images(height: int = 64, width: int = 64, count: int = 2) -> Tensor:
    return torch.randn(count, 3, height, width, generator=torch.Generator().manual_seed(1))


QUICK = ("fcn_resnet50", "segformer-mit_b0", "pspnet-resnet18", "unet-tu-test_resnet", "deeplabv3_mobilenet_v3_large")
PAPER = (
    *("fcn_resnet101", "deeplabv3_resnet101", "segformer-mit_b5", "fpn-tu-hrnet_w48"),
    "upernet-tu-swin_tiny_patch4_window7_224",
)
WITH_AUXILIARY = ("fcn", "deeplabv3_")


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in PAPER)])
def test_widened_trained_evaluated_and_narrowed(name: str) -> None:
    model = build(name).eval()
    kinds = [type(module) for module in model.modules()]
    with torch.no_grad():
        before = model(images())
        assert before.shape == (2, CLASSES, 64, 64)
        durm.widen(model, DUMMIES)
        assert torch.equal(model(images()), before)
        with durm.full_logits(model):
            assert model(images()).shape == (2, CLASSES + DUMMIES, 64, 64)

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    labels = torch.randint(CLASSES, (2, 64, 64), generator=torch.Generator().manual_seed(2))
    outputs = model.train()(images())
    pair = outputs if isinstance(outputs, tuple) else (outputs,)
    assert len(pair) == (2 if name.startswith(WITH_AUXILIARY) else 1)
    loss = torch.zeros(())
    for weight, logits in zip((1.0, 0.4), pair, strict=False):
        assert logits.shape == (2, CLASSES + DUMMIES, 64, 64)
        loss = loss + weight * durm.cross_entropy(logits, labels, CLASSES)
    loss.backward()
    widened = [module for module in model.modules() if isinstance(module, Widened)]
    assert len(widened) == len(pair)
    for layer in widened:
        assert layer.weight.grad[CLASSES:].flatten(1).any(dim=1).all()
    optimizer.step()

    model.eval()
    with torch.no_grad():
        trained = model(images())
        assert not torch.equal(trained, before)
        assert torch.equal(durm.narrow(model)(images()), trained)
    assert [type(module) for module in model.modules()] == kinds


@pytest.mark.parametrize("name", ["fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"])
def test_models_of_torchvision_give_what_torchvision_gives(name: str) -> None:
    model = build(name).eval()
    with torch.no_grad():
        theirs = model.network(images(50, 70))
        assert torch.equal(model(images(50, 70)), theirs["out"])
        if "aux" in theirs:
            for module in model.modules():  # training mode without dropout and with the statistics of before
                module.training = module is model
            logits, auxiliary = model(images(50, 70))
            assert torch.equal(logits, theirs["out"])
            assert torch.equal(auxiliary, theirs["aux"])


SMALL_ENCODERS = {"segmenter": "test_vit", "dpt": "tu-test_vit"}


@pytest.mark.slow
@pytest.mark.parametrize("architecture", segmentation.architectures())
def test_every_architecture_takes_images_of_any_size(architecture: str) -> None:
    model = build(f"{architecture}-{SMALL_ENCODERS.get(architecture, 'tu-test_resnet')}", (3, 50, 70)).eval()
    for height, width in ((50, 70), (64, 96), (17, 33), (1, 130)):
        with torch.no_grad():
            assert model(images(height, width)).shape == (2, CLASSES, height, width)
    assert model.train()(images(50, 70)).shape == (2, CLASSES, 50, 70)


def test_images_are_padded_with_zeros_and_logits_cropped() -> None:
    model = build("unet-tu-test_resnet").eval()
    padded = torch.zeros(2, 3, 64, 96)
    padded[:, :, :50, :70] = images(50, 70)
    with torch.no_grad():
        assert torch.equal(model(images(50, 70)), model.network(padded)[:, :, :50, :70])
        assert torch.equal(model(images()), model.network(images()))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [*segmentation.architectures()])
def test_the_whole_encoder_is_trained(architecture: str) -> None:
    """But for the last norm of DPT's. Of PSPNet's, segmentation_models_pytorch by itself uses three of five stages."""
    model = build(f"{architecture}-{SMALL_ENCODERS.get(architecture, 'resnet18')}").train()
    model(images()).square().mean().backward()
    parameters = dict(model.network.encoder.named_parameters())
    assert not [key for key, parameter in parameters.items() if parameter.grad is None and "norm" not in key]


@pytest.mark.parametrize("encoder", ["tu-mobilenetv3_small_050", "mobilenet_v2", "efficientnet-b0", "tu-resnet10t"])
def test_encoders_of_both_libraries(encoder: str) -> None:
    model = build(f"fpn-{encoder}").eval()
    with torch.no_grad():
        assert model(images(64, 32)).shape == (2, CLASSES, 64, 32)


def test_images_may_have_other_channels_where_the_library_can() -> None:
    for name in ("unet-tu-test_resnet", "segmenter-test_vit"):
        assert build(name, (4, 32, 32)).eval()(torch.zeros(2, 4, 32, 32)).shape == (2, CLASSES, 32, 32)
    with pytest.raises(InputError, match=r"'fcn_resnet50' takes images with 3 channels, not 4; use 'unet-resnet18'"):
        build("fcn_resnet50", (4, 32, 32))


@pytest.mark.parametrize("name", ["deeplabv3_mobilenet_v3_large", "deeplabv3plus-tu-test_resnet", "upernet-resnet18"])
def test_training_on_one_image_is_refused_where_it_cannot_be_normalised(name: str) -> None:
    model = durm.widen(build(name), 1)
    with pytest.raises(ValueError, match=r"a batch of one image cannot train this network.* batches of 2 or more"):
        model.train()(images(count=1))
    assert model.eval()(images(count=1)).shape == (1, CLASSES, 64, 64)


def test_other_errors_of_a_network_are_left_as_they_are() -> None:
    class Failing(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            raise ValueError("another reason")

    with pytest.raises(ValueError, match="another reason"):
        segmentation.Segmentation(Failing())(images())


@pytest.mark.parametrize("name", ["unet-tu-test_resnet", "segmenter-test_vit"])
def test_weights_are_a_function_of_the_seed(name: str) -> None:
    one, other = build(name).state_dict(), build(name).state_dict()
    assert all(torch.equal(value, other[key]) for key, value in one.items())


def test_it_learns_with_its_auxiliary_head() -> None:
    """Left and right halves, from images that are dark and light there."""
    model = durm.widen(build("deeplabv3_mobilenet_v3_large"), DUMMIES)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    labels = torch.zeros(4, 40, 48, dtype=torch.long)
    labels[:, :, 24:] = 1
    inputs = images(40, 48, 4) * 0.1 + labels.unsqueeze(1) * 2 - 1
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        logits, auxiliary = model.train()(inputs)
        loss = F.cross_entropy(logits, labels) + 0.4 * F.cross_entropy(auxiliary, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


# Names.


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fcn_resnet5", "segmentation model 'fcn_resnet5' is unknown: did you mean 'fcn_resnet50'"),
        ("unett", "segmentation model 'unett' is unknown: did you mean 'unet'"),
        ("unet", "model 'unet' has no encoder; a whole name would be 'unet-resnet18'"),
        ("segmenter-", "model 'segmenter-' has no encoder; a whole name would be 'segmenter-vit_tiny_patch16_224'"),
        ("unt-resnet18", "the architecture 'unt' is unknown: did you mean 'unet'"),
        ("unet-resnet81", "the encoder 'resnet81' is unknown: did you mean 'resnet18'"),
        ("unet-resnet18.a1_in1k", "the encoder 'resnet18.a1_in1k' is unknown: did you mean 'resnet18'"),
        ("unet-tu-resnet8", "the encoder 'tu-resnet8' is unknown: did you mean 'tu-resnet18'"),
        ("fpn-mobilenetv3_small_050", "did you mean 'tu-mobilenetv3_small_050'"),
        (
            "segmenter-vit_tiny_patch16_22",
            "the vision transformer 'vit_tiny_patch16_22' is unknown: did you mean 'vit_tiny",
        ),
        ("dpt-resnet18", "the vision transformer 'resnet18' is unknown: there are tu-"),
        ("nothing like it", "segmentation model 'nothing like it' is unknown: there are "),
    ],
)
def test_an_unknown_name_is_told_with_the_closest(name: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        models.build(name, CLASSES, (3, 64, 64), task="segmentation")


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("resnet18", "unet-resnet18"),
        ("efficientnet_b0", "unet-tu-efficientnet_b0"),
        ("vit_tiny_patch16_224", "segmenter-vit_tiny_patch16_224"),
        ("cnn", "unet-resnet18"),
        ("hf:distilbert", "unet-resnet18"),
    ],
)
def test_a_classifier_is_refused_for_pixels(name: str, right: str) -> None:
    with pytest.raises(InputError, match=f"model '{name}' gives one class to a whole sample.* use '{right}'"):
        models.check(name, task="segmentation")


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("unet-resnet18", "resnet18"),
        ("fpn-tu-hrnet_w48", "hrnet_w48"),
        ("fcn_resnet101", "resnet101"),
        ("segmenter-vit_tiny_patch16_224", "vit_tiny_patch16_224"),
        ("segformer-mit_b0", "resnet18"),
    ],
)
def test_a_segmentation_model_is_refused_for_whole_images(name: str, right: str) -> None:
    with pytest.raises(InputError, match=f"model '{name}' gives a class to each pixel.* use '{right}'"):
        models.check(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("linknet-mit_b0", "is not supported for Linknet"),
        ("deeplabv3-densenet121", "do not support dilated mode"),
        ("fpn-tu-test_vit", "Unsupported model downsampling pattern"),
        ("deeplabv3-tu-hrnet_w18_small", "this architecture does not take that encoder"),
    ],
)
def test_an_encoder_that_does_not_go_with_the_architecture(name: str, message: str) -> None:
    with pytest.raises(InputError, match=f"model '{name}' cannot be built for samples of shape.*: .*{message}"):
        build(name)


def test_samples_that_are_no_images_are_refused() -> None:
    with pytest.raises(InputError, match=r"model 'unet-resnet18' takes images, and the samples have shape \(4,\)"):
        build("unet-resnet18", (4,))


def own(num_classes: int) -> nn.Module:
    return nn.Conv2d(3, num_classes, 1)


def test_a_function_of_one_s_own_is_for_both_tasks() -> None:
    model = models.build("tests.models.test_segmentation:own", CLASSES, (3, 8, 8), task="segmentation")
    assert model(images()).shape == (2, CLASSES, 64, 64)


def test_encoders_without_weights_cannot_be_pretrained() -> None:
    import timm

    for name in ("unet-resnet18", "fpn-tu-resnet18.a1_in1k", "fcn_resnet101", "segmenter-vit_tiny_patch16_224"):
        models.check(name, pretrained=True, task="segmentation")
    any_encoder = next(name for name in timm.list_models() if not timm.is_model_pretrained(name))
    transformer = next(
        name for name in timm.list_models(module="vision_transformer") if not timm.is_model_pretrained(name)
    )
    for name in ("unet-resnext101_32x48d", f"unet-tu-{any_encoder}", f"segmenter-{transformer}"):
        models.check(name, task="segmentation")
        with pytest.raises(InputError, match=f"model '{name}' has no pretrained encoder"):
            models.check(name, pretrained=True, task="segmentation")


@pytest.mark.parametrize(
    ("name", "weights"), [("unet-resnet18", "imagenet"), ("unet-tu-resnet18", True), ("dpt-tu-test_vit", True)]
)
def test_pretrained_means_the_encoder_of_smp(name: str, weights: object, monkeypatch: pytest.MonkeyPatch) -> None:
    import segmentation_models_pytorch

    asked: list[Any] = []

    def create(architecture: str, encoder: str, weights: object, *others: Any, **options: Any) -> nn.Module:
        asked.append(weights)
        return made(architecture, encoder, None, *others, **options)

    made = segmentation_models_pytorch.create_model
    monkeypatch.setattr(segmentation_models_pytorch, "create_model", create)
    models.build(name, CLASSES, (3, 64, 64), task="segmentation", pretrained=True)
    build(name)
    assert asked == [weights, None]


def test_pretrained_means_the_backbone_of_torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.models import MobileNet_V3_Large_Weights

    asked: list[Any] = []
    backbone = build("lraspp_mobilenet_v3_large").network.backbone
    state = {f"features.{key}": torch.ones_like(value) for key, value in backbone.state_dict().items()}
    monkeypatch.setattr(MobileNet_V3_Large_Weights, "get_state_dict", lambda self, **_: asked.append(self) or state)
    monkeypatch.setattr(nn.Module, "load_state_dict", _loosely)
    model = models.build("lraspp_mobilenet_v3_large", CLASSES, (3, 64, 64), task="segmentation", pretrained=True)
    assert asked == [MobileNet_V3_Large_Weights.IMAGENET1K_V1]
    assert all(bool((value == 1).all()) for value in model.network.backbone.state_dict().values())


def _loosely(module: nn.Module, state: dict[str, Tensor], strict: bool = True) -> None:
    own = module.state_dict()
    with torch.no_grad():
        for key, value in state.items():
            own[key].copy_(value)


def test_the_names_that_match_a_pattern() -> None:
    assert models.names("fcn") == ["fcn_resnet50", "fcn_resnet101"]
    assert set(segmentation.TORCHVISION) < set(models.names())
    assert not [name for name in models.names() if "-" in name]
    of_unet = models.names("unet")
    assert {"unet-resnet18", "unet-mit_b0", "unetplusplus-resnet18"} < set(of_unet)
    assert models.names("unet-resnet1?") == ["unet-resnet18"]
    assert "unet-tu-resnet10t" in models.names("unet-tu-resnet1*")
    assert models.names("segmenter-vit_tiny*224") == ["segmenter-vit_tiny_patch16_224"]
    assert "unet-resnet18" not in models.names("resnet18")

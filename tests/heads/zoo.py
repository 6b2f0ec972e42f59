"""Small models of every family that `durm.widen` promises to know, built without a download.

Each case says how a model with seven classes is built and what one of its inputs looks like. Images are as small as
the model takes, and what is large by nature is made small by its own arguments, so that a case takes about a second.
"""

import durm.models  # noqa: F401  # must come before torchvision, and before all that import it

# isort: split
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import segmentation_models_pytorch
import timm
import timm.models._registry
import torch
import torchvision
import transformers
from torch import Tensor, nn

CLASSES = 7

FILES: dict[str, set[str]] = timm.models._registry._module_to_models
"""The model files of the installed timm, and the models in each."""


class Case(NamedTuple):
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    """Of one input: that of an image, or the number of tokens."""

    def build(self) -> nn.Module:
        """The model in eval mode, always the same one.

        Weights that start at zero are drawn at random, because a head of zeros would hide what is done to it.
        """
        torch.manual_seed(0)
        model = self.make()
        for parameter in model.parameters():
            if not parameter.any():
                nn.init.normal_(parameter, std=0.02)
        return model.eval()

    def inputs(self) -> Tensor:
        random = torch.Generator().manual_seed(0)
        if len(self.shape) == 1:
            return torch.randint(1, 30, (2, *self.shape), generator=random)
        return torch.randn(2, *self.shape, generator=random)


def _timm(name: str, *, size: int = 32, **arguments: Any) -> Case:
    size = arguments.get("img_size", size)
    return Case(partial(timm.create_model, name, num_classes=CLASSES, **arguments), (3, size, size))


def _torchvision(build: Callable[..., nn.Module], *, size: int = 32, **arguments: Any) -> Case:
    return Case(partial(build, num_classes=CLASSES, **arguments), (3, size, size))


def _segmentation(name: str, size: int = 64) -> Case:
    build = getattr(segmentation_models_pytorch, name)
    return Case(partial(build, "resnet18", encoder_weights=None, classes=CLASSES), (3, size, size))


def _hugging_face(family: str, task: str, *shape: int, **arguments: Any) -> Case:
    def build() -> nn.Module:
        config = getattr(transformers, f"{family}Config")(num_labels=CLASSES, **arguments)
        return getattr(transformers, f"{family}For{task}")(config)

    return Case(build, shape)


_TRUNK = {"depth": 1, "embed_dim": 64, "num_heads": 2}
_TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
_WORDS = {"vocab_size": 30, "max_position_embeddings": 16}
_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "use_cache": False}

TIMM = {
    "beit": _timm("beit_base_patch16_224", img_size=32, **_TRUNK),
    "byoanet": _timm("eca_botnext26ts_256", img_size=32),
    "byobnet": _timm("test_byobnet"),
    "cait": _timm("cait_xxs24_224", img_size=32, depth=1),
    "coat": _timm("coat_tiny", img_size=32),
    "convit": _timm("convit_tiny", img_size=32),
    "convmixer": _timm("convmixer_768_32"),
    "convnext": _timm("test_convnext"),
    "cpubone": _timm("cpubone_nano"),
    "crossvit": _timm("crossvit_tiny_240", depth=[[1, 1, 0]]),
    "csatv2": _timm("csatv2", img_size=64),
    "cspnet": _timm("cs3darknet_focus_s"),
    "davit": _timm("davit_tiny"),
    "deepseek_vit": _timm("deepseek_vit_412m", img_size=84, **_TRUNK),
    "deit": _timm("deit_tiny_distilled_patch16_224", img_size=32),
    "densenet": _timm("densenet121"),
    "dla": _timm("dla60_res2next"),
    "dpn": _timm("dpn48b"),
    "edgenext": _timm("edgenext_xx_small"),
    "efficientformer": _timm("efficientformer_l1", size=224),
    "efficientformer_v2": _timm("efficientformerv2_s0", img_size=32),
    "efficientnet": _timm("test_efficientnet"),
    "efficientvim": _timm("efficientvim_m1_dist"),
    "efficientvit_mit": _timm("efficientvit_b0"),
    "efficientvit_msra": _timm("efficientvit_m0", img_size=32),
    "eva": _timm("vit_tiny_patch16_dinov3_qkvb", img_size=32),
    "fasternet": _timm("fasternet_t0"),
    "fastvit": _timm("fastvit_t8"),
    "focalnet": _timm("focalnet_tiny_srf"),
    "gcvit": _timm("gcvit_xxtiny", img_size=32),
    "gemma4_vit": _timm("gemma4_vit_167m", img_size=96, intermediate_size=64, **_TRUNK),
    "ghostnet": _timm("ghostnet_050"),
    "hardcorenas": _timm("hardcorenas_b"),
    "hgnet": _timm("hgnetv2_b0"),
    "hiera": _timm("hiera_tiny_224", img_size=32),
    "hieradet_sam2": _timm("sam2_hiera_tiny"),
    "hrnet": _timm("hrnet_w18_small"),
    "iformer": _timm("iformer_m_distilled"),
    "inception_next": _timm("inception_next_atto"),
    "inception_resnet_v2": _timm("inception_resnet_v2", size=96),
    "inception_v3": _timm("inception_v3", size=96),
    "inception_v4": _timm("inception_v4", size=96),
    "lcnetv2": _timm("lcnetv2_small"),
    "levit": _timm("levit_384_s8", img_size=32),
    "lowformer": _timm("lowformer_b0"),
    "mambaout": _timm("test_mambaout"),
    "maxxvit": _timm("maxvit_pico_rw_256", img_size=32),
    "metaformer": _timm("poolformer_s12"),
    "mlp_mixer": _timm("gmlp_ti16_224", img_size=32),
    "mobilenetv3": _timm("mobilenetv3_small_050"),
    "mobilenetv5": _timm("mobilenetv5_base", channel_multiplier=0.25),
    "mobilevit": _timm("mobilevit_xxs"),
    "mvitv2": _timm("mvitv2_tiny", img_size=32),
    "naflexvit": _timm("naflexvit_base_patch16_gap", **_TRUNK),
    "nasnet": _timm("nasnetalarge", num_features=1344),
    "nest": _timm("nest_tiny_jx", img_size=32),
    "nextvit": _timm("nextvit_small"),
    "nfnet": _timm("test_nfnet"),
    "pit": _timm("pit_ti_distilled_224", img_size=32),
    "pnasnet": _timm("pnasnet5large"),
    "pvt_v2": _timm("pvt_v2_b0"),
    "qwen3_vit": _timm("qwen3_vit_88m", img_size=64, **_TRUNK),
    "rdnet": _timm("rdnet_tiny"),
    "regnet": _timm("regnetx_004_tv"),
    "repghost": _timm("repghostnet_050"),
    "repvit": _timm("repvit_m1"),
    "res2net": _timm("res2net50_26w_4s"),
    "resnest": _timm("resnest14d"),
    "resnet": _timm("test_resnet"),
    "resnetv2": _timm("resnetv2_18"),
    "rexnet": _timm("rexnet_100"),
    "selecsls": _timm("selecsls42"),
    "senet": _timm("legacy_seresnet18"),
    "sequencer": _timm("sequencer2d_s", img_size=32),
    "shvit": _timm("shvit_s1"),
    "sknet": _timm("skresnet18"),
    "starnet": _timm("starnet_s050"),
    "swiftformer": _timm("swiftformer_xs"),
    "swin_transformer": _timm("swin_tiny_patch4_window7_224", img_size=32),
    "swin_transformer_v2": _timm("swinv2_tiny_window8_256", img_size=64),
    "swin_transformer_v2_cr": _timm("swinv2_cr_tiny_224", img_size=32),
    "tiny_vit": _timm("tiny_vit_5m_224"),
    "tnt": _timm("tnt_s_legacy_patch16_224", img_size=32),
    "tresnet": _timm("tresnet_m"),
    "twins": _timm("twins_svt_small", img_size=32),
    "vgg": _timm("vgg11", mlp_ratio=1 / 64),
    "visformer": _timm("visformer_tiny", img_size=32),
    "vision_transformer": _timm("test_vit", img_size=32),
    "vision_transformer_hybrid": _timm("vit_tiny_r_s16_p8_224", img_size=32),
    "vision_transformer_relpos": _timm("vit_srelpos_small_patch16_224", img_size=32),
    "vision_transformer_sam": _timm("samvit_base_patch16_224", img_size=32, **_TRUNK),
    "vitamin": _timm("vitamin_small_224", img_size=32),
    "volo": _timm("volo_d1_224", img_size=32),
    "vovnet": _timm("ese_vovnet19b_slim_dw"),
    "xception": _timm("legacy_xception"),
    "xception_aligned": _timm("xception41p"),
    "xcit": _timm("xcit_nano_12_p8_224", img_size=32),
}
"""One model of each model file of timm; the distilled one where there is one."""

_MODELS = torchvision.models
_VIT = {"image_size": 32, "patch_size": 16, "num_layers": 1, "num_heads": 2, "hidden_dim": 16, "mlp_dim": 32}
_MAXVIT = {
    "input_size": (32, 32),
    "partition_size": 2,
    "stem_channels": 8,
    "block_channels": [8, 16],
    "block_layers": [1, 1],
    "head_dim": 4,
    "stochastic_depth_prob": 0.0,
}

TORCHVISION = {
    "alexnet": _torchvision(_MODELS.alexnet, size=64),
    "convnext_tiny": _torchvision(_MODELS.convnext_tiny),
    "densenet121": _torchvision(_MODELS.densenet121),
    "efficientnet_b0": _torchvision(_MODELS.efficientnet_b0),
    "googlenet": _torchvision(_MODELS.googlenet, size=64, aux_logits=True, init_weights=False),
    "inception_v3": _torchvision(_MODELS.inception_v3, size=299, aux_logits=True, init_weights=False),
    "maxvit": _torchvision(_MODELS.MaxVit, **_MAXVIT),
    "mnasnet0_5": _torchvision(_MODELS.mnasnet0_5),
    "mobilenet_v2": _torchvision(_MODELS.mobilenet_v2),
    "mobilenet_v3_small": _torchvision(_MODELS.mobilenet_v3_small),
    "regnet_y_400mf": _torchvision(_MODELS.regnet_y_400mf),
    "resnet18": _torchvision(_MODELS.resnet18),
    "shufflenet_v2_x0_5": _torchvision(_MODELS.shufflenet_v2_x0_5),
    "squeezenet1_1": _torchvision(_MODELS.squeezenet1_1, size=64),
    "swin_t": _torchvision(_MODELS.swin_t),
    "vgg11": _torchvision(_MODELS.vgg11, init_weights=False),
    "vit": _torchvision(_MODELS.VisionTransformer, **_VIT),
    "fcn_resnet50": _torchvision(_MODELS.segmentation.fcn_resnet50, weights_backbone=None, aux_loss=True),
    "deeplabv3_mobilenet_v3_large": _torchvision(
        _MODELS.segmentation.deeplabv3_mobilenet_v3_large, weights_backbone=None, aux_loss=True
    ),
    "lraspp_mobilenet_v3_large": _torchvision(_MODELS.segmentation.lraspp_mobilenet_v3_large, weights_backbone=None),
}
"""17 classifiers and 3 segmentation models, with auxiliary heads where there are any."""

SEGMENTATION = {
    "Unet": _segmentation("Unet"),
    "UnetPlusPlus": _segmentation("UnetPlusPlus"),
    "MAnet": _segmentation("MAnet"),
    "Linknet": _segmentation("Linknet"),
    "FPN": _segmentation("FPN"),
    "PSPNet": _segmentation("PSPNet"),
    "DeepLabV3": _segmentation("DeepLabV3"),
    "DeepLabV3Plus": _segmentation("DeepLabV3Plus"),
    "PAN": _segmentation("PAN", size=128),
    "UPerNet": _segmentation("UPerNet"),
    "Segformer": _segmentation("Segformer"),
}
"""The architectures of segmentation_models_pytorch that take a convolutional encoder."""

HUGGING_FACE = {
    "Bert": _hugging_face("Bert", "SequenceClassification", 8, **_TINY, **_WORDS),
    "Roberta": _hugging_face("Roberta", "TokenClassification", 8, **_TINY, **_WORDS),
    "GPT2": _hugging_face(
        "GPT2", "SequenceClassification", 8, vocab_size=30, n_embd=16, n_layer=1, n_head=2, **_TOKENS
    ),
    "ViT": _hugging_face("ViT", "ImageClassification", 3, 32, 32, image_size=32, **_TINY),
    "Segformer": _hugging_face("Segformer", "SemanticSegmentation", 3, 64, 64, depths=[1, 1, 1, 1]),
}
"""Models that take `labels=`, one of each task."""

HUGGING_FACE_DISTILLED = {
    "DeiT": _hugging_face("DeiT", "ImageClassificationWithTeacher", 3, 32, 32, image_size=32, **_TINY),
    "Levit": _hugging_face("Levit", "ImageClassificationWithTeacher", 3, 64, 64, image_size=64, depths=[1, 1, 1]),
    "SwiftFormer": _hugging_face("SwiftFormer", "ImageClassification", 3, 64, 64, depths=[1, 1, 1, 1]),
}

ZOO = {
    **{f"timm-{name}": case for name, case in TIMM.items()},
    **{f"torchvision-{name}": case for name, case in TORCHVISION.items()},
    **{f"smp-{name}": case for name, case in SEGMENTATION.items()},
    **{f"transformers-{name}": case for name, case in (HUGGING_FACE | HUGGING_FACE_DISTILLED).items()},
}

REFUSED = {
    "timm-deepseek_vit_412m_enc": _timm("deepseek_vit_412m_enc", img_size=84, out_features=64, **_TRUNK),
    "timm-gemma4_vit_167m_enc": _timm("gemma4_vit_167m_enc", img_size=96, intermediate_size=64, **_TRUNK),
    "timm-qwen3_vit_88m_enc": _timm("qwen3_vit_88m_enc", img_size=64, **_TRUNK),
}
"""Encoders: they have no classifier, whatever number of classes they are asked for."""

SAMPLE = (
    "timm-crossvit",  # a head for each of two branches
    "timm-deit",  # a distilled head
    "timm-dpn",  # a convolution as head
    "timm-efficientvim",  # four heads, and four distilled ones
    "timm-mobilenetv3",  # timm's own Linear
    "timm-vision_transformer",
    "timm-volo",  # a head for the patches
    "torchvision-deeplabv3_mobilenet_v3_large",  # an auxiliary head, and outputs in a dict
    "torchvision-googlenet",  # two auxiliary heads, and outputs in a named tuple
    "torchvision-lraspp_mobilenet_v3_large",  # two heads that are added up
    "torchvision-squeezenet1_1",  # a convolution as head, with a ReLU after it
    "smp-Unet",
    "transformers-Bert",
    "transformers-Segformer",
)
"""One of each kind of head."""

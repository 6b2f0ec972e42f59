"""Segmenter (Strudel et al., 2021): a vision transformer whose decoder has one token for each class.

The classes interact here, in attention and in a LayerNorm, so the decoder defines how it is widened.
"""

from typing import Any

import timm
import torch
import torch.nn.functional as F
from timm.models.vision_transformer import Block
from torch import Tensor, nn

LAYERS = 2
STOCHASTIC_DEPTH = 0.1


class MaskTransformer(nn.Module):
    """Patch tokens (N, patches, width) → logits (N, C, patches).

    The patches are projected, C class tokens are put behind them, and transformer blocks run over all of these. What
    comes out is projected again, patches and classes apart, and brought to length 1; a logit is the product of a patch
    and a class. A LayerNorm over the classes gives them their scale, since these products lie between −1 and 1.
    """

    def __init__(self, num_classes: int, width: int, heads: int, layers: int = LAYERS) -> None:
        super().__init__()
        self.projection = nn.Linear(width, width)
        self.class_tokens = nn.Parameter(torch.zeros(num_classes, width))
        self.blocks = nn.ModuleList(Block(width, heads, qkv_bias=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.patch_projection = nn.Linear(width, width, bias=False)
        self.class_projection = nn.Linear(width, width, bias=False)
        self.mask_norm = nn.LayerNorm(num_classes)
        self.apply(_initialise)
        nn.init.trunc_normal_(self.class_tokens, std=0.02)
        for projection in (self.patch_projection, self.class_projection):
            nn.init.normal_(projection.weight, std=width**-0.5)

    def forward(self, patches: Tensor) -> Tensor:
        count, classes = patches.shape[1], len(self.class_tokens)
        tokens = torch.cat([self.projection(patches), self.class_tokens.expand(len(patches), -1, -1)], dim=1)
        for block in self.blocks:
            tokens = block(tokens)
        of_patches, of_classes = self.norm(tokens).split([count, classes], dim=1)
        rows = F.normalize(self.patch_projection(of_patches), dim=-1)
        columns = F.normalize(self.class_projection(of_classes), dim=-1)
        logits: Tensor = self.mask_norm(rows @ columns.mT).mT
        return logits

    def class_parameters(self) -> dict[str, float | None]:
        return {"class_tokens": None, "mask_norm.weight": 1.0, "mask_norm.bias": 0.0}

    def resize_classes(self, count: int) -> None:
        self.mask_norm.normalized_shape = (count,)


class Segmenter(nn.Module):
    """Images (N, channels, H, W), H and W multiples of the size of a patch → logits (N, C, H, W)."""

    def __init__(self, encoder: nn.Module, num_classes: int, layers: int = LAYERS) -> None:
        super().__init__()
        transformer: Any = encoder
        heads = next(part.num_heads for part in transformer.blocks[0].modules() if hasattr(part, "num_heads"))
        self.encoder = transformer
        self.decoder = MaskTransformer(num_classes, transformer.embed_dim, heads, layers)

    @property
    def patch(self) -> int:
        """The size of a patch."""
        return int(self.encoder.patch_embed.feat_ratio())

    def forward(self, images: Tensor) -> Tensor:
        size = images.shape[-2:]
        patches = self.encoder.forward_features(images)[:, self.encoder.num_prefix_tokens :]
        grid = self.encoder.patch_embed.dynamic_feat_size(size)
        return F.interpolate(self.decoder(patches).unflatten(2, grid), size=size, mode="bilinear", align_corners=False)


def segmenter(encoder: str, num_classes: int, shape: tuple[int, ...], *, pretrained: bool) -> Segmenter:
    """Segmenter with that vision transformer of timm, whose positions are made for images of that shape.

    Images of other sizes are taken too, with positions in between.
    """
    options: dict[str, Any] = {"dynamic_img_size": True, "drop_path_rate": STOCHASTIC_DEPTH}
    made: Any = timm.create_model(encoder, pretrained=pretrained, in_chans=shape[0], num_classes=0, **options)
    patch = made.patch_embed.feat_ratio()
    made.set_input_size(tuple(length + -length % patch for length in shape[1:]))
    return Segmenter(made, num_classes)


def encoders() -> list[str]:
    """The vision transformers of timm that have the plain form which is needed here."""
    return [name for module in ("vision_transformer", "deit") for name in timm.list_models(module=module)]


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)

"""Segmenter: its decoder against a transcription in plain operations, and widened."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import durm
from durm import models
from durm.models.segmenter import MaskTransformer, Segmenter

WIDTH, HEADS, CLASSES = 12, 2, 4


def normalised(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


def transcription(state: dict[str, Tensor], patches: Tensor, eps: float) -> Tensor:
    """The decoder as section 3.2 of Segmenter describes it, one image and one head at a time; (N, classes, patches)."""
    masks = []
    for image in patches:
        x = torch.cat([image @ state["projection.weight"].T + state["projection.bias"], state["class_tokens"]])
        for layer in range(2):
            own = {key.removeprefix(f"blocks.{layer}."): value for key, value in state.items()}
            y = normalised(x, own["norm1.weight"], own["norm1.bias"], eps)
            q, k, v = (y @ own["attn.qkv.weight"].T + own["attn.qkv.bias"]).chunk(3, dim=1)
            size = WIDTH // HEADS
            seen = []
            for head in range(HEADS):
                part = slice(head * size, (head + 1) * size)
                scores = torch.exp(q[:, part] @ k[:, part].T / math.sqrt(size))
                seen.append(scores / scores.sum(1, keepdim=True) @ v[:, part])
            x = x + torch.cat(seen, dim=1) @ own["attn.proj.weight"].T + own["attn.proj.bias"]
            y = normalised(x, own["norm2.weight"], own["norm2.bias"], eps)
            y = y @ own["mlp.fc1.weight"].T + own["mlp.fc1.bias"]
            y = y * (1 + torch.erf(y / math.sqrt(2))) / 2
            x = x + y @ own["mlp.fc2.weight"].T + own["mlp.fc2.bias"]
        x = normalised(x, state["norm.weight"], state["norm.bias"], 1e-5)
        rows = x[: len(image)] @ state["patch_projection.weight"].T
        columns = x[len(image) :] @ state["class_projection.weight"].T
        cosines = (rows / rows.norm(dim=1, keepdim=True)) @ (columns / columns.norm(dim=1, keepdim=True)).T
        masks.append(normalised(cosines, state["mask_norm.weight"], state["mask_norm.bias"], 1e-5).T)
    return torch.stack(masks)


def decoder() -> MaskTransformer:
    """With all parameters away from 0 and 1, which would hide what is done to them."""
    torch.manual_seed(0)
    made = MaskTransformer(CLASSES, WIDTH, HEADS).double()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made.eval()


@pytest.mark.parametrize("dummies", [0, 2])
def test_the_decoder_is_what_the_paper_describes(dummies: int) -> None:
    made = durm.widen(decoder(), dummies)
    patches = torch.randn(3, 6, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    eps = made.blocks[0].norm1.eps
    expected = transcription(dict(made.named_parameters()), patches, eps)
    with durm.full_logits(made):
        torch.testing.assert_close(made(patches), expected)
    torch.testing.assert_close(made(patches), expected[:, :CLASSES])


def test_logits_are_enlarged_to_the_images_in_their_place() -> None:
    """The middle of a corner's patch and all beyond it have the logits of that patch."""
    model = models.build("segmenter-test_vit", CLASSES, (3, 48, 64), task="segmentation").eval()
    small = torch.arange(3.0 * 4).expand(1, CLASSES, 12)
    model.network.decoder.forward = lambda patches: small
    logits = model(torch.randn(1, 3, 48, 64))
    assert logits.shape == (1, CLASSES, 48, 64)
    for patch, (row, column) in {0: (0, 0), 3: (0, 63), 8: (47, 0), 11: (47, 63)}.items():
        assert torch.equal(logits[0, :, row, column], small[0, :, patch])
    torch.testing.assert_close(logits[:, :, 15:17, 15:17].mean(), torch.tensor((0 + 1 + 4 + 5) / 4))  # four meet there


@pytest.mark.parametrize(("name", "others"), [("test_vit", 1), ("deit_tiny_distilled_patch16_224", 2)])
def test_tokens_that_are_no_patches_are_left_out(name: str, others: int) -> None:
    model = models.build(f"segmenter-{name}", CLASSES, (3, 32, 48), task="segmentation").eval()
    seen: list[Tensor] = []
    model.network.decoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    images = torch.randn(2, 3, 32, 48)
    model(images)
    tokens = model.network.encoder.forward_features(images)
    assert tokens.shape[1] == others + 2 * 3
    assert torch.equal(seen[0], tokens[:, others:])


def test_positions_are_made_for_the_size_of_the_data_and_others_are_taken() -> None:
    model = models.build("segmenter-test_vit", CLASSES, (1, 50, 70), task="segmentation").eval()
    assert model.network.encoder.patch_embed.grid_size == (4, 5)
    for size in ((50, 70), (16, 16), (33, 90)):
        assert model(torch.zeros(2, 1, *size)).shape == (2, CLASSES, *size)


def test_the_decoder_begins_as_an_encoder_does() -> None:
    torch.manual_seed(0)
    made = MaskTransformer(50, 192, 3)
    assert made.class_tokens.std().item() == pytest.approx(0.02, rel=0.05)
    assert made.blocks[1].mlp.fc1.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert not made.blocks[0].attn.qkv.bias.any()
    assert made.patch_projection.weight.std().item() == pytest.approx(192**-0.5, rel=0.05)
    assert torch.equal(made.mask_norm.weight, torch.ones(50))


def tiny() -> nn.Module:
    torch.manual_seed(0)
    return models.build("segmenter-test_vit", CLASSES, (3, 32, 48), task="segmentation")


def test_widened_models_of_one_seed_differ_in_the_dummies_alone() -> None:
    plain = tiny().state_dict()
    widened = {dummies: durm.widen(tiny(), dummies).state_dict() for dummies in (1, 3)}
    for key, value in plain.items():
        for state in widened.values():
            assert torch.equal(state[key][: len(value)] if value.ndim else state[key], value)
    tokens = "network.decoder.class_tokens"
    assert torch.equal(widened[1][tokens], widened[3][tokens][: CLASSES + 1])
    grown = [key for key, value in plain.items() if widened[3][key].shape != value.shape]
    assert grown == [tokens, "network.decoder.mask_norm.weight", "network.decoder.mask_norm.bias"]


def test_widened_it_trains_evaluates_and_is_not_narrowed() -> None:
    model = tiny()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    durm.widen(model, 2, optimizer=optimizer)
    images, labels = torch.randn(2, 3, 30, 48), torch.randint(CLASSES, (2, 30, 48))
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        logits = model.train()(images)
        assert logits.shape == (2, CLASSES + 2, 30, 48)
        loss = durm.cross_entropy(logits, labels, CLASSES)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    decoder = model.network.decoder
    for parameter in (decoder.class_tokens, decoder.mask_norm.bias):
        assert parameter.grad[CLASSES:].reshape(2, -1).any(dim=1).all()

    model.eval()
    with durm.full_logits(model):
        every = model(images)
    assert every.shape == (2, CLASSES + 2, 30, 48)
    assert torch.equal(model(images), every[:, :CLASSES])
    assert durm.dummies(model) == 2
    with pytest.raises(ValueError, match=r"cannot narrow 'network\.decoder': its classes take part in each other's"):
        durm.narrow(model)
    with pytest.raises(ValueError, match=r"cannot narrow 'network\.decoder'"):
        durm.narrow_state_dict(model.state_dict())


def test_the_loss_of_the_widened_model_is_that_of_the_real_logits_and_the_mass_of_the_dummies() -> None:
    model = durm.widen(tiny(), 2).eval()
    images, labels = torch.randn(2, 3, 32, 48), torch.randint(CLASSES, (2, 32, 48))
    with durm.full_logits(model), torch.no_grad():
        every = model(images)
    expected = F.cross_entropy(every[:, :CLASSES], labels) - torch.log1p(-durm.dummy_mass(every, CLASSES)).mean()
    torch.testing.assert_close(durm.cross_entropy(every, labels, CLASSES), expected)


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "vit_large_patch16_384"])
def test_large_ones_have_the_right_shapes(name: str) -> None:
    """Without weights: on the meta device nothing is computed."""
    import timm

    with torch.device("meta"):
        encoder = timm.create_model(name, num_classes=0, dynamic_img_size=True)
        model = Segmenter(encoder, 7)
        assert model(torch.empty(2, 3, 64, 96)).shape == (2, 7, 64, 96)
    assert model.decoder.blocks[0].attn.num_heads == encoder.embed_dim // 64

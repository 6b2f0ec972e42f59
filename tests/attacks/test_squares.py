"""The Square attack: its schedule and patches, and that what it does is what the paper says."""

import pytest
import torch
from torch import Tensor, nn

from durm.attacks import square
from durm.attacks.squares import _patches, patch_size, share
from tests.attacks.small import batch, linear, network, predictions, within


class Recorder(nn.Module):
    """The model, keeping all inputs that it was asked about."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.asked: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.asked.append(inputs.clone())
        return self.model(inputs)


def test_the_share_is_halved_at_the_published_queries() -> None:
    halvings = [query for query in range(2, 10_001) if share(query, 10_000) < share(query - 1, 10_000)]
    assert halvings == [11, 51, 201, 501, 1001, 2001, 4001, 6001, 8001]
    assert (share(1, 10_000), share(10_000, 10_000)) == (0.8, 0.8 / 512)
    assert [query for query in range(2, 1001) if share(query, 1000) < share(query - 1, 1000)][1:4] == [6, 21, 51]


def test_patches_fit() -> None:
    assert patch_size(32, 32, 0.8) == (29, 29)
    assert patch_size(32, 32, 1e-6) == (1, 1)
    assert patch_size(4, 64, 0.8) == (4, 14)
    assert patch_size(1, 50, 0.5) == (1, 25)


def test_a_patch_lies_anywhere_within_the_image_and_has_one_sign_for_each_channel() -> None:
    patches = _patches((3, 6, 8), 0.2, 2000, torch.arange(0, 2000, 2), torch.Generator().manual_seed(0))
    inside = patches[:, 0] != 0
    assert patches.shape == (1000, 3, 6, 8)
    assert (inside.sum((1, 2)) == 9).all()
    assert ((inside.any(2).sum(1) == 3) & (inside.any(1).sum(1) == 3)).all()
    torch.testing.assert_close(patches.sum((2, 3)).abs(), torch.full((1000, 3), 9))
    corners = inside[:, [0, 0, -1, -1], [0, -1, 0, -1]].double().mean(0)
    torch.testing.assert_close(corners, torch.full((4,), 1 / 24).double(), rtol=0, atol=0.02)  # 4 × 6 places


def test_it_begins_with_stripes_and_moves_one_square_at_a_time() -> None:
    model = Recorder(network((3, 8, 8)))
    inputs, targets = batch(5, (3, 8, 8))
    inputs = 0.3 + 0.4 * inputs
    square(model, inputs, targets, eps=0.1, steps=200)
    assert len(model.asked) == 200
    stripes = (model.asked[0] - inputs) / 0.1
    torch.testing.assert_close(stripes.abs(), torch.ones_like(stripes))
    torch.testing.assert_close(stripes, stripes[:, :, :1].expand_as(stripes))
    assert 0.3 < (stripes[:, :, 0] > 0).double().mean() < 0.7
    # Every point is a corner of the ball, and differs from an earlier one by one square patch.
    for query in (1, 2, 50):
        point = model.asked[query]
        torch.testing.assert_close((point - inputs).abs(), torch.full_like(inputs, 0.1))
        side, _ = patch_size(8, 8, share(query, 200))
        for sample in range(5):
            changed = min(
                ((before[sample] - point[sample]).abs().sum(0) > 1e-6 for before in model.asked[:query]),
                key=lambda pixels: pixels.sum(),
            )
            rows, columns = changed.nonzero(as_tuple=True)
            if len(rows):
                assert max(rows.max() - rows.min(), columns.max() - columns.min()) < side


def test_it_finds_the_optimum_of_a_linear_model() -> None:
    """One feature at a time at the end, so random search finds the best corner."""
    model = linear(torch.tensor([[1.0, -2.0, 3.0, 1.0], [0.0, 0.0, 0.0, 0.0]]))
    inputs, targets = torch.full((3, 4), 0.5), torch.tensor([0, 0, 1])
    found = square(model, inputs, targets, eps=0.1, steps=200)
    down = torch.tensor([-0.1, 0.1, -0.1, -0.1])
    torch.testing.assert_close(found, inputs + torch.stack([down, down, -down]))


@pytest.mark.parametrize("shape", [(36,), (6, 6), (1, 6, 6), (3, 4, 9)])
def test_shapes(shape: tuple[int, ...]) -> None:
    model, (inputs, targets) = network(shape), batch(30, shape)
    targets = predictions(model, inputs)
    found = square(model, inputs, targets, eps=0.2, steps=150)
    assert within(found, inputs, 0.2, "linf")
    assert (predictions(model, found) != targets).double().mean() > 0.5


def test_what_it_does_not_take() -> None:
    model, (inputs, targets) = network(), batch()
    with pytest.raises(ValueError, match=r"inputs of shape \(8, 1, 6, 6, 1\): the Square attack takes images or flat"):
        square(model, inputs[..., None], targets, eps=0.1)

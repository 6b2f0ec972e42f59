"""Joint augmentation of images and masks, against Pillow, torchvision and cases worked by hand."""

import colorsys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from durm.data.bundle import IGNORED, Samples
from durm.data.segmentation_augment import CROPS, DRAWN, AugmentedScenes, SceneAugmentation, scene_batches
from durm.errors import InputError

PAINT = torch.tensor([[200, 30, 60], [10, 220, 40], [70, 80, 240], [250, 250, 250]], dtype=torch.uint8)


def draw(
    scale: float = 0.0, flip: float = 0.9, colours: tuple[float, ...] = (0,) * 5, crops: tuple[float, ...] = (0, 0)
) -> Tensor:
    """A row of `draws`; the crops that are not named are at the top left."""
    return torch.tensor([scale, flip, *colours, *crops, *[0.0] * (2 * CROPS - len(crops))], dtype=torch.float64)


def noise(height: int, width: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """An image and a mask that have nothing to do with each other."""
    random = torch.Generator().manual_seed(seed)
    image = torch.randint(256, (3, height, width), dtype=torch.uint8, generator=random)
    return image, torch.randint(4, (height, width), dtype=torch.uint8, generator=random)


def painted(mask: Tensor, fill: tuple[int, int, int] = (0, 0, 0)) -> Tensor:
    """The image of a mask: every class in its colour."""
    image = PAINT[mask.long().clamp(max=3)].permute(2, 0, 1).clone()
    image[:, mask == IGNORED] = torch.tensor(fill, dtype=torch.uint8)[:, None]
    return image


def picture(image: Tensor) -> Image.Image:
    return Image.fromarray(image.permute(1, 2, 0).numpy() if image.ndim == 3 else image.numpy())


def tensor(image: Image.Image) -> Tensor:
    values = torch.from_numpy(np.array(image))
    return values.permute(2, 0, 1) if values.ndim == 3 else values


# What is drawn.


def test_draws_are_a_function_of_seed_epoch_and_index() -> None:
    augmentation = SceneAugmentation((4, 4), (0.5, 2.0), True, True)
    first = augmentation.draws(20, 3, 5)
    assert first.shape == (20, DRAWN)
    assert ((first >= 0) & (first < 1)).all()
    assert torch.equal(first, augmentation.draws(20, 3, 5))
    assert torch.equal(first[:7], augmentation.draws(7, 3, 5))
    assert torch.equal(first, SceneAugmentation(None, (1.0, 1.0), False, False).draws(20, 3, 5))
    for other in (augmentation.draws(20, 4, 5), augmentation.draws(20, 3, 6)):
        assert not (other == first).any()


def test_nothing_is_drawn_from_the_global_generator() -> None:
    before = torch.get_rng_state()
    augmentation = SceneAugmentation((4, 4), (0.5, 2.0), True, True)
    augmentation.apply(*noise(6, 7), augmentation.draws(1, 0, 0)[0])
    assert torch.equal(torch.get_rng_state(), before)


# Geometry.


def test_without_anything_a_scene_stays_as_it_is() -> None:
    image, mask = noise(6, 9)
    changed, labels = SceneAugmentation(None, (1.0, 1.0), False, False).apply(image, mask, draw(flip=0.0))
    assert torch.equal(changed, image)
    assert torch.equal(labels, mask)
    assert changed.is_contiguous()


@pytest.mark.parametrize(
    ("down", "right", "top", "left"), [(0, 0, 0, 0), (0.5, 0.99, 2, 4), (0.24, 0.19, 0, 0), (0.26, 0.21, 1, 1)]
)
def test_a_crop_by_hand(down: float, right: float, top: int, left: int) -> None:
    """Of 6 rows a crop of 3 has 4 places, of 8 columns one of 4 has 5, all equally likely."""
    image, mask = noise(6, 8)
    augmentation = SceneAugmentation((3, 4), (1.0, 1.0), False, False, cat_max_ratio=1)
    crop, labels = augmentation.apply(image, mask, draw(crops=(down, right)))
    assert torch.equal(crop, image[:, top : top + 3, left : left + 4])
    assert torch.equal(labels, mask[top : top + 3, left : left + 4])


def test_half_of_the_samples_are_flipped() -> None:
    image, mask = noise(6, 8)
    augmentation = SceneAugmentation(None, (1.0, 1.0), True, False)
    for number, flipped in ((0.49, True), (0.5, False)):
        changed, labels = augmentation.apply(image, mask, draw(flip=number))
        assert torch.equal(changed, image.flip(-1) if flipped else image)
        assert torch.equal(labels, mask.flip(-1) if flipped else mask)


@pytest.mark.parametrize("flip", [0.1, 0.9])
def test_a_small_scene_is_padded_at_the_right_and_at_the_bottom(flip: float) -> None:
    image, mask = noise(4, 5)
    changed, labels = SceneAugmentation((6, 7), (1.0, 1.0), True, False, fill=(1, 2, 3)).apply(
        image, mask, draw(flip=flip, crops=(0.9, 0.9))
    )
    assert torch.equal(changed[:, :4, :5], image.flip(-1) if flip < 0.5 else image)
    assert torch.equal(labels[:4, :5], mask.flip(-1) if flip < 0.5 else mask)
    assert (labels[4:] == IGNORED).all()
    assert (labels[:, 5:] == IGNORED).all()
    for channel, value in zip(changed, (1, 2, 3), strict=True):
        assert (channel[4:] == value).all()
        assert (channel[:, 5:] == value).all()


def test_a_scene_that_is_too_narrow_only_is_cropped_and_padded() -> None:
    image, mask = noise(9, 3)
    augmentation = SceneAugmentation((4, 5), (1.0, 1.0), False, False, cat_max_ratio=1)
    changed, labels = augmentation.apply(image, mask, draw(crops=(0.99, 0.99)))
    assert torch.equal(changed[:, :, :3], image[:, 5:])
    assert torch.equal(labels[:, :3], mask[5:])
    assert (labels[:, 3:] == IGNORED).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), st.integers(0, 1000))
def test_image_and_mask_are_moved_alike(height: int, width: int, rows: int, columns: int, seed: int) -> None:
    """An image that is its painted mask is that still, wherever crop, flip and padding put it."""
    _, mask = noise(height, width, seed)
    mask[mask == 3] = IGNORED
    fill = (9, 8, 7)
    augmentation = SceneAugmentation((rows, columns), (1.0, 1.0), True, False, fill=fill)
    image, labels = augmentation.apply(painted(mask, fill), mask, augmentation.draws(1, seed, 0)[0])
    assert image.shape == (3, rows, columns)
    assert torch.equal(image, painted(labels, fill))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 1000), st.booleans())
def test_the_result_is_of_the_size_of_the_crop(height: int, width: int, seed: int, jitter: bool) -> None:
    augmentation = SceneAugmentation((7, 9), (0.3, 3.0), True, jitter)
    image, mask = noise(height, width, seed)
    changed, labels = augmentation.apply(image, mask, augmentation.draws(1, seed, 1)[0])
    assert changed.shape == (3, 7, 9)
    assert labels.shape == (7, 9)
    assert changed.dtype == labels.dtype == torch.uint8
    assert set(labels.flatten().tolist()) <= {0, 1, 2, 3, IGNORED}


# Scaling.


@pytest.mark.parametrize("factor", [0.5, 0.77, 1.0, 1.31, 2.0])
@pytest.mark.parametrize("place", [(0.0, 0.0), (0.4, 0.7), (0.99, 0.99)])
def test_a_crop_of_the_scaled_scene_as_pillow_makes_it(factor: float, place: tuple[float, float]) -> None:
    image, mask = noise(40, 60)
    augmentation = SceneAugmentation((16, 20), (factor, factor), False, False, cat_max_ratio=1)
    crop, labels = augmentation.apply(image, mask, draw(scale=0.3, crops=place))
    tall, wide = int(40 * factor + 0.5), int(60 * factor + 0.5)
    top, left = int(place[0] * (tall - 15)), int(place[1] * (wide - 19))
    whole = tensor(picture(image).resize((wide, tall), Image.Resampling.BILINEAR))
    expected = whole[:, top : top + 16, left : left + 20]
    assert (crop.int() - expected.int()).abs().max() <= 1
    nearest = tensor(picture(mask).resize((wide, tall), Image.Resampling.NEAREST))
    # Where two pixels are equally near, Pillow's sums may round to either.
    assert (labels == nearest[top : top + 16, left : left + 20]).float().mean() > 0.9
    rows, columns = ([int((i + 0.5) * a / b) for i in range(b)] for a, b in ((40, tall), (60, wide)))
    assert torch.equal(labels, mask[rows[top : top + 16]][:, columns[left : left + 20]])


@pytest.mark.parametrize(("scale", "size"), [(0.0, (20, 30)), (0.5, (50, 75)), (1 - 1e-9, (80, 120))])
def test_scaling_as_torchvision_does_it(scale: float, size: tuple[int, int]) -> None:
    """The scale is uniform between the two: half way from 0.5 to 2 lies 1.25."""
    from durm import _torchvision as _torchvision  # isort: skip
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import functional

    image, mask = noise(40, 60)
    changed, labels = SceneAugmentation(None, (0.5, 2.0), False, False).apply(image, mask, draw(scale=scale))
    assert labels.shape == size
    expected = functional.resize(image, list(size), v2.InterpolationMode.BILINEAR, antialias=True)
    assert (changed.int() - expected.int()).abs().max() <= 1
    exact = functional.resize(mask[None], list(size), v2.InterpolationMode.NEAREST_EXACT)[0]
    assert torch.equal(labels, exact)


def test_scaled_image_and_mask_still_lie_upon_each_other() -> None:
    """Blocks of 8 pixels, twice as large: all but the edges of a block have the colour of its class."""
    mask = torch.arange(4, dtype=torch.uint8).view(2, 2).repeat_interleave(8, 0).repeat_interleave(8, 1)
    image, labels = SceneAugmentation(None, (2.0, 2.0), True, False).apply(painted(mask), mask, draw(flip=0.0))
    distance = (image[None].int() - PAINT[:, :, None, None].int()).abs().sum(1)
    assert torch.equal(distance.argmin(0), labels.long())


# Crops that one class fills.


def stripes(*shares: int) -> Tensor:
    """A mask of ten rows, with columns of classes 0, 1, …, each as many as its share."""
    return torch.arange(len(shares), dtype=torch.uint8).repeat_interleave(torch.tensor(shares)).repeat(10, 1)


def test_a_crop_that_one_class_fills_is_drawn_again() -> None:
    mask = stripes(30, 10)
    augmentation = SceneAugmentation((10, 10), (1.0, 1.0), False, False)
    places = (0.0, 0.0, 0.0, 0.5, 0.0, 0.8)  # columns 0, 15 and 24: the first two see class 0 alone
    _, labels = augmentation.apply(painted(mask), mask, draw(crops=places))
    assert torch.equal(labels, mask[:, 24:34])
    _, first = SceneAugmentation((10, 10), (1.0, 1.0), False, False, cat_max_ratio=1).apply(
        painted(mask), mask, draw(crops=places)
    )
    assert torch.equal(first, mask[:, :10])


@pytest.mark.parametrize(("shares", "again"), [((7, 3), False), ((15, 5), True), ((16, 4), True), ((20, 0), True)])
def test_the_share_must_be_below_the_limit(shares: tuple[int, int], again: bool) -> None:
    """7/10 passes; 15/20 is not below 0.75, as in mmsegmentation. After ten more the last crop is taken, as it is."""
    width = sum(shares)
    mask = torch.cat([stripes(*shares), torch.full((10, 1), 2, dtype=torch.uint8)], 1)
    augmentation = SceneAugmentation((10, width), (1.0, 1.0), False, False)
    last = draw(crops=(*[0.0] * (2 * CROPS - 2), 0.0, 0.9))
    _, labels = augmentation.apply(painted(mask), mask, last)
    assert torch.equal(labels, mask[:, 1:] if again else mask[:, :-1])


def test_pixels_that_do_not_count_fill_no_crop() -> None:
    """Of 20 columns 12 are ignored; 5 of the other 8 are of class 0."""
    mask = torch.cat([stripes(5, 3), torch.full((10, 12), IGNORED, dtype=torch.uint8), stripes(20)], 1)
    augmentation = SceneAugmentation((10, 20), (1.0, 1.0), False, False)
    _, labels = augmentation.apply(painted(mask), mask, draw(crops=(0.0, 0.0, 0.0, 0.9)))
    assert torch.equal(labels, mask[:, :20])


# Colours.


def recoloured(image: Tensor, colours: tuple[float, ...]) -> Tensor:
    mask = torch.zeros(image.shape[1:], dtype=torch.uint8)
    changed, labels = SceneAugmentation(None, (1.0, 1.0), False, True).apply(image, mask, draw(colours=colours))
    assert torch.equal(labels, mask)
    return changed


def reference(image: Tensor, colours: tuple[float, ...]) -> np.ndarray:
    """The same in fractions, pixel by pixel, with the colour space of the standard library."""
    last, brightness, contrast, saturation, hue = (value if value >= 0.5 else None for value in colours)
    values = image.permute(1, 2, 0).numpy().astype(float)
    if brightness is not None:
        values = (values + 32 * (4 * brightness - 3)).clip(0, 255)
    factor = 1 if contrast is None else 1 + (4 * contrast - 3) / 2
    if last is None:
        values = (values * factor).clip(0, 255)
    for row in values:
        for pixel in row:
            h, s, v = colorsys.rgb_to_hsv(*pixel / 255)
            h = h if hue is None else (h + (4 * hue - 3) / 10) % 1
            s = s if saturation is None else min(1, s * (1 + (4 * saturation - 3) / 2))
            pixel[:] = [255 * value for value in colorsys.hsv_to_rgb(h, s, v)]
    return (values if last is None else (values * factor).clip(0, 255)).transpose(2, 0, 1)


def test_below_one_half_a_property_stays() -> None:
    image, _ = noise(8, 8)
    for last in (0.1, 0.9):
        assert torch.equal(recoloured(image, (last, 0.49, 0.49, 0.49, 0.49)), image)


def test_brightness_and_contrast_by_hand() -> None:
    image = torch.tensor([0, 10, 100, 250], dtype=torch.uint8).view(1, 1, 4).repeat(3, 1, 1)
    assert recoloured(image, (0, 0.875, 0, 0, 0))[0, 0].tolist() == [16, 26, 116, 255]
    assert recoloured(image, (0, 0.5, 0, 0, 0))[0, 0].tolist() == [0, 0, 68, 218]
    assert recoloured(image, (0, 0, 0.875, 0, 0))[0, 0].tolist() == [0, 12, 125, 255]
    assert recoloured(image, (0.9, 0, 0.5, 0, 0))[0, 0].tolist() == [0, 5, 50, 125]


@pytest.mark.parametrize("last", [0.1, 0.9])
@pytest.mark.parametrize(
    "chances",
    [(0, 0, 0.99, 0), (0, 0, 0.5, 0), (0, 0, 0, 0.99), (0, 0, 0, 0.5), (0.6, 0.95, 0.9, 0.8), (0.9, 0.55, 0.6, 0.6)],
)
def test_colours_as_the_standard_library_has_them(last: float, chances: tuple[float, ...]) -> None:
    image, _ = noise(12, 12)
    difference = np.abs(recoloured(image, (last, *chances)).numpy() - reference(image, (last, *chances)))
    assert difference.mean() < 2  # hue and saturation have 256 steps
    assert difference.max() < 20


# Fields, and batches.


@pytest.mark.parametrize(
    ("crop", "scales", "message"),
    [
        ((0, 4), (1.0, 1.0), "crop (0, 4): expected a height and a width of at least one pixel"),
        ((4, 4), (0.0, 1.0), "scales (0.0, 1.0): expected two factors above 0, the smaller one first"),
        ((4, 4), (2.0, 0.5), "scales (2.0, 0.5): expected two factors above 0"),
    ],
)
def test_impossible_augmentations_are_refused(crop: tuple[int, int], scales: tuple[float, float], message: str) -> None:
    with pytest.raises(InputError) as error:
        SceneAugmentation(crop, scales, False, False)
    assert str(error.value).startswith(message)


class Held:
    """Files in memory."""

    def __init__(self, content: list[Tensor]) -> None:
        self.content = content

    def __len__(self) -> int:
        return len(self.content)

    def __getitem__(self, index: int) -> Tensor:
        return self.content[index]

    def key(self, index: int) -> bytes:
        return str(index).encode()


def scenes() -> Samples:
    """Six of different sizes."""
    content = [noise(10 + index, 20 - index, index) for index in range(6)]
    return Samples(
        Held([image for image, _ in content]), torch.zeros(6).long(), masks=Held([mask for _, mask in content])
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_do_not_depend_on_the_workers(workers: int) -> None:
    samples, augmentation = scenes(), SceneAugmentation((8, 12), (0.5, 2.0), True, True)
    draws = augmentation.draws(6, 0, 0)
    order = [torch.tensor([4, 1, 5]), torch.tensor([0, 3, 2])]
    before = torch.get_rng_state()
    batches = list(scene_batches(samples, augmentation, order, [draws[each] for each in order], workers))
    assert torch.equal(torch.get_rng_state(), before)
    assert len(batches) == 2
    for indices, (images, masks) in zip(order, batches, strict=True):
        assert images.shape == (3, 3, 8, 12)
        assert masks.shape == (3, 8, 12)
        assert images.dtype == masks.dtype == torch.uint8
        for index, image, mask in zip(indices.tolist(), images, masks, strict=True):
            assert samples.masks is not None
            expected = augmentation.apply(samples.inputs[index], samples.masks[index], draws[index])
            assert torch.equal(image, expected[0])
            assert torch.equal(mask, expected[1])


def test_without_augmentation_scenes_come_as_they_are() -> None:
    samples = scenes()
    image, mask = AugmentedScenes(samples, None)[2, ()]
    assert samples.masks is not None
    assert torch.equal(image, samples.inputs[2])
    assert torch.equal(mask, samples.masks[2])

"""Pictures of scenes: every panel shows what it says, and all of it stays small. The table of the classes' IoU."""

import base64
import io
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image
from scipy import stats
from torch import Tensor, nn

import durm
from durm.data.bundle import IGNORED
from durm.report.figures import for_page
from durm.report.scenes import RED, WIDEST, draw_scenes, scene_figure
from durm.report.tables import class_iou_table
from durm.study.scenes import Scene, picture_scene
from tests.metrics.test_segmentation import bundle_of, scenes, small_model

NAMES = ["sky", "road", "car & <van>", "tree"]
PALETTE = [(70, 130, 180), (128, 64, 128), (0, 0, 142), (107, 142, 35)]


def scene(height: int = 30, width: int = 40, arms: tuple[str, ...] = ("erm", "durm-1"), seed: int = 0) -> Scene:
    """Sky above road, an ignored strip at the left; with dummies, a square of hits, and p_D that grows downwards."""
    image = torch.randint(256, (3, height, width), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
    truth = torch.zeros(height, width, dtype=torch.uint8)
    truth[height // 2 :] = 1
    predictions = {arm: truth.long() for arm in arms}
    predictions[arms[0]] = torch.zeros(height, width, dtype=torch.long)
    truth[:, : width // 4] = IGNORED
    widened = [arm for arm in arms if arm.startswith("durm")]
    hits = torch.zeros(height, width, dtype=torch.bool)
    hits[:3, -4:] = True
    mass = torch.logspace(-5, -1, height)[:, None].expand(height, width)
    return Scene(image, truth, predictions, dict.fromkeys(widened, hits), dict.fromkeys(widened, mass))


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def shown(figure: Figure) -> list[np.ndarray]:
    """The pixels of all panels, row after row."""
    return [np.asarray(axes.images[0].get_array()) for axes in figure.axes if axes.images]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_panels_of_a_scene() -> None:
    figure = scene_figure([scene()], NAMES, PALETTE)
    assert texts(figure) == ["image", "truth", "erm", "durm-1", "durm-1, dummies red", "durm-1, dummy mass"]
    image, truth, erm, durm_1, hits, mass = shown(figure)
    ours = scene()
    assert np.array_equal(image, ours.image.permute(1, 2, 0))
    assert (truth[:15, 10:] == PALETTE[0]).all()
    assert (truth[15:, 10:] == PALETTE[1]).all()
    grey = truth[:, :10]
    assert len(np.unique(grey)) == 2
    assert (grey[..., 0] == grey[..., 1]).all()
    assert (erm == PALETTE[0]).all()
    assert (durm_1[15:] == PALETTE[1]).all()
    red = np.round(255 * np.array(to_rgb(RED)))
    assert np.array_equal((hits == red).all(2), ours.hits["durm-1"])
    assert np.allclose(mass, ours.mass["durm-1"])
    captions = [text.get_text() for axes in figure.axes for text in axes.texts if text.get_text()]
    assert captions == [
        "50.0 % right",
        "100.0 % right",
        "1.0 % of the pixels",
        "mean 1.2 %",
    ]  # Σ 10^(4k/29 − 5) ≈ 0.37 of 30


def test_the_legend_has_what_is_to_be_seen() -> None:
    assert legend(scene_figure([scene()], NAMES, PALETTE)) == ["sky", "road", "not labelled", "taken by a dummy"]
    ours = scene(arms=("erm",))
    ours = Scene(ours.image, torch.zeros_like(ours.truth), {"erm": torch.full(ours.truth.shape, 3)})
    assert legend(scene_figure([ours], NAMES, PALETTE)) == ["sky", "tree"]


@pytest.mark.parametrize(
    ("arms", "columns", "scale"),
    [(("erm",), 3, 0), (("durm-1",), 5, 1), (("erm", "durm-1", "durm-2"), 9, 1)],
)
def test_every_arm_has_its_columns(arms: tuple[str, ...], columns: int, scale: int) -> None:
    """And the scale of p_D is there if there is p_D."""
    figure = scene_figure([scene(arms=arms), scene(arms=arms, seed=1)], NAMES, PALETTE)
    assert len(texts(figure)) == columns
    assert len(shown(figure)) == 2 * columns
    assert len(figure.axes) == 2 * columns + scale


def test_panels_keep_within_the_figure_and_their_shape() -> None:
    """Scenes of any shape, each row as tall as its scene; no two panels overlap."""
    figure = scene_figure([scene(30, 40), scene(60, 30), scene(20, 80)], NAMES, PALETTE)
    wide, tall = figure.get_size_inches()
    boxes = [axes.get_position() for axes in figure.axes]
    for box in boxes:
        assert min(box.x0, box.y0) >= 0
        assert max(box.x1, box.y1) <= 1
    for first, box in enumerate(boxes):
        for other in boxes[first + 1 :]:
            assert box.x1 <= other.x0 or other.x1 <= box.x0 or box.y1 <= other.y0 or other.y1 <= box.y0
    for row, shape in enumerate((30 / 40, 60 / 30, 20 / 80)):
        box = boxes[6 * row]
        assert box.height * tall / (box.width * wide) == pytest.approx(shape)


@pytest.mark.parametrize("largest", [1.0, 0.03, 1e-4, 1e-7])
def test_what_stands_beside_the_scale_keeps_within_the_figure(largest: float) -> None:
    ours = scene()
    mass = largest * torch.logspace(-6, 0, 30)[:, None].expand(30, 40)
    figure = scene_figure(
        [Scene(ours.image, ours.truth, ours.predictions, ours.hits, {"durm-1": mass})], NAMES, PALETTE
    )
    labels = [label.get_window_extent() for label in figure.axes[-1].get_yticklabels() if label.get_text()]
    assert len(labels) > 3
    assert all(label.x1 <= figure.bbox.x1 for label in labels)


@pytest.mark.parametrize("value", [0.0, 1e-12, 0.3, 1.0])
def test_a_mass_that_is_everywhere_the_same(value: float) -> None:
    ours = scene()
    flat = Scene(ours.image, ours.truth, ours.predictions, ours.hits, {"durm-1": torch.full(ours.truth.shape, value)})
    assert draw_scenes([flat], NAMES, PALETTE)[1]


def test_a_scene_without_labels_has_no_accuracy() -> None:
    ours = scene()
    blank = Scene(ours.image, torch.full_like(ours.truth, IGNORED), ours.predictions)
    figure = scene_figure([blank], NAMES, PALETTE)
    assert not [text for axes in figure.axes for text in axes.texts if text.get_text()]


def test_no_scenes_are_refused() -> None:
    with pytest.raises(ValueError, match="no scenes"):
        scene_figure([], NAMES, PALETTE)


def embedded(svg: str) -> list[Image.Image]:
    found = re.findall(r'base64,([^"]+)"', svg)
    return [Image.open(io.BytesIO(base64.b64decode(text))) for text in found]


def test_the_picture_is_small_and_the_same_every_time() -> None:
    """Large scenes are scaled down. On the page colours of the ink become variables, and names are escaped."""
    large = scene(500, 1000)
    predictions = {**large.predictions, "erm": torch.full(large.truth.shape, 2)}
    large = Scene(large.image, large.truth, predictions, large.hits, large.mass)
    svg, png = draw_scenes([large], NAMES, PALETTE)
    assert (svg, png) == draw_scenes([large], NAMES, PALETTE)
    ElementTree.fromstring(svg)
    panels = [image.size for image in embedded(svg) if image.size[0] > 20]  # but for the scale
    assert panels == [(WIDEST, WIDEST // 2)] * 6
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.size[0] > 6 * WIDEST
    page = for_page(svg)
    ElementTree.fromstring(page)
    assert "var(--ink)" in page
    assert "car &amp; &lt;van&gt;" in page
    ids = [re.findall(r'id="(\w+)"', draw_scenes([large], NAMES, PALETTE, name)[0]) for name in ("a", "b")]
    clips = [{name for name in found if name.startswith(("p", "image"))} for found in ids]
    assert not {name for name in clips[0] & clips[1] if not name.startswith("patch")}


def test_single_hits_are_seen_in_small_pictures() -> None:
    ours = scene(800, 1000)
    hits = torch.zeros(800, 1000, dtype=torch.bool)
    hits[401, 503] = True
    small = scene_figure([Scene(ours.image, ours.truth, ours.predictions, {"durm-1": hits}, ours.mass)], NAMES, PALETTE)
    red = np.round(255 * np.array(to_rgb(RED)))
    assert 1 <= (shown(small)[4] == red).all(2).sum() <= 4  # the cells of the small picture overlap


class Brightness(nn.Module):
    """Dark pixels are class 0, bright ones class 1; of a widened one, those between are the dummy's."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 2, 1)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor([-1.0, 1.0]).view(2, 1, 1, 1).expand(2, 3, 1, 1))
            self.head.bias.zero_()

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(images)
        return logits


def test_a_scene_is_pictured_as_models_see_it() -> None:
    widened = durm.widen(Brightness(), 1)
    with torch.no_grad():
        widened.head.weight[2], widened.head.bias[2] = 0.0, 1.0
    samples = scenes([(8, 8), (6, 10)], 2)
    bundle = bundle_of(samples, 2)
    for window in (None, (4, 4)):
        ours = picture_scene({"erm": Brightness(), "durm-1": widened}, samples, 1, bundle, window=window)
        total = bundle.input.normalise(samples.inputs[1]).sum(0)
        assert torch.equal(ours.image, samples.inputs[1])
        assert samples.masks is not None
        assert torch.equal(ours.truth, samples.masks[1])
        for arm in ("erm", "durm-1"):
            assert torch.equal(ours.predictions[arm], (total > 0).long())
        assert list(ours.hits) == list(ours.mass) == ["durm-1"]
        assert torch.equal(ours.hits["durm-1"], total.abs() < 1)
        expected = torch.e / (torch.e + torch.exp(total) + torch.exp(-total))
        torch.testing.assert_close(ours.mass["durm-1"], expected)
    assert draw_scenes([ours], ["dark", "bright"], PALETTE)


def test_pictures_need_masks() -> None:
    samples = scenes([(8, 8)], 2)
    bare = type(samples)(samples.inputs, samples.labels)
    with pytest.raises(ValueError, match="no masks"):
        picture_scene({"erm": small_model(2, 0)}, bare, 0, bundle_of(samples, 2))


def test_the_table_of_classes() -> None:
    """Differences are of pairs; intervals hold for the four comparisons of classes together, for two of the means."""
    erm = {
        "0": {"miou": 50.0, "iou_road": 90.0, "iou_car": 10.0},
        "1": {"miou": 52.0, "iou_road": 92.0, "iou_car": 12.0},
    }
    one = {
        "0": {"miou": 51.0, "iou_road": 90.0, "iou_car": 12.0},
        "1": {"miou": 54.0, "iou_road": 93.0, "iou_car": 15.0},
    }
    two = {"0": {"miou": 40.0, "iou_road": 80.0}, "2": {"miou": 40.0, "iou_road": 80.0}}
    table = class_iou_table({"erm": erm, "durm-1": one, "durm-2": two})
    assert table.headings == [
        "class",
        "erm",
        "durm-1",
        "durm-2",
        "durm-1 − erm",
        "interval",
        "durm-2 − erm",
        "interval",
    ]
    road, car, mean = table.texts()
    assert road[:5] == ["road", "91.00", "91.50", "80.00", "+0.50"]
    assert road[6:] == ["−10.00", "–"]
    assert car == ["car", "11.00", "13.50", "–", "+2.50", car[5], "–", "–"]
    assert mean[:5] == ["mean", "51.00", "52.50", "40.00", "+1.50"]
    for row, middle, comparisons in ((1, 2.5, 4), (2, 1.5, 2)):
        half = stats.t.ppf(1 - 0.05 / comparisons / 2, 1) * 0.5
        assert table.rows[row][5].sort == pytest.approx(middle - half)


def test_the_table_of_nothing() -> None:
    assert class_iou_table({"erm": {}, "durm-1": {}}).rows == []
    assert class_iou_table({"erm": {"0": {"miou": 5.0, "iou_a": 5.0}}}).texts() == [["a", "5.00"], ["mean", "5.00"]]

"""The page of a segmentation study in a real browser: its pictures are to be seen, and keep within the page."""

from typing import Any

import pytest

from durm.report.page import write_report
from durm.study.jobs import Execution
from durm.study.reading import make_study
from durm.study.runner import run_study_to_verdict
from durm.study.store import Store
from tests.data.samples import write_sample
from tests.report.test_browser import (  # noqa: F401
    OVERLAPS,
    SCHEMES,
    Visitor,
    browser,
    channels,
    colour_of,
    contrast,
    visit,
)
from tests.report.test_page import Report
from tests.training.scenes import MODEL

WIDTHS = (400, 760, 1200)
CUT_OFF = """() => [...document.querySelectorAll("td, th, h1, h2, p, li, dd, pre, figure")].filter(element => {
  const box = element.getBoundingClientRect();
  if (element.parentElement.closest(".scroll")) return false;
  return box.width > 0 && (box.left < -0.5 || box.right > innerWidth + 0.5);
}).map(element => element.tagName + " " + element.textContent.slice(0, 40))"""


@pytest.fixture(scope="module")
def segmented(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Report:  # noqa: F811
    """Eleven classes, four arms, two seeds."""
    root, folder = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("study")
    write_sample("camvid", root)
    train = {"epochs": 1, "batch_size": 4}
    study = make_study({"data": "camvid", "model": MODEL, "dummies": [0, 1, 2, 3], "seeds": 2, "train": train}, "here")
    *_, judged = run_study_to_verdict(Store.create(folder, study), Execution(workers=0, data_root=root))
    write_report(folder, judged.summary, store=judged.store, results=judged.results, data_root=root)
    return Report(folder, judged.summary)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_is_cut_off(scheme: str, segmented: Report, visit: Visitor) -> None:  # noqa: F811
    opened = visit(segmented, scheme=scheme)
    for width in WIDTHS:
        opened.page.set_viewport_size({"width": width, "height": 900})
        assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        assert opened.page.evaluate(CUT_OFF) == [], width
    assert opened.said == []
    assert opened.requested[:1] == [segmented.page.as_uri()]
    assert all(address.startswith("data:") for address in opened.requested[1:])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_scenes_are_to_be_seen(width: int, scheme: str, segmented: Report, visit: Visitor) -> None:  # noqa: F811
    """On a phone they are as large as they must be, and are pushed sideways."""
    page = visit(segmented, width, scheme).page
    figure = page.locator("figure.wide")
    assert figure.count() == 1
    assert figure.is_visible()
    sizes = figure.locator("image").evaluate_all("all => all.map(image => image.getBoundingClientRect().width)")
    assert len(sizes) == 3 * 6 + 1
    assert min(sizes[:-1]) > 90
    inside, outside = figure.locator(".pan").evaluate("box => [box.scrollWidth, box.clientWidth]")
    assert (inside > outside) == (width < 704)
    paper = colour_of(page, "body", "backgroundColor")
    assert (sum(channels(paper)) < 384) == (scheme == "dark")
    for text in ("truth", "durm-1, dummy mass", "sky", "taken by a dummy"):
        shown = figure.locator("text", has_text=text).first
        assert shown.is_visible()
        assert contrast(shown.evaluate("text => getComputedStyle(text).fill"), paper) >= 4.5


def test_words_in_the_picture_do_not_overlap(segmented: Report, visit: Visitor) -> None:  # noqa: F811
    page = visit(segmented, 1200).page
    assert page.evaluate(OVERLAPS.replace("figure svg", "figure.wide svg")) == []

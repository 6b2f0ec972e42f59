"""The page in a real browser: it opens offline and silent, sorts, says what summary.json says, and can be read."""

import itertools
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from durm.report import text as words
from durm.report.page import comma_separated
from durm.report.tables import (
    Table,
    across_table,
    null_table,
    other_metrics_table,
    overview_table,
    seeds_table,
    statistics_table,
    verdict_table,
)
from tests.report.test_page import NASTY_PATH, SCRIPT, Report, accuracy, grid_report, plain_report, report

REQUIRED = bool(os.environ.get("DURM_REQUIRE_BROWSER"))
"""Where a browser has to be there, such as in CI, to skip would hide that it is not."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTHS, SCHEMES = (390, 760, 1280), ("light", "dark")


def lacking(what: str) -> None:
    if REQUIRED:
        pytest.fail(f"{what}, and DURM_REQUIRE_BROWSER is set", pytrace=False)
    pytest.skip(what)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("playwright is not installed")
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        lacking(f"there is no browser: none of {', '.join(BROWSERS)}")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@dataclass
class Visit:
    """An open page, and all that it did besides showing itself."""

    page: Any
    said: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)


@dataclass
class Visitor:
    """Opens reports one after the other in the same tab, because a new one takes a second."""

    page: Any
    now: Visit

    def __call__(self, shown: Report, width: int = 1280, scheme: str = "light", unfold: bool = True) -> Visit:
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=scheme)
        self.page.goto("about:blank")
        self.now = Visit(self.page)
        self.page.goto(shown.page.as_uri())
        if unfold:
            self.page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
        return self.now


@pytest.fixture(scope="module")
def visit(browser: Any) -> Visitor:
    page = browser.new_page()
    page.set_default_timeout(600_000)
    visitor = Visitor(page, Visit(page))

    def dismiss(dialog: Any) -> None:
        visitor.now.dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("console", lambda message: visitor.now.said.append(message.text))
    page.on("pageerror", lambda error: visitor.now.said.append(str(error)))
    page.on("request", lambda request: visitor.now.requested.append(request.url))
    page.on("dialog", dismiss)
    return visitor


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def plain(browser: Any, folder: Path) -> Report:
    return plain_report(folder / "plain")


@pytest.fixture(scope="module")
def grid(browser: Any, folder: Path) -> Report:
    """Two settings of which one is not finished, with names that are trouble."""
    return report(
        folder / "grid",
        lambda trial: None if trial.data == "digits" and (trial.seed > 1 or trial.dummies == 3) else accuracy(trial),
        data=[NASTY_PATH, "digits"],
        dummies=[0, 1, 2, 3],
        seeds=6,
    )


@pytest.fixture(params=["plain", "grid"])
def each(request: pytest.FixtureRequest) -> Report:
    found: Report = request.getfixturevalue(request.param)
    return found


# It opens, silently and alone.


def test_it_opens_without_a_word_and_asks_for_nothing(each: Report, visit: Visitor) -> None:
    opened = visit(each)
    opened.page.wait_for_timeout(300)
    assert opened.said == []
    assert opened.requested == [each.page.as_uri()]
    assert opened.page.title() == f"{each.summary.study}: {words.headline(each.summary)}"


def test_the_verdict_is_that_of_the_summary(each: Report, visit: Visitor) -> None:
    page = visit(each).page
    assert page.locator("#verdict").inner_text() == words.headline(each.summary)
    assert page.locator("#verdict").is_visible()
    shown = page.locator("td.verdict").all_inner_texts()
    settings = each.summary.settings
    expected = [one.verdict for setting in settings for one in setting.comparisons] if len(settings) > 1 else []
    for setting in settings:
        judged = [*setting.comparisons, *setting.derived.comparisons]
        expected += ["baseline", *(one.verdict or "not judged" for one in judged)]
        expected += [one.verdict for one in setting.null_control.comparisons]
    assert shown == expected


def test_a_class_named_like_a_script_stays_text(each: Report, visit: Visitor) -> None:
    opened = visit(each)
    assert opened.page.get_by_text(SCRIPT, exact=False).count() == len(each.summary.settings)
    assert any(SCRIPT in text for text in opened.page.locator("p.fine").all_text_contents())
    assert opened.page.locator("script").count() == 1
    assert opened.page.locator("b").count() == 0
    assert opened.dialogs == []


def test_all_figures_are_drawn(plain: Report, visit: Visitor) -> None:
    page = visit(plain).page
    sizes = page.locator("figure svg").evaluate_all("all => all.map(svg => svg.getBoundingClientRect().width)")
    assert len(sizes) == 4
    assert min(sizes) > 300
    for name in ("erm", "durm-2", " better"):
        assert page.locator("svg text", has_text=name).first.is_visible()


# Tables sort.


def tables_of(shown: Report) -> list[Table]:
    """In the order of the page."""
    summary = shown.summary
    found = [overview_table(summary), across_table(summary)] if len(summary.settings) > 1 else []
    for setting in summary.settings:
        found += [verdict_table(setting, summary), other_metrics_table(setting), statistics_table(setting, summary)]
        found += [null_table(setting, summary)] if setting.null_control.comparisons else []
        found.append(seeds_table(setting, summary))
    return found


def rows_of(page: Any, index: int) -> list[list[str]]:
    script = "table => [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent))"
    found: list[list[str]] = page.locator("table").nth(index).evaluate(script)
    return found


def headings_of(page: Any, index: int) -> Any:
    return page.locator("table").nth(index).locator("th button")


def in_order(rows: list[list[Any]], column: int, *, descending: bool) -> list[list[str]]:
    """Python's sort, which is stable as the browser's is; what is not defined comes last, whichever way."""
    defined = [row for row in rows if row[column].sort is not None]
    undefined = [row for row in rows if row[column].sort is None]
    ordered = sorted(defined, key=lambda row: row[column].sort, reverse=descending)
    return [[cell.text for cell in row] for row in [*ordered, *undefined]]


CLICKED = """() => [...document.querySelectorAll("table")].map(table =>
  [...table.querySelectorAll("th")].map(heading => [1, 2].map(time => {
    heading.querySelector("button").click();
    return [
      [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent)),
      [...table.querySelectorAll("th")].map(other => other.getAttribute("aria-sort")),
    ];
  })))"""
"""Clicks twice on each heading of each table, and gives the rows and the marks of the headings after each click."""


def test_every_heading_of_every_table_sorts_up_and_then_down(each: Report, visit: Visitor) -> None:
    page = visit(each).page
    expected = tables_of(each)
    assert page.locator("table").count() == len(expected)
    for index, table in enumerate(expected):
        assert rows_of(page, index) == table.texts()
        assert headings_of(page, index).all_text_contents() == table.headings
    for table, of_headings in zip(expected, page.evaluate(CLICKED), strict=True):
        rows = table.rows
        by_texts = {tuple(cell.text for cell in row): row for row in rows}
        assert len(by_texts) == len(rows)  # rows can be told apart
        for column, clicks in enumerate(of_headings):
            for (shown, marks), descending in zip(clicks, (False, True), strict=True):
                texts = in_order(rows, column, descending=descending)
                assert shown == texts, (table.headings[column], descending)
                word = "descending" if descending else "ascending"
                assert marks == [word if other == column else None for other in range(len(table.headings))]
                rows = [by_texts[tuple(row)] for row in texts]  # equal ones stay as they were before the click


def test_numbers_sort_as_numbers(plain: Report, visit: Visitor) -> None:
    """Seeds 10 and 9, differences of both signs, p values in two notations: not as texts."""
    page = visit(plain).page
    headings_of(page, 0).nth(4).click()
    shown = [row[4] for row in rows_of(page, 0)]
    numbers = [float(text.replace("−", "-")) for text in shown if text]
    assert numbers == sorted(numbers)
    assert len({number < 0 for number in numbers}) == 2
    assert shown[-1] == ""  # the baseline, which has no difference


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_the_keyboard_sorts_too(key: str, plain: Report, visit: Visitor) -> None:
    page = visit(plain).page
    table = tables_of(plain)[0]
    page.locator("table").first.locator("th button").nth(1).focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "mean"
    for descending in (False, True):
        page.keyboard.press(key)
        assert rows_of(page, 0) == in_order(table.rows, 2, descending=descending)


def test_sorting_works_on_a_phone(plain: Report, visit: Visitor) -> None:
    page = visit(plain, width=390).page
    table = tables_of(plain)[0]
    headings_of(page, 0).nth(2).click()
    assert rows_of(page, 0) == in_order(table.rows, 2, descending=False)
    for button in headings_of(page, 0).all():
        button.scroll_into_view_if_needed()
        assert button.is_visible()


def test_names_that_look_like_numbers_sort_as_names(folder: Path, visit: Visitor) -> None:
    """As texts 10 < 10x < 9, as numbers 9 < 10: an order that is now this and now that goes round in circles."""
    names = ["erm", "9", "10x", "10", "9x", "2"]
    arms = [{"name": name, "lr": 0.1 + index} for index, name in enumerate(names)]
    page = visit(report(folder / "numbers", arms=arms, seeds=6)).page
    headings_of(page, 0).nth(0).click()
    assert [row[0] for row in rows_of(page, 0)] == sorted(names)


# It can be read.


def channels(colour: str) -> list[float]:
    red, green, blue, *alpha = map(float, re.findall(r"[\d.]+", colour))
    assert alpha in ([], [1.0]), colour
    return [red, green, blue]


def contrast(first: str, second: str) -> float:
    """Of two computed colours such as rgb(26, 26, 27), as the Web Content Accessibility Guidelines define it."""
    luminances = []
    for colour in (first, second):
        parts = [value / 255 for value in channels(colour)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        luminances.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(luminances) + 0.05) / (min(luminances) + 0.05)


def colour_of(page: Any, selector: str, what: str) -> str:
    found: str = page.locator(selector).first.evaluate(f"element => getComputedStyle(element).{what}")
    return found


def test_it_fits_and_can_be_read(each: Report, visit: Visitor) -> None:
    page = visit(each).page
    for width, scheme in itertools.product(WIDTHS, SCHEMES):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        inside, outside = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert inside <= outside == width
        paper = colour_of(page, "body", "backgroundColor")
        assert (sum(channels(paper)) < 384) == (scheme == "dark")
        for selector in ("h1", "td.verdict", "th button", "button.copy"):
            assert contrast(colour_of(page, selector, "color"), paper) >= 4.5, (selector, scheme)
        assert contrast(colour_of(page, "svg text", "fill"), paper) >= 4.5


def test_captions_are_faint_but_legible(plain: Report, visit: Visitor) -> None:
    """They are the ink at three quarters."""
    page = visit(plain).page
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        paper = channels(colour_of(page, "body", "backgroundColor"))
        ink, share = channels(colour_of(page, "figcaption", "color")), float(colour_of(page, "figcaption", "opacity"))
        mixed = [share * i + (1 - share) * p for i, p in zip(ink, paper, strict=True)]
        assert contrast(f"rgb({mixed})", f"rgb({paper})") >= 4.5


OUTSIDE = """() => [...document.querySelectorAll("td, th, h1, h2, p, li, dd, pre, svg, .scroll")].filter(element => {
  const box = element.getBoundingClientRect();
  if (element.parentElement.closest(".scroll, .pan")) return false;
  return box.width > 0 && (box.left < -0.5 || box.right > innerWidth + 0.5);
}).map(element => element.tagName + " " + element.textContent.slice(0, 40))"""


def test_nothing_is_cut_off(each: Report, visit: Visitor) -> None:
    """What is wider than a phone is a table or a figure of many arms, which scrolls in a box of its own."""
    page = visit(each).page
    for width in (*WIDTHS, 320, 700):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(OUTSIDE) == [], width
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width


OVERLAPS = """() => [...document.querySelectorAll("figure svg")].flatMap((svg, index) => {
  const boxes = [...svg.querySelectorAll("text")].map(text => [text.textContent, text.getBoundingClientRect()]);
  const frame = svg.getBoundingClientRect();
  const cut = boxes.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1
    || box.top < frame.top - 1 || box.bottom > frame.bottom + 1).map(([text]) => text);
  const crossed = boxes.flatMap(([first, a], i) => boxes.slice(i + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)
    .map(([second]) => first + " / " + second));
  return [...cut, ...crossed].map(text => index + ": " + text);
})"""


def test_words_in_figures_neither_overlap_nor_leave_the_picture(plain: Report, visit: Visitor) -> None:
    assert visit(plain).page.evaluate(OVERLAPS) == []


def test_words_in_figures_do_not_overlap_if_accuracies_are_close(folder: Path, visit: Visitor) -> None:
    close = report(folder / "close", lambda t: 96.34 + 0.1 * bool(t.dummies), dummies=[0, 2], seeds=1)
    assert visit(close).page.evaluate(OVERLAPS) == []


def test_words_in_figures_do_not_overlap_if_arms_are_many_and_have_names(folder: Path, visit: Visitor) -> None:
    named = ["label smoothing 0.1", "weight decay 0.001", "durm-2 and smoothing", "learning rate 0.1", "momentum 0.99"]
    arms = [{"name": "erm"}, *({"name": name, "dummies": 1 + index} for index, name in enumerate(named))]
    many = report(folder / "many", arms=arms, seeds=6)
    assert visit(many).page.evaluate(OVERLAPS) == []


WORDS = """() => Math.min(...[...document.querySelectorAll("figure svg")].flatMap(svg => {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return [...svg.querySelectorAll("text")].map(text => scale * parseFloat(getComputedStyle(text).fontSize));
}))"""


@pytest.mark.parametrize("arms", [3, 8, 12])
def test_words_in_figures_can_be_read_on_every_screen(arms: int, folder: Path, visit: Visitor) -> None:
    """Figures of many arms scroll where there is no room, and fit on a wide screen and on paper."""
    page = visit(report(folder / f"words-{arms}", dummies=[*range(arms)], seeds=6)).page
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(WORDS) > 7.5, width
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    wider = "[...document.querySelectorAll('.pan')].filter(box => box.scrollWidth > box.clientWidth).length"
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.evaluate(wider) == 0
    page.set_viewport_size({"width": 700, "height": 900})
    page.emulate_media(media="print")
    try:
        assert page.evaluate(wider) == 0
    finally:
        page.emulate_media(media="screen")


BROKEN_NUMBERS = """() => [...document.querySelectorAll("td, th")].filter(cell => {
  const range = document.createRange();
  range.selectNodeContents(cell.querySelector("button") || cell);
  const lines = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
  return !/\\s/.test(cell.textContent.trim()) && cell.textContent.length < 15 && lines.size > 1;
}).map(cell => cell.textContent)"""


@pytest.mark.parametrize("width", WIDTHS)
def test_no_number_is_broken_over_two_lines(width: int, plain: Report, visit: Visitor) -> None:
    assert visit(plain, width).page.evaluate(BROKEN_NUMBERS) == []


def test_no_number_is_broken_beside_a_long_name(folder: Path, visit: Visitor) -> None:
    long = "a rather long name of an arm that somebody chose for fun"
    arms = [{"name": "erm"}, {"name": long, "dummies": 2}]
    shown = report(folder / "long", model=["vit_tiny_patch16_224.augreg_in21k_ft_in1k"], arms=arms, seeds=6)
    assert visit(shown).page.evaluate(BROKEN_NUMBERS) == []


def test_tables_are_tables_at_every_width(plain: Report, visit: Visitor) -> None:
    """At 760 px the verdict needs no scrolling; at 390 it scrolls, and the names of the arms stay."""
    page = visit(plain).page
    box = page.locator(".scroll").first
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for what in ("table", "tr", "td"):
            shown = page.locator(f".scroll {what}").first.evaluate("element => getComputedStyle(element).display")
            assert shown == {"table": "table", "tr": "table-row", "td": "table-cell"}[what]
        assert box.evaluate("box => box.scrollWidth > box.clientWidth") == (width == 390)
    page.set_viewport_size({"width": 390, "height": 900})
    box.evaluate("box => box.scrollLeft = 1000")
    name = page.locator("table").first.locator("tbody td").first
    assert name.evaluate("cell => cell.getBoundingClientRect().left") >= 0


def test_dots_can_be_seen(plain: Report, visit: Visitor) -> None:
    """3 : 1 is what the guidelines want of graphics."""
    page = visit(plain).page
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        paper = colour_of(page, "body", "backgroundColor")
        fills = page.locator("header figure svg use").evaluate_all("all => all.map(dot => getComputedStyle(dot).fill)")
        assert len({*fills}) >= 4
        for fill in {*fills} - {"none"}:
            assert contrast(fill, paper) >= 3, (fill, scheme)


def test_every_figure_has_an_alternative_text(each: Report, visit: Visitor) -> None:
    labels = visit(each).page.locator("figure svg").evaluate_all("all => all.map(svg => svg.ariaLabel)")
    assert labels
    assert all(label and len(label) > 20 for label in labels)


def test_print_is_light_and_open_without_buttons(plain: Report, visit: Visitor) -> None:
    page = visit(plain, scheme="dark", unfold=False).page
    folded = page.get_by_text("which was said beforehand to be too little to matter")
    assert not folded.is_visible()
    page.emulate_media(media="print", color_scheme="dark")
    try:
        assert channels(colour_of(page, "body", "backgroundColor")) == [255, 255, 255]
        assert folded.bounding_box()["height"] > 10
        assert not page.locator("button.copy").first.is_visible()
        assert page.locator("#verdict").is_visible()
    finally:
        page.emulate_media(media="screen")


def test_buttons_copy_what_is_in_the_files(plain: Report, browser: Any) -> None:
    """From file://, without a request."""
    context = browser.new_context()
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(plain.page.as_uri())
    expected = {
        "Markdown": plain.markdown,
        "LaTeX": (plain.folder / "report.tex").read_text(),
        "CSV": comma_separated(plain.summary),
    }
    for kind, text in expected.items():
        page.get_by_role("button", name=f"Copy as {kind}", exact=True).click()
        page.get_by_role("button", name="Copied").first.wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == text
        page.get_by_role("button", name=f"Copy as {kind}", exact=True).wait_for()
    context.close()


# Large studies.


@pytest.mark.slow
def test_a_page_of_fifty_settings_opens_and_fits(folder: Path, visit: Visitor) -> None:
    large = grid_report(folder / "large")
    assert len(large.summary.settings) == 50
    opened = visit(large, unfold=False)
    assert opened.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") > 0
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")

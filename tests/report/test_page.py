"""The page and the Markdown: well-formed, self-contained, escaped, and in the same words as summary.json."""

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from durm.errors import InputError
from durm.metrics import describe_metric
from durm.report import figures
from durm.report import text as words
from durm.report.curves import curves
from durm.report.page import markdown, write_report
from durm.report.tables import verdict_table
from durm.study.reading import make_study
from durm.study.records import Summary
from durm.study.store import Store, read_summary
from durm.study.summary import read_results, write_summary
from durm.training.trial import Trial
from tests.study import synthetic

NASTY_PATH = "folder:/data/<b>bold</b>/\"double\" 'single' & a|b/`code`"
"""A path that would be trouble for HTML and Markdown, if it were not escaped."""
SCRIPT = synthetic.CLASSES[0]


@dataclass(frozen=True)
class Report:
    folder: Path
    summary: Summary

    @property
    def page(self) -> Path:
        return self.folder / "report.html"

    @property
    def html(self) -> str:
        return self.page.read_text()

    @property
    def markdown(self) -> str:
        return (self.folder / "report.md").read_text()


def accuracy(trial: Trial) -> float:
    """One arm better, one worse, one undecided; seeds are alike in all arms, and in steps of 0.01."""
    shared = np.random.default_rng([1, trial.seed]).normal(0, 0.5)
    own = np.random.default_rng([2, trial.seed, trial.dummies, *trial.model.encode()]).normal(0, 0.2)
    return round(float(96 + shared + own + {1: 0.05, 2: 0.9, 3: -0.9}.get(trial.dummies, 0.0)), 2)


def report(folder: Path, gain: Callable[[Trial], float | None] = accuracy, **study: Any) -> Report:
    """The report of a study that was never run."""
    store = synthetic.store(folder, gain, **study)
    results = read_results(store)
    assert (
        write_report(store.folder, write_summary(store, results), store=store, results=results)
        == folder / "report.html"
    )
    return Report(folder, read_summary(folder / "summary.json"))


def plain_report(folder: Path) -> Report:
    return report(folder, name="plain", dummies=[0, 1, 2, 3], seeds=7, null=True)


def grid_report(folder: Path, data: int = 10, models: int = 5) -> Report:
    """By default 1,000 trials in 50 settings."""
    names = {"data": [f"folder:/data/set{k}" for k in range(data)], "model": [f"model{k}" for k in range(models)]}
    return report(folder, name="grid", dummies=[0, 1, 2, 3], seeds=5, **names)


def unfinished(trial: Trial) -> float | None:
    """The first three seeds, the third of which lacks its DuRM arms."""
    return accuracy(trial) if trial.seed < 2 or (trial.seed == 2 and not trial.dummies) else None


REPORTS: dict[str, Callable[[Path], Report]] = {
    "plain": plain_report,
    "one arm": lambda folder: report(folder, dummies=[2], seeds=3),
    "one seed": lambda folder: report(folder, dummies=[0, 2], seeds=1),
    "unfinished": lambda folder: report(folder, unfinished, dummies=[0, 1, 2], seeds=10),
    "a setting without results": lambda folder: report(
        folder, lambda t: accuracy(t) if t.model == "cnn" else None, model=["cnn", "mlp"], dummies=[0, 1], seeds=6
    ),
    "an arm without results": lambda folder: report(
        folder, lambda t: None if t.dummies == 1 else accuracy(t), dummies=[0, 1, 2], seeds=6
    ),
    "nothing done": lambda folder: report(folder, lambda trial: None, dummies=[0, 1], seeds=6),
    "until decided": lambda folder: report(folder, dummies=[0, 1], seeds=10, max_seeds=40, select="best-val"),
    "grid": lambda folder: grid_report(folder, data=1, models=5),
    "names": lambda folder: report(
        folder,
        data=[NASTY_PATH],
        arms=[{"name": "erm"}, {"name": "a.b_c+d -e", "lr": 0.1}, {"name": "better", "dummies": 2}],
        seeds=6,
    ),
}


class Reports(dict[str, Report]):
    """Each is made when it is first asked for, because tests may be spread over several processes."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, name: str) -> Report:
        self[name] = REPORTS[name](self.folder / name)
        return self[name]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    return Reports(tmp_path_factory.mktemp("report"))


@pytest.fixture(params=REPORTS)
def each(request: pytest.FixtureRequest, reports: dict[str, Report]) -> Report:
    return reports[request.param]


@pytest.fixture(scope="module")
def plain(reports: dict[str, Report]) -> Report:
    return reports["plain"]


@pytest.fixture(scope="module")
def names(reports: dict[str, Report]) -> Report:
    return reports["names"]


# HTML.

VOID = {"meta", "link", "br", "hr", "img", "input"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    children: list["Element | str"] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What is read: white space as one space."""
        inside = "".join(child if isinstance(child, str) else child.text for child in self.children)
        return inside

    def all(self, tag: str) -> list["Element"]:
        found = []
        for child in self.children:
            if isinstance(child, Element):
                found += [child] if child.tag == tag else []
                found += child.all(tag)
        return found

    def every(self) -> list["Element"]:
        return [self, *(e for child in self.children if isinstance(child, Element) for e in child.every())]


class Reader(HTMLParser):
    """A tree of the page; a tag that closes what is not open fails."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("document", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


@cache
def parse(html: str) -> Element:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert [element.tag for element in reader.open] == ["document"], "tags that are never closed"
    return reader.open[0]


def squeezed(text: str) -> str:
    return " ".join(text.split())


def by_id(tree: Element, name: str) -> Element:
    (found,) = [element for element in tree.every() if element.attributes.get("id") == name]
    return found


def tables(tree: Element) -> list[list[list[str]]]:
    """The texts of each table, its headings first."""
    return [
        [[squeezed(cell.text) for cell in [*row.all("th"), *row.all("td")]] for row in table.all("tr")]
        for table in tree.all("table")
    ]


def test_the_page_is_well_formed(each: Report) -> None:
    assert each.html.lstrip().lower().startswith("<!doctype html>")
    tree = parse(each.html)
    assert (
        len(tree.all("html"))
        == len(tree.all("body"))
        == len(tree.all("h1"))
        == len(tree.all("head")[0].all("title"))
        == 1
    )
    assert tree.all("html")[0].attributes["lang"] == "en"
    assert {"utf-8"} == {meta.attributes["charset"] for meta in tree.all("meta") if "charset" in meta.attributes}
    for table in tables(tree):
        assert len({len(row) for row in table}) == 1
    inside = {element.tag for figure in tree.all("svg") for element in figure.every()}
    assert inside <= {"svg", "g", "path", "text", "defs", "use", "clippath", "rect", "style", "title"}


def test_ids_are_unique_and_references_lead_somewhere(each: Report) -> None:
    """Many figures in one page must not take each other's markers."""
    ids = [e.attributes["id"] for e in parse(each.html).every() if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'href="#([^"]+)"', each.html)) | set(re.findall(r"url\(#([^)]+)\)", each.html))
    assert used <= set(ids)


def test_the_page_needs_nothing_from_elsewhere(each: Report) -> None:
    outside = re.sub(r' xmlns(:\w+)?="[^"]*"', "", each.html)
    assert "http://" not in outside
    assert "https://" not in outside
    assert "//cdn" not in outside
    for element in parse(each.html).every():
        assert "src" not in element.attributes
        assert element.tag not in ("iframe", "img", "object", "embed", "form", "a")
        target = element.attributes.get("href")
        assert target is None or target.startswith("#") or target == "data:,"
    assert "@import" not in each.html
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", each.html))


def test_the_page_may_load_nothing(plain: Report) -> None:
    (policy,) = [
        meta.attributes["content"] or ""
        for meta in parse(plain.html).all("meta")
        if meta.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    assert "*" not in policy


def test_the_verdict_stands_first_in_the_words_of_the_summary(each: Report) -> None:
    tree = parse(each.html)
    assert by_id(tree, "verdict").text == words.headline(each.summary)
    assert tree.all("title")[0].text == f"{each.summary.study}: {words.headline(each.summary)}"
    (header,) = tree.all("header")
    plans, items = [], [squeezed(item.text) for item in header.all("li")]
    if any(element.attributes.get("id") == "plans" for element in header.every()):
        plans = [squeezed(item.text) for item in by_id(tree, "plans").all("li")]
        items = items[: -len(plans)]
    if len(each.summary.settings) == 1:
        (setting,) = each.summary.settings
        told = [words.headline(each.summary), *items]
        for one in setting.comparisons:
            assert any(squeezed(words.sentence(one, setting, each.summary)).startswith(text) for text in told)
        assert any(item.startswith("durm-val takes") for item in items) == bool(
            [one for one in setting.derived.comparisons if one.ci_family]
        )
        every = {one.arm: words.plan(one, each.summary) for one in setting.comparisons}
        assert plans == [f"{arm}: {plan}" for arm, plan in every.items() if plan]
    else:
        assert items == [words.across_sentence(one, each.summary) for one in each.summary.across]
    notes = [squeezed(note.text) for note in header.all("p") if note.attributes.get("class") == "note"]
    assert notes == each.summary.warnings
    assert f"{each.summary.done} of {each.summary.trials} trials" in header.text
    terms = [squeezed(term.text) for term in header.all("dt")]
    assert terms[:4] == ["Better, worse", "Equal", "Undecided", "Not meant"]
    assert ("Many settings" in terms) == (len(each.summary.settings) > 1)
    assert ("Interim analyses" in terms) == (each.summary.max_seeds is not None)


def test_every_number_is_in_a_table(plain: Report) -> None:
    (setting,) = plain.summary.settings
    verdicts, beside, behind, null, seeds = tables(parse(plain.html))
    assert [row[0] for row in verdicts] == ["arm", "erm", "durm-1", "durm-2", "durm-3", "durm-val"]
    for row, arm in zip(verdicts[1:], [*setting.arms, *setting.derived.arms], strict=True):
        assert row[1:4] == [str(arm.n), f"{arm.mean:.2f}", f"{arm.std:.2f}"]
    comparisons = [*setting.comparisons, *setting.derived.comparisons]
    assert [row[-1] for row in verdicts[1:]] == ["baseline", *(one.verdict or "not judged" for one in comparisons)]
    for row, one in zip(verdicts[2:], comparisons, strict=True):
        assert float(row[4].replace("−", "-")) == pytest.approx(one.difference, abs=0.006)
        limits = [float(limit.replace("−", "-")) for limit in row[5].split(" … ")]
        assert limits == pytest.approx(one.ci_family, abs=0.006)
        assert float(row[6]) == pytest.approx(one.p_holm, abs=0.0006)
    for row, arm in zip(beside[1:], setting.arms, strict=True):
        shown = [float(cell.strip("× ").replace(",", "")) for cell in row[1:]]
        expected = [getattr(arm, key) for key in ("nll", "ece", "dummy_mass", "dummy_hits", "train_accuracy")]
        assert shown[:5] == pytest.approx(expected, abs=0.006)
        assert shown[6] == arm.parameters
    for row, one in zip(behind[1:], comparisons, strict=True):
        assert row[0] == one.arm
        assert row[2] == "–"  # these runs kept no outcomes
        assert row[5] == f"{one.wins} / {one.ties} / {one.losses}"
        assert row[7] == "0"
        assert float(row[8]) == pytest.approx(one.min_difference, abs=0.006)
        low, high = one.n_for_rope_range or (0, 0)
        assert row[9] == f"{one.n_for_rope:,} ({low:,} … {high:,})"
    assert [row[0] for row in null[1:]] == [one.baseline for one in setting.null_control.comparisons]
    assert [row[1] for row in null[1:]] == ["with its first head disturbed by 1e-6", *["with other dummies"] * 3]
    every = [*setting.arms, *setting.derived.arms, *setting.null_control.arms]
    assert seeds[0] == ["seed", *(arm.arm for arm in every)]
    for row in seeds[1:]:
        assert [float(cell) for cell in row[1:]] == pytest.approx([arm.values[row[0]] for arm in every], abs=0.0006)


def test_cells_are_sorted_by_the_numbers_themselves(plain: Report) -> None:
    """Unrounded, whatever the cell shows; what is not defined has nothing to sort by."""
    (setting,) = plain.summary.settings
    table = parse(plain.html).all("table")[0]
    rows = [row.all("td") for row in table.all("tr")[1:]]
    assert [float(row[2].attributes["data-sort"] or "") for row in rows[:4]] == [arm.mean for arm in setting.arms]
    differences = [row[4].attributes.get("data-sort") for row in rows]
    assert differences[0] is None
    assert [float(d or "") for d in differences[1:4]] == [one.difference for one in setting.comparisons]


def test_what_is_not_defined_is_a_dash(reports: dict[str, Report]) -> None:
    verdicts = tables(parse(reports["one seed"].html))[0]
    assert verdicts[1][2:4] == [f"{reports['one seed'].summary.settings[0].arms[0].mean:.2f}", "–"]
    assert verdicts[2][5] == "–"
    assert "None" not in reports["nothing done"].html.replace("'none'", "")
    assert not re.search(r"\bnan\b", reports["nothing done"].html.lower())


def test_the_page_says_how_to_repeat_it(each: Report) -> None:
    changed, written, *command = (block.text for block in parse(each.html).all("pre"))
    before = Store.open(each.folder).study
    assert yaml.safe_load(written) == yaml.safe_load((each.folder / "study.yaml").read_text())
    assert make_study(yaml.safe_load(changed)) == before
    assert len(changed) < len(written) / 3
    assert command == (["durm run study.yaml"] if each.summary.done else [])


def test_the_page_of_one_arm(reports: dict[str, Report]) -> None:
    one = reports["one arm"]
    assert by_id(parse(one.html), "verdict").text == "There is one arm only, so there is nothing to compare."
    assert "difference" not in " ".join(texts_of((one.folder / "figures" / "estimation.svg").read_text()))


def test_the_weights_that_count_are_named(plain: Report, reports: dict[str, Report]) -> None:
    assert "those of the last epoch" in squeezed(plain.html)
    assert "those of the epoch with the best validation accuracy" in squeezed(reports["until decided"].html)


def test_the_page_of_a_grid_has_an_overview_first(reports: dict[str, Report]) -> None:
    grid = reports["grid"]
    tree = parse(grid.html)
    overview, *others = tables(tree)
    settings = grid.summary.settings
    assert overview[0][:4] == ["data", "model", "method", "arm"]
    expected = [[*setting.key, one.arm, str(one.n)] for setting in settings for one in setting.comparisons]
    assert [row[:5] for row in overview[1:]] == expected
    assert [row[-1] for row in overview[1:]] == [o.verdict for s in settings for o in s.comparisons]
    across, *others = others
    assert [row[0] for row in across[1:]] == [one.arm for one in grid.summary.across]
    assert len(others) == 4 * len(settings)
    headings = [squeezed(element.text) for element in tree.all("h2")]
    places = [f"Accuracy {words.place(setting)}" for setting in settings]
    assert headings[:-2] == ["Overview", *places]
    folded = [element for element in tree.all("details") if element.all("h2")]
    assert [("open" in element.attributes) for element in folded] == [False] * 5
    assert len(list((grid.folder / "figures").glob("*.svg"))) == 4 * len(settings) + 1


def test_few_settings_are_open(reports: dict[str, Report]) -> None:
    for name in ("plain", "a setting without results"):
        html = reports[name].html
        sections = [element for element in parse(html).all("details") if element.all("h2")]
        assert all("open" in element.attributes for element in sections)


# Names.


def test_names_stay_text(names: Report) -> None:
    tree = parse(names.html)
    assert not tree.all("b")
    assert len(tree.all("script")) == 1
    assert NASTY_PATH in by_id(tree, "verdict").text
    assert NASTY_PATH in squeezed(tree.all("h2")[0].text)
    (data,) = [p for p in tree.all("p") if p.text.startswith("Data:")]
    assert f"3 classes: {SCRIPT}, a & b, c." in data.text
    assert SCRIPT not in names.html
    assert {"erm", "a.b_c+d -e", "better"} <= {row[0] for row in tables(tree)[0]}


def test_names_stay_inside_their_attributes(names: Report) -> None:
    """A quote in a name must not end an attribute and begin another."""
    known = {
        *("id", "class", "style", "scope", "type", "data-label", "data-sort", "open", "lang", "charset", "name"),
        *("content", "http-equiv", "rel", "href", "viewbox", "role", "d", "x", "y", "transform", "width", "height"),
        *("clip-path", "xml:space", "aria-label", "data-copy"),
    }
    assert {name for element in parse(names.html).every() for name in element.attributes} <= known


def test_the_only_script_is_the_page_s_own(plain: Report, names: Report) -> None:
    def scripts(found: Report) -> list[str]:
        return [element.text for element in parse(found.html).all("script")]

    assert scripts(plain) == scripts(names)
    for hidden in ("eval(", "innerHTML", "fetch(", "XMLHttpRequest", "import("):
        assert hidden not in scripts(plain)[0]


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a|b", '"', "a\nb", "<b>", "", " x", "-x", "$x$"])
def test_an_arm_or_study_may_not_be_called_so(name: str) -> None:
    with pytest.raises(InputError):
        make_study({"arms": [{"name": "erm"}, {"name": name, "lr": 0.1}]}, "a study")
    with pytest.raises(InputError):
        make_study({"name": name}, "a study")


def test_an_arm_named_like_a_verdict_is_not_coloured_like_one(names: Report) -> None:
    cells = [row.all("td")[0] for row in parse(names.html).all("table")[0].all("tr")[1:]]
    assert all("class" not in cell.attributes for cell in cells)


# Colours.


def variables(css: str) -> dict[str, str]:
    return dict(re.findall(r"--(\w+):\s*(#[0-9a-f]+)\s*;", css))


def themes(html: str) -> tuple[dict[str, str], dict[str, str]]:
    """The colours of the light and of the dark theme."""
    style = parse(html).all("style")[0].text
    light, _, dark = style.partition("prefers-color-scheme: dark")
    return variables(light), variables(dark.partition("* {")[0])


def luminance(colour: str) -> float:
    """Relative, as the Web Content Accessibility Guidelines define it."""
    digits = colour.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_by_hand() -> None:
    assert contrast("#000000", "#fff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_every_colour_is_defined_in_light_and_in_dark(each: Report) -> None:
    light, dark = themes(each.html)
    assert light.keys() == dark.keys() >= set(re.findall(r"var\(--(\w+)\)", each.html))
    assert light["paper"] == "#fff"
    assert luminance(dark["paper"]) < 0.02


def test_figures_on_the_page_have_no_colours_of_their_own(plain: Report) -> None:
    for figure in re.findall(r"<svg.*?</svg>", plain.html, flags=re.DOTALL):
        assert not re.findall(r"#[0-9a-f]{6}\b", re.sub(r'(href="|id="|url\()#?\w+', "", figure))


@pytest.mark.parametrize("theme", [0, 1])
def test_text_can_be_read(theme: int, plain: Report) -> None:
    colours = themes(plain.html)[theme]
    assert contrast(colours["ink"], colours["paper"]) >= 4.5
    assert contrast(colours["ink"], colours["note"]) >= 4.5
    assert contrast(colours["ink"], colours["soft"]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("index", range(8))
def test_lines_of_arms_can_be_seen(theme: int, index: int, plain: Report) -> None:
    """3 : 1 is what the guidelines want of graphics."""
    colours = themes(plain.html)[theme]
    assert contrast(colours[f"c{index}"], colours["paper"]) >= 3


# Figures on disk.

SVG = "{http://www.w3.org/2000/svg}"


def texts_of(svg: str) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_figures_on_disk_stand_alone(each: Report) -> None:
    paths = sorted((each.folder / "figures").glob("*.svg"))
    shown = [setting for setting in each.summary.settings if any(arm.n for arm in setting.arms)]
    assert len(paths) == 4 * len(shown) + (len(each.summary.settings) > 1)
    for path in paths:
        text = path.read_text()
        root = ElementTree.fromstring(text)
        assert root.tag == f"{SVG}svg"
        assert {"width", "height", "viewBox"} <= root.attrib.keys()
        assert "var(--" not in text
        assert "<script" not in text
        targets = [value for e in root.iter() for name, value in e.attrib.items() if name.endswith("href")]
        assert all(target.startswith("#") for target in targets)
        ids = {element.attrib["id"] for element in root.iter() if "id" in element.attrib}
        assert {target[1:] for target in targets} <= ids
        numbers = re.findall(r"\b(nan|inf)\b", re.sub(r"<text.*?</text>", "", text, flags=re.DOTALL))
        assert not numbers


def test_figures_name_their_arms_and_verdicts(plain: Report) -> None:
    (setting,) = plain.summary.settings
    arms = [arm.arm for arm in setting.arms]
    read = {path.stem: texts_of(path.read_text()) for path in (plain.folder / "figures").glob("*.svg")}
    assert set(read) == {"estimation", "val_accuracy", "val_nll", "calibration"}
    words = [
        text.rpartition(" ")[2] for text in read["estimation"] if text.endswith(("decided", "equal", "better", "worse"))
    ]
    assert words == [c.verdict for c in setting.comparisons]
    assert "difference from erm, points" in read["estimation"]
    for name in read:
        assert [text for text in read[name] if text in arms] == (arms[1:] if name.startswith("val_") else arms)
    assert "difference from erm, points" in read["val_accuracy"]
    assert "epoch" in read["val_accuracy"]
    captions = [squeezed(figure.all("figcaption")[0].text) for figure in parse(plain.html).all("figure")]
    assert len(captions) >= len(read)
    assert all(captions)


def colours_with(folder: Path, missing: int | None) -> dict[str, dict[str, str]]:
    """Figure → arm → colour, if the arm with so many dummies has no results.

    In the curves it is that of the dash before its name, 2.5 wide; of the estimation plot the mean is 2.2 wide, and the
    95 % interval 3.6.
    """
    report(folder, lambda t: None if t.dummies == missing else accuracy(t), dummies=[0, 1, 2], seeds=3)
    drawn = {name: (folder / "figures" / f"{name}.svg").read_text() for name in ("val_accuracy", "estimation")}
    arms = [name for dummies, name in enumerate(("erm", "durm-1", "durm-2")) if dummies != missing]
    dashes = re.findall(r"stroke: (#\w+); stroke-width: 2.5", drawn["val_accuracy"])[:2]
    means = re.findall(r"stroke: (#\w+); stroke-width: 2.2;", drawn["estimation"])
    limits = re.findall(r"stroke: (#\w+); stroke-width: 3.6[;\"]", drawn["estimation"])
    assert len(means) == len(arms)
    return {
        "curves": dict(zip(("durm-1", "durm-2"), dashes, strict=True)),
        "pairs": dict(zip(arms, means, strict=True)),
        "intervals": dict(zip(arms[1:], limits, strict=False)),
    }


def test_an_arm_has_one_colour_in_all_figures(tmp_path: Path) -> None:
    found = colours_with(tmp_path, missing=None)
    assert found["pairs"] == dict(zip(("erm", "durm-1", "durm-2"), figures.COLOURS, strict=False))
    assert found["curves"] == found["intervals"] == {arm: found["pairs"][arm] for arm in ("durm-1", "durm-2")}


def test_an_arm_has_one_colour_even_if_the_one_before_it_has_no_results(tmp_path: Path) -> None:
    found = colours_with(tmp_path, missing=1)
    assert {colours["durm-2"] for colours in found.values()} == {found["curves"]["durm-2"]}


LIMITS = [
    *((93.5, 99.2), (0.0, 1.0), (-0.3, 0.5), (0.0, 101.0), (-1.0, 1.0), (-0.055, 0.055), (96.0, 96.0001)),
    *((1e-9, 3e-9), (-1e-12, 1e-12), (99.99999, 100.00001), (1e12, 5e12), (-3e6, 2e5), (0.0, 0.25), (0.0, 12.5)),
]


def ticks_between(low: float, high: float) -> tuple[dict[float, str], float]:
    """What stands beside an axis with these limits, by its place, and what all of it is to be multiplied with."""
    with figures.drawing():
        _, axes = figures._blank()
        axes.set_ylim(low, high)
        places, formatter = axes.get_yticks(), axes.yaxis.get_major_formatter()
        labels = formatter.format_ticks(places)
    ticks = {place: label for place, label in zip(places, labels, strict=True) if low <= place <= high}
    return ticks, float(formatter.get_offset().replace("−", "-") or 1)


def check_ticks(low: float, high: float) -> None:
    ticks, unit = ticks_between(low, high)
    assert 2 <= len(ticks) <= 7, (low, high)
    assert len(set(ticks.values())) == len(ticks), (low, high)
    for tick, label in ticks.items():
        assert float(label.replace("−", "-")) * unit == pytest.approx(tick, abs=1e-6 * (high - low)), (low, high)
        assert "-" not in label
        assert not re.fullmatch(r"−0(\.0*)?", label)
    assert len({len(label.partition(".")[2]) for label in ticks.values()}) == 1


@pytest.mark.parametrize(("low", "high"), LIMITS)
def test_ticks_say_where_they_are(low: float, high: float) -> None:
    check_ticks(low, high)


def test_ticks_say_where_they_are_whatever_the_limits() -> None:
    random = np.random.default_rng(1)
    for _ in range(300):
        low = float(random.uniform(-1, 1) * 10 ** random.uniform(-4, 5))
        check_ticks(low, low + float(10 ** random.uniform(-4, 5)))


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 1, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (93.5, 99.2, ["94", "96", "98"]),
        (-0.3, 0.5, ["−0.2", "0.0", "0.2", "0.4"]),
        (0, 52_000, ["0", "20000", "40000"]),
    ],
)
def test_ticks_by_hand(low: float, high: float, labels: list[str]) -> None:
    ticks, unit = ticks_between(low, high)
    assert list(ticks.values()) == labels
    assert unit == 1


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e5, 1e9])
@pytest.mark.parametrize(
    "label",
    [
        "test accuracy under pgd through the real logits, %",
        "validation loss over the real classes",
        "a metric whose name never comes to an end " * 5,
        "a_metric_whose_name_has_no_spaces_to_break_it_at" * 3,
    ],
)
def test_no_label_leaves_the_figure(label: str, scale: float) -> None:
    series = {f"arm {index} with a long name": ([1, 2, 3], scale * np.arange(6.0).reshape(2, 3)) for index in range(30)}
    classes = [f"zebra crossing, number {index}" for index in range(40)]
    with figures.drawing():
        for picture in (
            figures.over_epochs(series, label, "upper right"),
            figures.by_class({"erm": scale * np.ones((2, 40))}, classes, label, "lower right"),
        ):
            picture.figure.draw_without_rendering()
            wide, tall = picture.figure.get_size_inches()
            drawn, (axes,) = picture.figure.get_tightbbox(), picture.figure.axes
            assert 0 <= drawn.x0 < drawn.x1 <= wide
            assert 0 <= drawn.y0 < drawn.y1 <= tall
            legend = axes.get_legend()
            assert legend is not None
            box = legend.get_window_extent()
            assert axes.bbox.x0 <= box.x0 < box.x1 <= axes.bbox.x1
            assert axes.bbox.y0 <= box.y0 < box.y1 <= axes.bbox.y1


def epochs_shown(count: int) -> list[str]:
    """What stands on the axis of the epochs, for a study of so many."""
    entries = [{"epoch": float(epoch), "val_accuracy": 90.0 + epoch} for epoch in range(1, count + 1)]
    run = synthetic.result(make_study({}).trials()[0], 90.0, curves=entries)
    with figures.drawing():
        svg = curves({"erm": {"0": run}}, "val_accuracy", describe_metric("accuracy"), 0.1, "x").svg()
    drawn = ElementTree.fromstring(svg)
    (axis,) = drawn.iterfind(f".//{SVG}g[@id='matplotlib.axis_1']")
    *ticks, name = ["".join(text.itertext()) for text in axis.iter(f"{SVG}text")]
    assert name == "epoch"
    return ticks


@pytest.mark.parametrize("count", [2, 3, 5, 20, 200])
def test_epochs_are_whole(count: int) -> None:
    shown = epochs_shown(count)
    assert len(shown) >= 2
    assert all(label.isdecimal() and 0 <= int(label) <= count for label in shown)


def test_the_only_epoch_is_whole() -> None:
    assert all(label.isdecimal() for label in epochs_shown(1))


def test_a_report_is_the_same_whenever_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the day of the last trial."""
    monkeypatch.setattr("durm.report.page.last_day", lambda store: "a day")
    first = report(tmp_path, dummies=[0, 1], seeds=3, null=True)
    before = {path: path.read_bytes() for path in [first.page, *tmp_path.glob("figures/*"), *tmp_path.glob("report.*")]}
    kinds = Counter(path.suffix for path in before)
    assert kinds == {".svg": 4, ".pdf": 1, ".png": 1, ".html": 1, ".md": 1, ".tex": 1}
    assert report(tmp_path, dummies=[0, 1], seeds=3, null=True).summary == first.summary
    assert {path: path.read_bytes() for path in before} == before


# Markdown.


def unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def cells(line: str) -> list[str]:
    return [unescaped(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_the_markdown_has_the_verdict_first(each: Report) -> None:
    first = each.markdown.splitlines()[0]
    assert first.startswith("**")
    assert first.endswith("**")
    assert unescaped(first[2:-2]) == words.headline(each.summary)
    assert markdown(each.summary) == each.markdown


def test_the_markdown_escapes_pipes_and_tags(names: Report) -> None:
    assert "<b>" not in re.sub(r"\\<", "", names.markdown)
    assert not re.search(r"(?<!\\)[<>`*]", names.markdown.splitlines()[0][2:-2])
    grid = [line for line in names.markdown.splitlines() if line.startswith("|")]
    assert len({len(cells(line)) for line in grid}) == 1
    assert "a.b_c+d -e" in {cells(line)[0] for line in grid}


def test_pipes_in_a_grid_do_not_make_columns(tmp_path: Path) -> None:
    found = report(tmp_path, data=[NASTY_PATH, "digits"], dummies=[0, 1], seeds=6)
    grid = [line for line in found.markdown.splitlines() if line.startswith("|")]
    assert {len(cells(line)) for line in grid} == {9}
    assert cells(grid[2])[0] == NASTY_PATH
    assert [cells(line)[-1] for line in grid[2:]] == [s.comparisons[0].verdict for s in found.summary.settings]


def test_the_markdown_has_the_tables_and_sentences(plain: Report) -> None:
    (setting,) = plain.summary.settings
    lines = plain.markdown.splitlines()
    table = verdict_table(setting, plain.summary)
    grid = [cells(line) for line in lines if line.startswith("|")]
    assert grid[0] == table.headings
    assert grid[2 : 2 + len(table.rows)] == table.texts()
    comparisons = [*setting.comparisons, *setting.derived.comparisons]
    told = [unescaped(line[2:]) for line in lines if line.startswith("- ")]
    assert len(told) == len(comparisons)
    assert told[:-1] == [words.sentence(one, setting, plain.summary) for one in setting.comparisons]
    assert told[-1].startswith("durm-val takes, for each seed")
    assert "Equivalence margin (ROPE) ±0.1." in lines[-1]
    assert "durm 0.1, torch 2.13.0" in lines[-1]


def test_of_many_arms_the_undecided_are_counted(tmp_path: Path) -> None:
    """Of eight arms one is better by exactly 2 points in all nine seeds; the others differ by ±1 in turn."""
    many = report(
        tmp_path, lambda t: 90.0 + (2.0 if t.dummies == 5 else (-1.0) ** t.seed if t.dummies else 0.0),
        dummies=list(range(9)), seeds=9,
    )  # fmt: skip
    assert many.summary.settings[0].comparisons[4].verdict == "better"
    headline = words.headline(many.summary)
    assert headline.startswith(
        "5 dummies are better than erm (+2.000 points), no detectable effect of 1, 2, 3, 4, 6, 7 or 8"
    )
    told = words.sentences(many.summary.settings[0], many.summary)
    assert told[0].startswith(
        "5 dummies are better than erm on digits with cnn: +2.000 points (99.38 % CI +1.950 … +2.050"
    )
    assert told[1] == "7 arms are undecided; the table has their numbers."
    assert len(told) == 3  # and durm-val


def test_the_markdown_has_the_warnings(reports: dict[str, Report]) -> None:
    for name in ("one seed", "unfinished"):
        found = [unescaped(line[2:]) for line in reports[name].markdown.splitlines() if line.startswith("> ")]
        assert found == reports[name].summary.warnings != []


def test_what_is_meant_grows_with_the_study(reports: dict[str, Report]) -> None:
    def headings(name: str) -> list[str]:
        return [squeezed(term.text) for term in parse(reports[name].html).all("dt")]

    always = ["Better, worse", "Equal", "Undecided", "Not meant"]
    assert headings("plain") == always
    assert headings("grid") == [*always, "Many settings"]
    assert headings("until decided") == [*always, "Interim analyses"]


# Large studies.


@pytest.mark.slow
def test_a_thousand_trials_in_fifty_settings_are_read_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = grid_report(tmp_path)
    assert (first.summary.done, len(first.summary.settings)) == (1000, 50)
    store, read, real = Store.open(tmp_path), [], Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or real(path))
    results = read_results(store)
    write_report(store.folder, write_summary(store, results), store=store, results=results)
    assert read.count("result.json") == 1000
    assert first.page.stat().st_size < 5_000_000
    parse(first.html)


def test_groups_of_classes_have_a_table_of_their_own(tmp_path: Path) -> None:
    kept = synthetic.store(tmp_path, lambda trial: None, dummies=[0, 1], seeds=6)
    for trial in kept.study.trials():
        value = synthetic.result(trial, 90.0)
        groups = {"accuracy_head": 95.0 + trial.dummies, "accuracy_tail": 40.0 + trial.seed}
        kept.begin(trial)
        kept.keep(trial, value.model_copy(update={"metrics": {**value.metrics, **groups}}))
    results = read_results(kept)
    page = write_report(kept.folder, write_summary(kept, results), store=kept, results=results).read_text()
    (table,) = [table for table in tables(parse(page)) if "head" in table[0]]
    assert table[0] == ["arm", "mean of the classes", "head", "tail"]
    assert table[1:] == [["erm", "89.50", "95.00", "42.50"], ["durm-1", "89.50", "96.00", "42.50"]]

"""Links of the documentation lead somewhere, and what is generated is up to date."""

import re
import runpy
from pathlib import Path

import nbformat
import pytest
from markdown.extensions.toc import slugify
from nbclient import NotebookClient

from tests.docs.pages import PAGES, ROOT, blocks, name

DOCS = ROOT / "docs"


def prose(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def links(page: Path) -> list[str]:
    return re.findall(r"\]\(([^()\s]+)\)", prose(page))


def anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"`|\*\*|\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {slugify(heading, "-") for heading in plain} | {*re.findall(r'id="([^"]+)"', page.read_text())}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in links(page):
        if "://" in link:
            assert link.startswith("https://"), link
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)}: {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{name(page)}: {link}"


def test_the_readme_is_short() -> None:
    readme = ROOT / "README.md"
    assert len(re.findall(r"(?<!!)\[[^\]]*\]\(", prose(readme))) <= 8
    minimum = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    torch = re.search(r'"torch>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert minimum is not None
    assert torch is not None
    assert f"Python ≥ {minimum[1]} · PyTorch ≥ {torch[1]} · typed · MIT" in readme.read_text()


@pytest.mark.parametrize("page", sorted((DOCS / "how-to").glob("*.md")), ids=name)
def test_every_how_to_has_a_picture_that_a_script_makes(page: Path) -> None:
    pictures = [link for link in links(page) if "/images/" in link]
    assert pictures
    assert all((page.parent / picture).stat().st_size < 65_000 for picture in pictures)


@pytest.mark.parametrize("script", ["pictures.py", "gallery.py"])
def test_the_pictures_are_made_from_what_is_committed(script: str) -> None:
    code = (DOCS / script).read_text()
    named = re.findall(r"results/([\w-]+(?:/[\w-]+)?)/summary\.json", code)
    named += re.findall(r'committed\("([^"]+)"\)', code)
    named += re.findall(r'^    "[\w-]+": "([\w/-]+)",$', code, re.MULTILINE)
    assert len(named) > 3
    assert [study for study in named if not (ROOT / "results" / study / "summary.json").exists()] == []


def test_every_page_is_in_the_navigation() -> None:
    listed = (ROOT / "mkdocs.yml").read_text()
    for page in DOCS.rglob("*.md"):
        assert str(page.relative_to(DOCS)) in listed


def test_the_reference_of_the_commands_is_up_to_date() -> None:
    written = runpy.run_path(str(DOCS / "cli.py"))["page"]()
    assert (DOCS / "reference" / "cli.md").read_text() == written, "run `make cli-reference`"


def test_the_gallery_is_small_and_links_every_report() -> None:
    reports = sorted((DOCS / "reports").glob("*.html"))
    assert {f"reports/{path.name}" for path in reports} <= {*links(DOCS / "gallery.md")}
    assert all(path.stat().st_size < 300_000 for path in reports)


def test_the_faq_says_what_the_ledger_says() -> None:
    cells = [row.split(" | ") for row in (DOCS / "replication.md").read_text().splitlines() if row.startswith("| [")]
    found = {row[1]: row[3].strip("*") for row in cells}
    said = re.findall(r'"([^"]+)":\s+\*\*([^*]+)\*\*', (DOCS / "faq.md").read_text())
    assert len(said) > 8
    for statement, verdict in said:
        statement = " ".join(statement.split())
        assert found[statement] == verdict, f"docs/faq.md: {statement}"


def test_the_notebook_has_the_code_of_the_page() -> None:
    cells = nbformat.read(DOCS / "start.ipynb", as_version=4).cells
    code = [cell.source.split() for cell in cells if cell.cell_type == "code"]
    page = [block.split() for block in blocks(DOCS / "start.md", "python")]
    assert all(block in code for block in page)


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(DOCS / "start.ipynb", as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": tmp_path}}).execute()
    assert "better" in str(notebook.cells)

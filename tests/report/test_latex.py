"""report.tex: a booktabs table for each setting that compiles, whatever the names are."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from durm.report.latex import escape_latex, latex
from durm.report.tables import verdict_table
from durm.statistics.verdict import compare
from durm.study.records import ArmSummary, Setting, Summary

NASTY = r"a_b % & # $ { } ~ ^ \ [x] -- | < > ` ' −±…–×·ε² é ß 中"


def summary(settings: int = 1, name: str = "trick") -> Summary:
    """One arm is better by 1 in each of eight pairs, one is undecided."""
    baseline = {str(seed): 90.0 + seed for seed in range(8)}
    better = {seed: value + 1 for seed, value in baseline.items()}
    other = {seed: value + (-1) ** int(seed) for seed, value in baseline.items()}
    values = {"base": baseline, name: better, "other": other}
    arms = [ArmSummary(arm=arm, n=8, mean=sum(of.values()) / 8, std=2.4, values=of) for arm, of in values.items()]
    made = [
        Setting(setting={"setting": f"{name} {k}"}, arms=arms, comparisons=compare("base", values, rope=0.1))
        for k in range(settings)
    ]
    return Summary(study=name, metric="accuracy", rope=0.1, settings=made, schema_version=2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_b", r"a\_b"),
        ("5 % & #1 $x$ {y}", r"5 \% \& \#1 \$x\$ \{y\}"),
        ("~^\\", r"\textasciitilde{}\textasciicircum{}\textbackslash{}"),
        ("−0.18 … +0.24", r"$-$0.18 \ldots{} +0.24"),
        ("1 ± 2 – 3", r"1 $\pm$ 2 -- 3"),
        ("--flag", "-{}-flag"),
        ("[x]", "{[}x{]}"),
        ("ε = Δ", r"$\epsilon$ = $\Delta$"),
        ("é", "é"),
        ("中\n文", "{[}U+4E2D{]} {[}U+6587{]}"),
        ("ﬁ", "fi"),
    ],
)
def test_every_character_is_escaped(text: str, expected: str) -> None:
    assert escape_latex(text) == expected


def test_there_is_a_table_for_each_setting_with_its_numbers() -> None:
    found = summary(settings=3)
    text = latex(found)
    assert text.count(r"\begin{tabular}") == text.count(r"\bottomrule") == 3
    assert re.findall(r"\\label\{(.*)\}", text) == ["tab:trick-1", "tab:trick-2", "tab:trick-3"]
    table = verdict_table(found.settings[0], found).texts()
    rows = [line for line in text.splitlines() if line.startswith(("base &", "trick &", "other &"))]
    assert len(rows) == 9
    assert rows[0].startswith(r"base & 8 & 93.50 $\pm$ 2.40 & ")
    assert table[1][4] in rows[1]


def test_bold_is_what_is_decided() -> None:
    bold = [line.split(" & ")[0] for line in latex(summary()).splitlines() if r"\textbf" in line]
    assert bold == ["trick"]


def test_the_caption_has_pairs_level_and_margin() -> None:
    (caption,) = re.findall(r"\\caption\{(.*)\}\n", latex(summary()))
    for text in ("8 pairs", r"97.5 \% confidence interval", r"margin $\pm$0.1 points", "paired difference from base"):
        assert text in caption


@pytest.mark.long
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("name", ["trick", NASTY])
def test_it_compiles(name: str, tmp_path: Path) -> None:
    (tmp_path / "report.tex").write_text(latex(summary(2, name)))
    (tmp_path / "paper.tex").write_text(
        r"\documentclass{article}\usepackage{booktabs}\begin{document}\input{report.tex}\end{document}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "paper.pdf").stat().st_size > 10_000

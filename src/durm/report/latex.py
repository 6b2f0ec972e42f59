"""The verdict for a paper: a booktabs table for each setting, in report.tex."""

import re
import unicodedata
from collections.abc import Iterator

from durm.report.tables import verdict_table
from durm.report.text import confidence, headline, margin_of, place, runs_of
from durm.study.records import Setting, Summary

_SPECIAL = {
    **{letter: f"\\{letter}" for letter in "_%&#${}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "`": r"\textasciigrave{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "[": "{[}", "]": "{]}"},
    **{"−": "$-$", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$", "≤": r"$\le$", "≥": r"$\ge$", "→": r"$\to$"},
    **{"…": r"\ldots{}", "–": "--", "—": "---", "∞": r"$\infty$", "°": r"$^\circ$", "²": "$^2$", "³": "$^3$"},
}
_ACCENTED = {chr(code) for code in range(0xC0, 0x100)} - {*"ÐðÞþ×÷"}
"""Letters that every LaTeX knows in UTF-8."""


def latex(summary: Summary) -> str:
    r"""One table for each setting, for `\input`; bold is only what is decided."""
    about = " ".join(headline(summary).split())
    tables = "\n".join(
        "\n".join(_table(setting, summary, number)) for number, setting in enumerate(summary.sections, 1)
    )
    return f"% {_comment(about)}\n% needs \\usepackage{{booktabs}}\n\n{tables}"


def escape_latex(text: object) -> str:
    r"""Any text as LaTeX that prints it: `a_b` becomes `a\_b`, `−` a minus sign, what LaTeX cannot print its code."""
    parts = " ".join(str(text).split()).split("--")  # two hyphens would become a dash
    return "-{}-".join("".join(map(_escaped, part)) for part in parts)


def _escaped(letter: str) -> str:
    if letter in _SPECIAL:
        return _SPECIAL[letter]
    if " " <= letter <= "~" or letter in _ACCENTED:
        return letter
    if match := re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (\w+)", unicodedata.name(letter, "")):
        name = match[2].lower() if match[1] == "SMALL" else match[2].capitalize()
        if name in _GREEK.split():
            return f"$\\{name}$"
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return "".join(_SPECIAL.get(one, one) for one in plain) or f"{{[}}U+{ord(letter):04X}{{]}}"


_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta kappa mu nu xi pi rho sigma tau phi chi psi omega "
    "Gamma Delta Theta Xi Pi Sigma Phi Psi Omega"
)
"""The letters that LaTeX has a command for."""


def _table(setting: Setting, summary: Summary, number: int) -> Iterator[str]:
    yield from (r"\begin{table}", r"\centering", f"\\caption{{{_caption(setting, summary)}}}")
    yield f"\\label{{tab:{re.sub(r'[^A-Za-z0-9]+', '-', summary.study).strip('-') or 'verdict'}-{number}}}"
    yield from (r"\begin{tabular}{lrrrrl}", r"\toprule")
    yield r"arm & $n$ & mean $\pm$ std & difference & interval & verdict \\"
    yield r"\midrule"
    for arm, n, mean, std, difference, interval, _, verdict in verdict_table(setting, summary).texts():
        spread = escape_latex(mean if std == "–" else f"{mean} ± {std}")
        decided = verdict in ("better", "worse", "equal")
        judged = [
            f"\\textbf{{{cell}}}" if decided else cell for cell in map(escape_latex, (difference, interval, verdict))
        ]
        yield " & ".join([escape_latex(arm), n, spread, *judged]) + r" \\"
    yield from (r"\bottomrule", r"\end{tabular}", r"\end{table}", "")


def _caption(setting: Setting, summary: Summary) -> str:
    metric, judged = summary.measured, [(setting, one) for one in setting.comparisons]
    label = f"{metric.label[0].upper()}{metric.label[1:]}{f' in {metric.unit}' if metric.unit else ''}"
    parts = [f"{label} {place(setting)}".strip() + ": mean and standard deviation over runs"]
    if summary.search is not None:
        parts.append(f"each the best of {summary.search.draws} random draws on validation")
    if judged:
        unit = f", in {metric.unit_of_differences}" if metric.unit_of_differences else ""
        paired = "paired difference" if all(one.paired for _, one in judged) else "difference"
        level = f"{confidence(*judged[0], summary)} confidence interval"
        parts.append(f"{paired} from {judged[0][1].baseline}{unit} with its {level} ({runs_of(judged)})")
        parts.append(f"equivalence margin {margin_of(summary)}; bold: decided")
    return escape_latex("; ".join(parts) + ".")


def _comment(text: str) -> str:
    """One line: nothing in a name may end the comment."""
    return " ".join(text.splitlines())

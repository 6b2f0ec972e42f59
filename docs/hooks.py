"""Formulas of the documentation become MathML when the site is built: browsers draw it, and ask for no script or font.

The pages have LaTeX between dollar signs, as GitHub reads it. `pymdownx.arithmatex` finds it, this hook translates it.
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FOUND = re.compile(r'<(?P<tag>span|div) class="arithmatex">\s*\\[(\[](?P<latex>.*?)\\[)\]]\s*</(?P=tag)>', re.DOTALL)


def formula(match: re.Match[str]) -> str:
    """One formula as MathML; a display formula may scroll on a small screen."""
    block = match["tag"] == "div"
    drawn = convert(html.unescape(match["latex"]).strip(), display="block" if block else "inline")
    return f'<div class="formula">{drawn}</div>' if block else drawn


def on_page_content(content: str, **_: Any) -> str:
    """What mkdocs calls with the HTML of a page."""
    return FOUND.sub(formula, content)

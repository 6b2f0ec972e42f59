"""What a notebook shows of a study: the verdict in a sentence, its table and its figure, as one piece of HTML."""

from html import escape

from durm.report.captions import alternative_text
from durm.report.estimation import estimation, forest
from durm.report.figures import INK, drawing, inline_svg
from durm.report.tables import Table, overview_table, verdict_table
from durm.report.text import headline, search
from durm.study.records import Summary

_CARD = f"background: #fff; color: {INK}; padding: 12px; max-width: 60em; overflow-x: auto; font: 14px sans-serif"
_CELL = f"padding: 2px 8px; text-align: right; color: {INK}; background: #fff; border-bottom: 1px solid #ddd"


def notebook_html(summary: Summary) -> str:
    """Headline, table and figure. Dark on white whatever the theme around it; no script, nothing from elsewhere."""
    shown = summary.averages or summary.settings
    several = len(shown) > 1
    table = overview_table(summary) if several else verdict_table(shown[0], summary)
    with drawing():
        svg = (forest(summary) if several else estimation(shown[0], summary)).svg()
    alternative = alternative_text("forest" if several else "estimation", shown[0], summary)
    notes = "".join(f"<p>{escape(note)}</p>" for note in filter(None, (search(summary), *summary.warnings)))
    return (
        f'<div style="{_CARD}"><p style="font-size: 16px; font-weight: bold">{escape(headline(summary))}</p>'
        f"{_html_table(table)}{notes}{inline_svg(svg, alternative, 'width: 100%; max-width: 46em')}</div>"
    )


def _html_table(table: Table) -> str:
    head = "".join(f'<th scope="col" style="{_CELL}; font-weight: bold">{escape(name)}</th>' for name in table.headings)
    rows = [[f'<td style="{_CELL}">{escape(text)}</td>' for text in row] for row in table.texts()]
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<table style="border-collapse: collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'

"""A comparison → Markdown: one table per quantity, the best in bold, figures in files beside it.

comparison_markdown(comparison)      (text, {"figures/roofs.svg": b"…"})
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trace_tools import formats
from trace_tools.comparing.compare import Cell, Comparison, Line
from trace_tools.comparing.reports.compare_text import (
    MACHINE_COLUMNS,
    bar_figures,
    intro,
    line_place,
    line_text,
    machine_facts,
    ratio_text,
    roofline_figure,
)
from trace_tools.comparing.reports.pairs import ALONE, Beside, Pair
from trace_tools.rendering.charts import svg
from trace_tools.rendering.markdown_text import code_span, escape, inline_markdown, table

CODE = 70  # characters of a statement


def comparison_markdown(comparison: Comparison, beside: Beside = ALONE) -> tuple[str, dict[str, bytes]]:
    """Return the text, and its figures by the names it shows them under; without files beside it, no figures."""
    csv_name = beside.csv_name
    files: dict[str, bytes] = {}
    parts = [
        f"# {inline_markdown(comparison.title)}: {formats.plural(len(comparison.sides), 'machine')} side by side",
        escape(intro(comparison)) + (f" Every number, exactly: [{csv_name}]({csv_name})." if csv_name else ""),
        table(
            ["", *MACHINE_COLUMNS],
            [[escape(label), *map(escape, facts)] for label, facts in machine_facts(comparison)],
        ),
        *(f"> {escape(formats.one_line(note, 400))}" for note in comparison.notes),
        *_pairs(comparison, beside.pairs),
        *(_figures(comparison, files) if csv_name else ()),
        *_peaks(comparison),
        *_tables(comparison),
        *_values(comparison),
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n", files


def _pairs(comparison: Comparison, pairs: Sequence[Pair]) -> Iterator[str]:
    if pairs:
        base = escape(comparison.sides[comparison.base].label)
        yield "## Step by step"
        yield "\n".join(f"- [{base} → {escape(p.label)}]({p.text}): {escape(p.headline)}" for p in pairs)


def _figures(comparison: Comparison, files: dict[str, bytes]) -> Iterator[str]:
    roofs = roofline_figure(comparison)
    found = [("roofs", "Rooflines", roofs)] if roofs is not None else []
    for name, title, drawn in [*found, *bar_figures(comparison)]:
        files[f"figures/{name}.svg"] = svg.standalone(drawn).encode("utf-8")
        yield f"![{title}](figures/{name}.svg)"


def _peaks(comparison: Comparison) -> Iterator[str]:
    yield "## Peaks"
    rows = [[code_span(line.code), *(_cell(line, cell) for cell in line.cells)] for line in comparison.peaks]
    yield table(["peak", *_labels(comparison)], rows)
    if comparison.reached:
        yield "Highest MFU of an annotated step:"
        reached = [[code_span(line.code), *(_cell(line, c) for c in line.cells)] for line in comparison.reached]
        yield table(["dtype", *_labels(comparison)], reached)


def _tables(comparison: Comparison) -> Iterator[str]:
    for found in comparison.tables:
        yield f"## {found.quantity.title}"
        yield found.quantity.meaning
        if not found.lines:
            yield "No annotated step has one on any of these machines."
        unit = found.quantity.unit
        rows = [[_where(line), *(_cell(line, cell, unit) for cell in line.cells)] for line in found.lines]
        yield table(["", *_labels(comparison)], rows)
        if found.folded:
            yield f"*{formats.plural(len(found.folded), 'smaller one')}: in the CSV.*"


def _values(comparison: Comparison) -> Iterator[str]:
    if comparison.values:
        yield "## Measured by the lecture"
        yield "Numbers the lecture measured and inspected itself."
        rows = [[_where(line), *(_cell(line, cell) for cell in line.cells)] for line in comparison.values]
        yield table(["", *_labels(comparison)], rows)


def _labels(comparison: Comparison) -> list[str]:
    return [
        escape(side.label) + (" (base)" if place == comparison.base else "")
        for place, side in enumerate(comparison.sides)
    ]


def _where(line: Line) -> str:
    bold = "**" if line.where == "section" else ""
    return f"{bold}{code_span(formats.one_line(line.code, CODE))}{bold} {escape(line_place(line))}"


def _cell(line: Line, cell: Cell, unit: str | None = None) -> str:
    text = escape(line_text(line, cell, unit))
    ratio = f" ({ratio_text(cell)})" if cell.ratio not in (None, 1.0) else ""
    return f"● **{text}**{ratio}" if cell.best else text + ratio

"""A comparison → a report that fits a terminal, with colour where there is one.

print_comparison(comparison, Console())
print_comparison(comparison, Console(), every=True)      all lines instead of the longest few
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from trace_tools import formats
from trace_tools.comparing.compare import Cell, Comparison, Line, Table
from trace_tools.comparing.reports.compare_text import (
    MACHINE_COLUMNS,
    intro,
    line_text,
    machine_facts,
    ratio_text,
)

FEW = 6  # lines of each table, unless all are asked for
CODE, NARROW = 38, 22  # characters of a statement


def print_comparison(comparison: Comparison, console: Console, *, every: bool = False) -> None:
    """Print what each machine measured, table by table."""
    console.print(Text(formats.one_line(comparison.title, 100), style="bold"))
    console.print(Text(intro(comparison)))
    _print_machines(comparison, console)
    for note in comparison.notes:
        console.print(Text(f"! {formats.one_line(note, 300)}", style="yellow"))
    for table in comparison.tables:
        if table.lines:
            _print_table(table, comparison, console, every=every)
    for title, lines in (("Measured by the lecture", comparison.values), ("Peaks", comparison.peaks)):
        if lines:
            _print_lines(title, lines, comparison, console)


def _is_wide(comparison: Comparison, console: Console) -> bool:
    """Whether there is room for how far each figure scatters."""
    return console.width >= CODE + 22 + 30 * len(comparison.sides)


def _print_machines(comparison: Comparison, console: Console) -> None:
    if _is_wide(comparison, console):
        grid = _grid("Machines", ["", *MACHINE_COLUMNS])
        for label, facts in machine_facts(comparison):
            grid.add_row(Text(formats.one_line(label, 40), style="bold"), *map(Text, facts))
        console.print(grid)
        return
    for label, facts in machine_facts(comparison):
        named = [f"{column} {fact}" for column, fact in zip(MACHINE_COLUMNS[1:], facts[1:], strict=True)]
        console.print(Text.assemble((formats.one_line(label, 40), "bold"), f"  {facts[0]} · {' · '.join(named)}"))


def _print_table(table: Table, comparison: Comparison, console: Console, *, every: bool) -> None:
    """Print a quantity's lines: sections, then the steps with the largest figures."""
    wide = _is_wide(comparison, console)
    lines: Sequence[Line] = (*table.lines, *table.folded) if every else _first(table.lines)
    grid = _grid(table.quantity.title, ["", *_labels(comparison)], f"{table.quantity.meaning}")
    for line in lines:
        texts = [line_text(line, cell, table.quantity.unit, spread=wide) for cell in line.cells]
        row = [_marked(text, cell) for text, cell in zip(texts, line.cells, strict=True)]
        grid.add_row(_where(line, wide=wide), *row, style="bold" if line.where == "section" else None)
    console.print(grid)
    hidden = len(table.lines) + len(table.folded) - len(lines)
    if hidden:
        console.print(Text(f"  {formats.plural(hidden, 'smaller one')} with --all", style="dim"))


def _first(lines: Sequence[Line]) -> list[Line]:
    """Return the sections and the steps with the largest figures, in the order of the lecture."""
    steps = [line for line in lines if line.where != "section"]
    largest = sorted(steps, key=lambda line: -max(cell.value or 0 for cell in line.cells))[:FEW]
    return [line for line in lines if line.where == "section" or line in largest]


def _print_lines(title: str, lines: Sequence[Line], comparison: Comparison, console: Console) -> None:
    grid, wide = _grid(title, ["", *_labels(comparison)]), _is_wide(comparison, console)
    for line in lines:
        row = [_marked(line_text(line, cell, spread=wide), cell) for cell in line.cells]
        grid.add_row(_where(line, wide=wide), *row)
    console.print(grid)


def _grid(title: str, columns: Sequence[str], caption: str | None = None) -> Grid:
    name = Text(title, style="bold")
    if caption:
        name.append(f"  {caption}", style="dim not bold")
    grid = Grid(title=name, title_justify="left", box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for place, column in enumerate(columns):
        grid.add_column(
            Text(column), justify="left" if place == 0 else "right", overflow="ellipsis", no_wrap=place == 0
        )
    return grid


def _labels(comparison: Comparison) -> list[str]:
    return [formats.one_line(side.label, 40) for side in comparison.sides]


def _where(line: Line, *, wide: bool) -> Text:
    shown = Text(formats.one_line(line.code, CODE if wide else NARROW))
    if line.line is not None:
        shown.append(f"  {line.line}{' ' + line.which if line.which else ''}", style="dim not bold")
    return shown


def _marked(text: str, cell: Cell) -> Text:
    shown = Text("● " if cell.best else "", style="green" if cell.best else "")
    shown.append(text)
    if cell.ratio not in (None, 1.0):
        shown.append(f"  {ratio_text(cell)}", style="dim not bold")
    return shown

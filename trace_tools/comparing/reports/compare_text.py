"""A comparison → what every form of its report says: the texts of cells, the machines' facts, its CSV.

cell_text(cell, "s")         "11.2 ms ± 0.4%"
ratio_text(cell)             "× 0.31"
csv_text(comparison)         one row for each quantity of each step, exact numbers
"""

from __future__ import annotations

import csv
import io
import statistics
from collections import defaultdict
from collections.abc import Iterator

from trace_tools import formats
from trace_tools.call_tree import Tree
from trace_tools.comparing.compare import RATE, Cell, Comparison, Line
from trace_tools.comparing.reports.roofs import roof_of
from trace_tools.rendering.charts.plot import bars
from trace_tools.rendering.charts.roofline import roofline
from trace_tools.schema import Machine, Trace

NAME = 60  # characters of a machine's name


def cell_text(cell: Cell, unit: str | None, *, spread: bool = True) -> str:
    """Write a reading: its median, and half the range over the passes relative to it."""
    if cell.value is None:
        return "–"
    text = formats.percent(cell.value) if unit is None else formats.quantity(cell.value, unit, 3)
    if not spread or unit is None or cell.low is None or cell.high is None or cell.low == cell.high:
        return text
    return f"{text} ± {formats.percent((cell.high - cell.low) / 2 / abs(cell.value or 1))}"


def ratio_text(cell: Cell) -> str:
    """Write how many times the base's value it is."""
    return "" if cell.ratio is None else factor(cell.ratio)


def factor(ratio: float) -> str:
    """Write a ratio: × 0.31, × 12, × 1/1,470."""
    if 0 < ratio < 0.01:
        return f"× 1/{formats.ratio(1 / ratio)}"
    return f"× {formats.ratio(ratio)}"


def line_place(line: Line) -> str:
    """Say where a line is: its function, source line, execution."""
    parts = [formats.one_line(line.function, 40), f"line {line.line}" if line.line else "", line.which]
    return ", ".join(part for part in parts if part)


def line_text(line: Line, cell: Cell, unit: str | None = None, *, spread: bool = True) -> str:
    """Write a cell of a line: in the quantity's unit, or its own; a value without one is a plain number."""
    value = cell.value
    if line.where == "value" and not line.unit and value is not None:
        return formats.number(value, 4)
    return cell_text(cell, unit or line.unit, spread=spread)


def machine_facts(comparison: Comparison) -> list[tuple[str, list[str]]]:
    """Return a row of facts for each machine: (label, [name, torch, passes, claims, whole run, first run])."""
    return [(side.label, _facts(side.trace)) for side in comparison.sides]


MACHINE_COLUMNS = ("machine", "torch", "passes", "claims", "main()", "first run")


def _facts(trace: Trace) -> list[str]:
    claims = _claims(trace)
    failed = sum(not held for held in claims)
    passes = [p for p in trace.run.processes if p.name.startswith("pass")]
    times = [[ns for ns in found if ns] for found in ([p.warm_ns for p in passes], [p.cold_ns for p in passes])]
    return [
        formats.one_line(machine_name(trace.machine), NAME),
        formats.one_line(dict(trace.versions).get("torch", "–"), 40),
        str(trace.run.passes),
        f"{failed:,} of {len(claims):,} failed" if failed else f"all {len(claims):,} hold" if claims else "none",
        *(formats.duration(statistics.median(found)) if found else "not timed" for found in times),
    ]


def _claims(trace: Trace) -> list[bool]:
    """Return for each claim whether all its executions held; counted as pages count them: per section, once."""
    tree, held = Tree(trace), defaultdict[tuple[str | None, int, int], list[bool]](list)
    for step in tree.by_id.values():
        if step.claim is not None:
            held[tree.section_of[step.frame], tree.frames[step.frame].source, step.statement].append(step.claim.held)
    return [all(executions) for executions in held.values()]


def machine_name(machine: Machine) -> str:
    """Return a machine's name; of a CPU, with its threads."""
    return f"{machine.name}, {formats.plural(machine.threads, 'thread')}" if machine.threads else machine.name


def intro(comparison: Comparison) -> str:
    """Say what is compared, in one sentence."""
    base = comparison.sides[comparison.base].label
    matched = formats.plural(comparison.matched, "annotated step")
    alone = [f"{c.label}: {n}" for c, n in zip(comparison.sides, comparison.unmatched, strict=True) if n]
    rest = f"; not on every machine: {', '.join(alone)}" if alone else ""
    return (
        f"{matched} matched on all {len(comparison.sides)} machines{rest}. × is relative to {base}; "
        "● marks the best where every pass of it beat every pass of the others."
    )


def roofline_figure(comparison: Comparison) -> str | None:
    """Draw all rooflines on one figure."""
    rates = next(table for table in comparison.tables if table.quantity == RATE)
    roofs = [
        roof_of(side.label, side.trace.machine, ((line.code, line.cells[place]) for line in rates.lines))
        for place, side in enumerate(comparison.sides)
    ]
    return roofline(roofs, "roofs", "Rooflines")


def bar_figures(comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    """Yield (name, title, figure) of the bars for each dtype: peaks, and the best share reached."""
    peaks = [line for line in comparison.peaks if line.code != "memory"]
    for name, title, lines, write in (
        ("peaks", "Peak of each dtype", peaks, lambda rate: formats.quantity(rate, "FLOP/s", 3)),
        ("reached", "Highest MFU of an annotated step, by dtype", comparison.reached, _share),
    ):
        rows = [
            (side.label, [line.cells[place].value for line in lines]) for place, side in enumerate(comparison.sides)
        ]
        drawn = bars([line.code for line in lines], rows, name, title, write)
        if drawn is not None:
            yield name, title, drawn


def _share(share: float) -> str:
    return f"{formats.number(100 * share, 3).removesuffix('.0')}%"


def csv_text(comparison: Comparison) -> str:
    """Return every number exactly, one row for each quantity of each step, one column for each machine."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    labels = [side.label for side in comparison.sides]
    header = ["quantity", "unit", "where", "function", "line", "code", "which", *labels]
    rows.writerow([_cell(text) for text in [*header, *(f"{label} ÷ {labels[comparison.base]}" for label in labels)]])
    for table in comparison.tables:
        for line in (*table.lines, *table.folded):
            rows.writerow(_row(table.quantity.key, table.quantity.unit or "1", line))
    for name, lines in (("value", comparison.values), ("peak", comparison.peaks), ("highest_mfu", comparison.reached)):
        for line in lines:
            rows.writerow(_row(name, line.unit or "1", line))
    return out.getvalue()


def _row(quantity: str, unit: str, line: Line) -> list[str]:
    numbers = [cell.value for cell in line.cells] + [cell.ratio for cell in line.cells]
    place = [quantity, unit, line.where, line.function, str(line.line or ""), line.code, line.which]
    return [*map(_cell, place), *("" if number is None else repr(number) for number in numbers)]


def _cell(text: str) -> str:
    """Return text that a spreadsheet takes for text, not for a formula."""
    text = formats.one_line(text, 300)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text

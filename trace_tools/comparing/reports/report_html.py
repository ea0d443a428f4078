"""A difference → an HTML page that needs nothing but itself: what matters, figures, both sides along the lecture.

difference_html(difference, home="../index.html")     "<!doctype html>…"
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup

from trace_tools import formats
from trace_tools.comparing.compare import RATE, Cell, measured
from trace_tools.comparing.difference import ASPECTS, Difference, Side, StepPair
from trace_tools.comparing.reports.along import Along, Passage, Place, along, aspects
from trace_tools.comparing.reports.entries import headline, repeated
from trace_tools.comparing.reports.page import Home, render
from trace_tools.comparing.reports.report_text import (
    change_text,
    code_of,
    how_judged,
    leading,
    notes,
    shown_lines,
    side_text,
)
from trace_tools.comparing.reports.roofs import roof_of
from trace_tools.comparing.wording import setting_sides
from trace_tools.rendering.charts.memory import memory_lines
from trace_tools.rendering.charts.ratios import MOST, TimeRatio, time_ratios
from trace_tools.rendering.charts.roofline import Roof, roofline
from trace_tools.rendering.highlight import highlighted
from trace_tools.schema import Step

POINTS = 1_500  # of a memory timeline
LEADING = 12  # entries of an aspect before the rest is folded


def difference_html(difference: Difference, home: str | None = None, beside: str | None = None) -> str:
    """Return the page; `home` is the index of the site it belongs to, `beside` the page of all machines."""
    laid = along(difference)
    return render(
        "diff.html.j2",
        page=Home(home or "#text"),
        beside=beside,
        difference=difference,
        view=_view(difference, laid),
        sections=laid.sections,
        left_out=laid.left_out,
        headline=headline(difference),
        sides=[("A", difference.a, side_text(difference.a)), ("B", difference.b, side_text(difference.b))],
        notes=notes(difference),
        settings=[
            (setting, *setting_sides(setting), places)
            for setting, places in zip(difference.settings, repeated(difference), strict=True)
        ],
        leading=leading(difference),
        few=LEADING,
        figures=figures_of(difference, laid.rows),
        judged=list(how_judged(difference)),
        aspects=ASPECTS,
        change=change_text,
    )


def _view(difference: Difference, laid: Along) -> _View:
    a, b = _highlighted(difference.a), _highlighted(difference.b)
    return _View(difference, laid, code_of(difference), a, b, _titles(difference.b))


def _highlighted(side: Side) -> list[tuple[str, ...]]:
    """Return each source's lines as highlighted HTML."""
    return [_html(lines) for lines in shown_lines(side)]


@lru_cache(maxsize=8)
def _html(lines: tuple[str, ...]) -> tuple[str, ...]:
    return highlighted(lines)


@dataclass(frozen=True)
class _View:
    """What the template asks about the difference along the lecture."""

    difference: Difference
    laid: Along
    line: Callable[[int], str]
    a_code: Sequence[tuple[str, ...]]
    b_code: Sequence[tuple[str, ...]]
    titles: Mapping[str, str]

    def code(self, passage: Passage, place: Place) -> list[tuple[str, int, Markup]]:
        """Return a statement's lines as (mark, number, HTML): one where both sides read the same, else A's and B's."""
        a, b = (self._line(side, passage, place) for side in ("A", "B"))
        if place.edited and a is not None and b is not None:
            return [("−", *a), ("+", *b)]
        mark = "+" if a is None else "−" if b is None else ""
        found = b if b is not None else a
        return [] if found is None else [(mark, *found)]

    def _line(self, side: str, passage: Passage, place: Place) -> tuple[int, Markup] | None:
        number = place.a_line if side == "A" else place.b_line
        source = passage.sources[0 if side == "A" else 1]
        code = self.a_code if side == "A" else self.b_code
        if number is None or source is None or number > len(code[source]):
            return None
        return number, Markup(code[source][number - 1].replace("\t", "    ").lstrip(" "))

    def shows(self, row: int) -> bool:
        """Whether a row is on the page, so that a link to it leads somewhere."""
        return row in self.laid.rows

    def aspects(self, place: Place) -> str:
        """Return the aspects in which something differs at a statement."""
        return aspects(o for execution in place.executions for o in execution.observed)

    def is_gain(self, place: Place) -> bool:
        """Whether all that matters at a statement is that it got faster."""
        verdicts = {o.verdict for execution in place.executions for o in execution.observed if o.level == 2}
        return verdicts == {"faster"}

    def title(self, function: str) -> str:
        """Return the first line of a function's docstring, as B has it; "" when there is none."""
        return self.titles.get(function, "")

    def name(self, frame: int) -> str:
        """Return the name of the function a frame ran."""
        pair = self.difference.frames[frame]
        found = pair.b or pair.a
        return "" if found is None else formats.one_line(found.function, 60)


def _titles(side: Side) -> dict[str, str]:
    """Return the first line of the docstring of each function at the top of a lecture."""
    try:
        tree = ast.parse(side.trace.sources[0].text) if side.trace.sources else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    docs = {n.name: ast.get_docstring(n) for n in tree.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
    return {name: text.splitlines()[0] for name, text in docs.items() if text and text.strip()}


# --- figures --------------------------------------------------------------------------------------


def figures_of(difference: Difference, shown: Collection[int] = ()) -> list[tuple[str, Markup]]:
    """Return the figures that there are numbers for: (title, SVG); they link to the rows that the page shows."""
    names = _labels(difference)
    drawn = [
        (
            f"Times of {names[1]} relative to {names[0]}, with 95% intervals: right of the line is slower",
            time_ratios(_ratios(difference, shown), "times", names),
        ),
        ("Both rooflines, and the annotated steps under them", roofline(_roofs(difference), "roofs", "Rooflines")),
        ("Tensor bytes alive after each matched step", memory_lines(_memory(difference), "memory")),
    ]
    return [(title, Markup(svg)) for title, svg in drawn if svg is not None]


def _labels(difference: Difference) -> tuple[str, str]:
    return tuple(f"{letter} {s.label}" for letter, s in (("A", difference.a), ("B", difference.b)))  # type: ignore[return-value]


def _ratios(difference: Difference, shown: Collection[int]) -> list[TimeRatio]:
    """Return the times that say most: called different, else those of the longest annotated steps; slowest first."""
    timed = [(row, time) for row in difference.rows for time in row.times if time.overall]
    timed = [(row, time) for row, time in timed if time.matters or row.step.annotated]
    timed.sort(key=lambda item: (not item[1].matters, -max(item[1].a_ns, item[1].b_ns)))
    statements = {
        (difference.function_of(row), row.step.statement, time.subject, time.overall): (row, time)
        for row, time in reversed(timed)
    }
    kept = {(row.number, time.subject) for row, time in statements.values()}
    first = [(row, time) for row, time in timed if (row.number, time.subject) in kept][:MOST]
    code = code_of(difference)
    return [
        TimeRatio(
            _named(row, code(row.number), together=time.executions > 1),
            time.overall or 1.0,
            time.interval,
            f"#r{row.number}" if row.number in shown else None,
        )
        for row, time in sorted(first, key=lambda item: -(item[1].overall or 1.0))
        if math.isfinite(time.overall or 1.0)
    ]


def _named(row: StepPair, code: str, *, together: bool) -> str:
    execution = f" ({row.step.execution})" if row.step.execution > 1 and not together else ""
    return f"{row.step.line}{execution}  {formats.one_line(code, 80)}"


def _roofs(difference: Difference) -> list[Roof]:
    names = _labels(difference)
    pairs = [(row.a, row.b) for row in difference.rows if row.a is not None and row.b is not None]
    sides = ((difference.a, [a for a, _ in pairs]), (difference.b, [b for _, b in pairs]))
    return [
        roof_of(name, side.trace.machine, (("", _rate(step, side)) for step in steps if step.annotated))
        for name, (side, steps) in zip(names, sides, strict=True)
    ]


def _rate(step: Step, side: Side) -> Cell:
    return measured(step, side.trace.machine)[RATE.key]


def _memory(difference: Difference) -> list[tuple[str, list[int | None]]]:
    """Return live bytes along the rows that call nothing (what called ends after what it called)."""
    callers = {pair.parent for pair in difference.frames}
    rows = [row for row in difference.rows if row.number not in callers and (_live(row.a) or _live(row.b)) is not None]
    stride = max(1, math.ceil(len(rows) / POINTS))
    names = _labels(difference)
    sides = ([_live(row.a) for row in rows], [_live(row.b) for row in rows])
    return [(name, _thinned(sizes, stride)) for name, sizes in zip(names, sides, strict=True)]


def _live(step: Step | None) -> int | None:
    return step.meters.live_bytes if step is not None and step.meters is not None else None


def _thinned(sizes: Sequence[int | None], stride: int) -> list[int | None]:
    """Keep the largest of each `stride` sizes."""
    groups = [[s for s in sizes[at : at + stride] if s is not None] for at in range(0, len(sizes), stride)]
    return [max(group, default=None) for group in groups]

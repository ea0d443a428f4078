"""Check a trace beyond the types and bounds of `model`: references must resolve, sizes must agree.

    check_head(trace.run, trace.machine, trace.sources, path)
    check = References(trace.sources).check
    for event in trace.steps:
        check(event)  # Mismatch: .line: found 900; expected 1 to 120

Events are in the order in which they started: a step precedes the frames of the calls made inside it, a frame its
steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

from trace_tools.trace import shapes
from trace_tools.trace.explorations import why_unexplorable
from trace_tools.trace.model import (
    SCALES,
    STYLES,
    WIDTH,
    Answer,
    Ask,
    Counts,
    Element,
    Event,
    Explore,
    Frame,
    Image,
    Machine,
    Narrative,
    Observed,
    Plot,
    Run,
    Series,
    SourceFile,
    Step,
    Table,
    Tensor,
    Value,
)
from trace_tools.trace.structure import Mismatch, short
from trace_tools.util.files import why_not_inside

T = TypeVar("T")

DEEPEST_VALUE = 50  # values inside values
MOST_SOURCES = 1_000  # a lecture and its modules: each is parsed, highlighted and matched
LARGEST_COUNT = 10**40  # FLOPs and bytes of operators: the product of seven such counts still fits a float

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# not in the lecture's folder: on the web, or in the trace
_ELSEWHERE = re.compile(r"https?://|data:image/", re.IGNORECASE)
_SCALARS: dict[str, tuple[type, ...]] = {  # None: too long to show, as the note explains
    "bool": (bool, type(None)),
    "int": (int, type(None)),
    "float": (int, float, type(None)),
    "str": (str, type(None)),
}


def check_head(run: Run, machine: Machine, sources: list[SourceFile], path: Path) -> None:
    """Raise `TraceFileError`, with `path` and the position, at the first impossible value in a trace's head."""
    try:
        _stays_inside(run.lecture, ".run.lecture")
        if not _SLUG.fullmatch(machine.slug):
            problem = f"found {short(machine.slug)}; expected a plain folder name like 'nvidia-h200'"
            raise Mismatch(problem, ".machine.slug")
        if len(sources) > MOST_SOURCES:
            raise Mismatch(f"found {len(sources):,} of them; expected at most {MOST_SOURCES:,}", ".sources")
        _each(sources, ".sources", lambda source: _stays_inside(source.path, ".path"))
    except Mismatch as mismatch:
        raise mismatch.at(path) from None


# --- the events -----------------------------------------------------------------------------------


class References:
    """Checks events in order against the frames and steps that came before."""

    def __init__(self, sources: list[SourceFile]) -> None:
        # Lines of each source, and an upper bound of its statements and cells: each needs two characters. Counting
        # them takes a parser of the Python version that ran.
        texts = [source.text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n") for source in sources]
        self._bounds = [(text.count("\n") + 1, len(text) // 2 + 2) for text in texts]
        self._last_line = max((lines for lines, _ in self._bounds), default=1)
        self._frames: dict[int, tuple[int, int]] = {}  # frame → most lines and statements in its source
        self._steps: set[int] = set()

    def check(self, event: Event) -> None:
        """Raise `Mismatch` at the first impossible value in the next event."""
        if isinstance(event, Frame):
            self._check_frame(event)
            return
        bounds = self._frames.get(event.frame)
        if bounds is None:
            raise Mismatch(f"found {event.frame}; expected a frame that comes before", ".frame")
        _check_range(event.line, 1, bounds[0], ".line")
        _check_range(event.statement, 0, bounds[1] - 1, ".statement")
        if isinstance(event, Step):
            if event.id in self._steps:
                raise Mismatch(f"found {event.id}; expected a number that no earlier step has", ".id")
            self._steps.add(event.id)
            self._check_observed(event)

    def _check_frame(self, frame: Frame) -> None:
        if frame.frame in self._frames:
            raise Mismatch(f"found {frame.frame}; expected a number that no earlier frame has", ".frame")
        if frame.of is not None and frame.of not in self._steps:
            raise Mismatch(f"found {frame.of}; expected a step that comes before", ".of")
        if frame.source >= len(self._bounds):
            raise Mismatch(
                f"found {frame.source}; expected less than {len(self._bounds)}, the number of sources", ".source"
            )
        self._frames[frame.frame] = self._bounds[frame.source]
        _each(frame.arguments, ".arguments", _check_named)

    def _check_observed(self, step: Step) -> None:
        if step.values is not None:
            _each(step.values, ".values", _check_named)
        if step.claim is not None:
            _each(step.claim.sides, ".claim.sides", _check_named)
        if step.narrative is not None:
            _each(step.narrative, ".narrative", check_narrative)
        if step.meters is not None:
            _inside(".meters", _check_counted, step.meters)
        if step.measured is not None:
            _each(step.measured, ".measured", _check_counted)
        for field in ("origin_line", "waited_line") if step.raised is not None else ():
            if (line := getattr(step.raised, field)) is not None:
                _check_range(line, 1, self._last_line, f".raised.{field}")


def _check_counted(counted: Counts) -> None:
    """Check the counts that may be beyond 64 bits."""
    totals = [counted.flops, counted.meta_flops, counted.bytes_read, counted.bytes_written]
    totals += [total for _, _, flops, moved in counted.work or () for total in (flops, moved)]
    totals += [one.bytes for one in counted.collectives or ()]
    for total in totals:
        if total is not None and total > LARGEST_COUNT:
            raise Mismatch(f"found {short(total)}; expected counts of at most {LARGEST_COUNT:.0e}")


def check_narrative(narrative: Narrative) -> None:
    """Raise `Mismatch` at the first impossible value; the calls of a lecture are checked by the same rules."""
    match narrative:
        case Image(url=url, width=width):
            if url and not _ELSEWHERE.match(url):
                _stays_inside(url, ".url")
            if width is not None and not WIDTH.fullmatch(str(width)):
                raise Mismatch(f"found {width!r}; expected pixels above 0, or a percentage", ".width")
        case Plot():
            _one_of(narrative.x_scale, SCALES, ".x_scale")
            _one_of(narrative.y_scale, SCALES, ".y_scale")
            _each(narrative.series, ".series", _check_series)
        case Table(columns=columns, rows=rows):
            for number, row in enumerate(rows):
                if len(row) != len(columns):
                    raise Mismatch(f"found {len(row)} cells; expected {len(columns)}", f"[{number}]", ".rows")
        case Ask(answer=answer):
            _inside(".answer", _check_answer, answer)
        case Explore(text=text, exploration=exploration):
            if wrong := why_unexplorable(exploration, text):  # pages turn the formula into a script
                raise Mismatch(wrong)


def _check_answer(answer: Answer) -> None:
    given = [answer.value, *(slip for slip, _ in answer.slips or ())]
    for one in (*given, *(answer.samples or ())):
        if isinstance(one, bool) or (isinstance(one, float) and not math.isfinite(one)):
            raise Mismatch(f"found {one}; expected a finite number or a text")
    if answer.choices is not None and (unknown := [one for one in given if one not in answer.choices]):
        raise Mismatch(f"found {short(unknown[0])}; expected one of {', '.join(answer.choices)}")
    if isinstance(answer.value, str) != (answer.within is None):
        raise Mismatch(f"found {answer.within}; expected a tolerance for a number, none for a text", ".within")


def _check_series(series: Series) -> None:
    _one_of(series.style, STYLES, ".style")
    if len(series.x) != len(series.y):
        raise Mismatch(f"found {len(series.y)} values; expected {len(series.x)}, as many as x has", ".y")


# --- values ---------------------------------------------------------------------------------------


def _check_named(named: Observed) -> None:
    _inside("[1]", _check_value, named[1])


def _check_value(value: Value, depth: int = 1) -> None:
    expected = _SCALARS.get(value.type)
    if expected is not None and type(value.value) not in expected:
        raise Mismatch(f"found {type(value.value).__name__}; expected {value.type}", ".value")
    if value.tensor is not None:
        _inside(".tensor", _check_tensor, value.tensor)
    if value.items or value.entries:
        if depth > DEEPEST_VALUE:
            raise Mismatch(f"nested more than {DEEPEST_VALUE} values deep")
        if value.items and value.length is not None and value.length < len(value.items):
            raise Mismatch(
                f"found {value.length}; expected at least {len(value.items)}, the number of items", ".length"
            )
        check = partial(_check_value, depth=depth + 1)
        _each(value.items, ".items", check)
        _each(value.entries, ".entries", lambda pair: _each(pair, "", check))


def _check_tensor(tensor: Tensor) -> None:
    rank = len(tensor.shape)
    _has_length(tensor.strides, rank, ".strides")
    _has_length(tensor.elements, shapes.count(tensor.shape, LARGEST_COUNT), ".elements")
    if (tensor.corner is None) != (tensor.corner_shape is None):
        raise Mismatch("found only corner or only corner_shape; expected both or neither")
    if tensor.corner_shape is not None:
        _has_length(tensor.corner_shape, rank, ".corner_shape")
        for number, (size, full_size) in enumerate(zip(tensor.corner_shape, tensor.shape, strict=True)):
            _check_range(size, 0, full_size, f".corner_shape[{number}]")
        _has_length(tensor.corner, shapes.count(tensor.corner_shape, LARGEST_COUNT), ".corner")


# --- for all parts --------------------------------------------------------------------------------


def _inside(part: str, check: Callable[[T], None], item: T) -> None:
    """Check an item, and report errors in it at `part`."""
    try:
        check(item)
    except Mismatch as mismatch:
        mismatch.parts.append(part)
        raise


def _each(items: Iterable[T] | None, part: str, check: Callable[[T], None]) -> None:
    """Check each item, and report errors in an item at its index in `part`."""
    for number, item in enumerate(items or ()):
        try:
            check(item)
        except Mismatch as mismatch:
            mismatch.parts.extend((f"[{number}]", part))
            raise


def _check_range(value: int, low: int, high: int, part: str) -> None:
    if not low <= value <= high:
        raise Mismatch(f"found {value}; expected {low} to {high}", part)


def _one_of(value: str | None, choices: tuple[str, ...], part: str) -> None:
    if value is not None and value not in choices:
        raise Mismatch(f"found {value[:40]!r}; expected one of {', '.join(choices)}", part)


def _stays_inside(path: str, part: str) -> None:
    problem = why_not_inside(path)
    if problem:
        raise Mismatch(problem, part)


def _has_length(value: list[int] | list[Element] | None, length: int, part: str) -> None:
    if value is not None and len(value) != length:
        raise Mismatch(f"found {len(value)} entries; expected {length}, as the shape says", part)

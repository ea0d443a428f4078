"""Check a trace beyond the types and bounds of `model`: references must resolve, sizes must agree.

    check_head(trace.run, trace.machine, trace.sources)
    check = References(trace.sources).check
    for event in trace.steps:
        check(event)  # Mismatch: line: found 900; expected 1 to 120

Events are in the order in which they started: a step precedes the frames of the calls made inside it, a frame its
steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sized
from pathlib import Path
from typing import TypeVar

import msgspec

from trace_tools.errors import TraceFileError
from trace_tools.trace import shapes
from trace_tools.trace.explorations import why_unexplorable
from trace_tools.trace.model import (
    SCALES,
    STYLES,
    WIDTH,
    Answer,
    Ask,
    Counts,
    Event,
    Explore,
    Frame,
    Image,
    Machine,
    Narrative,
    Observed,
    Plot,
    Run,
    SourceFile,
    Step,
    Table,
    Tensor,
    Value,
)
from trace_tools.util import formats
from trace_tools.util.files import why_not_inside

T = TypeVar("T")

DEEPEST_VALUE = 50  # values inside values
MOST_SOURCES = 1_000  # a lecture and its modules: each is parsed, highlighted and matched
LARGEST_COUNT = 10**40  # FLOPs and bytes of operators: the product of seven such counts still fits a float

# The folder of a machine in a site, in which `diff` holds the reports, `partial` in each folder a run that did not
# finish, and names with a dot are files.
FOLDER = re.compile(r"(?!(?:diff|partial)\Z)[^\W_][\w-]{0,99}", re.IGNORECASE)
# not in the lecture's folder: on the web, or in the trace
_ELSEWHERE = re.compile(r"https?://|data:image/", re.IGNORECASE)
_POSITION = re.compile(r"\A(.*?)(?: - at `(?:key in `)?\$\.?(.*)`)?\Z", re.DOTALL)  # in an error of msgspec
_SCALARS: dict[str, tuple[type, ...]] = {  # None: too long to show, as the note explains
    "bool": (bool, type(None)),
    "int": (int, type(None)),
    "float": (int, float, type(None)),
    "str": (str, type(None)),
}


class Mismatch(Exception):
    """Data that is no trace; `where` is the field."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(message)
        self.where = where

    @classmethod
    def of(cls, error: msgspec.ValidationError) -> Mismatch:
        """Return the error for one of msgspec, whose message ends in the position."""
        message, where = _POSITION.findall(str(error))[0]
        return cls(message, where)

    def at(self, path: Path | str, position: str = "") -> TraceFileError:
        """Return the error to show for a position in the file at `path`."""
        where = formats.one_line(", ".join(filter(None, (position, self.where))), 200)
        return TraceFileError(path, where or None, formats.one_line(str(self), 300))


def converted(cls: type[T], plain: object) -> T:
    """Return the instance of `cls` that `plain` describes. Raises `Mismatch` if it does not describe an instance."""
    try:
        return msgspec.convert(plain, cls)
    except msgspec.ValidationError as error:
        raise Mismatch.of(error) from None


def check_head(run: Run, machine: Machine, sources: list[SourceFile]) -> None:
    """Raise `Mismatch` at the first impossible value in a trace's head."""
    if not FOLDER.fullmatch(machine.slug):
        raise Mismatch(f"found {machine.slug!r:.80}; expected a plain folder name like 'nvidia-h200'", "machine.slug")
    if len(sources) > MOST_SOURCES:
        raise Mismatch(f"found {len(sources):,} of them; expected at most {MOST_SOURCES:,}", "sources")
    for where, path in (("run.lecture", run.lecture), *(("sources.path", source.path) for source in sources)):
        if problem := why_not_inside(path):
            raise Mismatch(problem, where)


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
            raise Mismatch(f"found {event.frame}; expected a frame that comes before", "frame")
        if event.line > bounds[0]:
            raise Mismatch(f"found {event.line}; expected 1 to {bounds[0]}", "line")
        if event.statement >= bounds[1]:
            raise Mismatch(f"found {event.statement}; expected 0 to {bounds[1] - 1}", "statement")
        if isinstance(event, Step):
            if event.id in self._steps:
                raise Mismatch(f"found {event.id}; expected a number that no earlier step has", "id")
            self._steps.add(event.id)
            self._check_observed(event)

    def _check_frame(self, frame: Frame) -> None:
        if frame.frame in self._frames:
            raise Mismatch(f"found {frame.frame}; expected a number that no earlier frame has", "frame")
        if frame.of is not None and frame.of not in self._steps:
            raise Mismatch(f"found {frame.of}; expected a step that comes before", "of")
        if frame.source >= len(self._bounds):
            raise Mismatch(f"found {frame.source}; expected less than {len(self._bounds)}", "source")
        self._frames[frame.frame] = self._bounds[frame.source]
        _check_values(frame.arguments, "arguments")

    def _check_observed(self, step: Step) -> None:
        _check_values(step.values, "values")
        if step.claim is not None:
            _check_values(step.claim.sides, "claim.sides")
        for number, narrative in enumerate(step.narrative or ()):
            try:
                check_narrative(narrative)
            except Mismatch as wrong:
                raise Mismatch(str(wrong), f"narrative[{number}].{wrong.where}".rstrip(".")) from None
        if step.meters is not None:
            _check_counted(step.meters, "meters")
        for measured in step.measured or ():
            _check_counted(measured, "measured")
        if step.raised is not None:
            for line in (step.raised.origin_line, step.raised.waited_line):
                if line is not None and line > self._last_line:
                    raise Mismatch(f"found line {line}; expected 1 to {self._last_line}", "raised")


def _check_counted(counted: Counts, where: str) -> None:
    """Check the counts that may be beyond 64 bits."""
    totals = [counted.flops, counted.meta_flops, counted.bytes_read, counted.bytes_written]
    totals += [total for _, _, flops, moved in counted.work or () for total in (flops, moved)]
    totals += [one.bytes for one in counted.collectives or ()]
    if any(total is not None and total > LARGEST_COUNT for total in totals):
        raise Mismatch(f"expected counts of at most {LARGEST_COUNT:.0e}", where)


def check_narrative(narrative: Narrative) -> None:
    """Raise `Mismatch` at the first impossible value; the calls of a lecture are checked by the same rules."""
    match narrative:
        case Image(url=url, width=width):
            if url and not _ELSEWHERE.match(url) and (problem := why_not_inside(url)):
                raise Mismatch(problem, "url")
            if width is not None and not WIDTH.fullmatch(str(width)):
                raise Mismatch(f"found {width!r:.80}; expected pixels above 0, or a percentage", "width")
        case Plot():
            _one_of(narrative.x_scale, SCALES, "x_scale")
            _one_of(narrative.y_scale, SCALES, "y_scale")
            for series in narrative.series:
                _one_of(series.style, STYLES, "style")
                _has_length(series.y, len(series.x), "y")
        case Table(columns=columns, rows=rows):
            for number, row in enumerate(rows):
                _has_length(row, len(columns), f"rows[{number}]")
        case Ask(answer=answer):
            _check_answer(answer)
        case Explore(text=text, exploration=exploration):
            if wrong := why_unexplorable(exploration, text):  # pages turn the formula into a script
                raise Mismatch(wrong)


def _check_answer(answer: Answer) -> None:
    given = [answer.value, *(slip for slip, _ in answer.slips or ())]
    for one in (*given, *(answer.samples or ())):
        if isinstance(one, bool) or (isinstance(one, float) and not math.isfinite(one)):
            raise Mismatch(f"found {one}; expected a finite number or a text", "answer")
    if answer.choices is not None and (unknown := [one for one in given if one not in answer.choices]):
        raise Mismatch(f"found {unknown[0]!r:.80}; expected one of {', '.join(answer.choices)}", "answer")
    if isinstance(answer.value, str) != (answer.within is None):
        raise Mismatch(f"found {answer.within}; expected a tolerance for a number, none for a text", "answer.within")


def _check_values(observed: list[Observed] | None, where: str) -> None:
    for _, value in observed or ():
        _check_value(value, where)


def _check_value(value: Value, where: str, depth: int = 1) -> None:
    expected = _SCALARS.get(value.type)
    if expected is not None and type(value.value) not in expected:
        raise Mismatch(f"found {type(value.value).__name__}; expected {value.type}", where)
    if value.tensor is not None:
        _check_tensor(value.tensor)
    if value.items or value.entries:
        if depth > DEEPEST_VALUE:
            raise Mismatch(f"nested more than {DEEPEST_VALUE} values deep", where)
        if value.items and value.length is not None and value.length < len(value.items):
            raise Mismatch(f"found {value.length}; expected at least {len(value.items)}, the number of items", where)
        for inner in (*(value.items or ()), *(one for pair in value.entries or () for one in pair)):
            _check_value(inner, where, depth + 1)


def _check_tensor(tensor: Tensor) -> None:
    rank = len(tensor.shape)
    _has_length(tensor.strides, rank, "strides")
    _has_length(tensor.elements, shapes.count(tensor.shape, LARGEST_COUNT), "elements")
    if (tensor.corner is None) != (tensor.corner_shape is None):
        raise Mismatch("found only corner or only corner_shape; expected both or neither", "corner")
    if tensor.corner_shape is not None:
        _has_length(tensor.corner_shape, rank, "corner_shape")
        if any(size > whole for size, whole in zip(tensor.corner_shape, tensor.shape, strict=True)):
            raise Mismatch(f"found {tensor.corner_shape}; expected at most {tensor.shape}", "corner_shape")
        _has_length(tensor.corner, shapes.count(tensor.corner_shape, LARGEST_COUNT), "corner")


def _one_of(value: str | None, choices: tuple[str, ...], where: str) -> None:
    if value is not None and value not in choices:
        raise Mismatch(f"found {value[:40]!r}; expected one of {', '.join(choices)}", where)


def _has_length(items: Sized | None, length: int, where: str) -> None:
    if items is not None and len(items) != length:
        raise Mismatch(f"found {len(items)} entries; expected {length}", where)

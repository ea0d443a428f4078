"""What a trace must satisfy beyond its types: references that lead somewhere, sizes that agree.

    validate(trace, Path("trace.yaml"))  # TraceFileError: trace.yaml: steps[3].line: found 900; expected 1 to 120

Events stand in the order in which they started: a step comes before the frames of the calls made
inside it, a frame before its steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from trace_tools import arithmetic, shapes
from trace_tools.explorations import LONGEST_NAME, MOST_ROWS, why_unexplorable
from trace_tools.file_format.structure import Mismatch, short
from trace_tools.files import why_not_inside
from trace_tools.narrative import NEEDS, SCALES, STYLES, WIDTH
from trace_tools.schema import (
    Answer,
    Collective,
    Element,
    Event,
    Exploration,
    Frame,
    Input,
    Machine,
    Measured,
    Meters,
    Narrative,
    Omitted,
    Process,
    RankStep,
    Series,
    SourceFile,
    Step,
    Tensor,
    Trace,
    Value,
)

T = TypeVar("T")

DEEPEST_VALUE = 50  # values inside values
MOST_RANKS = 1_024  # of one run: each has its part of every step
MOST_SOURCES = 1_000  # a lecture and its modules: each is parsed, highlighted and matched
LARGEST_NUMBER = 1e300  # that a figure is drawn with
LARGEST_COUNT = 10**40  # FLOPs, bytes, nanoseconds, numbers of steps: a thousand of them multiply to what a float holds

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ELSEWHERE = re.compile(r"https?://|data:image/", re.IGNORECASE)  # not beside the lecture: on the web, or in the trace
_SCALARS: dict[str, tuple[type, ...]] = {  # None: too long to show, and the note says so
    "bool": (bool, type(None)),
    "int": (int, type(None)),
    "float": (int, float, type(None)),
    "str": (str, type(None)),
}


def validate(trace: Trace, path: Path) -> None:
    """Raise `TraceFileError`, naming the file `path` and the place in it, at the first thing that can't be."""
    try:
        with _inside(".run"):
            _stays_inside(trace.run.lecture, ".lecture")
            _at_least(1, trace.run, "passes", "limit")
            _at_least(0, trace.run, "timed_runs")
            _at_least(-LARGEST_COUNT, trace.run, "seed")
            if trace.run.ranks is not None:
                _check_range(trace.run.ranks, 1, MOST_RANKS, ".ranks")
            nodes, ranks = trace.run.nodes, trace.run.ranks or 0
            if nodes is not None and (not nodes or not ranks or ranks % len(nodes)):
                raise Mismatch(f"found {len(nodes)} of them; expected as many of {ranks} ranks on each", ".nodes")
            _each(trace.run.processes, ".processes", _check_process)
        with _inside(".machine"):
            _check_machine(trace.machine)
        if len(trace.sources) > MOST_SOURCES:
            raise Mismatch(f"found {len(trace.sources):,} of them; expected at most {MOST_SOURCES:,}", ".sources")
        _each(trace.sources, ".sources", lambda source: _stays_inside(source.path, ".path"))
        _each(trace.steps, ".steps", _Events(trace.sources, trace.run.ranks or 0).check)
    except Mismatch as mismatch:
        raise mismatch.at(path) from None


def check_step(step: Step, source: str) -> None:
    """Raise `TraceFileError` at the first thing in a step, of frame 0 in this text, that can't be."""
    events = _Events([SourceFile("", source)])
    events.check(Frame(frame=step.frame, function=""))
    try:
        events.check(step)
    except Mismatch as mismatch:
        raise mismatch.at(f"line {step.line}") from None


def _check_process(process: Process) -> None:
    _at_least(0, process, "cold_ns", "warm_ns", "peak_ram_bytes", "peak_device_bytes", "rank")


def _check_machine(machine: Machine) -> None:
    if not _SLUG.fullmatch(machine.slug):
        raise Mismatch(f"found {machine.slug[:80]!r}; expected a plain folder name like 'nvidia-h200'", ".slug")
    _at_least(0, machine, "memory_bytes", "l2_bytes", "cache_bytes", "ram_bytes")
    _at_least(1, machine, "multiprocessors", "cores", "threads")
    for number, peak in enumerate(machine.peaks):
        if peak.per_second is not None and not 1 <= peak.per_second <= LARGEST_COUNT:  # nan is not
            raise Mismatch(f"found {short(peak.per_second)}; expected a rate", ".per_second", f"[{number}]", ".peaks")


# --- the events -----------------------------------------------------------------------------------


class _Events:
    """Checks events in their order, knowing the frames and steps that came before."""

    def __init__(self, sources: list[SourceFile], ranks: int = 0) -> None:
        self._ranks = ranks
        self._bounds = [_bounds(source.text) for source in sources]
        self._last_line = max((lines for lines, _ in self._bounds), default=1)
        self._frames: dict[int, tuple[int, int]] = {}  # → lines and statements there can be in its source
        self._steps: set[int] = set()

    def check(self, event: Event) -> None:
        self._check_ranks(event.on or [], ".on")
        if isinstance(event, Step):
            self._check_step(event)
        elif isinstance(event, Omitted):
            self._check_place(event)
            _at_least(1, event, "omitted")
            _at_least(0, event, "host_ns")
        else:
            self._check_frame(event)

    def _check_frame(self, frame: Frame) -> None:
        _at_least(0, frame, "frame")
        if frame.frame in self._frames:
            raise Mismatch(f"found {frame.frame}; expected a number that no frame before has", ".frame")
        if frame.of is not None and frame.of not in self._steps:
            raise Mismatch(f"found {frame.of}; expected a step that comes before", ".of")
        if not 0 <= frame.source < len(self._bounds):
            raise Mismatch(f"found {frame.source}; expected less than {len(self._bounds)}, the sources", ".source")
        self._frames[frame.frame] = self._bounds[frame.source]
        _check_named(frame.arguments or [], ".arguments")
        self._check_ranks([it.rank for it in frame.ranks or ()], ".ranks")
        _each(frame.ranks or [], ".ranks", lambda it: _check_named(it.arguments, ".arguments"))

    def _check_step(self, step: Step) -> None:
        _at_least(0, step, "id")
        if step.id in self._steps:
            raise Mismatch(f"found {step.id}; expected a number that no step before has", ".id")
        self._check_place(step)
        _at_least(1, step, "execution")
        _at_least(0, step, "runs")
        self._steps.add(step.id)
        self._check_observed(step)
        self._check_ranks([it.rank for it in step.ranks or ()], ".ranks")
        _each(step.ranks or [], ".ranks", self._check_observed)

    def _check_observed(self, step: Step | RankStep) -> None:
        _at_least(0, step, "host_ns", "cold_ns", "device_ns", "allocated_bytes")
        if step.values:
            _check_named(step.values, ".values")
        if step.claim:
            with _inside(".claim"):
                _check_named(step.claim.sides, ".sides")
        if step.narrative:
            _each(step.narrative, ".narrative", _check_narrative)
        if step.meters:
            with _inside(".meters"):
                _at_least(0, step.meters, "live_bytes", "peak_bytes")
                _check_counted(step.meters)
        if step.measured:
            _each(step.measured, ".measured", _check_measured)
        for field in ("origin_line", "waited_line") if step.raised else ():
            if (line := getattr(step.raised, field)) is not None:
                _check_range(line, 1, self._last_line, f".raised.{field}")

    def _check_ranks(self, ranks: list[int], part: str) -> None:
        """Check that ranks are some of the run's, in their order."""
        for rank in ranks:
            _check_range(rank, 0, self._ranks - 1, part)
        if any(one >= other for one, other in pairwise(ranks)):
            raise Mismatch("found ranks that are not in their order", part)

    def _check_place(self, event: Step | Omitted) -> None:
        bounds = self._frames.get(event.frame)
        if bounds is None:
            raise Mismatch(f"found {event.frame}; expected a frame that comes before", ".frame")
        _check_range(event.line, 1, bounds[0], ".line")
        _check_range(event.statement, 0, bounds[1] - 1, ".statement")


def _check_counted(counted: Meters | Measured) -> None:
    _at_least(0, counted, "flops", "bytes_read", "bytes_written")
    if not all(0 <= count <= LARGEST_COUNT for _, count in counted.operators or []):
        raise Mismatch("found a count that is none", ".operators")
    if not all(0 <= count <= LARGEST_COUNT for _, _, *counts in counted.work or [] for count in counts):
        raise Mismatch("found a count that is none", ".work")
    _each(counted.collectives or [], ".collectives", _check_collective)


def _check_collective(one: Collective) -> None:
    _at_least(1, one, "ranks", "calls")
    _at_least(0, one, "bytes", "waited_ns", "moved_ns")
    if one.factor is not None and not 0 <= one.factor <= 2:  # nan is not
        raise Mismatch(f"found {short(one.factor)}; expected 0 to 2", ".factor")


def _check_measured(measured: Measured) -> None:
    _check_counted(measured)
    for number, seconds in enumerate(measured.seconds):
        if not 0 <= seconds <= LARGEST_COUNT:  # nan is not
            raise Mismatch(f"found {short(seconds)}; expected seconds", f"[{number}]", ".seconds")


def _bounds(source: str) -> tuple[int, int]:
    """Return how many lines a source has, and how many statements there could be in it.

    Statements are not counted: that takes a parser of the Python that ran. Each takes a character and
    what divides it from the next.
    """
    text = source.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
    return text.count("\n") + 1, len(text) // 2 + 1


def _check_narrative(narrative: Narrative) -> None:
    _one_of(narrative.kind, tuple(NEEDS), ".kind")
    for name in NEEDS[narrative.kind]:
        if getattr(narrative, name) is None:
            raise Mismatch(f"the key {name!r} is missing from a {narrative.kind}")
    if narrative.kind == "link" and narrative.url is None and not narrative.flows:
        raise Mismatch("the key 'url' is missing from a link")
    if narrative.kind in ("image", "video") and narrative.url and not _ELSEWHERE.match(narrative.url):
        _stays_inside(narrative.url, ".url")
    if narrative.width is not None and not WIDTH.fullmatch(str(narrative.width)):
        raise Mismatch(f"found {narrative.width!r}; expected pixels above 0, or a percentage", ".width")
    if not all(0 <= runs <= LARGEST_COUNT for _, runs in narrative.others or []):
        raise Mismatch("found a number of runs that is none", ".others")
    _one_of(narrative.x_scale, SCALES, ".x_scale")
    _one_of(narrative.y_scale, SCALES, ".y_scale")
    for number, row in enumerate(narrative.rows or []):
        if len(row) != len(narrative.columns or []):
            raise Mismatch(f"found {len(row)} cells; expected {len(narrative.columns or [])}", f"[{number}]", ".rows")
    _each(narrative.series or [], ".series", _check_series)
    if narrative.answer is not None:
        with _inside(".answer"):
            _check_answer(narrative.answer)
    if narrative.exploration is not None:
        with _inside(".exploration"):
            _check_exploration(narrative.exploration, narrative.text or "")


def _check_answer(answer: Answer) -> None:
    numbers = [answer.value, *(slip for slip, _ in answer.slips or ()), *(answer.samples or ())]
    if any(isinstance(number, bool) or (isinstance(number, float) and not math.isfinite(number)) for number in numbers):
        raise Mismatch("found a number that is none; expected finite numbers and texts")
    if answer.choices is not None and answer.value not in answer.choices:
        raise Mismatch(f"found {short(answer.value)}; expected one of the choices", ".value")
    if isinstance(answer.value, str) != (answer.within is None):
        raise Mismatch(f"found {answer.within}; expected how far from it a number is right", ".within")
    if answer.within is not None and not 0 <= answer.within <= LARGEST_COUNT:
        raise Mismatch(f"found {short(answer.within)}; expected 0 or more", ".within")


def _check_exploration(told: Exploration, says: str) -> None:
    """Check that its formula is arithmetic, and that whatever is named is there: pages make a script of it."""
    menus = [column for menu in told.menus for column in menu.columns]
    try:
        taken, returned = arithmetic.shape_of(told.formula)
    except arithmetic.NotArithmetic as error:
        raise Mismatch(f"found no formula: {error}", ".formula") from None
    if not sorted(told.parameters) == sorted(one.name for one in (*told.inputs, *menus)) or taken != len(
        told.parameters
    ):
        raise Mismatch(f"found {len(told.parameters)}; expected the names of inputs and columns", ".parameters")
    if returned != len(told.results):
        raise Mismatch(f"found {len(told.results)}; expected {returned}, as the formula returns", ".results")
    _each(told.inputs, ".inputs", _check_input)
    for number, menu in enumerate(told.menus):
        with _inside(f"[{number}]", ".menus"):
            if not 1 <= len(menu.rows) <= MOST_ROWS or any(len(row) != len(menu.columns) for _, row in menu.rows):
                raise Mismatch(f"found no {len(menu.columns)} numbers in each of 1 to {MOST_ROWS} rows", ".rows")
            _each(menu.columns, ".columns", _check_input)
    numbers = [one.value for one in told.results] + [n for menu in told.menus for _, row in menu.rows for n in row]
    if not all(math.isfinite(number) and abs(number) <= LARGEST_NUMBER for number in numbers):
        raise Mismatch("found a number that is none; expected finite numbers")
    labels = [*(one.label for one in (*told.inputs, *menus)), *(one.label for one in told.results)]
    labels += [row for menu in told.menus for row, _ in menu.rows]
    if any(len(label) > LONGEST_NAME for label in labels):
        raise Mismatch(f"found a name of more than {LONGEST_NAME} characters")
    if wrong := why_unexplorable(told, says):
        raise Mismatch(wrong)


def _check_input(one: Input) -> None:
    _one_of(one.scale, SCALES, ".scale")
    if not -LARGEST_NUMBER <= one.low <= one.value <= one.high <= LARGEST_NUMBER or one.low == one.high:  # nan is not
        raise Mismatch(f"found {short(one.value)}; expected a number in a range", ".value")
    if one.scale == "log" and one.low <= 0:
        raise Mismatch(f"found {short(one.low)}; expected more than 0 on a logarithmic slider", ".low")


def _check_series(series: Series) -> None:
    _one_of(series.style, STYLES, ".style")
    if len(series.x) != len(series.y):
        raise Mismatch(f"found {len(series.y)} values; expected {len(series.x)}, as many as x has", ".y")


# --- values ---------------------------------------------------------------------------------------


def _check_named(values: list[tuple[str, Value]], part: str) -> None:
    for number, (_, value) in enumerate(values):
        try:
            _check_value(value, 1)
        except Mismatch as mismatch:
            mismatch.parts.extend(("[1]", f"[{number}]", part))
            raise


def _check_value(value: Value, depth: int) -> None:
    expected = _SCALARS.get(value.type)
    if expected and type(value.value) not in expected:
        raise Mismatch(f"found {type(value.value).__name__}; expected {value.type}", ".value")
    if value.tensor:
        with _inside(".tensor"):
            _check_tensor(value.tensor)
    if value.items or value.entries or value.length is not None:
        if depth > DEEPEST_VALUE:
            raise Mismatch(f"nested more than {DEEPEST_VALUE} values deep")
        _at_least(0, value, "length")
        if value.items and value.length is not None and value.length < len(value.items):
            raise Mismatch(f"found {value.length}; expected {len(value.items)} or more, the items shown", ".length")
        check = partial(_check_value, depth=depth + 1)
        _each(value.items or [], ".items", check)
        _each(value.entries or [], ".entries", lambda pair: _each(pair, "", check))


def _check_tensor(tensor: Tensor) -> None:
    _at_least(0, tensor, "shape", "bytes", "offset", "storage_bytes")
    _at_least(-LARGEST_COUNT, tensor, "strides")
    _has_length(tensor.strides, len(tensor.shape), ".strides")
    _has_length(tensor.elements, shapes.count(tensor.shape, LARGEST_COUNT), ".elements")
    if (tensor.corner is None) != (tensor.corner_shape is None):
        raise Mismatch("found one of corner and corner_shape; expected both or neither")
    if tensor.corner_shape is not None:
        _has_length(tensor.corner_shape, len(tensor.shape), ".corner_shape")
        for number, (size, whole) in enumerate(zip(tensor.corner_shape, tensor.shape, strict=True)):
            _check_range(size, 0, whole, f".corner_shape[{number}]")
        _has_length(tensor.corner, shapes.count(tensor.corner_shape, LARGEST_COUNT), ".corner")
    if tensor.statistics:
        with _inside(".statistics"):
            _at_least(0, tensor.statistics, "nan", "inf", "zero", "histogram")


# --- what all of it needs -------------------------------------------------------------------------


@contextmanager
def _inside(*parts: str) -> Iterator[None]:
    """Add `parts`, innermost first, to the place of what is found wrong in the `with` block."""
    try:
        yield
    except Mismatch as mismatch:
        mismatch.parts.extend(parts)
        raise


def _each(items: Iterable[T], part: str, check: Callable[[T], None]) -> None:
    """Check each item; what is found wrong in one is at its number in `part`."""
    for number, item in enumerate(items):
        try:
            check(item)
        except Mismatch as mismatch:
            mismatch.parts.extend((f"[{number}]", part))
            raise


def _at_least(least: int, record: object, *names: str) -> None:
    """Check counts, sizes and durations, or lists of them: from `least` to what arithmetic can be done with."""
    for name in names:
        found = getattr(record, name)
        if found is None or found == []:
            continue
        low, high = (min(found), max(found)) if isinstance(found, list) else (found, found)
        if low < least:
            raise Mismatch(f"found {short(low)}; expected {least} or more", f".{name}")
        if high > LARGEST_COUNT:
            raise Mismatch(f"found {short(high)}; nothing that can be counted comes to as much", f".{name}")


def _check_range(found: int, low: int, high: int, part: str) -> None:
    if not low <= found <= high:
        raise Mismatch(f"found {found}; expected {low} to {high}", part)


def _one_of(found: str | None, choices: tuple[str, ...], part: str) -> None:
    if found is not None and found not in choices:
        raise Mismatch(f"found {found[:40]!r}; expected one of {', '.join(choices)}", part)


def _stays_inside(path: str, part: str) -> None:
    problem = why_not_inside(path)
    if problem:
        raise Mismatch(problem, part)


def _has_length(found: list[int] | list[Element] | None, length: int, part: str) -> None:
    if found is not None and len(found) != length:
        raise Mismatch(f"found {len(found)} entries; expected {length}, as the shape says", part)

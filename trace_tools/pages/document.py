"""The content of the pages as one value: `compose` builds it, the Markdown and HTML writers write it.

    Document
      opening    the narrative and code of `main`        setup    the module's own code
      sections   one per function that `main` calls
        blocks   Narration (prose, figure, table, link, image)
                 CodeListing → CodeRow (one statement) → Execution → Call → blocks …

The tree contains every execution of the trace; `salient` chooses which of many are shown. Leaf values (Value, Claim,
Meters, Narrative) are the trace's own.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeVar

from trace_tools.analysis.rates import Rate, StatementCost, Timing, rates_of, timing_of
from trace_tools.presentation.storage import Views, window
from trace_tools.trace.model import Claim, Machine, Narrative, NarrativeKind, Note, Run, Step, Value
from trace_tools.util import formats


def in_runs(verb: str, runs: int | None, timed_runs: int | None) -> str | None:
    """Return in how many runs something happened, if not in all: "said in 4 of 6 runs"."""
    return None if runs is None else f"{verb} in {runs} of {timed_runs or 'the timed'} runs"


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception that left a statement; `caught` if the lecture continued, `origin` if it was raised there.

    `survived`: it ended a section, and the run continued with the next one.
    """

    type: str
    message: str
    caught: bool
    origin: bool
    line: int | None = None  # line of the lecture nearest to the `raise`
    survived: bool = False
    waited_line: int | None = None  # of a device's error: the last synchronisation before the failed launch


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a row's statements: its step, with times and rates on its machine."""

    step: Step
    machine: Machine
    failure: Failure | None = None
    timed_runs: int | None = None  # of the trace
    calls: tuple[Call, ...] = ()

    @property
    def timing(self) -> Timing | None:
        """The time of its step."""
        return timing_of(self.step, self.machine)

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The rates that it achieved."""
        return rates_of(self.step, self.timing, self.machine)

    @property
    def median_ns(self) -> float | None:
        """The median of its times; None without a time, or if only its launch was timed."""
        timing = self.timing
        return None if timing is None or timing.clock == "launch" else statistics.median(timing.samples_ns)

    @property
    def sometimes(self) -> str | None:
        """In how many of the timed runs it ran, if not in all."""
        return in_runs("ran", self.step.runs, self.timed_runs)

    @property
    def values(self) -> Sequence[tuple[str, Value]]:
        """The inspected values, by the expression's source."""
        return self.step.values or ()

    @property
    def troubled(self) -> bool:
        """Return whether it has a failed claim or an uncaught exception, which must always be shown."""
        failure, claim = self.failure, self.step.claim
        if (failure is not None and not failure.caught) or (claim is not None and not claim.held):
            return True
        return bool(self.calls) and any(call.troubled for call in self.calls)

    @property
    def observed(self) -> bool:
        """Return whether anything was inspected, claimed or printed in it or in its calls."""
        step = self.step
        return bool(step.values or step.claim or step.stdout or step.warnings) or any(c.observed for c in self.calls)


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One physical line of the source; its first `indent` characters are not shown."""

    number: int
    text: str
    indent: int = 0


@dataclass(frozen=True, slots=True)
class MarginNote:
    """One note on a row of code, next to it or under it; `label` names the execution among several."""

    kind: Literal[
        # next to the row
        "value", "error", "held", "failed", "caught", "time", "uncounted", "count", "runs", "call", "sent",
        "stdout", "warning", "failure", "more",  # under it, with "caught" and "call"
    ]  # fmt: skip
    name: str = ""
    text: str = ""
    label: str = ""
    value: Value | None = None
    facts: tuple[tuple[str, str], ...] = ()
    link: str | None = None  # address: "#anchor" on the page
    index: int | None = None  # of a value: its index among those of the execution, or among the call's arguments
    call: Call | None = None  # shown under the row
    collapsed: bool = False  # shown on demand: a claim without news, a time too short to matter


@dataclass(frozen=True)
class CodeRow:
    """The lines of one statement (of a compound one, the header), with its executions."""

    lines: tuple[CodeLine, ...]
    anchor: str
    statements: tuple[int, ...] = ()  # their numbers in the source; none for the `def` line of a call
    executions: tuple[Execution, ...] = ()
    omitted: int = 0  # executions that are only counted
    rounds: int | None = None  # of a loop's header: how often the body began, over all executions
    ran: bool = True
    marks: frozenset[str] = frozenset()  # names of directives that affect only pages, used as classes of the row
    arguments: tuple[tuple[str, Value], ...] = ()  # on the `def` line of a call
    definitions: tuple[Call, ...] = ()  # code that the row names and no call on the page shows
    beside: tuple[MarginNote, ...] = ()  # made when it is known how calls are shown
    under: tuple[MarginNote, ...] = ()  # likewise

    @cached_property
    def salient(self) -> tuple[Execution, ...]:
        """The executions that the page shows."""
        return salient(self.executions)

    @cached_property
    def timed(self) -> tuple[Execution, ...]:
        """The executions with a time, from the shortest to the longest."""
        timed = (execution for execution in self.executions if execution.median_ns is not None)
        return tuple(sorted(timed, key=lambda execution: execution.median_ns or 0.0))

    @property
    def typical(self) -> Execution | None:
        """The execution with the median time, which represents the row."""
        return self.timed[len(self.timed) // 2] if self.timed else None

    @cached_property
    def has_trouble(self) -> bool:
        """Whether a claim failed, or an uncaught exception began, in its statements themselves."""
        return any(
            (e.failure is not None and e.failure.origin and not e.failure.caught)
            or (e.step.claim is not None and not e.step.claim.held)
            for e in self.executions
        )


@dataclass(frozen=True, slots=True)
class CodeListing:
    """Consecutive rows of code."""

    rows: tuple[CodeRow, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a page."""

    level: int
    text: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Narration:
    """One narrative call at its position: prose, a note, a link, an image, a table, a plot."""

    narrative: Narrative
    number: int  # within the page, from 1
    steps: tuple[int, ...] = ()  # the steps that emitted it; none for prose newer than the trace
    sometimes: str | None = None  # in how many of the timed runs it was emitted, if not in all
    headings: tuple[Heading, ...] = ()  # headings in its prose
    cover: bool = False  # also shown on the first page
    takeaway: bool = False  # a text after a section's last part: its summary


def said_in_runs(narrative: NarrativeKind, step: Step, timed_runs: int | None) -> str | None:
    """Return in how many of the timed runs a step emitted this narrative, if not in all."""
    differing = sum(count for _, count in narrative.others or ())
    ran = step.runs if step.runs is not None else timed_runs
    if differing and ran is not None:
        return f"this is the text of {ran - differing} of {timed_runs} runs"
    return "this is the text of most runs" if differing else in_runs("said", step.runs, timed_runs)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a lecture function: the code that it ran, with observations.

    `shown` is "part" if it contains narrative: its blocks are then part of the text, under its title. Otherwise it is
    "open", "folded", or "named" if the page shows the same code already.
    """

    name: str
    step: int | None  # the step that made the call
    number: int  # among the calls of this function in the section
    total: int
    anchor: str  # if this call is only named: of the function's first shown call
    title: str  # first line of its docstring, else its name
    header: CodeRow | None  # its `def` line, also the first row of its blocks unless it is a part
    blocks: tuple[Block, ...]
    level: int  # level of its heading, if it is a part
    shown: Literal["part", "open", "folded", "named"] = "folded"
    thread: str | None = None
    troubled: bool = False
    observed: bool = False  # something was inspected, claimed or printed in it
    deeper: bool = False  # a folded part, which the core path skips

    @property
    def has_narrative(self) -> bool:
        """Return whether it contains narrative or a part."""
        return any(
            (isinstance(block, Narration) and not isinstance(block.narrative, Note))
            or (isinstance(block, Call) and block.has_narrative)
            for block in self.blocks
        )


Block = CodeListing | Narration | Call


@dataclass(frozen=True, slots=True)
class ClaimLine:
    """One `assert` of a section: how often it was judged, and its representative execution."""

    anchor: str  # "" if no execution of it is on the page
    line: int
    claim: Claim  # the first that failed, else the last
    judged: int


# An expression in the player: name, value, cells of a small matrix, number of its change (8 more for the argument of a
# call, which is known from its beginning), storage.
Seen = tuple[str, str, str, int, str]


@dataclass(frozen=True, slots=True)
class Stop:
    """One step in the player: its position on the page, and the variables after it."""

    frame: int  # index in `Stepping.frames`
    anchor: str  # anchor of the row or narration; "" if neither is on the page
    line: int
    code: str  # the line, if its row is not on the page
    inside: int  # number of following stops that happened during it
    outputs: int  # number of outputs that `@animate` reveals one at a time
    variables: tuple[Seen, ...]
    step: Step
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Stepping:
    """A section's steps in order of execution, for the player."""

    # of each call: its function, the index of the stop that made it (-1: `main`), its number among all of the function
    frames: tuple[tuple[str, int, int, int], ...] = ()
    stops: tuple[Stop, ...] = ()
    narrations: tuple[tuple[int, int], ...] = ()  # number of a narration on the page, and the stop that emitted it


@dataclass(frozen=True, slots=True)
class Section:
    """One function that `main` calls, as a page."""

    number: int
    slug: str  # "03-tensors"
    title: str
    summary: str | None  # the rest of its docstring, Markdown
    blocks: tuple[Block, ...]
    headings: tuple[Heading, ...]
    claims: tuple[ClaimLine, ...]
    timing: Timing | None
    stepping: Stepping
    costs: tuple[StatementCost, ...] = ()  # of its statements and parts
    shared: tuple[str, ...] = ()  # storages shared by several of its expressions
    failure: Failure | None = None


def prefix(page: str | int, *, one_page: bool) -> str:
    """Return how the anchors begin of a section, by its number, or of another page."""
    return f"{page}--" if one_page else ""


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice for every page: the trace is of no real device, or partial, or stale, or incomplete.

    "doubtful": the trace contains a contradiction.
    """

    kind: Literal["emulated", "partial", "stale", "failed", "doubtful", "info"]
    text: str
    link: str | None = None  # relative to the machine's folder


@dataclass(frozen=True, slots=True)
class Document:
    """One lecture on one machine."""

    title: str
    run: Run
    machine: Machine
    versions: tuple[tuple[str, str], ...]
    source: tuple[str, ...]  # its lines without directives
    opening: tuple[Block, ...]
    setup: tuple[Block, ...]
    sections: tuple[Section, ...]
    notices: tuple[Notice, ...]  # shown on every page
    claims_outside: tuple[ClaimLine, ...] = ()  # claims in `main` and in the module itself
    promise: str | None = None  # the lecture's introduction, Markdown: the docstring of `main` below its first line
    one_page: bool = False  # all sections are on one page: their anchors begin with `prefix`

    def link(self, page: str, anchor: str = "") -> str:
        """Return the address of a page, or of an anchor on it."""
        return f"#{anchor or page}" if self.one_page else f"{page}.html" + (f"#{anchor}" if anchor else "")

    @property
    def ran_once(self) -> bool:
        """Return whether no process ran the lecture a second time, warm, as in a draft."""
        processes = self.run.processes or ()
        return bool(processes) and all(process.warm_ns is None for process in processes)

    @property
    def claims(self) -> tuple[ClaimLine, ...]:
        """All claims of the lecture."""
        return (*(line for section in self.sections for line in section.claims), *self.claims_outside)


_T = TypeVar("_T", bound=Execution | Call)
_Part = TypeVar("_Part", CodeRow, Call, Narration)

TROUBLED_SHOWN = 4


def salient(items: Sequence[_T]) -> tuple[_T, ...]:
    """Return the executions or calls to show: the first, the last, and the first few with trouble, in order.

    "The last" is the last with observations, if any has observations, because the last evaluation of a loop's header
    has none.
    """
    if len(items) < 3:
        return tuple(items)
    troubled = [index for index, item in enumerate(items) if item.troubled][:TROUBLED_SHOWN]
    last = next((index for index in reversed(range(1, len(items))) if items[index].observed), len(items) - 1)
    indices = sorted({0, last, *troubled})
    return tuple(items[index] for index in indices)


def visible(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield every block that a page shows, in order, including blocks of calls."""
    for block in blocks:
        yield block
        if isinstance(block, Call) and block.shown != "named":
            yield from visible(block.blocks)
        elif isinstance(block, CodeListing):
            for row in block.rows:
                yield from visible(calls_shown(row))


def narratives(blocks: Sequence[Block]) -> Iterator[Narrative]:
    """Yield the narrative that a page shows, in order."""
    return (block.narrative for block in visible(blocks) if isinstance(block, Narration))


def rows_shown(blocks: Sequence[Block]) -> Iterator[CodeRow]:
    """Yield every row of code that a page shows, in order."""
    return (row for block in visible(blocks) if isinstance(block, CodeListing) for row in block.rows)


def _unchanged(part: _Part) -> _Part:
    return part


def mapped(
    blocks: Iterable[Block],
    *,
    row: Callable[[CodeRow], CodeRow] = _unchanged,
    call: Callable[[Call], Call] = _unchanged,
    narration: Callable[[Narration], Narration] = _unchanged,
) -> tuple[Block, ...]:
    """Return blocks in which everything that a page shows is changed, in the order of the page.

    A call is changed before its blocks, which stay as they are if it is only named; a row after the calls under it.
    """

    def mapped_call(before: Call) -> Call:
        after = call(before)
        if after.shown == "named":
            return after
        return replace(after, blocks=mapped(after.blocks, row=row, call=call, narration=narration))

    def mapped_row(before: CodeRow) -> CodeRow:
        calls = {id(called): mapped_call(called) for called in calls_shown(before)}
        executions = tuple(
            replace(e, calls=tuple(calls.get(id(called), called) for called in e.calls)) if e.calls else e
            for e in before.executions
        )
        return row(replace(before, executions=executions) if calls else before)

    def mapped_block(block: Block) -> Block:
        if isinstance(block, CodeListing):
            return CodeListing(tuple(map(mapped_row, block.rows)))
        return mapped_call(block) if isinstance(block, Call) else narration(block)

    return tuple(map(mapped_block, blocks))


def calls_shown(row: CodeRow) -> tuple[Call, ...]:
    """Return the calls shown under a row, followed by the definitions."""
    calls = (call for execution in row.salient for call in salient(execution.calls))
    return (*calls, *row.definitions)


def brief_code(line: str) -> str:
    """Return a statement's first line as its name in a figure, without a comment: "done = {…" if it continues."""
    code = re.split(r"\s{2,}#", line.strip())[0]
    return formats.one_line(f"{code}…" if code.endswith(("(", "[", "{")) else code, 80)


class Anchors:
    """The positions of steps and source lines on a page, read from its blocks."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.rows: dict[int, str] = {}  # of steps: their row
        self.fallbacks: dict[int, str] = {}  # of steps: the part they called, or their first narration
        self.narration_only: dict[int, str] = {}  # of steps without a row: their narration
        self.lines: dict[int, str] = {}  # the first row with a line
        self.narrations: list[tuple[int, int]] = []  # number on the page, step
        for block in visible(blocks):
            if isinstance(block, CodeListing):
                for row in block.rows:
                    for execution in row.executions:
                        self.rows.setdefault(execution.step.id, row.anchor)
                    for line in row.lines:
                        self.lines.setdefault(line.number, row.anchor)
            elif isinstance(block, Call) and block.shown == "part" and block.step is not None:
                self.fallbacks.setdefault(block.step, block.anchor)
            elif isinstance(block, Narration) and block.steps and block.narrative.kind != "note":
                anchor = f"said-{block.number}"
                for step in block.steps:
                    if self.fallbacks.setdefault(step, anchor) == anchor and step not in self.rows:
                        self.narration_only[step] = anchor
                self.narrations.append((block.number, block.steps[0]))


def views_of(blocks: Sequence[Block]) -> Views:
    """Return, by storage, the distinct tensors inspected on a page, in order of appearance."""
    views: Views = {}
    for row in rows_shown(blocks):
        for name, value in (pair for execution in row.executions for pair in execution.values):
            if (tensor := value.tensor) is not None and tensor.storage is not None and tensor.shape:
                of_storage = views.setdefault(tensor.storage, [])
                if not any(name == other and window(tensor) == window(listed) for other, listed in of_storage):
                    of_storage.append((name, tensor))
    return views


def shared_storages(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Return the storages shared by several inspected expressions of the page, in order of appearance."""
    return tuple(storage for storage, views in views_of(blocks).items() if len({name for name, _ in views}) > 1)


def first_trouble(blocks: Sequence[Block]) -> str | None:
    """Return the anchor of the first shown row with a failed claim or the origin of an uncaught exception."""
    return next((row.anchor for row in rows_shown(blocks) if row.has_trouble), None)

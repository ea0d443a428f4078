"""What the pages say, as one value: `compose` makes it, the Markdown and HTML writers write it.

    Document
      opening    what `main` itself says and does        setup    the module's own code
      sections   one per function that `main` calls
        blocks   Said (prose, figure, table, link, image)
                 Listing → Row (one statement) → Execution → Call → blocks …

Every execution that the trace holds is in the tree; `salient` is the one rule for which are shown where
all would be too many. Leaf facts (Value, Claim, Meters, Narrative) are the trace's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from trace_tools.rates import Rate, Timing, rates_of, timing_of, why_no_rate
from trace_tools.rendering.time_tree import Spent
from trace_tools.schema import Claim, Machine, Measured, Meters, Narrative, Run, Step, Value


def in_runs(what: str, runs: int | None, timed_runs: int | None, *, clock: bool) -> str | None:
    """Say in how many runs something happened, where not in all: "said in 4 of 6 runs, as a clock had it"."""
    if runs is None and not clock:
        return None
    of = f" in {runs} of {timed_runs or 'the timed'} runs" if runs is not None else ""
    return f"{what}{of}{', ' * bool(of) or ' '}as a clock had it" if clock else f"{what}{of}"


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception at a statement it left; `caught` where the lecture went on, `origin` where it began."""

    type: str
    message: str
    caught: bool
    origin: bool
    line: int | None = None  # of the lecture, nearest to where it was raised


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of the statement (or statements) of a row."""

    step: int
    number: int  # the n-th in its frame
    values: tuple[tuple[str, Value], ...] = ()
    claim: Claim | None = None
    timing: Timing | None = None
    annotated: bool = False
    meters: Meters | None = None
    rates: tuple[Rate, ...] = ()
    no_rate: str | None = None  # why its own time makes none
    harness: bool = False  # `measure` or `count` ran in it or below
    measured: tuple[Measured, ...] = ()
    runs: int | None = None  # in how many of `timed_runs` it ran, where not in all
    timed_runs: int | None = None
    clock: bool = False  # a clock decided whether it ran
    allocated_bytes: int | None = None
    stdout: str | None = None
    warnings: tuple[str, ...] = ()
    failure: Failure | None = None
    calls: tuple[Call, ...] = ()
    compiled: bool = False
    suspended: bool = False

    @property
    def sometimes(self) -> str | None:
        """In how many of the timed runs this ran, where it is not all of them."""
        return in_runs("ran", self.runs, self.timed_runs, clock=self.clock)

    @property
    def troubled(self) -> bool:
        """Whether something here must not be overlooked: a failed claim, an exception nobody caught."""
        failed = self.failure is not None and not self.failure.caught
        return failed or (self.claim is not None and not self.claim.held) or any(call.troubled for call in self.calls)


def execution(step: Step, machine: Machine, failure: Failure | None = None, timed_runs: int | None = None) -> Execution:
    """Return the execution of one step, of a trace with so many timed runs; its calls are added by who knows them."""
    timing = timing_of(step, machine)
    return Execution(
        step=step.id,
        number=step.execution,
        values=tuple(step.values or ()),
        claim=step.claim,
        timing=timing,
        annotated=step.annotated,
        meters=step.meters,
        rates=rates_of(step, timing, machine),
        no_rate=why_no_rate(step, timing),
        harness=step.harness,
        measured=tuple(step.measured or ()),
        runs=step.runs,
        timed_runs=timed_runs,
        clock=step.clock,
        allocated_bytes=step.allocated_bytes,
        stdout=step.stdout or None,
        warnings=tuple(step.warnings or ()),
        failure=failure,
        compiled=step.compiled,
        suspended=step.suspended,
    )


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One physical line of a source; `indent` leading characters are not shown."""

    source: int
    number: int
    text: str
    indent: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """The lines of one statement (a compound one's header), with what each execution did."""

    lines: tuple[CodeLine, ...]
    anchor: str
    line: int = 0  # of its source, that the anchor names
    executions: tuple[Execution, ...] = ()
    omitted: int = 0  # executions that only count
    omitted_ns: int = 0  # all of them together
    ran: bool = True
    arguments: tuple[tuple[str, Value], ...] = ()  # on the `def` line of a call


@dataclass(frozen=True, slots=True)
class Listing:
    """Consecutive rows of code."""

    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading inside prose."""

    level: int
    text: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Said:
    """One narrative call, in its place: prose, a note, a link, an image, a table, a plot."""

    narrative: Narrative
    number: int  # counts within the page, from 1
    step: int | None = None  # that said it; None for prose newer than the trace
    headings: tuple[Heading, ...] = ()  # of its prose
    runs: int | None = None  # in how many of `timed_runs` its statement ran, where not in all
    timed_runs: int | None = None
    clock: bool = False  # a clock decided whether it ran

    @property
    def sometimes(self) -> str | None:
        """In how many of the timed runs this was said, where it is not all of them."""
        others = sum(count for _, count in self.narrative.others or ())
        ran = self.runs if self.runs is not None else self.timed_runs
        if others and ran is not None:
            return f"{ran - others} of {self.timed_runs} runs say this"
        if others:
            return "most runs say this"
        return in_runs("said", self.runs, self.timed_runs, clock=self.clock)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a lecture function: the code it ran and what it observed.

    `shown` is "part" when it speaks to the reader: its blocks then stand in the text under its title; else
    "open", "folded", or "named" when the same code stands on the page already.
    """

    function: str
    frame: int
    step: int | None  # that called it
    number: int  # the n-th call of this function in the section
    total: int
    anchor: str  # of the first call of the function that is shown, when this one is only named
    title: str  # first line of its docstring, else its name
    header: Row | None  # its `def` line
    blocks: tuple[Block, ...]
    level: int  # of its heading when it is a part
    shown: Literal["part", "open", "folded", "named"] = "folded"
    thread: str | None = None
    troubled: bool = False
    observed: bool = False  # something was inspected, claimed or printed in it

    def with_header(self) -> tuple[Block, ...]:
        """Return the blocks with the `def` line at the head of the first listing."""
        if self.header is None or not (self.header.lines or self.header.arguments):
            return self.blocks
        first, rest = self.blocks[:1], self.blocks[1:]
        if first and isinstance(first[0], Listing):
            return (Listing((self.header, *first[0].rows)), *rest)
        return (Listing((self.header,)), *self.blocks)


Block = Listing | Said | Call


@dataclass(frozen=True, slots=True)
class ClaimLine:
    """One `assert` of a section: how often it was judged, and the execution that speaks for all of them."""

    anchor: str  # "" when no execution of it is on the page
    line: int
    claim: Claim  # the first that failed, else the last
    judged: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What the player knows of one expression after a stop; `value` is None where `@clear` took it away.

    `change` is "written" when the memory that a tensor lies in was seen to hold something else than before.
    """

    name: str
    value: Value | None
    change: Literal["same", "new", "changed", "written", "cleared"]
    argument: bool = False  # known from the beginning of the call


@dataclass(frozen=True, slots=True)
class Stop:
    """One step as the player shows it: where it stands on the page, and what is known once it is done."""

    number: int  # among the section's steps, from 1
    frame: int  # place in `Stepping.frames`
    anchor: str  # of the row or of what was said; "" where neither is on the page
    line: int
    code: str  # the line, where its row is not on the page
    statement: tuple[int, int]  # source and number: executions of the same statement share it
    execution: int
    inside: int  # so many stops after it happened during it
    outputs: int  # that `@animate` reveals one at a time
    seen: tuple[Seen, ...]
    step: Step
    timing: Timing | None
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class PlayedFrame:
    """One call, and the stop that called it; None for what `main` called."""

    function: str
    of: int | None  # place in `Stepping.stops`
    number: int
    total: int


@dataclass(frozen=True, slots=True)
class Stepping:
    """A section's steps in order of execution, for the player."""

    frames: tuple[PlayedFrame, ...] = ()
    stops: tuple[Stop, ...] = ()
    said: tuple[tuple[int, int], ...] = ()  # number of what was said on the page, the stop that said it


@dataclass(frozen=True, slots=True)
class Section:
    """One function that `main` calls, as a page."""

    number: int
    slug: str  # "03-tensors"
    function: str
    title: str
    summary: str | None  # the rest of its docstring, Markdown
    blocks: tuple[Block, ...]
    headings: tuple[Heading, ...]
    claims: tuple[ClaimLine, ...]
    timing: Timing | None
    stepping: Stepping
    spent: tuple[Spent, ...] = ()  # where its time went
    shared: tuple[str, ...] = ()  # storages that several of its expressions lie in
    failure: Failure | None = None

    @property
    def steps(self) -> int:
        """How many steps a reader can walk through: as many as its player counts."""
        return len(self.stepping.stops)

    @property
    def held(self) -> int:
        """How many claims held in every timed run."""
        return sum(line.claim.held for line in self.claims)

    @property
    def failed(self) -> int:
        """How many claims did not."""
        return len(self.claims) - self.held


@dataclass(frozen=True, slots=True)
class Notice:
    """Something every page must say: the trace is partial, or stale, or lost something."""

    kind: Literal["partial", "stale", "failed", "info"]
    text: str
    link: str | None = None  # relative to the machine's folder


@dataclass(frozen=True, slots=True)
class SourceText:
    """A source as it is shown: its path and lines, without the directives."""

    path: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """One lecture on one machine."""

    title: str
    run: Run
    machine: Machine
    versions: tuple[tuple[str, str], ...]
    sources: tuple[SourceText, ...]
    opening: tuple[Block, ...]
    setup: tuple[Block, ...]
    sections: tuple[Section, ...]
    notices: tuple[Notice, ...]
    claims_outside: tuple[ClaimLine, ...] = ()  # of `main` and the module itself

    @property
    def steps(self) -> int:
        """How many steps there are to walk through in all sections."""
        return sum(section.steps for section in self.sections)

    @property
    def held(self) -> int:
        """How many claims of the whole lecture held."""
        return sum(s.held for s in self.sections) + sum(line.claim.held for line in self.claims_outside)

    @property
    def failed(self) -> int:
        """How many did not."""
        return sum(s.failed for s in self.sections) + sum(not line.claim.held for line in self.claims_outside)


class _MayTrouble(Protocol):
    @property
    def troubled(self) -> bool: ...


_T = TypeVar("_T", bound=_MayTrouble)

TROUBLED_SHOWN = 4


def salient(items: Sequence[_T]) -> tuple[_T, ...]:
    """Return the executions or calls to show: the first, the last, and the first few with trouble, in order."""
    if len(items) < 3:
        return tuple(items)
    troubled = [place for place, item in enumerate(items) if item.troubled][:TROUBLED_SHOWN]
    places = sorted({0, len(items) - 1, *troubled})
    return tuple(items[place] for place in places)


def visible(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield every block that a page shows, in order, those of its calls included."""
    for block in blocks:
        yield block
        if isinstance(block, Call) and block.shown != "named":
            yield from visible(block.blocks)
        elif isinstance(block, Listing):
            for row in block.rows:
                yield from visible(calls_shown(row))


def calls_shown(row: Row) -> tuple[Call, ...]:
    """Return the calls that are shown under a row."""
    return tuple(call for execution in salient(row.executions) for call in salient(execution.calls))

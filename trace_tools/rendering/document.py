"""What the pages say, as one value: `compose` makes it, the Markdown and HTML writers write it.

    Document
      opening    what `main` itself says and does        setup    the module's own code
      sections   one per function that `main` calls
        blocks   Narration (prose, figure, table, link, image)
                 CodeListing → CodeRow (one statement) → Execution → Call → blocks …

Every execution that the trace holds is in the tree; `salient` is the one rule for which are shown where
all would be too many. Leaf facts (Value, Claim, Meters, Narrative) are the trace's own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from trace_tools.claim_kinds import Kind
from trace_tools.distances import Distance
from trace_tools.ranks import in_words
from trace_tools.rates import Rate, Timing, rates_of, timing_of, why_no_rate
from trace_tools.rendering.time_tree import StatementTime
from trace_tools.schema import Claim, Machine, Narrative, Run, Step, Value


def in_runs(what: str, runs: int | None, timed_runs: int | None, *, clock: bool) -> str | None:
    """Say in how many runs something happened, where not in all: "said in 4 of 6 runs, as a clock had it"."""
    if runs is None and not clock:
        return None
    of = f" in {runs} of {timed_runs or 'the timed'} runs" if runs is not None else ""
    return f"{what}{of}{', ' * bool(of) or ' '}as a clock had it" if clock else f"{what}{of}"


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception at a statement it left; `caught` where the lecture went on, `origin` where it began.

    `survived` where it ended a section, and the run went on with the next one.
    """

    type: str
    message: str
    caught: bool
    origin: bool
    line: int | None = None  # of the lecture, nearest to where it was raised
    survived: bool = False
    waited_line: int | None = None  # of a device's error: after which synchronisation what failed was launched

    @property
    def ended(self) -> str:
        """What it ended: "run" or "section"."""
        return "section" if self.survived else "run"


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of the statement (or statements) of a row: its step, and what follows from it on its machine."""

    step: Step
    timing: Timing | None
    rates: tuple[Rate, ...]
    no_rate: str | None  # why its own time makes none
    sometimes: str | None = None  # in how many of the timed runs this ran, where it is not all of them
    failure: Failure | None = None
    calls: tuple[Call, ...] = ()
    ranks: int = 1  # that ran the lecture: the step has what differs between them

    @property
    def values(self) -> Sequence[tuple[str, Value]]:
        """What was inspected, by the expression's source."""
        return self.step.values or ()

    @property
    def troubled(self) -> bool:
        """Whether something here must not be overlooked: a failed claim, an exception nobody caught."""
        failed = self.failure is not None and not self.failure.caught
        claim = self.step.claim
        return failed or (claim is not None and not claim.held) or any(call.troubled for call in self.calls)

    @property
    def observed(self) -> bool:
        """Whether anything was inspected, claimed or printed in it, or in the calls it made."""
        step = self.step
        return bool(step.values or step.claim or step.stdout or step.warnings) or any(c.observed for c in self.calls)


def execution(
    step: Step,
    machine: Machine,
    failure: Failure | None = None,
    timed_runs: int | None = None,
    ranks: int | None = None,
) -> Execution:
    """Return the execution of one step, of a trace with so many timed runs; its calls are added by who knows them."""
    timing = timing_of(step, machine)
    told = [in_runs("ran", step.runs, timed_runs, clock=step.clock)]
    told += [f"ran on {in_words(step.on)} only"] if step.on is not None else []
    rates = rates_of(step, timing, machine)
    sometimes = "; ".join(filter(None, told)) or None
    return Execution(step, timing, rates, why_no_rate(step, timing), sometimes, failure, ranks=ranks or 1)


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One physical line of a source; `indent` leading characters are not shown."""

    source: int
    number: int
    text: str
    indent: int = 0


@dataclass(frozen=True, slots=True)
class CodeRow:
    """The lines of one statement (a compound one's header), with what each execution did."""

    lines: tuple[CodeLine, ...]
    anchor: str
    line: int = 0  # of its source, that the anchor names
    executions: tuple[Execution, ...] = ()
    omitted: int = 0  # executions that only count
    omitted_ns: int = 0  # all of them together
    ran: bool = True
    marks: frozenset[str] = frozenset()  # names of directives that only pages obey: classes of the row
    arguments: tuple[tuple[str, Value], ...] = ()  # on the `def` line of a call
    disagreeing: tuple[tuple[str, Mapping[int, Value]], ...] = ()  # of these, by rank: what was not the same on all
    definitions: tuple[Call, ...] = ()  # code that it names and no call on the page shows; "named": another page does


@dataclass(frozen=True, slots=True)
class CodeListing:
    """Consecutive rows of code."""

    rows: tuple[CodeRow, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a page; in a section's contents it has the claims between it and the next one listed."""

    level: int
    text: str
    anchor: str
    held: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Narration:
    """One narrative call, in its place: prose, a note, a link, an image, a table, a plot."""

    narrative: Narrative
    number: int  # counts within the page, from 1
    step: int | None = None  # that said it; None for prose newer than the trace
    sometimes: str | None = None  # in how many of the timed runs this was said, where it is not all of them
    headings: tuple[Heading, ...] = ()  # of its prose
    cover: bool = False  # it stands on the first page, too
    beside: bool = False  # of an image: others of its line stand beside it
    steps: tuple[int, ...] = ()  # of a passage: further ones that said something of it
    cited: tuple[Narrative, ...] = ()  # of a passage: the references in it, of which more is known than their address


def said_in_runs(narrative: Narrative, step: Step, timed_runs: int | None) -> str | None:
    """Say in how many of the timed runs a step said this, where it is not all of them."""
    others = sum(count for _, count in narrative.others or ())
    ran = step.runs if step.runs is not None else timed_runs
    if others and ran is not None:
        told: str | None = f"{ran - others} of {timed_runs} runs say this"
    else:
        told = "most runs say this" if others else in_runs("said", step.runs, timed_runs, clock=step.clock)
    ranks = []
    if step.on is not None:
        ranks.append(f"said on {in_words(step.on)} only")
    if otherwise := [one.rank for one in step.ranks or () if one.narrative is not None]:
        ranks.append(f"{in_words(otherwise)} said it otherwise")
    return "; ".join(filter(None, [told, *ranks])) or None


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
    anchor: str  # of the first call of the function that is shown, when this one is only named; or its whole address
    title: str  # first line of its docstring, else its name
    header: CodeRow | None  # its `def` line
    blocks: tuple[Block, ...]
    level: int  # of its heading when it is a part
    shown: Literal["part", "open", "folded", "named"] = "folded"
    thread: str | None = None
    troubled: bool = False
    observed: bool = False  # something was inspected, claimed or printed in it
    deeper: bool = False  # a part that is folded: the core path goes on without it
    module: str = ""  # where it is defined, if that is not the lecture

    @property
    def name(self) -> str:
        """The function's name as a reader of the lecture finds it."""
        return f"{self.module}.{self.function}" if self.module else self.function

    @property
    def speaks(self) -> bool:
        """Whether it has something to say to the reader itself: prose, or a part of its own."""
        return any(
            (isinstance(block, Narration) and block.narrative.kind != "note")
            or (isinstance(block, Call) and block.speaks)
            for block in self.blocks
        )

    def with_header(self) -> tuple[Block, ...]:
        """Return the blocks with the `def` line at the head of the first listing."""
        if self.header is None or not (self.header.lines or self.header.arguments):
            return self.blocks
        first, rest = self.blocks[:1], self.blocks[1:]
        if first and isinstance(first[0], CodeListing):
            return (CodeListing((self.header, *first[0].rows)), *rest)
        return (CodeListing((self.header,)), *self.blocks)


Block = CodeListing | Narration | Call


@dataclass(frozen=True, slots=True)
class ClaimLine:
    """One `assert` of a section: how often it was judged, and the execution that speaks for all of them."""

    anchor: str  # "" when no execution of it is on the page
    line: int
    claim: Claim  # the first that failed, else the last
    judged: int
    kind: Kind = "observed"


class WithClaims:
    """What has `claims`, and can say how many of them held in every timed run, and how many did not."""

    __slots__ = ()
    claims: tuple[ClaimLine, ...]

    @property
    def held(self) -> int:
        """How many claims held in every timed run."""
        return sum(line.claim.held for line in self.claims)

    @property
    def failed(self) -> int:
        """How many claims did not."""
        return len(self.claims) - self.held


@dataclass(frozen=True, slots=True)
class Variable:
    """What the player knows of one expression after a stop; `value` is None where `@clear` took it away.

    `change` is "written" when the memory that a tensor lies in was seen to hold something else than before.
    """

    name: str
    value: Value | None
    change: Literal["same", "new", "changed", "written", "cleared"]
    argument: bool = False  # known from the beginning of the call
    ranks: tuple[tuple[str, str], ...] = ()  # what it was on which ranks, where that is not the same on all


@dataclass(frozen=True, slots=True)
class Stop:
    """One step as the player shows it: where it stands on the page, and what is known once it is done."""

    number: int  # among the section's steps, from 1; of one rank, among those of all ranks
    frame: int  # place in `Stepping.frames`
    anchor: str  # of the row or of what was said; "" where neither is on the page
    line: int
    code: str  # the line, where its row is not on the page
    source: int
    inside: int  # so many stops after it happened during it
    outputs: int  # that `@animate` reveals one at a time
    variables: tuple[Variable, ...]
    execution: Execution


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One call, and the stop that called it; None for what `main` called."""

    function: str
    of: int | None  # place in `Stepping.stops`
    number: int
    total: int


@dataclass(frozen=True, slots=True)
class Stepping:
    """A section's steps in order of execution, for the player."""

    frames: tuple[StackFrame, ...] = ()
    stops: tuple[Stop, ...] = ()
    said: tuple[tuple[int, int], ...] = ()  # number of a narration on the page, the stop that said it


@dataclass(frozen=True, slots=True)
class Section(WithClaims):
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
    times: tuple[StatementTime, ...] = ()  # where its time went
    shared: tuple[str, ...] = ()  # storages that several of its expressions lie in
    failure: Failure | None = None

    @property
    def steps(self) -> int:
        """How many steps a reader can walk through: as many as its player counts."""
        return len(self.stepping.stops)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something every page must say: the trace is of no real device, or partial, or stale, or lost something.

    "doubtful": it says what can't be.
    """

    kind: Literal["emulated", "partial", "stale", "failed", "doubtful", "info"]
    text: str
    link: str | None = None  # relative to the machine's folder


@dataclass(frozen=True, slots=True)
class SourceText:
    """A source as it is shown: its path and lines, without the directives."""

    path: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document(WithClaims):
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
    violations: tuple[str, ...] = ()  # what in it can't be right: `invariants`
    promise: str | None = None  # what it teaches, Markdown: the docstring of `main` below its first line
    distances: tuple[Distance, ...] = ()  # from the roof that was measured
    live_bytes: int | None = None  # the most bytes of tensors alive at once
    why_no_floors: str | None = None

    @property
    def steps(self) -> int:
        """How many steps there are to walk through in all sections."""
        return sum(section.steps for section in self.sections)

    @property
    def claims(self) -> tuple[ClaimLine, ...]:  # type: ignore[override]
        """All claims of the lecture."""
        return (*(line for section in self.sections for line in section.claims), *self.claims_outside)


_T = TypeVar("_T", bound=Execution | Call)

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
        elif isinstance(block, CodeListing):
            for row in block.rows:
                yield from visible(calls_shown(row))


# Adults read English that is not fiction at 238 words a minute: the mean of 190 studies in Brysbaert, "How many words
# do we read per minute?", Journal of Memory and Language 109 (2019). For code none is known; its names and numbers
# are taken for words.
WORDS_A_MINUTE = 238
WORD = re.compile(r"\w+")
_LEADS = re.compile(
    r'\]\(<[^>]*>(?: "(?:[^"\\]|\\.)*")?\)'
)  # where a link of a passage leads, and what it says on hover


def reading_minutes(blocks: Sequence[Block], *, deeper: bool | None = False) -> int:
    """Return how long a page, or a part of one, takes to read: its core, with `deeper` what is folded beside that.

    None: both. Minutes of prose and of code that stands open, rounded up where there is any; exercises take longer.
    """
    words = 0

    def read(blocks: Sequence[Block], below: bool) -> None:
        nonlocal words
        for block in blocks:
            if isinstance(block, Call) and block.shown == "part":
                read(block.blocks, below or block.deeper)
            elif deeper is not None and below is not deeper:
                continue
            elif isinstance(block, Narration) and block.narrative.kind in ("text", "ask"):
                text = block.narrative.text or ""
                words += len((_LEADS.sub("]", text) if block.narrative.flows else text).split())
            elif isinstance(block, CodeListing):
                words += sum(len(WORD.findall(line.text)) for row in block.rows for line in row.lines)

    read(blocks, below=False)
    return math.ceil(words / WORDS_A_MINUTE)


def rows_shown(blocks: Sequence[Block]) -> Iterator[CodeRow]:
    """Yield every row of code that a page shows, in order."""
    return (row for block in visible(blocks) if isinstance(block, CodeListing) for row in block.rows)


def calls_shown(row: CodeRow) -> tuple[Call, ...]:
    """Return the calls that are shown under a row, and after them the definitions."""
    calls = (call for execution in salient(row.executions) for call in salient(execution.calls))
    return (*calls, *(definition for definition in row.definitions if definition.shown != "named"))


UNRUN = 3  # rows, from which on they are folded


def stretches(rows: Sequence[CodeRow]) -> list[tuple[bool, list[CodeRow]]]:
    """Divide the rows of a listing: (whether none of these ran and they are folded, rows), in order.

    Comments and blank lines between rows that did not run go with them.
    """
    found: list[tuple[bool, list[CodeRow]]] = []
    last = -1  # row of the stretch that did not run
    for at, row in enumerate(rows):
        if at <= last:
            continue
        if not row.ran:
            end = at
            while end < len(rows) and (not rows[end].ran or _is_no_code(rows[end])):
                end += 1
            while rows[end - 1].ran:
                end -= 1
            if sum(not one.ran for one in rows[at:end]) >= UNRUN:
                found.append((True, list(rows[at:end])))
                last = end - 1
                continue
        if not found or found[-1][0]:
            found.append((False, []))
        found[-1][1].append(row)
    return found


def brief_code(line: str) -> str:
    """Return the line at which a statement begins as its name in a figure: "done = {…" where it goes on."""
    code = line.strip()
    return f"{code}…" if code.endswith(("(", "[", "{")) else code


def _is_no_code(row: CodeRow) -> bool:
    return all(not line.text.strip() or line.text.lstrip().startswith("#") for line in row.lines)


class Anchors:
    """Where on a page each step and each line of a source stands, read off its blocks."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.rows: dict[int, str] = {}  # of steps: their row
        self.others: dict[int, str] = {}  # of steps: the part they called, or the first thing they said
        self.said: dict[int, str] = {}  # of those of them that have no row: what they said
        self.lines: dict[tuple[int, int], str] = {}  # of source and line: the first row it stands in
        self.narrations: list[tuple[int, int]] = []  # number on the page, step
        for block in visible(blocks):
            if isinstance(block, CodeListing):
                for row in block.rows:
                    for execution in row.executions:
                        self.rows.setdefault(execution.step.id, row.anchor)
                    for line in row.lines:
                        self.lines.setdefault((line.source, line.number), row.anchor)
            elif isinstance(block, Call) and block.shown == "part" and block.step is not None:
                self.others.setdefault(block.step, block.anchor)
            elif isinstance(block, Narration) and block.step is not None:
                anchor = f"said-{block.number}"
                for step in (block.step, *block.steps):
                    if self.others.setdefault(step, anchor) == anchor and step not in self.rows:
                        self.said[step] = anchor
                self.narrations.append((block.number, block.step))


def shared_storages(blocks: Sequence[Block]) -> tuple[str, ...]:
    """Return the storages that more than one of the page's inspected expressions lie in, in order of appearance."""
    names: dict[str, set[str]] = {}
    for row in rows_shown(blocks):
        for name, value in (pair for execution in row.executions for pair in execution.values):
            if value.tensor is not None and value.tensor.storage is not None:
                names.setdefault(value.tensor.storage, set()).add(name)
    return tuple(storage for storage, users in names.items() if len(users) > 1)


def first_trouble(blocks: Sequence[Block]) -> str | None:
    """Return the anchor of the first shown row where a claim failed or an uncaught exception began."""
    for row in rows_shown(blocks):
        for execution in row.executions:
            failure, claim = execution.failure, execution.step.claim
            raised = failure is not None and failure.origin and not failure.caught
            if raised or (claim is not None and not claim.held):
                return row.anchor
    return None

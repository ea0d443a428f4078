"""Build the document of a trace with the lecture's current text; both writers write it.

    document = make_document(trace, lecture_text)
    document.sections[0].title           "Overview"

The stages; each reads only the results of the earlier ones:

    Lecture      the call tree with the text to show: each step with its line, its time, its rates
    blocks       each call of a lecture function, laid out along its source: lines, observations, narrative, calls
    fold         which calls on a page are open, named, or parts of its text; the anchors of headings
    Anchors      the position of each step and line on the page
    Section      derived from these: claims, contents, the player's stops, where the time went

Appearance is decided by the writers.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, groupby

from trace_tools.analysis.outcome import violations
from trace_tools.analysis.rates import statement_costs
from trace_tools.pages.content.definitions import Definitions
from trace_tools.pages.content.lecture import Lecture, lecture_of
from trace_tools.pages.document import (
    Anchors,
    Block,
    Call,
    ClaimLine,
    CodeLine,
    CodeListing,
    CodeRow,
    Document,
    Heading,
    Narration,
    Notice,
    Section,
    brief_code,
    mapped,
    prefix,
    said_in_runs,
    shared_storages,
    visible,
)
from trace_tools.pages.margin import with_notes
from trace_tools.pages.narration import reading_minutes
from trace_tools.pages.player import stepping
from trace_tools.presentation import prose
from trace_tools.source.directives import RECORDED
from trace_tools.source.layout import Segment
from trace_tools.source.statements import FUNCTIONS, functions_called_by, qualified_name
from trace_tools.trace.model import Frame, Step, Text, Trace
from trace_tools.util import formats

DEEPEST = 12  # nested calls; a deeper page would be unreadable
BODIES = 4  # most bodies of one function on a page
SHORT = 6  # rows of a body that may be open
EMULATED = (
    "Emulated: software imitated this device, to test the tools. No time here is a measurement; do "
    "not compare it with other machines."
)
# Ids of the templates and scripts, which headings must not use.
_TAKEN = re.compile(
    r"text|theme|panel|player|keys|search|figures|floors|score|again|machines|deeper|questions-first"
    r"|(?:said|call|range)-\d+|(?:step|search|keys|mode|figure)-\w+"
)


def make_document(trace: Trace, lecture: str | None = None, *, one_page: bool = False) -> Document:
    """Return the document of a trace; `lecture` is its current text, for its prose.

    With `one_page`, no anchor and no number of a narration occurs in two sections.

    Raises LectureError if the stored source is not valid Python.
    """
    ran = lecture_of(trace, lecture)
    calls: dict[str, list[Frame]] = {}
    for _step, frame in ran.tree.section_calls():
        calls.setdefault(frame.function, []).append(frame)
    # numbered by position in `main`, so that a run of one section keeps its number
    main, main_frame = ran.tree.main_name, ran.tree.main
    order = list(dict.fromkeys([*functions_called_by(ran.edition.source.parsed, main), *calls]))
    definitions = Definitions(ran)
    numbers = count(1) if one_page else None
    pages = [_section(ran, n, name, calls[name], definitions, numbers) for n, name in enumerate(order) if name in calls]
    opening, setup = _around(ran, numbers, {*order, main, *definitions.shown})
    return Document(
        title=ran.trace.title,
        run=trace.run,
        machine=trace.machine,
        versions=tuple(trace.versions),
        source=tuple(line or "" for line in ran.edition.source.lines),
        opening=opening,
        setup=setup,
        sections=tuple(pages),
        notices=tuple(_notices(ran)),
        claims_outside=_claims(ran, None, Anchors((*opening, *setup))),
        one_page=one_page,
        promise=(ran.titled(ran.definitions[main_frame.frame], main)[1] or None) if main_frame is not None else None,
    )


def _section(
    ran: Lecture,
    number: int,
    function: str,
    calls: Sequence[Frame],
    definitions: Definitions,
    numbers: Iterator[int] | None,
) -> Section:
    """Return the page of a section: its first call in full, further calls below."""
    begin = prefix(number, one_page=numbers is not None)
    page = _Composer(ran, begin, numbers)
    title, summary = ran.titled(ran.definitions[calls[0].frame], function)
    slug = f"{number:02d}-{prose.slug(function)}"
    laid_out = _core_first([*page.body(calls[0], begin, 0), *(page.call(again, 0) for again in calls[1:])])
    blocks = definitions.shown_in(fold(laid_out, begin), begin)
    deeper = [it for it in blocks if isinstance(it, Call) and it.deeper and it.shown == "part"]
    if deeper:
        at, minutes = blocks.index(deeper[0]), reading_minutes(deeper, deeper=True)
        above = f"Deeper: {formats.plural(len(deeper), 'part')}, {minutes} min"
        headings = (Heading(2, above, f"{begin}deeper"),)
        heading = Narration(Text(text=f"## {above}"), next(page.numbers), headings=headings)
        blocks = (*blocks[:at], heading, *blocks[at:])
    anchors = Anchors(blocks)
    parts = {it.step: it for it in visible(blocks) if isinstance(it, Call) and it.shown == "part"}

    def where(step: Step) -> tuple[str, str, bool]:
        if (part := parts.get(step.id)) is not None:
            return prose.readable_text(part.title), part.anchor, False
        anchor = anchors.rows.get(step.id) or anchors.lines.get(ran.line(step), "")
        return brief_code(ran.code(step)), anchor, True

    caller = ran.tree.by_id[calls[0].of] if calls[0].of is not None else None
    execution = ran.execution(caller) if caller is not None else None
    failure = execution.failure if execution is not None else None
    return Section(
        number=number,
        slug=slug,
        title=title,
        summary=summary or None,
        blocks=blocks,
        headings=tuple(_headings(blocks)),
        claims=_claims(ran, function, anchors),
        timing=execution.timing if execution is not None else None,
        stepping=stepping(ran, function, anchors),
        costs=statement_costs(ran.tree, calls, where, ran.narrating),
        shared=shared_storages(blocks),
        failure=None if failure is None or failure.caught else failure,
    )


def _core_first(blocks: list[Block]) -> list[Block]:
    """Move deeper parts to the end, and mark the texts after the last part as the summary, unless code follows it."""
    last = max((at for at, block in enumerate(blocks) if isinstance(block, Call)), default=len(blocks))
    after = blocks[last + 1 :]
    if all(isinstance(block, Narration) for block in after):
        blocks[last + 1 :] = mapped(after, narration=lambda it: replace(it, takeaway=isinstance(it.narrative, Text)))
    return sorted(blocks, key=lambda it: isinstance(it, Call) and it.deeper)


def _around(
    ran: Lecture, numbers: Iterator[int] | None, shown_elsewhere: set[str]
) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
    """Return the narrative and code of `main` itself, and the module's own code.

    The module's `def` statements of called functions and of sections are left out, because their code is shown where it
    ran.
    """
    tree = ran.tree
    begin = [prefix(name, one_page=numbers is not None) for name in ("index", "setup")]
    main, module = (_Composer(ran, one, numbers) for one in begin)
    shown_elsewhere = shown_elsewhere | {frame.function for frame in tree.frames.values()}
    statements = ran.edition.source.parsed.statements
    called = frozenset(
        s.number for s in statements if isinstance(s.node, FUNCTIONS) and qualified_name(s) in shown_elsewhere
    )
    opening = main.body(tree.main, begin[0], DEEPEST) if tree.main is not None and tree.main is not tree.module else []
    setup = module.body(tree.module, begin[1], 0, skip=called) if tree.module is not None else []
    return mapped(fold(opening, begin[0]), row=with_notes), mapped(fold(setup, begin[1]), row=with_notes)


def _notices(ran: Lecture) -> Iterator[Notice]:
    run = ran.trace.run
    if ran.trace.machine.emulated:
        yield Notice("emulated", EMULATED)
    if not run.complete:
        yield Notice("partial", f"This trace is partial: {run.ended}. These pages show everything up to that point.")
    if stale := ran.edition.stale:
        yield Notice("stale", f"This trace is stale: {stale}. The pages show the text that was traced.")
    if run.only:
        yield Notice("info", f"Only {run.only} was run.")
    if run.dropped:
        yield Notice("info", f"Left out of the trace: {'; '.join(run.dropped)}.")
    for line in violations(ran.trace):
        yield Notice("doubtful", f"This trace is not consistent: {line}.")


# --- blocks: the calls of one page, along the source ---


class _Composer:
    """Lays out the calls of one page, and numbers its narrations."""

    def __init__(self, ran: Lecture, prefix: str, numbers: Iterator[int] | None) -> None:
        self._ran = ran
        self._prefix = prefix
        self.numbers = count(1) if numbers is None else numbers

    def call(self, frame: Frame, depth: int) -> Call:
        """Return one call of a function, folded."""
        tree, definition = self._ran.tree, self._ran.definitions[frame.frame]
        anchor = f"{self._prefix}call-{frame.frame}"
        blocks: list[Block] = []
        header = None
        if definition is not None:
            blocks = self.body(frame, f"{anchor}-", depth + 1)
            body = self._ran.edition.source.body(definition)[:1]
            inline = any(segment.first <= definition.line for segment in body)
            numbers = range(0) if inline else range(definition.first_line, definition.header_end + 1)
            lines = self._lines(numbers, definition.node.col_offset)
            line, arguments = definition.line, tuple(frame.arguments or ())
            if lines or arguments:
                header = with_notes(CodeRow(lines, f"{anchor}-L{line}", arguments=arguments))
        executions = [execution for row in _rows(blocks) for execution in row.executions]
        inner = [block for block in blocks if isinstance(block, Call)]
        return Call(
            name=frame.function,
            step=frame.of,
            number=tree.call_number[frame.frame],
            total=tree.call_total[tree.section_of[frame.frame], frame.function],
            anchor=anchor,
            title=self._ran.titled(definition, frame.function)[0],
            header=header,
            blocks=tuple(blocks),
            level=min(depth + 2, 6),
            thread=frame.thread,
            troubled=any(e.troubled for e in executions) or any(call.troubled for call in inner),
            observed=bool(header and header.arguments) or any(execution.observed for execution in executions),
        )

    def body(self, frame: Frame, prefix: str, depth: int, *, skip: frozenset[int] = frozenset()) -> list[Block]:
        """Lay one call out along its function's segments.

        Rows are collected into listings. Narrative, and calls that contain narrative, come between them. Blank lines
        around a listing, and listings that consist of comments, are dropped.
        """
        source, definition = self._ran.edition.source, self._ran.definitions[frame.frame]
        segments = source.body(definition)
        columns = (source.parsed.statements[s.statements[0]].node.col_offset for s in segments if s.statements)
        indent = min(columns, default=0)
        if depth and definition is not None:
            indent = definition.node.col_offset  # its `def` line is shown above
        blocks: list[tuple[int | None, Block]] = []  # with the line that emitted it; None for code
        rows: list[CodeRow] = []
        executable = False  # the rows contain more than comments

        def close() -> None:
            nonlocal executable
            while rows and _blank(rows[-1]):
                rows.pop()
            if executable:
                blocks.append((None, CodeListing(tuple(rows))))
            rows.clear()
            executable = False

        for segment in segments:
            if not skip.isdisjoint(segment.statements):
                continue
            row = self._row(frame, segment, prefix, indent, depth)
            parts = [call for e in row.executions for call in e.calls if call.has_narrative]
            if "deeper" in row.marks:
                parts = [replace(call, deeper=True) for call in parts]
            if parts:  # they follow the row in the text
                executions = (
                    replace(e, calls=tuple(c for c in e.calls if not c.has_narrative)) for e in row.executions
                )
                row = replace(row, executions=tuple(executions))
            unsaid = segment.hidden or segment.narrative  # shown only if something went wrong in it
            warned = any(e.troubled or e.values or (e.step.warnings and not segment.hidden) for e in row.executions)
            shown = row.lines and (not unsaid or warned)
            nodes = [source.parsed.statements[number].node for number in segment.statements]
            blank_again = _blank(row) and (not rows or _blank(rows[-1]))
            if shown and not blank_again and not (parts and _is_only_a_call(nodes, row)):
                rows.append(row)
                executable = executable or bool(segment.statements)
            narrations = [replace(it, cover="cover" in row.marks) for it in self._narrations(frame, segment)]
            narrative: list[Block] = [*parts, *narrations]
            if narrative:
                close()
                blocks += [(segment.first, it) for it in narrative]
        close()
        return [*in_emitted_order(blocks)]

    def _row(self, frame: Frame, segment: Segment, prefix: str, indent: int, depth: int) -> CodeRow:
        source, tree = self._ran.edition.source, self._ran.tree
        steps = sorted((s for n in segment.statements for s in tree.steps(frame.frame, n)), key=lambda step: step.id)
        omitted = [o for n in segment.statements for o in tree.omitted(frame.frame, n)]
        directives = [one for n in segment.statements for one in source.directives.get(n, ())]
        gathered = not depth and any(one.name == "deeper" for one in directives)  # below the heading "Deeper"
        executions = []
        for step in steps:
            execution = self._ran.execution(step)
            frames = [called for called in tree.calls(step.id) if called.function != tree.main_name]
            calls = tuple(self.call(called, depth + gathered) for called in frames) if depth < DEEPEST else ()
            executions.append(replace(execution, calls=calls) if calls else execution)
        return CodeRow(
            lines=self._lines(range(segment.first, segment.last + 1), indent),
            anchor=f"{prefix}L{segment.first}",
            statements=tuple(segment.statements),
            executions=tuple(executions),
            omitted=sum(o.omitted for o in omitted),
            rounds=self._rounds(frame, segment),
            marks=frozenset(one.name for one in directives if one.name not in RECORDED),
            ran=bool(steps or omitted or not segment.statements) or self._makes_no_step(segment),
        )

    def _rounds(self, frame: Frame, segment: Segment) -> int | None:
        """Return how often the body of the loop with this header began; a `for` header is evaluated once more."""
        source, tree = self._ran.edition.source, self._ran.tree
        header = segment.statements[0] if segment.statements else None
        loop = source.parsed.statements[header].node if header is not None else None
        if header is None or not isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
            return None
        size = sum(isinstance(node, ast.stmt) for child in loop.body for node in ast.walk(child))
        inside = range(header + 1, header + 1 + size)  # statements are numbered in text order
        if not source.stepped_over.isdisjoint(inside):
            return None
        counts = (tree.executions(frame.frame, n) for n in inside)
        return next((count for count in counts if count), 0)

    def _makes_no_step(self, segment: Segment) -> bool:
        """Return whether a segment makes no step even if it runs: `global`, `try:`, statements under `@stepover`."""
        source = self._ran.edition.source
        nodes = [source.parsed.statements[number].node for number in segment.statements]
        return all(number in source.stepped_over for number in segment.statements) or all(
            isinstance(node, (ast.Global, ast.Nonlocal, ast.Try, ast.TryStar))
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            for node in nodes
        )

    def _lines(self, numbers: range, indent: int) -> tuple[CodeLine, ...]:
        texts = self._ran.edition.source.lines
        lines = []
        for number in numbers:
            text = texts[number - 1] if number <= len(texts) else None
            if text is not None:
                margin = min(indent, len(text) - len(text.lstrip()))
                lines.append(CodeLine(number, text[margin:], margin))
        return tuple(lines)

    def _narrations(self, frame: Frame, segment: Segment) -> Iterator[Narration]:
        """Yield the narrative of a segment's statements, once per execution."""
        tree = self._ran.tree
        if segment.prose:
            yield Narration(Text(text=segment.prose), next(self.numbers))
        for number in segment.statements:
            for step in tree.steps(frame.frame, number):
                for narrative in step.narrative or ():
                    sometimes = said_in_runs(narrative, step, self._ran.trace.run.timed_runs)
                    yield Narration(narrative, next(self.numbers), (step.id,), sometimes)


def in_emitted_order(blocks: Iterable[tuple[int | None, Block]]) -> Iterator[Block]:
    """Yield blocks, given with the line that emitted them (None for code), in the order of their emission.

    Between two pieces of code, the lines of a loop are ordered by iteration. A line that repeats the same narrative,
    with nothing in between, is shown once: `text("Find the most common pair.")` in a loop.
    """
    for is_code, group in groupby(blocks, lambda it: it[0] is None):
        if is_code:
            yield from (block for _, block in group)
            continue
        emitted: list[tuple[int, int | None, int, Block]] = []  # step before it, line, number of the line's execution
        after = -1
        for index, (line, block) in enumerate(group):
            step = block.step if isinstance(block, Call) else next(iter(getattr(block, "steps", ())), None)
            after = after if step is None else step  # new prose keeps its position
            emitted.append((after, line, ~index if step is None else step, block))
        emitted.sort(key=lambda it: it[0])
        last_line: int | None = None
        last: list[Block] = []
        for (line, _), execution in groupby(emitted, lambda it: it[1:3]):
            new = [block for *_, block in execution]
            if line == last_line and [*map(_said, new)] == [*map(_said, last)]:
                both = zip(last, new, strict=True)
                last = [
                    replace(a, steps=(*a.steps, *b.steps))
                    for a, b in both
                    if isinstance(a, Narration) and isinstance(b, Narration)
                ]
                continue
            yield from last
            last_line, last = line, new
        yield from last


def _said(block: Block) -> object:
    """Return what is equal for two narrations that say the same, and for no other two blocks."""
    return (block.narrative, block.sometimes) if isinstance(block, Narration) else id(block)


def _is_only_a_call(nodes: Sequence[ast.stmt], row: CodeRow) -> bool:
    """Return whether a row only calls the part below it: `part()`, once, without observations."""
    bare = len(nodes) == 1 and isinstance(nodes[0], ast.Expr) and isinstance(nodes[0].value, ast.Call)
    uneventful = (not (e.values or e.step.stdout or e.step.warnings or e.failure or e.calls) for e in row.executions)
    return bare and len(row.executions) == 1 and all(uneventful)


def _blank(row: CodeRow) -> bool:
    return all(not line.text.strip() for line in row.lines)


# --- fold: which calls a page shows ---


def fold(blocks: Iterable[Block], prefix: str = "") -> tuple[Block, ...]:
    """Decide how each call of a page is shown, and give headings their anchors.

    A call that contains narrative becomes a part of the text with its own title; others are folded under their line.
    Code is not repeated: from the fifth call of a function on a page (the second without observations), a call is only
    named. Calls with a failed claim or an uncaught exception are always shown. The result for a call depends on earlier
    calls, so the walk is in page order.
    """
    bodies: Counter[str] = Counter()  # of each function
    first: dict[str, str] = {}  # anchor of each function's first shown call
    anchors: Counter[str] = Counter()

    def anchor(text: str) -> str:
        """Return a unique anchor for a heading of the page."""
        name = prose.slug(text)
        if _TAKEN.fullmatch(name):
            name = f"{name}-heading"
        while name in anchors:  # also "A 2" after two headings "A"
            anchors[name] += 1
            name = f"{name}-{anchors[name]}"
        anchors[name] = 1
        return prefix + name

    def with_anchors(narration: Narration) -> Narration:
        text = narration.narrative.text if isinstance(narration.narrative, Text) else ""
        return replace(narration, headings=tuple(Heading(level, it, anchor(it)) for level, it in prose.headings(text)))

    def folded_call(call: Call) -> Call:
        before, blocks = bodies[call.name], call.blocks
        if before == 0 and call.has_narrative:
            call = replace(call, shown="part", anchor=anchor(prose.readable_text(call.title)))
        elif call.troubled:
            call = replace(call, shown="open")
        elif before >= BODIES or (before and not call.observed):
            return replace(call, shown="named", anchor=first[call.name])
        elif before == 0 and call.observed and len(_rows(blocks)) <= SHORT:
            call = replace(call, shown="open")
        bodies[call.name] += 1
        first.setdefault(call.name, call.anchor)
        return replace(call, blocks=_at_the_margin(blocks) if call.shown == "part" else _with_header(call))

    return mapped(blocks, call=folded_call, narration=with_anchors)


def _rows(blocks: Iterable[Block]) -> list[CodeRow]:
    return [row for block in blocks if isinstance(block, CodeListing) for row in block.rows]


def _with_header(call: Call) -> tuple[Block, ...]:
    """Return the blocks of a call with its `def` line at the start of the first listing."""
    if call.header is None:
        return call.blocks
    first = call.blocks[0] if call.blocks else None
    if isinstance(first, CodeListing):
        return (CodeListing((call.header, *first.rows)), *call.blocks[1:])
    return (CodeListing((call.header,)), *call.blocks)


def _at_the_margin(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Remove the common indentation from a body that is shown without its `def` line."""
    texts = [line.text for row in _rows(blocks) for line in row.lines if line.text.strip()]
    margin = min((len(text) - len(text.lstrip()) for text in texts), default=0)

    def moved(line: CodeLine) -> CodeLine:
        cut = min(margin, len(line.text) - len(line.text.lstrip()))
        return replace(line, text=line.text[cut:], indent=line.indent + cut)

    return tuple(
        CodeListing(tuple(replace(row, lines=tuple(map(moved, row.lines))) for row in block.rows))
        if isinstance(block, CodeListing)
        else block
        for block in blocks
    )


# --- derived from the blocks of a page ---


def _claims(ran: Lecture, section: str | None, anchors: Anchors) -> tuple[ClaimLine, ...]:
    """Return the section's asserts in order of their lines, each with its representative execution."""
    judged: dict[int, list[Step]] = {}  # by statement
    for frame, its_section in ran.tree.section_of.items():
        for step in ran.tree.steps_of(frame) if its_section == section else ():
            if step.claim is not None:
                judged.setdefault(step.statement, []).append(step)
    lines = []
    for _statement, steps in sorted(judged.items()):
        failed = [step for step in steps if step.claim is not None and not step.claim.held]
        step = failed[0] if failed else steps[-1]
        assert step.claim is not None
        anchor = next((anchors.rows[s.id] for s in (step, *steps) if s.id in anchors.rows), "")
        lines.append(ClaimLine(anchor, ran.line(step), step.claim, len(steps)))
    return tuple(lines)


def _headings(blocks: Sequence[Block]) -> Iterator[Heading]:
    for block in blocks:
        if isinstance(block, Narration):
            yield from block.headings
        elif isinstance(block, Call) and block.shown == "part":
            yield Heading(block.level, prose.readable_text(block.title), block.anchor)
            yield from _headings(block.blocks)

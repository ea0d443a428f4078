"""A trace, and the lecture as it is now → the document that both writers write.

    document = make_document(trace, lecture_text)
    document.sections[0].title           "Overview"

The call tree is laid out along the source: each call of a lecture function becomes its lines with what
was observed beside them and what was said between them. Nothing is decided here about looks.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from trace_tools.call_tree import Tree
from trace_tools.layout import CutSource, Segment
from trace_tools.rates import timing_of
from trace_tools.rendering import folding, prose
from trace_tools.rendering.document import (
    Block,
    Call,
    ClaimLine,
    CodeLine,
    Document,
    Execution,
    Failure,
    Listing,
    Notice,
    Row,
    Said,
    Section,
    SourceText,
    execution,
)
from trace_tools.rendering.staleness import Edition, edition_of
from trace_tools.rendering.stepping import Walk
from trace_tools.rendering.time_tree import spent
from trace_tools.schema import Frame, Machine, Narrative, SourceFile, Step, Trace
from trace_tools.statements import FUNCTIONS, MAIN, MODULE, Statement, qualified_name, sections

DEEPEST = 12  # calls inside calls; a page nested more deeply can't be read


def make_document(trace: Trace, lecture: str | None = None) -> Document:
    """Return the document of a trace; `lecture` is the first source's text as it is now, for its prose.

    Raises LectureError when a stored source is not Python.
    """
    editions = [edition_of(source, lecture if place == 0 else None) for place, source in enumerate(trace.sources)]
    editions = editions or [edition_of(SourceFile(trace.run.lecture, ""), None)]  # a run that never began
    composer = _Composer(Tree(trace), editions, trace.machine, trace.run.timed_runs)
    sections = tuple(composer.sections())
    outside, opening, setup = composer.outside()
    return Document(
        title=trace.title,
        run=trace.run,
        machine=trace.machine,
        versions=tuple(trace.versions),
        sources=tuple(SourceText(e.source.parsed.path, tuple(line or "" for line in e.source.lines)) for e in editions),
        opening=opening,
        setup=setup,
        sections=sections,
        notices=tuple(_notices(trace, editions)),
        claims_outside=outside,
    )


def _notices(trace: Trace, editions: Iterable[Edition]) -> Iterator[Notice]:
    if not trace.run.complete:
        yield Notice("partial", f"This trace is partial: {trace.run.ended}. Everything up to there is on these pages.")
    for edition in editions:
        if edition.stale:
            yield Notice("stale", f"This trace is stale: {edition.stale}. The pages show the text that was traced.")
    if trace.run.only:
        yield Notice("info", f"Only {trace.run.only} was run.")
    for dropped in trace.run.dropped:
        yield Notice("info", f"Left out of the trace: {dropped}.")


class _Composer:
    """Lays frames out along the source; `_said` counts narrative calls within a page."""

    def __init__(
        self, tree: Tree, editions: Sequence[Edition], machine: Machine, timed_runs: int | None = None
    ) -> None:
        self._tree = tree
        self._editions = editions
        self._machine = machine
        self._timed_runs = timed_runs
        self._said = 0
        self._shown = [edition.shown() for edition in editions]

    # --- pages ---

    def sections(self) -> Iterator[Section]:
        """Yield one section per function that `main` calls, in reading order."""
        calls: dict[str, list[tuple[Step, Frame]]] = {}
        for step, frame in self._tree.section_calls():
            calls.setdefault(frame.function, []).append((step, frame))
        order = self._reading_order([*calls])
        for function in sorted(calls, key=order.__getitem__):
            yield self._section(order[function], calls[function])

    def _reading_order(self, called: Sequence[str]) -> dict[str, int]:
        """Number the sections by their place in `main`'s source, so that a run of only one keeps its number."""
        names = sections(self._editions[0].source.parsed)
        return {name: number for number, name in enumerate(dict.fromkeys([*names, *called]))}

    def _section(self, number: int, calls: Sequence[tuple[Step, Frame]]) -> Section:
        self._said = 0
        (step, frame), *again = calls
        definition = self._definition(frame)
        title, summary = _titled(definition, frame.function)
        blocks: list[Block] = self._body(frame, definition, "", 0)
        blocks += [self._call(other, 0) for _, other in again]
        shown = folding.fold(blocks)
        failure = self._failure(step)
        return Section(
            number=number,
            slug=f"{number:02d}-{prose.slug(frame.function)}",
            function=frame.function,
            title=title,
            summary=summary,
            blocks=shown,
            headings=folding.headings(shown),
            claims=self._claims(frame.function, shown),
            timing=timing_of(step, self._machine),
            stepping=Walk(self._tree, self._editions, self._machine, shown).section(frame.function),
            spent=spent(self._tree, [frame for _, frame in calls], self._placed(shown)),
            shared=folding.shared_storages(shown),
            failure=None if failure is None or failure.caught else failure,
        )

    def _placed(self, shown: Sequence[Block]) -> Callable[[Step, int], tuple[str, int, str]]:
        """Return what tells of a step its code, its line and the anchor of its row: its own, else its line's."""
        anchors, of_line = folding.anchors(shown), folding.line_anchors(shown)

        def place(step: Step, source: int) -> tuple[str, int, str]:
            edition, number = self._editions[source], self._shown[source].get(step.statement)
            line = edition.source.parsed.statements[number].line if number is not None else step.line
            texts = edition.source.lines
            code = (texts[line - 1] or "").strip() if 0 < line <= len(texts) else ""
            return code, line, anchors.get(step.id) or of_line.get((source, line), "")

        return place

    def outside(self) -> tuple[tuple[ClaimLine, ...], tuple[Block, ...], tuple[Block, ...]]:
        """Return the claims, what `main` itself says and does, and the module's own code."""
        self._said = 0
        main, module = self._tree.main, self._tree.module
        opening = self._body(main, self._definition(main), "", DEEPEST) if main is not None else []
        setup = self._body(module, None, "", 0, skip=self._shown_elsewhere()) if module is not None else []
        folded = folding.fold(opening), folding.fold(setup)
        return self._claims(None, (*folded[0], *folded[1])), *folded

    def _shown_elsewhere(self) -> frozenset[int]:
        """Return the module's `def` statements that were called: their lines stand where they ran."""
        called = {frame.function for frame in self._tree.frames.values()} | set(self._reading_order([]))
        parsed = self._editions[0].source.parsed
        return frozenset(
            s.number
            for s in parsed.statements
            if isinstance(s.node, FUNCTIONS) and qualified_name(s) in {*called, MAIN}
        )

    # --- a call ---

    def _definition(self, frame: Frame) -> Statement | None:
        """Find the `def` a frame ran: by the statements it executed, else by its name; None for the module."""
        if frame.function == MODULE:
            return None
        source = self._editions[frame.source].source
        for step in self._tree.steps_of(frame.frame)[:1]:
            shown = self._shown[frame.source].get(step.statement)
            if shown is not None and shown < len(source.parsed.statements):
                return source.enclosing(shown)
        return source.parsed.function(frame.function)

    def _call(self, frame: Frame, depth: int) -> Call:
        definition = self._definition(frame)
        anchor = f"call-{frame.frame}"
        blocks = self._body(frame, definition, f"{anchor}-", depth + 1) if definition is not None else []
        header = self._header(frame, definition, anchor) if definition is not None else None
        return Call(
            function=frame.function,
            frame=frame.frame,
            step=frame.of,
            number=self._tree.call_number[frame.frame],
            total=self._tree.call_total[self._tree.section_of[frame.frame], frame.function],
            anchor=anchor,
            title=_titled(definition, frame.function)[0],
            header=header,
            blocks=tuple(blocks),
            level=min(depth + 2, 6),
            thread=frame.thread,
            troubled=folding.any_trouble(blocks),
            observed=bool(header and header.arguments) or folding.any_observation(blocks),
        )

    def _header(self, frame: Frame, definition: Statement, anchor: str) -> Row:
        source = self._editions[frame.source].source
        inline = any(segment.first <= definition.line for segment in source.body(definition)[:1])
        numbers = range(0) if inline else range(definition.first_line, definition.header_end + 1)
        lines = self._lines(frame.source, numbers, definition.node.col_offset)
        return Row(lines, f"{anchor}-L{definition.line}", definition.line, arguments=tuple(frame.arguments or ()))

    def _body(
        self, frame: Frame, definition: Statement | None, prefix: str, depth: int, *, skip: frozenset[int] = frozenset()
    ) -> list[Block]:
        """Lay one call out along its function's segments."""
        source = self._editions[frame.source].source
        segments = source.body(definition)
        columns = (source.parsed.statements[s.statements[0]].node.col_offset for s in segments if s.statements)
        indent = min(columns, default=0)
        if depth and definition is not None:
            indent = definition.node.col_offset  # its `def` line stands above it
        placed: list[tuple[Row, Segment] | Said | Call] = []
        for segment in segments:
            if skip.isdisjoint(segment.statements):
                row, parts = _without_parts(self._row(frame, segment, prefix, indent, depth))
                if _shows_code(segment, row) and not (parts and _is_only_a_call(segment, row, source)):
                    placed.append((row, segment))
                placed += [*parts, *self._narratives(frame, segment)]
        return _listings(placed)

    def _row(self, frame: Frame, segment: Segment, prefix: str, indent: int, depth: int) -> Row:
        recorded = self._recorded(frame, segment)
        steps = sorted((s for n in recorded for s in self._tree.steps(frame.frame, n)), key=lambda step: step.id)
        omitted = [o for n in recorded for o in self._tree.omitted(frame.frame, n)]
        return Row(
            lines=self._lines(frame.source, range(segment.first, segment.last + 1), indent),
            anchor=f"{prefix}L{segment.first}",
            line=segment.first,
            executions=tuple(self._execution(step, depth) for step in steps),
            omitted=sum(o.omitted for o in omitted),
            omitted_ns=sum(o.host_ns for o in omitted),
            ran=bool(steps or omitted or not segment.statements) or self._silent(frame, segment),
        )

    def _recorded(self, frame: Frame, segment: Segment) -> list[int]:
        recorded = self._editions[frame.source].recorded
        return [recorded[number] for number in segment.statements if number in recorded]

    def _silent(self, frame: Frame, segment: Segment) -> bool:
        """Whether a segment is one that makes no step even where it runs: `global`, `try:`, what is stepped over."""
        source = self._editions[frame.source].source
        nodes = [source.parsed.statements[number].node for number in segment.statements]
        return all(number in source.stepped_over for number in segment.statements) or all(
            isinstance(node, (ast.Global, ast.Nonlocal, ast.Try, ast.TryStar))
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            for node in nodes
        )

    def _lines(self, source: int, numbers: range, indent: int) -> tuple[CodeLine, ...]:
        texts = self._editions[source].source.lines
        lines = []
        for number in numbers:
            text = texts[number - 1] if number <= len(texts) else None
            if text is not None:
                margin = min(indent, len(text) - len(text.lstrip()))
                lines.append(CodeLine(source, number, text[margin:], margin))
        return tuple(lines)

    def _execution(self, step: Step, depth: int) -> Execution:
        made = execution(step, self._machine, self._failure(step), self._timed_runs)
        frames = [frame for frame in self._tree.calls(step.id) if frame.function != MAIN]
        if not frames or depth >= DEEPEST:
            return made
        return replace(made, calls=tuple(self._call(frame, depth) for frame in frames))

    def _failure(self, step: Step) -> Failure | None:
        raised = step.raised
        if raised is None:
            return None
        line = raised.origin_line
        if line is not None:
            line = self._editions[0].lines.get(line, line)
        return Failure(raised.type, raised.message, self._tree.caught(step), self._tree.is_origin(step), line)

    def _narratives(self, frame: Frame, segment: Segment) -> list[Said]:
        """Return what a segment's statements said, once for each execution."""
        edition = self._editions[frame.source]
        said: list[Said] = []
        for number in segment.statements:
            new = edition.prose.get(number)
            if new is not None:
                steps = () if new.beside is None else self._tree.steps(frame.frame, new.beside)
                ran: list[int | None] = (
                    [None] if new.beside is None else [step.id for step in steps if step.raised is None]
                )
                said += [self._numbered(new.narrative, step if new.reworded else None) for step in ran]
            elif number in edition.recorded:
                steps = self._tree.steps(frame.frame, edition.recorded[number])
                said += [self._numbered(narrative, step.id) for step in steps for narrative in step.narrative or ()]
        return said

    def _numbered(self, narrative: Narrative, step: int | None) -> Said:
        self._said += 1
        if step is None:
            return Said(narrative, self._said)
        said = self._tree.by_id[step]
        return Said(narrative, self._said, step, runs=said.runs, timed_runs=self._timed_runs, clock=said.clock)

    # --- claims ---

    def _claims(self, section: str | None, blocks: Sequence[Block]) -> tuple[ClaimLine, ...]:
        """Return the section's asserts in order of their lines, each with the execution that speaks for all."""
        found: dict[tuple[int, int], list[Step]] = {}
        for frame, of in self._tree.section_of.items():
            if of == section:
                for step in self._tree.steps_of(frame):
                    if step.claim is not None:
                        found.setdefault((self._tree.frames[frame].source, step.statement), []).append(step)
        anchors = folding.anchors(blocks)
        return tuple(self._claim_line(place, steps, anchors) for place, steps in sorted(found.items()))

    def _claim_line(self, place: tuple[int, int], steps: Sequence[Step], anchors: dict[int, str]) -> ClaimLine:
        source, statement = place
        failed = [step for step in steps if step.claim is not None and not step.claim.held]
        step = failed[0] if failed else steps[-1]
        assert step.claim is not None
        shown = self._shown[source].get(statement)
        line = self._editions[source].source.parsed.statements[shown].line if shown is not None else step.line
        seen = (s.id for s in (step, *steps) if s.id in anchors)
        return ClaimLine(anchors.get(next(seen, -1), ""), line, step.claim, len(steps))


def _titled(definition: Statement | None, function: str) -> tuple[str, str | None]:
    """Return a function's title and the rest of its docstring: its first line, else its name in words."""
    node = definition.node if definition is not None else None
    text = ast.get_docstring(node) if isinstance(node, FUNCTIONS) else None
    if not text:
        return function.rpartition(".")[2].replace("_", " ").strip().capitalize() or function, None
    first, _, rest = text.partition("\n")
    return re.sub(r"^\d+[.:]?\s+", "", first.strip()), rest.strip() or None


def _shows_code(segment: Segment, row: Row) -> bool:
    """Narrative and hidden statements show no code, unless something went wrong in them."""
    if not row.lines:
        return False
    if segment.hidden or segment.narrative:
        return any(e.troubled or e.values for e in row.executions)
    return True


def _without_parts(row: Row) -> tuple[Row, list[Call]]:
    """Take the calls that speak to the reader out of a row: they stand in the text after it."""
    parts = [call for e in row.executions for call in e.calls if folding.speaks(call)]
    if not parts:
        return row, parts
    taken = {call.frame for call in parts}
    executions = (replace(e, calls=tuple(c for c in e.calls if c.frame not in taken)) for e in row.executions)
    return replace(row, executions=tuple(executions)), parts


def _is_only_a_call(segment: Segment, row: Row, source: CutSource) -> bool:
    """Whether a row says nothing that the part it calls does not say: `part()`, once, with nothing observed."""
    nodes = [source.parsed.statements[number].node for number in segment.statements]
    bare = len(nodes) == 1 and isinstance(nodes[0], ast.Expr) and isinstance(nodes[0].value, ast.Call)
    quiet = (not (e.values or e.stdout or e.warnings or e.failure or e.calls) for e in row.executions)
    return bare and len(row.executions) == 1 and all(quiet)


def _listings(placed: Sequence[tuple[Row, Segment] | Said | Call]) -> list[Block]:
    """Gather rows into listings; blank lines around them, and listings of nothing but comments, go."""
    blocks: list[Block] = []
    rows: list[tuple[Row, Segment]] = []

    def close() -> None:
        while rows and _blank(rows[-1][0]):
            rows.pop()
        if any(segment.statements for _, segment in rows):
            blocks.append(Listing(tuple(row for row, _ in rows)))
        rows.clear()

    for item in placed:
        if isinstance(item, (Said, Call)):
            close()
            blocks.append(item)
        elif not (_blank(item[0]) and (not rows or _blank(rows[-1][0]))):
            rows.append(item)
    close()
    return blocks


def _blank(row: Row) -> bool:
    return all(not line.text.strip() for line in row.lines)

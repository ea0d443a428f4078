"""Build the column of another machine for a section, from a comparison of the two traces.

    other = Counterparts.of(difference, "NVIDIA H200", here_is_a=True)
    column(Listed.of(section), other).cells["L216"].entries[0]
    # ColumnEntry("time", "", "", "0.4 ms ± 1%", "28× faster")
    in_b, in_a = beside(a, b, of_a, of_b)         the columns for `b` on the pages of `a`, and vice versa
    other_roofs([section], [in_b])       [Roof("NVIDIA H200", (("bfloat16", 9.9e14),), 4.8e12, (…))]: for its lines

`diff` matches the steps and judges the differences; this module places its verdicts next to the lines of a page. Values
that vary, were rounded, or come from a device's generator are therefore not marked, and times on two machines are a
ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trace_tools.diff.difference import Difference, Finding, Side, StepPair
from trace_tools.diff.wording import sides_text, subject_text, word_of
from trace_tools.errors import UsageError
from trace_tools.pages.columns import Column, ColumnCell, ColumnEntry, Kind
from trace_tools.pages.document import Call, CodeListing, CodeRow, Execution, MarginNote, Section, execution, visible
from trace_tools.pages.margin import observed, timed, took, worth_saying
from trace_tools.pages.section_charts import section_points
from trace_tools.presentation.charts.roofline import Roof, RoofPoint, roof_of
from trace_tools.trace.model import Frame, Machine, Value
from trace_tools.util import formats

ALIKE = 1.05  # ratio of times below which no factor is shown
WORTH_SHOWING_BYTES = 1024
ENTRY_KINDS: dict[str, Kind] = {
    "value": "value",
    "error": "failed",
    "held": "held",
    "failed": "failed",
    "caught": "failed",
}


@dataclass(frozen=True, slots=True)
class Counterparts:
    """All steps of one trace with their counterparts in another; `here_is_a`: this trace is side A of the diff."""

    name: str
    machine: Machine
    here_is_a: bool = True
    rows: Mapping[int, StepPair] = field(default_factory=dict)  # by the step on this machine
    frames: Mapping[int, Frame] = field(default_factory=dict)  # on the other machine, by the frame on this one
    notes: tuple[str, ...] = ("That machine ran another lecture, so no line matches.",)

    @classmethod
    def of(cls, difference: Difference, name: str, *, here_is_a: bool) -> Counterparts:
        """Read a diff from the given side."""
        this_side, other_side = ("a", "b") if here_is_a else ("b", "a")
        rows = {step.id: row for row in difference.rows if (step := getattr(row, this_side)) is not None}
        pairs = [(getattr(pair, this_side), getattr(pair, other_side)) for pair in difference.frames]
        frames = {one.frame: other for one, other in pairs if one is not None and other is not None}
        side: Side = getattr(difference, other_side)
        missing = sum(getattr(row, other_side) is None for row in rows.values())
        notes = []
        if not difference.same_source:
            gone = f"; {formats.plural(missing, 'step')} of this lecture did not run there" if missing else ""
            notes.append(f"The lecture's source is different{gone}.")
        if not side.trace.run.complete:
            notes.append(f"That trace is partial: {side.trace.run.ended}.")
        if not difference.same_machine:
            notes.append("Times on two machines are compared as ratios and are not counted as differences.")
        return cls(name, side.trace.machine, here_is_a, rows, frames, tuple(notes))

    def counterpart(self, here: Execution) -> Execution | None:
        """Return the counterpart of an execution on the other machine."""
        row = self.rows.get(here.step.id)
        step = None if row is None else row.b if self.here_is_a else row.a
        return execution(step, self.machine) if step is not None else None


@dataclass(frozen=True, slots=True)
class Beside:
    """Another machine's column and roofline points, by section."""

    name: str
    machine: Machine
    columns: Mapping[str, Column]
    points: Mapping[str, tuple[RoofPoint, ...]]

    @classmethod
    def of(cls, other: Counterparts, listed: Sequence[Listed]) -> Beside:
        """Collect the counterparts for all sections of one machine."""
        columns = {one.section.slug: column(one, other) for one in listed}
        points = {one.section.slug: tuple(section_points(one.section, "", other.counterpart)) for one in listed}
        return cls(other.name, other.machine, columns, points)


@dataclass(frozen=True, slots=True)
class Listed:
    """A section with its rows (a `def` line with the call whose arguments it shows) and the notes of each row."""

    section: Section
    rows: tuple[tuple[CodeRow, Call | None], ...]
    texts: Mapping[str, _Texts]

    @classmethod
    def of(cls, section: Section) -> Listed:
        """List a section, once for all other machines."""
        rows: list[tuple[CodeRow, Call | None]] = []
        for block in visible(section.blocks):
            if isinstance(block, CodeListing):
                rows += ((row, None) for row in block.rows)
            elif isinstance(block, Call) and block.header is not None and block.shown in ("open", "folded"):
                rows.append((block.header, block))
        texts = {row.anchor: {_subject(note): note.text for note in row.beside} for row, _ in rows}
        return cls(section, tuple(rows), texts)


def _difference(a: Side, b: Side) -> Difference:
    """Compare two traces; imported late because it loads NumPy, which a site of one machine does not need."""
    from trace_tools.diff.judge.between import difference_between

    return difference_between(a, b)


def beside(a: Side, b: Side, of_a: Sequence[Listed], of_b: Sequence[Listed]) -> tuple[Beside, Beside]:
    """Return the columns of `b` for the pages of `a`, and of `a` for those of `b`, from one comparison."""
    try:
        difference = _difference(a, b)
    except UsageError:
        in_b, in_a = Counterparts(b.name, b.trace.machine), Counterparts(a.name, a.trace.machine)
    else:
        in_b = Counterparts.of(difference, b.name, here_is_a=True)
        in_a = Counterparts.of(difference, a.name, here_is_a=False)
    return Beside.of(in_b, of_a), Beside.of(in_a, of_b)


def other_roofs(sections: Sequence[Section], other_machines: Sequence[Beside], *, index: bool = False) -> list[Roof]:
    """Return the roofline of each other machine with the statements of some sections; on an index, linked to pages."""
    roofs = []
    for other in other_machines:
        pages = [(f"{section.slug}.html" if index else "", other.points[section.slug]) for section in sections]
        points = [replace(point, link=f"{page}{point.link}") for page, some in pages for point in some]
        if points:
            roofs.append(roof_of(other.name, other.machine, points))
    return roofs


_Texts = Mapping[tuple[str, int | None, str], str]  # a row's notes on this machine, by subject


def _subject(note: MarginNote) -> tuple[str, int | None, str]:
    return note.kind, note.index, note.label


def column(here: Listed, other: Counterparts) -> Column:
    """Return one machine's column for a section; empty, with the reason, if nothing matches."""
    matched = [e for row, _ in here.rows for e in row.executions if e.step.id in other.rows]
    if matched and not any(map(other.counterpart, matched)):
        return Column(other.name, {}, (*other.notes, "No line of this page ran there."))
    cells = {
        row.anchor: ColumnCell(entries, row.line)
        for row, call in here.rows
        if (entries := tuple(_entries(row, call, here.texts[row.anchor], other)))
    }
    return Column(other.name, cells, other.notes)


def _entries(row: CodeRow, call: Call | None, here: _Texts, other: Counterparts) -> Iterator[ColumnEntry]:
    """Yield one row's results on the other machine: values and claims, time, memory, and other differences."""
    pairs = {e.step.id: other.rows[e.step.id] for e in row.executions if e.step.id in other.rows}
    counterparts = {e.step.id: counterpart for e in row.executions if (counterpart := other.counterpart(e)) is not None}
    findings = [finding for pair in pairs.values() for finding in pair.findings]
    if pairs and not counterparts:
        why = next((f.detail for f in findings if f.aspect == "steps" and f.detail), None) or "did not run there"
        yield ColumnEntry("absent", "", "", why, differs=any(f.matters for f in findings))
        return
    frame = other.frames.get(call.frame) if call is not None else None
    arguments = tuple(frame.arguments or ()) if frame is not None else ()
    if arguments or any(e.step.values or e.step.claim for e in counterparts.values()):
        shown = replace(row, executions=tuple(counterparts.values()), arguments=arguments, omitted=0)
        caller = other.rows.get(call.step) if call is not None and call.step is not None else None
        of_steps = [(e.step.execution, pairs[step].findings) for step, e in counterparts.items()]
        yield from _result_entries(here, shown, of_steps, caller.findings if caller is not None else (), other)
    effects = [
        (abs(math.log(time.ratio)), e.step.execution, e)
        for e in row.executions
        if e.step.id in pairs
        for time in pairs[e.step.id].times
        if time.matters and time.ratio
    ]
    # represents the row: among those judged faster or slower, the one with the largest difference
    typical = max(effects)[2] if effects else timed(row)
    if typical is not None and typical.step.id in counterparts:
        pair, executed = pairs[typical.step.id], counterparts[typical.step.id]
        times = list(_time(typical, executed, pair.times, other))
        label = f"{typical.step.execution}" if len(row.executions) > 1 else ""
        yield from (replace(entry, label=label) for entry in times)
        # the maximum of live tensor bytes, if a reader asked about the line or it differs
        here_meters, there_meters = typical.step.meters, executed.step.meters
        peak_here = here_meters.peak_bytes if here_meters is not None else None
        peak_there = there_meters.peak_bytes if there_meters is not None else None
        differs = any(f.aspect == "memory" and f.matters for f in pair.findings)
        worth_showing = times and max(peak_here or 0, peak_there or 0) >= WORTH_SHOWING_BYTES
        if peak_there is not None and (differs or worth_showing):
            note = f"here {formats.byte_size(peak_here)}" if peak_here is not None and peak_here != peak_there else ""
            yield ColumnEntry("memory", "", "", f"peak {formats.byte_size(peak_there)}", note, differs)
    # the other differences that matter: number of runs, exceptions, FLOPs, operators
    aspects = ("flops", "steps", "output")
    by_subject = {f.subject: f for f in reversed(findings) if f.matters and f.aspect in aspects}
    for finding in reversed(by_subject.values()):
        result = sides_text(finding)[1 if other.here_is_a else 0] or finding.detail or "none"
        yield ColumnEntry("other", subject_text(finding.subject, 60), "", result, "", True)


def _result_entries(
    here: _Texts,
    other_row: CodeRow,
    of_steps: Sequence[tuple[int, Sequence[Finding]]],
    of_caller: Sequence[Finding],
    other: Counterparts,
) -> Iterator[ColumnEntry]:
    """Yield values and claims; results that read the same on both machines have no text."""
    for note in observed(other_row):
        if note.kind not in ENTRY_KINDS:
            continue
        same = here.get(_subject(note)) == note.text
        findings = [f for number, of_step in of_steps for f in of_step if note.label in ("", f"{number}")]
        if note.kind in ("held", "failed", "caught"):
            about = [f for f in findings if f.aspect == "claims"]
        else:
            values = _values_of(note, other_row)
            about = [f for f in (*findings, *of_caller) if any((f.b if other.here_is_a else f.a) is v for v in values)]
        differs = any(f.matters for f in about)
        text = None if same else note.text
        comment = ""
        if differs and same:
            comment = "details differ"
        elif not differs and not same:
            noise = next((word_of(f) for f in about if f.verdict == "noise"), "")
            comment = noise if noise not in note.text else ""
        yield ColumnEntry(ENTRY_KINDS[note.kind], note.name, note.label, text, comment, differs)


def _values_of(note: MarginNote, other_row: CodeRow) -> list[Value]:
    """Return the values of a note: of one execution, or of all executions that share the note."""
    if note.index is None:
        return []
    if any(note.value is value for _, value in other_row.arguments):
        return [other_row.arguments[note.index][1]]
    executions = [e.values for e in other_row.executions if note.label in ("", f"{e.step.execution}")]
    return [values[note.index][1] for values in executions if note.index < len(values)]


def _time(
    here: Execution, counterpart: Execution, findings: Sequence[Finding], other: Counterparts
) -> Iterator[ColumnEntry]:
    """Yield the time on the other machine and its comparison: judged on one machine, a ratio on two.

    If a step measured several things, these are the times of one call of each.
    """
    if counterpart.timing is None or counterpart.timing.clock == "launch" or here.timing is None:
        return
    if not (worth_saying(here) or worth_saying(counterpart)):
        return
    if len(findings) > 1:
        for time in findings:
            there_ns = (time.numbers or (0.0, 0.0))[other.here_is_a]
            name = f"measurement {time.subject.index + 1}"
            yield ColumnEntry("time", name, "", formats.duration(there_ns), _compared(time, other), time.matters)
        return
    judged = findings[0] if findings else None
    yield ColumnEntry(
        "time", "", "", took(counterpart.timing), _compared(judged, other), judged is not None and judged.matters
    )


def _compared(time: Finding | None, other: Counterparts) -> str:
    """Compare a time on the other machine with the time on this one: "3.1× faster"."""
    if time is None or time.verdict == "noise":
        return "" if time is None else "≈"
    if time.ratio:
        ratio = time.ratio if other.here_is_a else 1 / time.ratio
        size, word = (ratio, "slower") if ratio >= 1 else (1 / ratio, "faster")
        digits = 2 if size < 100 else 3
        return "equally fast" if size < ALIKE else f"{formats.number(float(size), digits).removesuffix('.0')}× {word}"
    return ""

"""A section on one machine, and the same lecture on another → what stands in that machine's column.

    other = Counterparts.of(difference, "NVIDIA H200", here_is_a=True)
    column(Listed.of(section), other).cells["L216"].entries[0]
    # ColumnEntry("time", "", "", "0.4 ms ± 1%", "28× faster")
    in_b, in_a = beside(a, b, of_a, of_b)         what the pages of `a` show of `b`, and the other way round
    other_roofs([section], [in_b])       [Roof("NVIDIA H200", (("bfloat16", 9.9e14),), 4.8e12, (…))]: over its lines

The diff (`comparing`) says which step is which and what differs; this module only puts its verdicts beside the
lines of a page, in the words of the page. So what varies, was rounded or drawn from a device's generator is no
difference here either, and times on two machines are a ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trace_tools import formats
from trace_tools.comparing.difference import Difference, Finding, Side, StepPair, TimeFinding
from trace_tools.comparing.judging.between import difference_between
from trace_tools.comparing.wording import sides_text, subject_text
from trace_tools.errors import UsageError
from trace_tools.ranks import of_rank
from trace_tools.rendering.charts.of_pages import section_points
from trace_tools.rendering.charts.roofline import Roof, RoofPoint, roof_of
from trace_tools.rendering.columns import Column, ColumnCell, ColumnEntry, Kind
from trace_tools.rendering.document import Call, CodeListing, CodeRow, Execution, Section, execution, visible
from trace_tools.rendering.remarks import Remark, observed, timed, took, worth_saying
from trace_tools.schema import Frame, Machine, Step, Trace, Value

MOST_RANKS = 8  # that have columns and pages of their own
ALIKE = 1.05  # ratio of times below which no factor is worth a word
WORTH_SHOWING_BYTES = 1024
SAID: dict[str, Kind] = {"value": "value", "error": "failed", "held": "held", "failed": "failed", "caught": "failed"}
NOISE = {"varies": "varies", "random": "device-random", "rounding": "rounding"}


@dataclass(frozen=True, slots=True)
class Counterparts:
    """All steps of one trace with their counterparts in another; `here_is_a` says which side of the diff this is."""

    name: str
    machine: Machine
    here_is_a: bool = True
    rows: Mapping[int, StepPair] = field(default_factory=dict)  # by the step here
    frames: Mapping[int, Frame] = field(default_factory=dict)  # there, by the frame here
    notes: tuple[str, ...] = ("No line here has a counterpart there: it ran another lecture.",)

    @classmethod
    def of(cls, difference: Difference, name: str, *, here_is_a: bool) -> Counterparts:
        """Read a diff from one of its sides."""
        here, there = ("a", "b") if here_is_a else ("b", "a")
        rows = {step.id: row for row in difference.rows if (step := getattr(row, here)) is not None}
        pairs = [(getattr(pair, here), getattr(pair, there)) for pair in difference.frames]
        frames = {one.frame: other for one, other in pairs if one is not None and other is not None}
        side: Side = getattr(difference, there)
        missing = sum(getattr(row, there) is None for row in rows.values())
        notes = []
        if not difference.same_source:
            gone = f"; {formats.plural(missing, 'step')} of this lecture did not run there" if missing else ""
            notes.append(f"The lecture's source was not the same{gone}.")
        if not side.trace.run.complete:
            notes.append(f"That trace is partial: {side.trace.run.ended}.")
        if not difference.same_machine:
            notes.append("Times on two machines are ratios, and no difference by themselves.")
        return cls(name, side.trace.machine, here_is_a, rows, frames, tuple(notes))

    def there(self, here: Execution) -> Execution | None:
        """Return what an execution was there."""
        row = self.rows.get(here.step.id)
        step = None if row is None else row.b if self.here_is_a else row.a
        return execution(step, self.machine) if step is not None else None


@dataclass(frozen=True, slots=True)
class Beside:
    """Another machine as the pages of one show it: its column and its points under the roof, by section."""

    name: str
    machine: Machine
    columns: Mapping[str, Column]
    points: Mapping[str, tuple[RoofPoint, ...]]

    @classmethod
    def of(cls, other: Counterparts, listed: Sequence[Listed]) -> Beside:
        """Show all that the sections of one machine have a counterpart for."""
        columns = {one.section.slug: column(one, other) for one in listed}
        points = {one.section.slug: tuple(section_points(one.section, "", other.there)) for one in listed}
        return cls(other.name, other.machine, columns, points)


@dataclass(frozen=True, slots=True)
class Listed:
    """A section with its rows, a `def` line with the call whose arguments stand on it, and what each row says here."""

    section: Section
    rows: tuple[tuple[CodeRow, Call | None], ...]
    texts: Mapping[str, _Texts]

    @classmethod
    def of(cls, section: Section) -> Listed:
        """List a section, once for all other machines."""
        rows = tuple(_rows(section))
        texts = {row.anchor: {_subject(remark): remark.text for remark in observed(row)} for row, _ in rows}
        return cls(section, rows, texts)


def beside(a: Side, b: Side, of_a: Sequence[Listed], of_b: Sequence[Listed]) -> tuple[Beside, Beside]:
    """Return what the pages of `a` show of `b`, and those of `b` of `a`; the two are compared once."""
    try:
        difference = difference_between(a, b)
    except UsageError:
        in_b, in_a = Counterparts(b.name, b.trace.machine), Counterparts(a.name, a.trace.machine)
    else:
        in_b = Counterparts.of(difference, b.name, here_is_a=True)
        in_a = Counterparts.of(difference, a.name, here_is_a=False)
    return Beside.of(in_b, of_a), Beside.of(in_a, of_b)


def counterparts_of_ranks(trace: Trace) -> list[Counterparts]:
    """Return, for a trace of several ranks, its steps as each rank had them; beyond the first few, ranks have none."""
    found = []
    together = Side("all ranks", trace)
    for rank in range(trace.run.ranks or 0)[:MOST_RANKS]:
        name = f"rank {rank}"
        try:
            difference = difference_between(together, Side(name, of_rank(trace, rank)))
        except UsageError:  # it recorded nothing
            continue
        found.append(replace(Counterparts.of(difference, name, here_is_a=True), notes=()))
    return found


def other_roofs(sections: Sequence[Section], others: Sequence[Beside], *, index: bool = False) -> list[Roof]:
    """Return the roof of each other machine over the statements of some sections; on an index they link to pages."""
    found = []
    for other in others:
        pages = [(f"{section.slug}.html" if index else "", other.points[section.slug]) for section in sections]
        points = [replace(point, link=f"{page}{point.link}") for page, some in pages for point in some]
        if points:
            found.append(roof_of(other.name, other.machine, points))
    return found


_Texts = Mapping[tuple[str, int | None, str], str]  # what a row says here, by what it says it of


def _subject(remark: Remark) -> tuple[str, int | None, str]:
    return remark.kind, remark.index, remark.label


def column(here: Listed, other: Counterparts) -> Column:
    """Return one machine's column beside a section; empty, with the reason, where nothing matches."""
    known = [e for row, _ in here.rows for e in row.executions if e.step.id in other.rows]
    if known and not any(map(other.there, known)):
        return Column(other.name, {}, (*other.notes, "Nothing on this page has a counterpart there."))
    cells = {
        row.anchor: ColumnCell(entries, row.line)
        for row, call in here.rows
        if (entries := tuple(_entries(row, call, here.texts[row.anchor], other)))
    }
    return Column(other.name, cells, other.notes)


def _rows(section: Section) -> Iterator[tuple[CodeRow, Call | None]]:
    """Yield every row of a page; a `def` line with the call whose arguments stand on it."""
    for block in visible(section.blocks):
        if isinstance(block, CodeListing):
            yield from ((row, None) for row in block.rows)
        elif isinstance(block, Call) and block.header is not None and block.shown in ("open", "folded"):
            yield block.header, block


def _entries(row: CodeRow, call: Call | None, here: _Texts, other: Counterparts) -> Iterator[ColumnEntry]:
    """Yield what one row was there: values and claims, time, memory, and whatever else differs."""
    known = {e.step.id: other.rows[e.step.id] for e in row.executions if e.step.id in other.rows}
    met = {e.step.id: there for e in row.executions if (there := other.there(e)) is not None}
    findings = [finding for pair in known.values() for finding in pair.findings]
    if known and not met:
        yield _absent(findings)
        return
    frame = other.frames.get(call.frame) if call is not None else None
    arguments = tuple(frame.arguments or ()) if frame is not None else ()
    if arguments or any(e.step.values or e.step.claim for e in met.values()):
        shown = replace(row, executions=tuple(met.values()), arguments=arguments, disagreeing=(), omitted=0)
        caller = other.rows.get(call.step) if call is not None and call.step is not None else None
        of_steps = [(e.step.execution, known[step].findings) for step, e in met.items()]
        yield from _said(here, shown, of_steps, caller.findings if caller is not None else (), other)
    spoken = _spoken(row, known)
    if spoken is not None and spoken.step.id in met:
        pair, executed = known[spoken.step.id], met[spoken.step.id]
        time = list(_time(spoken, executed, pair.times, other))
        label = f"{spoken.step.execution}" if len(row.executions) > 1 else ""
        yield from (replace(entry, label=label) for entry in time)
        yield from _memory(spoken, executed.step, pair.findings, asked=bool(time))
    yield from _others(findings, other)


def _absent(findings: Sequence[Finding]) -> ColumnEntry:
    why = next((f.detail for f in findings if f.aspect == "steps" and f.detail), None)
    return ColumnEntry("absent", "", "", why or "did not run there", differs=any(f.matters for f in findings))


def _said(
    here: _Texts,
    there: CodeRow,
    of_steps: Sequence[tuple[int, Sequence[Finding]]],
    of_caller: Sequence[Finding],
    other: Counterparts,
) -> Iterator[ColumnEntry]:
    """Yield values and claims; what reads the same on both machines has no text."""
    for remark in observed(there):
        if remark.kind not in SAID:
            continue
        same = here.get(_subject(remark)) == remark.text
        told = [f for number, found in of_steps for f in found if remark.label in ("", f"{number}")]
        if remark.kind in ("held", "failed", "caught"):
            about = [f for f in told if f.aspect == "claims"]
        else:
            values = _values_of(remark, there)
            about = [f for f in (*told, *of_caller) if any((f.b if other.here_is_a else f.a) is v for v in values)]
        differs = any(f.matters for f in about)
        text = None if same else remark.text
        yield ColumnEntry(SAID[remark.kind], remark.name, remark.label, text, _note(about, text), differs)


def _values_of(remark: Remark, there: CodeRow) -> list[Value]:
    """Return the values that a remark speaks of: of one execution, or of all that it was said once for."""
    if remark.index is None:
        return []
    if any(remark.value is value for _, value in there.arguments):
        return [there.arguments[remark.index][1]]
    executions = [e.values for e in there.executions if remark.label in ("", f"{e.step.execution}")]
    return [values[remark.index][1] for values in executions if remark.index < len(values)]


def _note(about: Sequence[Finding], text: str | None) -> str:
    """Say what kind of noise tells two values apart, or that the line does not show where they differ."""
    if any(f.matters for f in about):
        return "differs inside" if text is None else ""
    noise = next((NOISE[f.verdict] for f in about if f.verdict in NOISE), "")
    return "" if text is None or noise in text else noise


def _spoken(row: CodeRow, known: Mapping[int, StepPair]) -> Execution | None:
    """Return the execution whose time speaks for a row: where some are called faster or slower, the farthest off."""
    effects = [
        (abs(math.log(time.ratio)), e.step.execution, e)
        for e in row.executions
        if e.step.id in known
        for time in known[e.step.id].times
        if time.matters and time.ratio
    ]
    return max(effects)[2] if effects else timed(row)


def _time(
    here: Execution, there: Execution, found: Sequence[TimeFinding], other: Counterparts
) -> Iterator[ColumnEntry]:
    """Yield how long it took there, and how that compares: judged on one machine, as a ratio on two.

    Of a step that measured several things, that is how long one call of each took.
    """
    if there.timing is None or there.timing.clock == "launch" or here.timing is None:
        return
    if not (worth_saying(here) or worth_saying(there)):
        return
    if len(found) > 1:
        for time in found:
            there_ns = time.b_ns if other.here_is_a else time.a_ns
            name = f"measurement {time.subject.index + 1}"
            yield ColumnEntry("time", name, "", formats.duration(there_ns), _compared(time, other), time.matters)
        return
    judged = found[0] if found else None
    yield ColumnEntry(
        "time", "", "", took(there.timing), _compared(judged, other), judged is not None and judged.matters
    )


def _compared(time: TimeFinding | None, other: Counterparts) -> str:
    """Say how a time there compares with the one here."""
    if time is None or time.verdict == "no difference detected":
        return "" if time is None else "≈"
    if time.ratio and time.verdict in ("faster", "slower", "ratio"):
        return _factor(time.ratio if other.here_is_a else 1 / time.ratio)
    return ""


def _factor(ratio: float) -> str:
    """Say how much faster or slower it is there, of its time over the time here: "3.1× faster"."""
    size, word = (ratio, "slower") if ratio >= 1 else (1 / ratio, "faster")
    digits = 2 if size < 100 else 3
    return "as fast" if size < ALIKE else f"{formats.number(float(size), digits).removesuffix('.0')}× {word}"


def _memory(here: Execution, there: Step, findings: Sequence[Finding], *, asked: bool) -> Iterator[ColumnEntry]:
    """Yield the most tensor bytes alive at once, where a reader asked about the line or where they differ."""
    peaks = [meters.peak_bytes if meters is not None else None for meters in (here.step.meters, there.meters)]
    differs = any(f.aspect == "memory" and f.matters for f in findings)
    if peaks[1] is None or not (differs or (asked and max(p or 0 for p in peaks) >= WORTH_SHOWING_BYTES)):
        return
    note = f"here {formats.byte_size(peaks[0])}" if peaks[0] is not None and peaks[0] != peaks[1] else ""
    yield ColumnEntry("memory", "", "", f"peak {formats.byte_size(peaks[1])}", note, differs)


def _others(findings: Sequence[Finding], other: Counterparts) -> Iterator[ColumnEntry]:
    """Yield what else matters: how often it ran, what it raised, FLOPs, operators."""
    asked = ("flops", "steps", "output")
    told = {f.subject: f for f in reversed(findings) if f.matters and f.aspect in asked}
    for finding in reversed(told.values()):
        was = sides_text(finding)[1 if other.here_is_a else 0]
        yield ColumnEntry("other", subject_text(finding.subject, 60), "", was or finding.detail or "none", "", True)

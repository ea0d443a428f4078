"""Judged rows → the same with what each finding may follow from: a setting, an edit, a count that changed.

rows = with_origins(with_settings(rows, …), frames)
rows[30].findings[0].origin     the row of `for i in range(30):`, which was `range(20)`

What follows from a setting repeats it: the number of threads that was set, read back. It is told under the setting,
and is no difference of its own. What follows from the lecture's code, or from a count, is one: it is told after what
it follows from. Both are about one section, and what comes later in it; the module and `main` come before them all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_

from trace_tools.comparing.difference import Difference, Finding, FramePair, SettingChange, StepPair, TimeFinding
from trace_tools.comparing.judging.causes import in_order
from trace_tools.schema import Scalar, Value

PLAIN = 1_000  # below it many whole numbers are in a lecture: one repeats a setting only where its code says so
TELLING = 4  # characters of a text that hardly occurs twice by chance
WORD = 3  # characters of a setting's word that an expression has to have: "thread" of "threads", "ram"

Change = tuple[Scalar, Scalar]


# --- settings -------------------------------------------------------------------------------------


def with_settings(rows: Sequence[StepPair], difference: Difference) -> list[StepPair]:
    """Mark what repeats a setting: it matters no more."""
    explained: dict[tuple[str | None, Change], int] = {}  # what a section is known to have repeated
    found = []
    for row in rows:
        section, findings = difference.frames[row.frame].section, []
        for f in row.findings:
            changed = _change(f) if f.verdict == "changed" else None
            if changed is not None:
                number = explained.get((section, changed))
                if number is None:
                    code = f"{f.subject.expression} {difference.source_line(row)}"
                    number = _repeated(changed, difference.settings, code)
                if number is not None:
                    explained[section, changed] = number
                    f = replace(f, setting=number, matters=False)
            findings.append(f)
        found.append(_with(row, tuple(findings), row.times))
    return found


def _with(row: StepPair, findings: tuple[Finding, ...], times: tuple[TimeFinding, ...]) -> StepPair:
    """Return the row with these; the row itself where they are its own, as they mostly are of a hundred thousand."""
    same = all(map(is_, (*findings, *times), (*row.findings, *row.times)))
    return row if same else replace(row, findings=findings, times=times)


def _change(finding: Finding) -> Change | None:
    """Return both sides of a number or text that is not the same; None of anything else."""
    a, b = finding.a, finding.b
    if not isinstance(a, Value) or not isinstance(b, Value) or a.type != b.type:
        return None
    if a.type not in ("int", "float", "str") or a.value is None or b.value is None:
        return None
    return None if a.length or b.length else (a.value, b.value)  # a text that was cut short


def _repeated(changed: Change, settings: Sequence[SettingChange], code: str) -> int | None:
    """Return the setting that a change repeats; a small number has to have the setting's name in its code."""
    for number, setting in enumerate(settings):
        sides = setting.a, setting.b
        alike = all(type(x) is type(y) and x == y for x, y in zip(changed, sides, strict=True))
        if alike and (all(map(_is_telling, changed)) or _names(setting.name, code)):
            return number
    return None


def _is_telling(side: Scalar) -> bool:
    if isinstance(side, str):
        return len(side) >= TELLING
    return isinstance(side, (int, float)) and (abs(side) >= PLAIN or (isinstance(side, float) and side % 1 != 0))


def _names(setting: str, code: str) -> bool:
    words = (word.removesuffix("s") for word in re.split(r"[\W_]+", setting.lower()))
    return any(len(word) >= WORD and re.search(rf"(?<![a-z]){re.escape(word)}", code.lower()) for word in words)


# --- code and counts ------------------------------------------------------------------------------


def with_origins(rows: Sequence[StepPair], frames: Sequence[FramePair]) -> list[StepPair]:
    """Mark what may follow from an edited statement, from another number of executions, or from a changed count."""
    found = list(rows)
    leads = _leads(rows, frames)
    called: dict[int, set[str | None]] = {}  # row of `main` → the sections it called: no others follow from it
    for pair in frames:
        if pair.section is not None and pair.parent is not None and frames[rows[pair.parent].frame].section is None:
            called.setdefault(pair.parent, set()).add(pair.section)
    latest: dict[str | None, int] = {}  # section → the row that what comes next follows from
    newest: tuple[int, int] | None = None  # row at which something began to differ, and what it follows from
    counts: dict[tuple[str | None, Change], tuple[int, int | None]] = {}
    for ends, number in in_order(rows, frames):
        row, section = found[number], frames[rows[number].frame].section
        lead = leads.get(number)
        before = latest.get(section, latest.get(None))
        if not ends and lead is not None:
            root = lead if found[lead].edited or before is None else before
            latest |= dict.fromkeys(called.get(number, {section}), root)
            newest = number, root
        if not ends:
            continue
        origin = newest[1] if newest is not None and newest[0] > number else before
        marked = _marked(row, origin, lead == number) if origin is not None else row
        found[number] = _after_counts(marked, section, counts)
    return found


def _leads(rows: Sequence[StepPair], frames: Sequence[FramePair]) -> Mapping[int, int]:
    """Return, for each row whose code or count is not the same, the row that speaks for its statement."""

    def key(row: StepPair) -> tuple[object, ...]:
        """What is the same for all executions of a statement, in a section."""
        pair = frames[row.frame]
        frame = pair.b if row.b is not None else pair.a
        function = (frame.source, frame.function) if frame is not None else None
        return pair.section, function, row.b is None, row.step.statement

    counted = {
        (row.frame, row.step.statement): row
        for row in rows
        for f in row.findings
        if f.subject.kind == "executions" and f.verdict == "changed" and f.cause is None
    }
    speaks = {key(row): row.number for row in counted.values()}
    leads: dict[int, int] = {}
    for row in rows:
        told = [f for f in row.findings if f.subject.kind == "step"]
        alone = any(f.matters and f.cause is None for f in told)
        loop = (row.frame, row.step.statement) in counted and row.a is not None and row.b is not None
        if alone or loop or (row.edited and not told):
            leads[row.number] = speaks.setdefault(key(row), row.number)
    return leads


def _marked(row: StepPair, origin: int, speaks: bool) -> StepPair:
    """Say of a row's findings what they may follow from; not of what makes the row an origin itself."""
    own = origin == row.number and speaks
    findings = tuple(
        f
        if f.verdict == "not judged" or f.cause is not None or f.setting is not None or (own and f.aspect == "steps")
        else replace(f, origin=origin)
        for f in row.findings
    )
    times = tuple(replace(time, origin=origin) if time.matters and time.cause is None else time for time in row.times)
    return _with(row, findings, times)


def _after_counts(
    row: StepPair, section: str | None, known: dict[tuple[str | None, Change], tuple[int, int | None]]
) -> StepPair:
    """Say of values that changed just as FLOPs did, or as another statement's number, that it may be for that reason.

    So may be a time that grew with its statement's FLOPs, or shrank with them.

    `known` has a row, and its statement if a value of it changed so, by section and change; FLOPs also as a factor.
    """
    if not row.findings and not row.times:
        return row
    statement = row.step.statement
    longer: set[bool] = set()  # which way the work changed
    for f in row.findings:
        if _leads_alone(f) and f.subject.expression == "flops" and isinstance(f.a, int) and isinstance(f.b, int):
            longer.add(f.b > f.a)
            for change in ((f.a, f.b), *_factor((f.a, f.b))):
                known.setdefault((section, change), (row.number, None))
    times = tuple(
        replace(time, origin=row.number)
        if time.matters and time.cause is None and time.origin is None and longer == {time.verdict == "slower"}
        else time
        for time in row.times
    )
    findings = []
    for f in row.findings:
        changed = _change(f) if _leads_alone(f) else None
        if changed is not None:
            found = [known[section, c] for c in (changed, *_factor(changed)) if (section, c) in known]
            first = next((number for number, of in found if of != statement), None)
            if first is not None:
                f = replace(f, origin=first)
            elif not found and not isinstance(changed[0], str):
                known[section, changed] = row.number, statement
        findings.append(f)
    return _with(row, tuple(findings), times)


def _leads_alone(finding: Finding) -> bool:
    return finding.verdict == "changed" and finding.matters and finding.cause is None and finding.origin is None


def _factor(changed: Change) -> list[Change]:
    """Return a change as a factor, which no change of a number is written as."""
    a, b = changed
    if isinstance(a, str) or isinstance(b, str) or not a or b is None:
        return []
    try:
        return [(f"× {b / a:.12g}", None)]
    except OverflowError:  # integers beyond a float's range
        return []

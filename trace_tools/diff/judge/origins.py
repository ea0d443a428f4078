"""Mark possible origins of each finding: a setting, an edit, or a count that changed.

rows = with_origins(with_settings(rows, …), frames)
rows[30].findings[0].origin     the row of `for i in range(30):`, which was `range(20)`

A finding that follows from a setting repeats it, such as the number of threads read back. It is listed under the
setting and is no difference of its own. A finding that follows from the lecture's code, or from a count, is listed
after that. Both apply within a section, to later rows; the module and `main` precede all sections.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_

from trace_tools.diff.difference import Difference, Finding, FramePair, SettingChange, StepPair, TimeFinding
from trace_tools.diff.judge.causes import in_order
from trace_tools.trace.model import Scalar, Value

PLAIN = 1_000  # lectures contain many smaller integers, so these repeat a setting only if the code names it
TELLING = 4  # characters of a text that rarely occurs twice by chance
WORD = 3  # characters of a setting's word that an expression must contain: "thread" of "threads", "ram"

Change = tuple[Scalar, Scalar]


# --- settings -------------------------------------------------------------------------------------


def with_settings(rows: Sequence[StepPair], difference: Difference) -> list[StepPair]:
    """Mark findings that repeat a setting; they no longer matter."""
    explained: dict[tuple[str | None, Change], int] = {}  # by section: changes known to repeat a setting
    marked = []
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
        marked.append(_with(row, tuple(findings), row.times))
    return marked


def _with(row: StepPair, findings: tuple[Finding, ...], times: tuple[TimeFinding, ...]) -> StepPair:
    """Return the row with these findings and times; the same object if they are equal, as for most of 100,000 rows."""
    same = all(map(is_, (*findings, *times), (*row.findings, *row.times)))
    return row if same else replace(row, findings=findings, times=times)


def _change(finding: Finding) -> Change | None:
    """Return both sides of a number or text that differs; otherwise None."""
    a, b = finding.a, finding.b
    if not isinstance(a, Value) or not isinstance(b, Value) or a.type != b.type:
        return None
    if a.type not in ("int", "float", "str") or a.value is None or b.value is None:
        return None
    return None if a.length or b.length else (a.value, b.value)  # a truncated text


def _repeated(changed: Change, settings: Sequence[SettingChange], code: str) -> int | None:
    """Return the setting that a change repeats; a small number needs the setting's name in its code."""
    for number, setting in enumerate(settings):
        sides = setting.a, setting.b
        if not all(type(x) is type(y) and x == y for x, y in zip(changed, sides, strict=True)):
            continue
        words = [word.removesuffix("s") for word in re.split(r"[\W_]+", setting.name.lower())]
        named = (re.search(rf"(?<![a-z]){re.escape(word)}", code.lower()) for word in words if len(word) >= WORD)
        if all(map(_is_telling, changed)) or any(named):
            return number
    return None


def _is_telling(side: Scalar) -> bool:
    if isinstance(side, str):
        return len(side) >= TELLING
    return isinstance(side, (int, float)) and (abs(side) >= PLAIN or (isinstance(side, float) and side % 1 != 0))


# --- code and counts ------------------------------------------------------------------------------


def with_origins(rows: Sequence[StepPair], frames: Sequence[FramePair]) -> list[StepPair]:
    """Mark findings that may follow from an edited statement, from another number of executions, or from a changed
    count.
    """
    marked = list(rows)
    leads = _leads(rows, frames)
    called: dict[int, set[str | None]] = {}  # row of `main` → the sections that it called: others do not follow from it
    for pair in frames:
        if pair.section is not None and pair.parent is not None and frames[rows[pair.parent].frame].section is None:
            called.setdefault(pair.parent, set()).add(pair.section)
    latest: dict[str | None, int] = {}  # section → the row that later rows follow from
    newest: tuple[int, int] | None = None  # row with the start of a difference, and its origin
    counts: dict[tuple[str | None, Change], tuple[int, int | None]] = {}
    for ends, number in in_order(rows, frames):
        row, section = marked[number], frames[rows[number].frame].section
        lead = leads.get(number)
        before = latest.get(section, latest.get(None))
        if not ends and lead is not None:
            root = lead if marked[lead].edited or before is None else before
            latest |= dict.fromkeys(called.get(number, {section}), root)
            newest = number, root
        if not ends:
            continue
        origin = newest[1] if newest is not None and newest[0] > number else before
        if origin is not None:
            own = origin == number == lead  # these findings make the row an origin itself
            findings = tuple(
                f
                if f.verdict == "not judged" or (f.cause, f.setting) != (None, None) or (own and f.aspect == "steps")
                else replace(f, origin=origin)
                for f in row.findings
            )
            times = tuple(replace(t, origin=origin) if t.matters and t.cause is None else t for t in row.times)
            row = _with(row, findings, times)
        marked[number] = _after_counts(row, section, counts)
    return marked


def _leads(rows: Sequence[StepPair], frames: Sequence[FramePair]) -> Mapping[int, int]:
    """Return, for each row with different code or counts, the representative row of its statement."""

    def key(row: StepPair) -> tuple[object, ...]:
        """Return what all executions of a statement in a section share."""
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
        of_step = [f for f in row.findings if f.subject.kind == "step"]
        alone = any(f.matters and f.cause is None for f in of_step)
        loop = (row.frame, row.step.statement) in counted and row.a is not None and row.b is not None
        if alone or loop or (row.edited and not of_step):
            leads[row.number] = speaks.setdefault(key(row), row.number)
    return leads


def _after_counts(
    row: StepPair, section: str | None, causes: dict[tuple[str | None, Change], tuple[int, int | None]]
) -> StepPair:
    """Mark values that changed by the same factor as FLOPs, or to another statement's number, as possible results of
    it.

    The same holds for a time that grew or shrank with its statement's FLOPs. `known` maps a section and change to a
    row, and to its statement if a value of it changed so; FLOPs also as a factor.
    """
    if not row.findings and not row.times:
        return row
    statement = row.step.statement
    longer: set[bool] = set()  # directions of changes in work
    for f in row.findings:
        if _leads_alone(f) and f.subject.expression == "flops" and isinstance(f.a, int) and isinstance(f.b, int):
            longer.add(f.b > f.a)
            for change in ((f.a, f.b), *_factor((f.a, f.b))):
                causes.setdefault((section, change), (row.number, None))
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
            earlier = [causes[section, c] for c in (changed, *_factor(changed)) if (section, c) in causes]
            first = next((number for number, of in earlier if of != statement), None)
            if first is not None:
                f = replace(f, origin=first)
            elif not earlier and not isinstance(changed[0], str):
                causes[section, changed] = row.number, statement
        findings.append(f)
    return _with(row, tuple(findings), times)


def _leads_alone(finding: Finding) -> bool:
    return finding.verdict == "changed" and finding.matters and finding.cause is None and finding.origin is None


def _factor(changed: Change) -> list[Change]:
    """Return a change as a factor, in a form that no change of a number has."""
    a, b = changed
    if isinstance(a, str) or isinstance(b, str) or not a or b is None:
        return []
    try:
        return [(f"× {b / a:.12g}", None)]
    except OverflowError:  # integers beyond the range of floats
        return []

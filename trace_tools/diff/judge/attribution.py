"""Attribute each finding to its cause, so that a report can lead with the cause, and to its possible origin.

    rows = with_origins(with_settings(with_causes(rows, frames), difference), frames)
    rows[30].findings[0].cause      the row where a chain of findings began
    rows[30].findings[0].origin     the row of `for i in range(30):`, which was `range(20)`

A leak shows at every later step, a slow statement in every call around it, and a longer loop in each statement of its
body. In each such chain, the first and innermost row is the cause.

Possible origins are a setting, an edit, or a count that changed. A finding that follows from a setting repeats it, such
as the number of threads read back. It is listed under the setting and is no difference of its own. A finding that
follows from the lecture's code, or from a count, is listed after that. Both apply within a section, to later rows; the
module and `main` precede all sections.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_

from trace_tools.diff.difference import (
    Difference,
    Finding,
    FramePair,
    Kind,
    Observation,
    SettingChange,
    StepPair,
    TimeFinding,
)
from trace_tools.trace.model import Raised, Scalar, Value

SHARE = 0.5  # least share of a call's change that differing statements inside it must explain to be its cause
PLAIN = 1_000  # lectures contain many smaller integers, so these repeat a setting only if the code names it
TELLING = 4  # least characters of a text that rarely occurs twice by chance
WORD = 3  # characters of a setting's word that an expression must contain: "thread" of "threads", "ram"

Change = tuple[Scalar, Scalar]


def with_causes(rows: Sequence[StepPair], frames: Sequence[FramePair]) -> list[StepPair]:
    """Return the rows with the causes of their findings and times."""
    explained = list(rows)
    ended = [number for ends, number in in_order(rows, frames) if ends]
    _repeated(explained)
    # a row that only one side has follows from its call if only that side made the call
    for row in explained:
        parent = frames[row.frame].parent
        if parent is None or (row.a is not None and row.b is not None):
            continue
        caller = explained[parent]
        if (caller.a is None) == (row.a is None) and (caller.b is None) == (row.b is None):
            cause_of_call = next((f.cause for f in caller.findings if _one_sided(f)), None)
            cause = parent if cause_of_call is None else cause_of_call
            _explain(explained, row.number, cause, lambda f: f.aspect in ("steps", "claims", "output"))
    _memory(explained, ended)
    # a call's additional FLOPs follow from the statement in it that adds the most
    work: list[tuple[int, float]] = []  # rows that ended earlier, with their change in FLOPs or bytes
    for number in ended:
        row = explained[number]
        inside = []
        while work and work[-1][0] > number:
            inside.append(work.pop())
        most = max(inside, key=lambda item: item[1], default=None)
        sizes = [f.size for f in row.findings if f.aspect == "flops" and f.verdict == "changed"]
        if sizes and most is not None:
            _explain(explained, number, most[0], lambda f: f.aspect == "flops")
            work.append(most)
        elif sizes:
            work.append((number, max(sizes)))
        elif (row.a is None or row.b is None) and row.step.meters is not None:
            work.append((number, float(row.step.meters.flops or row.step.meters.bytes_read or 0)))
        elif most is not None:
            work.append(most)
    # an exception that passes through a call follows from its origin
    raised: tuple[int, Observation, Observation] | None = None
    for number in ended:
        for f in explained[number].findings:
            if f.verdict == "claim flipped":
                raised = (number, None, explained[number].step.raised)
            elif f.subject.kind == "raised" and f.verdict == "changed":
                if raised is not None and raised[0] > number and _is_type(raised[1], f.a) and _is_type(raised[2], f.b):
                    _explain(explained, number, raised[0], lambda f: f.subject.kind == "raised")
                else:
                    raised = (number, f.a, f.b)
    _slow(explained, frames, ended, "time")
    _slow(explained, frames, ended, "launch")
    return explained


def in_order(rows: Sequence[StepPair], frames: Sequence[FramePair]) -> Iterator[tuple[bool, int]]:
    """Yield (whether the row ends, its number) as rows begin and end; a call ends after all rows inside it."""
    opened: list[int] = []
    for row in rows:
        while opened and frames[rows[opened[-1]].frame].depth >= frames[row.frame].depth:
            yield True, opened.pop()
        opened.append(row.number)
        yield False, row.number
    yield from ((True, number) for number in reversed(opened))


def _explain(rows: list[StepPair], number: int, cause: int, applies: Callable[[Finding], bool]) -> None:
    """Set the cause of a row's findings, unless they have one already."""
    findings = rows[number].findings
    explained = tuple([replace(f, cause=cause) if f.cause is None and applies(f) else f for f in findings])
    if explained != findings:
        rows[number] = replace(rows[number], findings=explained)


def _one_sided(finding: Finding) -> bool:
    return finding.aspect == "steps" and finding.verdict in ("only in A", "only in B")


def _repeated(rows: list[StepPair]) -> None:
    """Report only once that a loop ran more often; executions that one side lacks follow from that finding."""
    # (frame, statement) → the difference in executions, and the row with that finding
    extra: dict[tuple[int, int], tuple[int, int]] = {}
    for row in rows:
        for f in row.findings:
            if f.subject.kind == "executions" and isinstance(f.a, int) and isinstance(f.b, int):
                extra[row.frame, row.step.statement] = (f.b - f.a, row.number)
    loops: dict[tuple[int, int], int] = {}  # (frame, statement) → the row of the loop's header
    for frame, statement in sorted(extra):
        before = (frame, statement - 1)  # each statement of a loop's body follows the previous one
        same = before in extra and extra[before][0] == extra[frame, statement][0]
        loops[frame, statement] = loops[before] if same else extra[frame, statement][1]
        if same:
            _explain(rows, extra[frame, statement][1], loops[before], lambda f: f.subject.kind == "executions")
    for row in rows:
        loop = loops.get((row.frame, row.step.statement))
        if loop is not None and (row.a is None or row.b is None):
            _explain(rows, row.number, loop, _one_sided)


def _memory(rows: list[StepPair], ended: Sequence[int]) -> None:
    """Attribute bytes that were already alive to the row after which they were first alive.

    If a step that one side lacks made at least half of a change since the last common step, the bytes began there, and
    the finding moves to it. A call's peak that was reached in such a step inside it moves as well.
    """
    alive, since = 0.0, 0  # how much more B held, and the row where that began
    peaks: dict[float, int] = {}  # change → the latest row with that peak
    live: list[int | None] = [None, None]  # after the last step of A, and of B
    most, most_row = 0.0, -1  # of changes by steps of one side, since the last common step
    reached: dict[int, int] = {}  # bytes → the latest row of one side with that peak
    for number in ended:
        row = rows[number]
        metered = [step.meters if step is not None else None for step in (row.a, row.b)]
        changes = {
            f.subject.expression: float(f.b - f.a)
            for f in row.findings
            if f.aspect == "memory" and f.verdict == "changed" and isinstance(f.a, int) and isinstance(f.b, int)
        }
        change, peak = changes.get("live_bytes"), changes.get("peak_bytes")
        if change is not None and change != alive and most_row >= 0 and most / (change - alive) >= SHARE:
            _move(rows, number, most_row, "live_bytes")
            alive, since = change, most_row
        if peak is not None:
            inside = max((reached.get(m.peak_bytes or 0, -1) for m in metered if m is not None), default=-1)
            if alive and peak == alive:
                _explain(rows, number, since, lambda f: is_count(f, "peak_bytes"))
            elif peaks.get(peak, -1) > number:
                _explain(rows, number, peaks[peak], lambda f: is_count(f, "peak_bytes"))
            else:
                if inside > number:
                    _move(rows, number, inside, "peak_bytes")
                peaks[peak] = max(inside, number)
        both_metered = all(m is not None and m.live_bytes is not None for m in metered)
        if change is not None and change == alive:
            _explain(rows, number, since, lambda f: is_count(f, "live_bytes", "allocated_bytes"))
        elif change is not None:
            alive, since = change, number
        elif both_metered:
            alive = 0.0
        if both_metered:
            most, most_row = 0.0, -1
        for side, meters in enumerate(metered):
            if meters is None:
                continue
            before, now, alone = live[side], meters.live_bytes, row.a is None or row.b is None
            if alone and meters.peak_bytes:
                reached[meters.peak_bytes] = number
            if alone and now is not None and before is not None:
                more = float(now - before) * (1 if side else -1)
                if abs(more) > abs(most):
                    most, most_row = more, number
            live[side] = before if now is None else now


def is_count(finding: Finding, *fields: str) -> bool:
    """Return whether a finding is about a count with one of these names."""
    return finding.subject.kind == "counter" and finding.subject.expression in fields


def _move(rows: list[StepPair], number: int, began: int, field: str) -> None:
    """Move a finding about bytes to the row of one side where they began, from the next common row."""
    item = tuple(f for f in rows[number].findings if is_count(f, field))
    rows[began] = replace(rows[began], findings=(*rows[began].findings, *item))
    _explain(rows, number, began, lambda f: is_count(f, field))


def _is_type(began: Observation, passed: Observation) -> bool:
    """Return whether an exception may be an earlier one that was passed on; True if the earlier one is unknown."""
    return began is None or (isinstance(began, Raised) and isinstance(passed, Raised) and began.type == passed.type)


def _slow(rows: list[StepPair], frames: Sequence[FramePair], ended: Sequence[int], kind: Kind) -> None:
    """Attribute a call's longer time to statements inside it: all their executions together, led by the largest change.

    `kind` selects which time of a step is compared, its own or its launch time.
    """
    # Calling row → changes in its calls, by statement: the change of all executions (ns), the row with the largest
    # judged difference, and the size of that difference.
    calls: dict[int, dict[tuple[int, int], tuple[float, int | None, float]]] = {}
    for number in ended:
        row = rows[number]
        inside = [group for group in calls.pop(number, {}).values() if group[1] is not None]
        blamed = max(inside, key=lambda group: abs(group[0]), default=(0.0, None, 0.0))[1]
        time = next((time for time in row.times if time.subject.kind == kind), None)
        alone = time is not None and (row.a is None or row.b is None)
        change_ns = 0.0 if time is None or (time.ratio is None and not alone) else time.change_ns
        if alone:
            blamed = number
        if time is not None and time.matters:
            if change_ns and sum(change for change, _, _ in inside) / change_ns >= SHARE:
                caused = replace(time, cause=blamed)
                rows[number] = replace(row, times=tuple(caused if t is time else t for t in row.times))
            else:
                blamed = number
        pair = frames[row.frame]
        if pair.parent is not None:
            statements = calls.setdefault(pair.parent, {})
            key = (pair.frame.source, row.step.statement)
            total_ns, latest, most_ns = statements.get(key, (0.0, None, 0.0))
            if blamed is not None and abs(change_ns) >= most_ns:
                latest, most_ns = blamed, abs(change_ns)
            statements[key] = (total_ns + change_ns, latest, most_ns)


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
                    number = _setting_repeated(changed, difference.settings, code)
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


def _setting_repeated(changed: Change, settings: Sequence[SettingChange], code: str) -> int | None:
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
        """Return the key that all executions of a statement in a section share."""
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
    representatives = {key(row): row.number for row in counted.values()}
    leads: dict[int, int] = {}
    for row in rows:
        of_step = [f for f in row.findings if f.subject.kind == "step"]
        alone = any(f.matters and f.cause is None for f in of_step)
        loop = (row.frame, row.step.statement) in counted and row.a is not None and row.b is not None
        if alone or loop or (row.edited and not of_step):
            leads[row.number] = representatives.setdefault(key(row), row.number)
    return leads


def _after_counts(
    row: StepPair, section: str | None, causes: dict[tuple[str | None, Change], tuple[int, int | None]]
) -> StepPair:
    """Mark values that changed by the same factor as FLOPs, or from and to the same numbers as another statement's
    value, as possible results of that change.

    The same holds for a time that grew or shrank with its statement's FLOPs. `causes` maps a section and a change to
    the row with that change, and to its statement if a value changed; a change in FLOPs is also listed as a factor.
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
    """Return a change as a factor, in a form that differs from every change of a number."""
    a, b = changed
    if isinstance(a, str) or isinstance(b, str) or not a or b is None:
        return []
    try:
        return [(f"× {b / a:.12g}", None)]
    except OverflowError:  # integers beyond the range of floats
        return []

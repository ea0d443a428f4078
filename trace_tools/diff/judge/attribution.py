"""Attribute each finding to its cause, so that a report can lead with the cause, and to its possible origin.

    rows = with_origins(with_causes(rows, frames), frames)
    rows[30].findings[0].cause      the row where a chain of findings began
    rows[30].findings[0].origins    the rows of `for i in range(30):`, which was `range(20)`, and of other edits before

A leak shows at every later step, a slow statement in every call around it, and a longer loop in each statement of its
body. In each such chain, the first and innermost row is the cause.

Possible origins are edits and other numbers of executions: all in earlier rows of the finding's section, and in the
module and `main`, which precede all sections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from trace_tools.diff.difference import (
    Aspect,
    Finding,
    FramePair,
    Kind,
    StepPair,
    Subject,
    Verdict,
)
from trace_tools.trace.model import Meters

SHARE = 0.5  # least share of a call's change that differing statements inside it must explain to be its cause
WORK = ("flops", "bytes_read", "bytes_written", "operators")  # counts that a call adds up from its statements
ONE_SIDED: frozenset[Verdict] = frozenset({"only in A", "only in B"})


def with_causes(rows: Sequence[StepPair], frames: Sequence[FramePair]) -> list[StepPair]:
    """Return the rows with the causes of their findings."""
    explained = list(rows)
    ended = [number for ends, number in in_order(rows, frames) if ends]
    _missing(explained, frames)
    _lasting(explained, ended)
    picks: list[tuple[Callable[[StepPair], Finding | None], Total]] = [
        (lambda row: _time(row, "time"), sum),
        (lambda row: _time(row, "launch"), sum),
        (lambda row: _peak(row, explained, frames), _largest),
    ]
    picks += [(lambda row, field=field: _count(row, field), sum) for field in WORK]  # type: ignore[misc]
    errors = dict.fromkeys(_error(row) for row in rows if any(f.subject.kind == "raised" for f in row.findings))
    picks += [(lambda row, error=error: _raised(row, error), sum) for error in errors]  # type: ignore[misc]
    for pick, total in picks:
        for number, cause in blame(explained, frames, ended, pick, total).items():
            effect, began = pick(explained[number]), pick(explained[cause])
            assert effect is not None
            _explain(explained, number, cause, effect.subject)
            if began is not None and explained[cause].is_one_sided:
                _add(explained, cause, began)
    return explained


Total = Callable[[Iterable[float]], float]


def _largest(changes: Iterable[float]) -> float:
    return max(changes, key=abs, default=0.0)


def blame(
    rows: Sequence[StepPair],
    frames: Sequence[FramePair],
    ended: Sequence[int],
    change: Callable[[StepPair], Finding | None],
    total: Total = sum,
) -> dict[int, int]:
    """Return, for each call with a change that mostly began inside it, the row that leads those statements.

    `change` selects a row's finding, and `ended` lists the rows in the order of their ends. All executions of a
    statement are one change, their `total`; the row with the largest leads. Noise adds to a total but is never blamed.
    """
    blamed: dict[int, int] = {}
    # Calling row → the statements of its calls: the changes of all executions, the row that leads, and its change.
    calls: dict[int, dict[int, tuple[list[float], int | None, float]]] = {}
    for number in ended:
        row, finding = rows[number], change(rows[number])
        inside = [(total(changes), led) for changes, led, _ in calls.pop(number, {}).values() if led is not None]
        lead = max(inside, key=lambda group: abs(group[0]), default=(0.0, None))[1]
        size = 0.0 if finding is None else finding.change or finding.size
        if finding is not None and finding.verdict in ("changed", *ONE_SIDED):
            of_inside = total(changed for changed, _ in inside)
            if lead is not None and size and finding.verdict == "changed" and of_inside / size >= SHARE:
                blamed[number] = lead
            else:
                lead = number
        pair = frames[row.frame]
        if pair.parent is not None:
            statements = calls.setdefault(pair.parent, {})
            key = row.step.statement
            changes, led, most = statements.get(key, ([], None, 0.0))
            if lead is not None and abs(size) >= most:
                led, most = lead, abs(size)
            changes.append(size)
            statements[key] = changes, led, most
    return blamed


def in_order(rows: Sequence[StepPair], frames: Sequence[FramePair]) -> Iterator[tuple[bool, int]]:
    """Yield (whether the row ends, its number) as rows begin and end; a call ends after all rows inside it."""
    opened: list[int] = []
    for row in rows:
        while opened and frames[rows[opened[-1]].frame].depth >= frames[row.frame].depth:
            yield True, opened.pop()
        opened.append(row.number)
        yield False, row.number
    yield from ((True, number) for number in reversed(opened))


# --- what is blamed -------------------------------------------------------------------------------


def _find(row: StepPair, kind: Kind, field: str = "") -> Finding | None:
    """Return a row's finding on a subject that has no cause yet."""
    found = (f for f in row.findings if f.subject.kind == kind and f.subject.expression == field)
    return next((f for f in found if f.cause is None), None)


def _alone(row: StepPair, field: str, more: int) -> Finding | None:
    """Return how much a step that one side lacks adds to a count, if it adds any."""
    if not more:
        return None
    subject = Subject("counter", expression=field)
    aspect: Aspect = "flops" if field in WORK else "memory"
    if row.b is None:
        return Finding(aspect, "only in A", subject, a=more, size=float(more))
    return Finding(aspect, "only in B", subject, b=more, size=float(more))


def _time(row: StepPair, kind: Kind) -> Finding | None:
    finding = _find(row, kind)
    return finding if finding is not None and (finding.ratio is not None or row.is_one_sided) else None


def _count(row: StepPair, field: str) -> Finding | None:
    if not row.is_one_sided:
        finding = _find(row, "counter", field)
        return finding if finding is not None and finding.verdict == "changed" else None
    return _alone(row, field, getattr(row.step.meters, field, None) or 0) if field != "operators" else None


def _peak(row: StepPair, rows: Sequence[StepPair], frames: Sequence[FramePair]) -> Finding | None:
    """Return the change of a peak; of a step that one side lacks, by how much it is above its caller's on the other."""
    if not row.is_one_sided:
        finding = _find(row, "counter", "peak_bytes")
        return finding if finding is not None and finding.verdict == "changed" else None
    caller = row
    while caller.is_one_sided:
        parent = frames[caller.frame].parent
        if parent is None:
            return None
        caller = rows[parent]
    other = caller.a if row.a is None else caller.b
    below = other.meters.peak_bytes if other is not None and other.meters is not None else None
    peak = row.step.meters.peak_bytes if row.step.meters is not None else None
    return None if peak is None or below is None else _alone(row, "peak_bytes", max(0, peak - below))


def _raised(row: StepPair, error: str | None) -> Finding | None:
    """Return the finding that an exception of a type ended a step, or that a claim failed."""
    found = (f for f in row.findings if f.verdict == "changed" and f.cause is None)
    kinds = ("claim", "raised") if _error(row) == error else ("claim",)
    return next((f for f in found if f.subject.kind in kinds), None)


def _error(row: StepPair) -> str | None:
    return next((step.raised.type for step in (row.a, row.b) if step is not None and step.raised is not None), None)


def is_count(finding: Finding, *fields: str) -> bool:
    """Return whether a finding is about a count with such a name."""
    return finding.subject.kind == "counter" and finding.subject.expression in fields


def _explain(rows: list[StepPair], number: int, cause: int, *subjects: Subject) -> None:
    """Set the cause of a row's findings on these subjects, unless they have one already."""
    explained = (
        replace(f, cause=cause) if f.cause is None and f.subject in subjects else f for f in rows[number].findings
    )
    rows[number] = rows[number].having(explained)


def _add(rows: list[StepPair], number: int, finding: Finding) -> None:
    """Add the count of a step that one side lacks, because other findings follow from it."""
    if all(f.subject != finding.subject for f in rows[number].findings):
        rows[number] = rows[number].having((*rows[number].findings, finding))


def _missing(rows: list[StepPair], frames: Sequence[FramePair]) -> None:
    """Report once that a loop ran more often, or that a call was made on one side; missing steps follow."""
    # (frame, statement) → the difference in executions, and the row with that finding
    extra = {
        (row.frame, row.step.statement): (f.change, row.number, f.subject)
        for row in rows
        for f in row.findings
        if f.subject.kind == "executions"
    }
    loops: dict[tuple[int, int], int] = {}  # (frame, statement) → the row of the loop's header
    for frame, statement in sorted(extra):
        before = (frame, statement - 1)  # each statement of a loop's body follows the previous one
        change, number, subject = extra[frame, statement]
        loops[frame, statement] = number
        if before in extra and extra[before][0] == change:
            loops[frame, statement] = loops[before]
            _explain(rows, number, loops[before], subject)
    for row in rows:
        if not row.is_one_sided:
            continue
        cause, parent = loops.get((row.frame, row.step.statement)), frames[row.frame].parent
        one_sided = [f.subject for f in row.findings if f.aspect == "steps" and f.verdict in ONE_SIDED]
        if cause is None and parent is not None and rows[parent].is_one_sided:
            caller = rows[parent]
            if (caller.a is None) == (row.a is None):
                found = (f.cause for f in caller.findings if f.aspect == "steps" and f.verdict in ONE_SIDED)
                cause = next((cause for cause in found if cause is not None), parent)
                one_sided = [f.subject for f in row.findings if f.aspect in ("steps", "claims", "output")]
        if cause is not None:
            _explain(rows, row.number, cause, *one_sided)


def _lasting(rows: list[StepPair], ended: Sequence[int]) -> None:
    """Attribute bytes that were already alive to the row after which they were first alive.

    If a step that one side lacks made at least half of a change since the last common step, the bytes began there.
    """
    alive, since = 0.0, 0  # how much more B held, and the row where that began
    live: list[int | None] = [None, None]  # after the last step of A, and of B
    most: tuple[float, int] = (0.0, -1)  # the largest change by a step of one side, since the last common step
    for number in ended:
        row = rows[number]
        held = [_live(step.meters) if step is not None else None for step in (row.a, row.b)]
        if row.is_one_sided:
            side = row.a is None
            now, before = held[side], live[side]
            if now is not None and before is not None and abs(now - before) > abs(most[0]):
                most = (float(now - before) * (1 if side else -1), number)
        elif None not in held:
            found = _find(row, "counter", "live_bytes")
            change = found.change if found is not None and found.verdict == "changed" else 0.0
            if change != alive:
                began = most[1] >= 0 and most[0] / (change - alive) >= SHARE
                alive, since = change, most[1] if began else number
                if began and change and (added := _alone(rows[since], "live_bytes", int(abs(most[0])))):
                    _add(rows, since, added)
            if alive and since != number:
                same = [f.subject for f in row.findings if is_count(f, "live_bytes", "allocated_bytes")]
                same += [f.subject for f in row.findings if is_count(f, "peak_bytes") and f.change == alive]
                _explain(rows, number, since, *same)
            most = (0.0, -1)
        live = [before if now is None else now for before, now in zip(live, held, strict=True)]


def _live(meters: Meters | None) -> int | None:
    return None if meters is None else meters.live_bytes


# --- code and executions ------------------------------------------------------------------------------


def with_origins(rows: Sequence[StepPair], frames: Sequence[FramePair]) -> list[StepPair]:
    """Mark findings that may follow from edited statements, or from another number of executions."""
    marked = list(rows)
    leads = _leads(rows, frames)
    called: dict[int, set[str | None]] = {}  # row of `main` → the sections that it called: others do not follow from it
    for pair in frames:
        if pair.section is not None and pair.parent is not None and frames[rows[pair.parent].frame].section is None:
            called.setdefault(pair.parent, set()).add(pair.section)
    origins: dict[str | None, tuple[int, ...]] = {None: ()}  # section → the rows that later rows may follow from
    newest: tuple[int, tuple[int, ...]] = -1, ()  # the last row that began a difference, and the origins inside it
    for ends, number in in_order(rows, frames):
        row, section = marked[number], frames[rows[number].frame].section
        lead = leads.get(number)
        before = origins.get(section, origins[None])
        if not ends and lead is not None:
            is_new = lead not in before and (marked[lead].edited or not before)
            for follower in called.get(number, {section}) if is_new else ():
                origins[follower] = (*origins.get(follower, origins[None]), lead)
            newest = number, (*before, lead) if is_new else before
        if not ends:
            continue
        found = newest[1] if newest[0] > number else before
        if found:
            own = number == lead and number in found  # these findings make the row an origin itself
            marked[number] = row.having(
                replace(f, origins=found)
                if f.verdict in ("changed", *ONE_SIDED)
                and f.cause is None
                and (f.matters or f.aspect != "time")
                and not (own and f.aspect == "steps")
                else f
                for f in row.findings
            )
    return marked


def _leads(rows: Sequence[StepPair], frames: Sequence[FramePair]) -> Mapping[int, int]:
    """Return, for each row with different code or executions, the representative row of its statement.

    A narrative call never represents one, because its output has no consequences.
    """

    def key(row: StepPair) -> tuple[object, ...]:
        """Return the key that all executions of a statement in a section share."""
        return frames[row.frame].section, row.b is None, row.step.statement

    uneven = {
        (row.frame, row.step.statement): row
        for row in rows
        for f in row.findings
        if f.subject.kind == "executions" and f.verdict == "changed" and f.cause is None
    }
    representatives = {key(row): row.number for row in uneven.values()}
    leads: dict[int, int] = {}
    for row in rows:
        of_step = [f for f in row.findings if f.subject.kind == "step"]
        alone = any(f.matters and f.cause is None for f in of_step)
        loop = (row.frame, row.step.statement) in uneven and row.a is not None and row.b is not None
        if (alone or loop or (row.edited and not of_step)) and not row.prose:
            leads[row.number] = representatives.setdefault(key(row), row.number)
    return leads

"""Findings → the same with the one that explains each, so that a report can lead with what began it.

A leak shows at every step after it, a slow statement in every call around it, a loop that runs longer in
each statement of its body. Of each such chain one row is the cause: where it began, and innermost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from trace_tools.comparing.difference import Finding, FramePair, Observation, StepPair
from trace_tools.schema import Raised

SHARE = 0.5  # of a call's change that what was called different inside it must make up to be its cause


def with_causes(rows: Sequence[StepPair], frames: Sequence[FramePair]) -> list[StepPair]:
    """Return the rows with the causes of their findings and times filled in."""
    found = list(rows)
    ended = [number for ends, number in in_order(rows, frames) if ends]
    _repeated(found)
    _absent(found, frames)
    _memory(found, ended)
    _counted(found, ended)
    _raised(found, ended)
    _slow(found, frames, ended)
    return found


def in_order(rows: Sequence[StepPair], frames: Sequence[FramePair]) -> Iterator[tuple[bool, int]]:
    """Yield (whether it ends, number) as rows begin and end: a call ends after everything in it."""
    opened: list[int] = []
    for row in rows:
        while opened and frames[rows[opened[-1]].frame].depth >= frames[row.frame].depth:
            yield True, opened.pop()
        opened.append(row.number)
        yield False, row.number
    yield from ((True, number) for number in reversed(opened))


def _explain(rows: list[StepPair], number: int, cause: int, which: Callable[[Finding], bool]) -> None:
    """Set the cause of those of a row's findings that have none yet."""
    row = rows[number]
    findings = (replace(f, cause=cause) if which(f) and f.cause is None else f for f in row.findings)
    rows[number] = replace(row, findings=tuple(findings))


def is_count(finding: Finding, *fields: str) -> bool:
    """Whether a finding is about one of these counts."""
    return finding.subject.kind == "counter" and finding.subject.expression in fields


def _is(aspect: str, *verdicts: str) -> Callable[[Finding], bool]:
    return lambda f: f.aspect == aspect and f.verdict in verdicts


def _absent(rows: list[StepPair], frames: Sequence[FramePair]) -> None:
    """What only one side has inside a call that only it made follows from that call."""
    one_sided = _is("steps", "only in A", "only in B")
    for row in rows:
        parent = frames[row.frame].parent
        if parent is None or (row.a is not None and row.b is not None):
            continue
        caller = rows[parent]
        if (caller.a is None) == (row.a is None) and (caller.b is None) == (row.b is None):
            above = next((f.cause for f in caller.findings if one_sided(f)), None)
            cause = parent if above is None else above
            _explain(rows, row.number, cause, lambda f: f.aspect in ("steps", "claims", "output"))


def _repeated(rows: list[StepPair]) -> None:
    """A loop that ran more often says so once; the executions that one side lacks follow from that."""
    more: dict[tuple[int, int], tuple[int, int]] = {}  # (frame, statement) → by how much, and the row that says so
    for row in rows:
        for f in row.findings:
            if f.subject.kind == "executions" and isinstance(f.a, int) and isinstance(f.b, int):
                more[row.frame, row.step.statement] = (f.b - f.a, row.number)
    loops: dict[tuple[int, int], int] = {}  # (frame, statement) → the row of the loop's header
    for frame, statement in sorted(more):
        before = (frame, statement - 1)  # of a loop's statements each comes right after the one before
        same = before in more and more[before][0] == more[frame, statement][0]
        loops[frame, statement] = loops[before] if same else more[frame, statement][1]
        if same:
            _explain(rows, more[frame, statement][1], loops[before], lambda f: f.subject.kind == "executions")
    for row in rows:
        loop = loops.get((row.frame, row.step.statement))
        if loop is not None and (row.a is None or row.b is None):
            _explain(rows, row.number, loop, _is("steps", "only in A", "only in B"))


def _memory(rows: list[StepPair], ended: Sequence[int]) -> None:
    """Bytes that were there already follow from the row after which they first were."""
    alive, since = 0.0, 0  # how much more B held, and the row where that began
    peaks: dict[float, int] = {}  # change → the latest row with that peak
    alone = _Alone()
    for number in ended:
        row = rows[number]
        changes = {f.subject.expression: _signed(f) for f in filter(_is("memory", "changed"), row.findings)}
        live, peak = changes.get("live_bytes"), changes.get("peak_bytes")
        began = alone.row_of(live - alive) if live is not None and live != alive else None
        if began is not None and live is not None:
            _moved(rows, number, began, "live_bytes")
            alive, since = live, began
        if peak is not None:
            inside = peaks.get(peak, -1)
            if alive and peak == alive:
                _explain(rows, number, since, lambda f: is_count(f, "peak_bytes"))
            elif inside > number:
                _explain(rows, number, inside, lambda f: is_count(f, "peak_bytes"))
            elif (above := alone.reached(row)) is not None:
                _moved(rows, number, above, "peak_bytes")
                peaks[peak] = above
            else:
                peaks[peak] = number
        if live is not None and live == alive:
            _explain(rows, number, since, lambda f: is_count(f, "live_bytes", "allocated_bytes"))
        elif live is not None:
            alive, since = live, number
        elif _holds_memory(row):
            alive = 0.0
        alone.pass_by(row)


@dataclass(slots=True)
class _Alone:
    """What the steps that one side does not have did to the bytes alive, since the last step that both have."""

    live: list[int | None] = field(default_factory=lambda: [None, None])  # after the last step of A, and of B
    most: float = 0.0
    row: int | None = None  # that did the most
    peaks: dict[int, int] = field(default_factory=dict)  # bytes → the latest row of one side that reached them

    def pass_by(self, row: StepPair) -> None:
        """Take in a row that has ended."""
        if row.a is not None and row.b is not None and _holds_memory(row):
            self.most, self.row = 0.0, None
        for side, step in enumerate((row.a, row.b)):
            meters = step.meters if step is not None else None
            now = meters.live_bytes if meters is not None else None
            before = self.live[side]
            if meters is not None and meters.peak_bytes and (row.a is None or row.b is None):
                self.peaks[meters.peak_bytes] = row.number
            if now is None:
                continue
            if before is not None and (row.a is None or row.b is None):
                change = float(now - before) * (1 if side else -1)
                if abs(change) > abs(self.most):
                    self.most, self.row = change, row.number
            self.live[side] = now

    def row_of(self, change: float) -> int | None:
        """Return the row that made at least half of a change; None when none did."""
        return self.row if self.row is not None and self.most / change >= SHARE else None

    def reached(self, row: StepPair) -> int | None:
        """Return the row inside a call that reached the call's peak, where only one side has it."""
        peaks = [step.meters.peak_bytes for step in (row.a, row.b) if step is not None and step.meters is not None]
        inside = max((self.peaks.get(peak or 0, -1) for peak in peaks), default=-1)
        return inside if inside > row.number else None


def _moved(rows: list[StepPair], number: int, began: int, field: str) -> None:
    """Say where bytes began to be held: at the row that only one side has, not at the next that both have."""
    found = tuple(f for f in rows[number].findings if is_count(f, field))
    rows[began] = replace(rows[began], findings=(*rows[began].findings, *found))
    _explain(rows, number, began, lambda f: is_count(f, field))


def _signed(finding: Finding) -> float:
    return float(finding.b - finding.a) if isinstance(finding.a, int) and isinstance(finding.b, int) else 0.0


def _holds_memory(row: StepPair) -> bool:
    """Whether both sides know what was alive after a row."""
    meters = [step.meters for step in (row.a, row.b) if step is not None]
    return len(meters) == 2 and all(m is not None and m.live_bytes is not None for m in meters)


def _counted(rows: list[StepPair], ended: Sequence[int]) -> None:
    """A call does more FLOPs because a statement in it does, or is there at all: the one that adds the most."""
    work: list[tuple[int, float]] = []  # rows that end before, with their change in FLOPs or bytes
    for number in ended:
        row = rows[number]
        inside = []
        while work and work[-1][0] > number:
            inside.append(work.pop())
        changed = [f for f in row.findings if f.aspect == "flops" and f.verdict == "changed"]
        if changed and inside:
            cause = max(inside, key=lambda item: item[1])[0]
            _explain(rows, number, cause, lambda f: f.aspect == "flops")
            work.append((cause if cause > number else number, max(size for _, size in inside)))
            continue
        if changed:
            work.append((number, max(f.size for f in changed)))
        elif (row.a is None or row.b is None) and row.step.meters is not None:
            work.append((number, float(row.step.meters.flops or row.step.meters.bytes_read or 0)))
        elif inside:
            work.append(max(inside, key=lambda item: item[1]))


def _raised(rows: list[StepPair], ended: Sequence[int]) -> None:
    """An exception that passes through a call began inside it."""
    began: tuple[int, Observation, Observation] | None = None
    for number in ended:
        for f in rows[number].findings:
            if f.verdict == "claim flipped":
                began = (number, None, rows[number].step.raised)
            elif f.subject.kind == "raised" and f.verdict == "changed":
                if began is not None and began[0] > number and _is_type(began[1], f.a) and _is_type(began[2], f.b):
                    _explain(rows, number, began[0], lambda f: f.subject.kind == "raised")
                else:
                    began = (number, f.a, f.b)


def _is_type(began: Observation, passed: Observation) -> bool:
    """Whether one exception may be the other passed on; what began with none may have passed anything."""
    return began is None or (isinstance(began, Raised) and isinstance(passed, Raised) and began.type == passed.type)


def _slow(rows: list[StepPair], frames: Sequence[FramePair], ended: Sequence[int]) -> None:
    """A call takes longer because statements in it do, in all their executions together: the one that does most."""
    calls: dict[int, dict[tuple[int, int], _Group]] = {}  # calling row → what happened in its calls, by statement
    for number in ended:
        row = rows[number]
        groups = [group for group in calls.pop(number, {}).values() if group.blamed is not None]
        inside = max(groups, key=lambda group: abs(group.change_ns), default=None)
        time = row.times[0] if row.times and row.times[0].subject.kind == "time" else None
        alone = time is not None and (row.a is None or row.b is None)
        change_ns = 0.0 if time is None or (time.ratio is None and not alone) else time.change_ns
        blamed = number if alone else None if inside is None else inside.blamed
        if time is not None and time.matters:
            if change_ns and sum(group.change_ns for group in groups) / change_ns >= SHARE:
                rows[number] = replace(row, times=(replace(time, cause=blamed), *row.times[1:]))
            else:
                blamed = number
        parent = frames[row.frame].parent
        if parent is not None:
            source = frames[row.frame].b or frames[row.frame].a
            key = (source.source if source else 0, row.step.statement)
            calls.setdefault(parent, {}).setdefault(key, _Group()).add(change_ns, blamed)


@dataclass(slots=True)
class _Group:
    """The executions of one statement in the calls that one row made."""

    change_ns: float = 0.0
    blamed: int | None = None  # the row where most of what was called different is
    most_ns: float = 0.0

    def add(self, change_ns: float, blamed: int | None) -> None:
        self.change_ns += change_ns
        if blamed is not None and abs(change_ns) >= self.most_ns:
            self.blamed, self.most_ns = blamed, abs(change_ns)

"""Join the traces of several ranks into one trace, and extract the trace of one rank.

    trace = joined({0: first, 1: second})    equal records appear once, with the differences by rank
    of_rank(trace, 1)                        the lecture as rank 1 ran it, as a separate trace
    by_rank(step, 2)[1]                      a step on rank 1

Calls and steps of two ranks match if they have the same key: see `identities`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Literal

from trace_tools.errors import UsageError
from trace_tools.trace.identities import OMITTED, PASS, TOP, CallCounter, Positions, StepKey
from trace_tools.trace.model import Event, Frame, Omitted, RankCall, RankStep, Run, Step, Trace, Value

OBSERVED = tuple(one.name for one in fields(RankStep) if one.name not in {"rank", "lacks"})
OF_RANK = re.compile(r"(.+)#rank(\d+)")  # "trace.yaml#rank1"


def joined(traces: Mapping[int, Trace]) -> Trace:
    """Return the trace of all ranks; head, sources and facts of the whole run are the lowest rank's.

    A rank that recorded no events has no trace and no steps.
    """
    lowest = next(iter(traces.values()))
    rank_count = lowest.run.ranks or len(traces)
    positions = Positions()
    of_ranks = {rank: _by_position(trace, positions) for rank, trace in sorted(traces.items())}
    frames: dict[int, int] = {}  # by position, their numbers in the joined trace
    steps: dict[int, int] = {}
    joined_events: list[Event] = []
    for position in _in_order(of_ranks):
        events_by_rank = {rank: events[position] for rank, events in of_ranks.items() if position in events}
        on = None if len(events_by_rank) == rank_count else [*events_by_rank]
        first, parent = next(iter(events_by_rank.values()))
        if isinstance(first, Frame):
            frames[position] = len(frames)
            of = None if parent < 0 else steps[parent]
            calls = [(rank, event) for rank, (event, _) in events_by_rank.items() if isinstance(event, Frame)]
            differing = [RankCall(r, f.arguments) for r, f in calls if f.arguments and f.arguments != first.arguments]
            joined_events.append(replace(first, frame=frames[position], of=of, on=on, ranks=differing or None))
        elif isinstance(first, Step):
            steps[position] = len(steps)
            steps_by_rank = {rank: event for rank, (event, _) in events_by_rank.items() if isinstance(event, Step)}
            joined_events.append(replace(_joined_step(steps_by_rank), id=steps[position], frame=frames[parent], on=on))
        else:
            totals = [event for event, _ in events_by_rank.values() if isinstance(event, Omitted)]
            longest = max(one.host_ns for one in totals)
            most = max(one.omitted for one in totals)
            joined_events.append(replace(first, frame=frames[parent], omitted=most, host_ns=longest, on=on))
    return replace(lowest, steps=joined_events)


def _by_position(trace: Trace, positions: Positions) -> dict[int, tuple[Event, int]]:
    """Return a rank's events in order, each with the position of its call, or of a call's caller."""
    events: dict[int, tuple[Event, int]] = {}
    frames: dict[int, int] = {}
    steps: dict[int, int] = {}
    calls = CallCounter()
    for event in trace.steps:
        if isinstance(event, Frame):
            parent = TOP if event.of is None else steps[event.of]
            position = frames[event.frame] = positions.of_call(calls.key(parent, (event.source, event.function)))
        elif isinstance(event, Step):
            parent = frames[event.frame]
            position = steps[event.id] = positions.of_step(StepKey(parent, event.statement, event.execution))
        else:
            parent = frames[event.frame]
            position = positions.of_step(StepKey(parent, event.statement, OMITTED))
        events[position] = (event, parent)
    return events


def _in_order(of_ranks: Mapping[int, Mapping[int, tuple[Event, int]]]) -> list[int]:
    """Return all positions in an order that agrees with each rank's own; where ranks diverge, lower ranks come first.

    If ranks ran the same events in different orders (threads may), use the lowest rank's order, always after the call.
    """
    first_found: dict[int, tuple[int, int]] = {}  # by position: the lowest rank that has it, and its index there
    after: dict[int, set[int]] = {}
    awaited: Counter[int] = Counter()  # number of positions that must precede it
    parents: dict[int, int] = {}
    for rank, events in of_ranks.items():
        for number, (position, (_, parent)) in enumerate(events.items()):
            first_found.setdefault(position, (rank, number))
            parents[position] = parent
        for before, position in pairwise(events):
            if position not in after.setdefault(before, set()):
                after[before].add(position)
                awaited[position] += 1
    ready = [(key, position) for position, key in first_found.items() if not awaited[position]]
    heapify(ready)
    waiting = sorted((key, position) for position, key in first_found.items())
    order: dict[int, None] = {}
    while len(order) < len(first_found):
        if ready:
            _, position = heappop(ready)
        else:  # two ranks contradict each other
            position = next(p for _, p in waiting if p not in order and (parents[p] < 0 or parents[p] in order))
        if position in order:
            continue
        order[position] = None
        for later in after.get(position, ()):
            awaited[later] -= 1
            if not awaited[later]:
                heappush(ready, (first_found[later], later))
    return [*order]


def _joined_step(of_ranks: Mapping[int, Step]) -> Step:
    """Return the joined step of all ranks that ran it."""
    steps = [*of_ranks.values()]
    # a claim held if it held on each rank; else it names the runs and ranks that failed
    claims = {rank: step.claim for rank, step in of_ranks.items() if step.claim is not None}
    failed = [(rank, claim) for rank, claim in claims.items() if not claim.held]
    claim = next(iter(claims.values()), None)
    if failed:
        runs = [f"{run}, rank {rank}" for rank, claim in failed for run in claim.failed_runs or ()]
        claim = replace(failed[0][1], failed_runs=runs or None)
    common = replace(
        steps[0],
        host_ns=_slowest([step.host_ns for step in steps]),
        cold_ns=_slowest([step.cold_ns for step in steps]),
        device_ns=_slowest([step.device_ns for step in steps]),
        launch_ns=_slowest([step.launch_ns for step in steps]),
        queued_ns=_slowest([step.queued_ns for step in steps]),
        claim=claim,
        raised=next((step.raised for step in steps if step.raised is not None), None),
        compiled=any(step.compiled for step in steps),
        graph=any(step.graph for step in steps),
        harness=any(step.harness for step in steps),
        suspended=any(step.suspended for step in steps),
    )
    differing = []
    for rank, step in of_ranks.items():
        own = {name: getattr(step, name) for name in OBSERVED if _differ(getattr(step, name), getattr(common, name))}
        lacks = [name for name, content in own.items() if content is None]
        if own:
            differing.append(RankStep(rank=rank, **own, lacks=lacks or None))
    return replace(common, ranks=differing or None)


def _differ(one: Any, other: Any) -> bool:
    return bool(one != other) and repr(one) != repr(other)  # unlike !=, that takes nan for nan


def _slowest(times: Sequence[list[int] | None]) -> list[int] | None:
    """Return the longest time of each pass; if a rank lacks the time of a pass, return the slowest rank's times."""
    timed = [one for one in times if one]
    if not timed:
        return None
    if len({len(one) for one in timed}) == 1:
        return [max(of_pass) for of_pass in zip(*timed, strict=True)]
    return max(timed, key=median)


# --- a single rank ------------------------------------------------------------------------------------------------


def of_rank(trace: Trace, rank: int) -> Trace:
    """Return the trace of one rank of several. Raises UsageError if the trace has no such rank."""
    count = trace.run.ranks
    if count is None or not 0 <= rank < count:
        problem = "the trace was made without --ranks" if count is None else f"expected 0 to {count - 1}"
        raise UsageError(f"rank {rank}: {problem}")
    events: list[Event] = []
    for event in trace.steps:
        if event.on is not None and rank not in event.on:
            continue
        own = (
            next((it for it in event.ranks or () if it.rank == rank), None) if not isinstance(event, Omitted) else None
        )
        if isinstance(own, RankCall) and isinstance(event, Frame):
            event = replace(event, arguments=own.arguments)
        elif isinstance(own, RankStep) and isinstance(event, Step):
            event = as_on(event, own)
        events.append(replace(event, on=None) if isinstance(event, Omitted) else replace(event, on=None, ranks=None))
    processes = [replace(one, rank=None) for one in trace.run.processes if one.rank in (None, rank)]
    return replace(trace, steps=events, run=replace(trace.run, ranks=None, processes=processes))


def as_on(step: Step, own: RankStep) -> Step:
    """Return a step with the fields of one rank."""
    lacks = own.lacks or ()
    own_fields = {name: getattr(own, name) for name in OBSERVED if name in lacks or getattr(own, name) is not None}
    return replace(step, **own_fields)


def by_rank(step: Step, ranks: int) -> dict[int, Step]:
    """Return a step as recorded by each rank that ran it."""
    own_fields = {one.rank: one for one in step.ranks or ()}
    ranks_with_step = step.on if step.on is not None else range(ranks)
    return {rank: as_on(step, own_fields[rank]) if rank in own_fields else step for rank in ranks_with_step}


def disagreeing(event: Step | Frame, ranks: int) -> list[tuple[str, dict[int, Value]]]:
    """Return the values of a step, or the arguments of a call, that differ between the ranks that made it.

    Each name comes with its values by rank.
    """
    if isinstance(event, Frame):
        shown, own = event.arguments, {one.rank: one.arguments for one in event.ranks or ()}
    else:
        other = [one for one in event.ranks or () if one.values is not None or "values" in (one.lacks or ())]
        shown, own = event.values, {one.rank: one.values or [] for one in other}
    if not own:
        return []
    of_ranks = {rank: own.get(rank, shown) or [] for rank in (range(ranks) if event.on is None else event.on)}
    differing = []
    for index, (source, value) in enumerate(shown or ()):
        value_by_rank = {rank: values[index][1] for rank, values in of_ranks.items() if values[index : index + 1]}
        if any(_differ(other, value) for other in value_by_rank.values()) or len(value_by_rank) < len(of_ranks):
            differing.append((source, value_by_rank))
    return differing


def times(step: Step, ranks: int) -> dict[int, int]:
    """Return each rank's median time of a step, in nanoseconds, as far as it was timed."""
    samples_by_rank = {rank: one.device_ns or one.host_ns or one.cold_ns for rank, one in by_rank(step, ranks).items()}
    return {rank: round(median(ns)) for rank, ns in samples_by_rank.items() if ns}


def sharing_a_device(trace: Trace) -> str | None:
    """Name the ranks that computed on the same accelerator of a computer, and the remedy; None if no ranks did."""
    run, kind = trace.run, trace.machine.device
    if (run.ranks or 1) < 2:
        return None
    on_a_node = (run.ranks or 1) // len(run.nodes or [""])
    users: dict[tuple[str, int, int], set[int]] = {}  # by process, computer and device
    for process in run.processes:
        if process.device_index is not None and process.rank is not None:
            users.setdefault((process.name, process.rank // on_a_node, process.device_index), set()).add(process.rank)
    for (_, _, index), ranks in users.items():
        if len(ranks) > 1:
            choose = f'torch.{kind}.set_device(int(os.environ["LOCAL_RANK"]))'
            return (
                f"{in_words(ranks)} computed on the same GPU ({kind}:{index}); NCCL refuses that (“Duplicate GPU "
                f"detected”), and each waits for the others; call {choose} at the start of {run.main or 'main'}, "
                f"before the first tensor on “{kind}”"
            )
    return None


def whole_runs(run: Run, name: Literal["cold_ns", "warm_ns"]) -> list[int]:
    """Return how long `main` took in each pass, in nanoseconds, on the slowest of several ranks."""
    slowest: dict[str, int] = {}
    for process in run.processes:
        ns = getattr(process, name)
        if ns is not None and process.id.kind == PASS:
            slowest[process.name] = max(ns, slowest.get(process.name, 0))
    return [*slowest.values()]


def in_words(ranks: Iterable[int]) -> str:
    """Name some ranks: "rank 1", "ranks 0, 2 to 5"."""
    ordered = sorted(ranks)
    groups: list[list[int]] = []
    for rank in ordered:
        if groups and rank == groups[-1][-1] + 1:
            groups[-1].append(rank)
        else:
            groups.append([rank])
    names = [f"{one[0]} to {one[-1]}" if len(one) > 2 else ", ".join(map(str, one)) for one in groups]
    return f"rank{'s' * (len(ordered) > 1)} {', '.join(names)}"


def divided(name: str | Path) -> tuple[str, int | None]:
    """Divide "trace.yaml#rank1" into the file and the rank; None without a rank."""
    match = OF_RANK.fullmatch(str(name))
    return (match[1], int(match[2])) if match else (str(name), None)

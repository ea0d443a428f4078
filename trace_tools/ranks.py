"""Traces of several ranks ↔ one trace of all of them.

    trace = joined({0: first, 1: second})    what is equal is said once, what differs stands beside it, by rank
    of_rank(trace, 1)                        the lecture as rank 1 ran it, as a trace of its own
    by_rank(step, 2)[1]                      a step as rank 1 had it

A step of one rank is the same as a step of another when it is the n-th execution of the same statement in the same
call, and a call when it is the n-th of the same function in the same step.
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
from trace_tools.schema import Claim, Event, Frame, Omitted, RankCall, RankStep, Run, Step, Trace, Value

OBSERVED = tuple(one.name for one in fields(RankStep) if one.name not in {"rank", "lacks"})
OF_RANK = re.compile(r"(.+)#rank(\d+)")  # "trace.yaml#rank1"

Key = tuple[Any, ...]


def joined(traces: Mapping[int, Trace]) -> Trace:
    """Return the trace of all ranks; head, sources and what is said of the whole run are the lowest rank's.

    Of a rank that has recorded nothing there is no trace, and it made no step.
    """
    lowest = next(iter(traces.values()))
    everyone = lowest.run.ranks or len(traces)
    numbers: dict[Key, int] = {}
    of_ranks = {rank: _placed(trace, numbers) for rank, trace in sorted(traces.items())}
    frames: dict[int, int] = {}  # by place, their numbers in the joined trace
    steps: dict[int, int] = {}
    made: list[Event] = []
    for place in _ordered(of_ranks):
        there = {rank: events[place] for rank, events in of_ranks.items() if place in events}
        on = None if len(there) == everyone else [*there]
        first, parent = next(iter(there.values()))
        if isinstance(first, Frame):
            frames[place] = len(frames)
            of = None if parent < 0 else steps[parent]
            several = [(rank, event) for rank, (event, _) in there.items() if isinstance(event, Frame)]
            other = [RankCall(r, f.arguments) for r, f in several if f.arguments and f.arguments != first.arguments]
            made.append(replace(first, frame=frames[place], of=of, on=on, ranks=other or None))
        elif isinstance(first, Step):
            steps[place] = len(steps)
            of_step = {rank: event for rank, (event, _) in there.items() if isinstance(event, Step)}
            made.append(replace(_step(of_step), id=steps[place], frame=frames[parent], on=on))
        else:
            totals = [event for event, _ in there.values() if isinstance(event, Omitted)]
            longest = max(one.host_ns for one in totals)
            most = max(one.omitted for one in totals)
            made.append(replace(first, frame=frames[parent], omitted=most, host_ns=longest, on=on))
    return replace(lowest, steps=made)


def _placed(trace: Trace, numbers: dict[Key, int]) -> dict[int, tuple[Event, int]]:
    """Return a rank's events in order, each by its place, with the place of its frame, or of a frame's caller.

    A place is the same number on all ranks.
    """
    found: dict[int, tuple[Event, int]] = {}
    frames: dict[int, int] = {}
    steps: dict[int, int] = {}
    calls: Counter[Key] = Counter()
    for event in trace.steps:
        if isinstance(event, Frame):
            parent = -1 if event.of is None else steps[event.of]
            called: Key = ("call", parent, event.source, event.function)
            calls[called] += 1
            key: Key = (*called, calls[called])
        elif isinstance(event, Step):
            parent = frames[event.frame]
            key = ("step", parent, event.statement, event.execution)
        else:
            parent = frames[event.frame]
            key = ("omitted", parent, event.statement)
        place = numbers.setdefault(key, len(numbers))
        if isinstance(event, Frame):
            frames[event.frame] = place
        elif isinstance(event, Step):
            steps[event.id] = place
        found[place] = (event, parent)
    return found


def _ordered(of_ranks: Mapping[int, Mapping[int, tuple[Event, int]]]) -> list[int]:
    """Return all places in an order that is each rank's own; where ranks part, what lower ones did comes first.

    Where ranks did the same in another order (threads may), it is the lowest one's, and behind its call for certain.
    """
    known: dict[int, tuple[int, int]] = {}  # by place: the lowest rank that was there, and its when
    after: dict[int, set[int]] = {}
    awaited: Counter[int] = Counter()  # how many places stand before one
    parents: dict[int, int] = {}
    for rank, events in of_ranks.items():
        for number, (place, (_, parent)) in enumerate(events.items()):
            known.setdefault(place, (rank, number))
            parents[place] = parent
        for before, place in pairwise(events):
            if place not in after.setdefault(before, set()):
                after[before].add(place)
                awaited[place] += 1
    ready = [(at, place) for place, at in known.items() if not awaited[place]]
    heapify(ready)
    waiting = sorted((at, place) for place, at in known.items())
    order: dict[int, None] = {}
    while len(order) < len(known):
        if ready:
            _, place = heappop(ready)
        else:  # two ranks contradict each other
            _, place = next((at, p) for at, p in waiting if p not in order and (parents[p] < 0 or parents[p] in order))
        if place in order:
            continue
        order[place] = None
        for later in after.get(place, ()):
            awaited[later] -= 1
            if not awaited[later]:
                heappush(ready, (known[later], later))
    return [*order]


def _step(of_ranks: Mapping[int, Step]) -> Step:
    """Return what a step was on all ranks that ran it."""
    steps = [*of_ranks.values()]
    told = replace(
        steps[0],
        host_ns=_slowest([step.host_ns for step in steps]),
        cold_ns=_slowest([step.cold_ns for step in steps]),
        device_ns=_slowest([step.device_ns for step in steps]),
        claim=_claim(of_ranks),
        raised=next((step.raised for step in steps if step.raised is not None), None),
        compiled=any(step.compiled for step in steps),
        harness=any(step.harness for step in steps),
        suspended=any(step.suspended for step in steps),
    )
    differing = []
    for rank, step in of_ranks.items():
        own = {name: getattr(step, name) for name in OBSERVED if _differ(getattr(step, name), getattr(told, name))}
        lacks = [name for name, content in own.items() if content is None]
        if own:
            differing.append(RankStep(rank=rank, **own, lacks=lacks or None))
    return replace(told, ranks=differing or None)


def _differ(one: Any, other: Any) -> bool:
    return bool(one != other) and repr(one) != repr(other)  # unlike !=, that takes nan for nan


def _slowest(times: Sequence[list[int] | None]) -> list[int] | None:
    """Return the longest time of each pass; where ranks did not all time each, the slowest rank's."""
    found = [one for one in times if one]
    if not found:
        return None
    if len({len(one) for one in found}) == 1:
        return [max(of_pass) for of_pass in zip(*found, strict=True)]
    return max(found, key=median)


def _claim(of_ranks: Mapping[int, Step]) -> Claim | None:
    """Return a claim as all ranks judged it: it held where it did on each, and names the runs and ranks that failed."""
    claims = {rank: step.claim for rank, step in of_ranks.items() if step.claim is not None}
    failed = [(rank, claim) for rank, claim in claims.items() if not claim.held]
    if not failed:
        return next(iter(claims.values()), None)
    runs = [f"{run}, rank {rank}" for rank, claim in failed for run in claim.failed_runs or ()]
    return replace(failed[0][1], failed_runs=runs or None)


# --- one of them --------------------------------------------------------------------------------------------------


def of_rank(trace: Trace, rank: int) -> Trace:
    """Return the trace of one rank of several. Raises UsageError where there is no such one."""
    count = trace.run.ranks
    if count is None or not 0 <= rank < count:
        there = "it was not traced with --ranks" if count is None else f"expected 0 to {count - 1}"
        raise UsageError(f"rank {rank}: the trace has no such rank; {there}")
    made: list[Event] = []
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
        made.append(replace(event, on=None) if isinstance(event, Omitted) else replace(event, on=None, ranks=None))
    processes = [replace(one, rank=None) for one in trace.run.processes if one.rank in (None, rank)]
    return replace(trace, steps=made, run=replace(trace.run, ranks=None, processes=processes))


def as_on(step: Step, own: RankStep) -> Step:
    """Return a step as one rank had it."""
    lacks = own.lacks or ()
    given = {name: getattr(own, name) for name in OBSERVED if name in lacks or getattr(own, name) is not None}
    return replace(step, **given)


def by_rank(step: Step, ranks: int) -> dict[int, Step]:
    """Return a step as each rank had it that ran it."""
    own = {one.rank: one for one in step.ranks or ()}
    there = step.on if step.on is not None else range(ranks)
    return {rank: as_on(step, own[rank]) if rank in own else step for rank in there}


def disagreeing(event: Step | Frame, ranks: int) -> list[tuple[str, dict[int, Value]]]:
    """Return the values of a step, or the arguments of a call, that are not the same on all ranks that made it.

    Each is told with what it was on which.
    """
    if isinstance(event, Frame):
        told, own = event.arguments, {one.rank: one.arguments for one in event.ranks or ()}
    else:
        other = [one for one in event.ranks or () if one.values is not None or "values" in (one.lacks or ())]
        told, own = event.values, {one.rank: one.values or [] for one in other}
    if not own:
        return []
    of_ranks = {rank: own.get(rank, told) or [] for rank in (range(ranks) if event.on is None else event.on)}
    found = []
    for index, (source, value) in enumerate(told or ()):
        there = {rank: values[index][1] for rank, values in of_ranks.items() if values[index : index + 1]}
        if any(_differ(other, value) for other in there.values()) or len(there) < len(of_ranks):
            found.append((source, there))
    return found


def times(step: Step, ranks: int) -> dict[int, int]:
    """Return each rank's median time of a step, in nanoseconds, as far as it was timed."""
    found = {rank: one.device_ns or one.host_ns or one.cold_ns for rank, one in by_rank(step, ranks).items()}
    return {rank: round(median(ns)) for rank, ns in found.items() if ns}


def whole_runs(run: Run, name: Literal["cold_ns", "warm_ns"]) -> list[int]:
    """Return how long `main` took in each pass, in nanoseconds, on the slowest of several ranks."""
    slowest: dict[str, int] = {}
    for process in run.processes:
        ns = getattr(process, name)
        if ns is not None and process.name.startswith("pass"):
            slowest[process.name] = max(ns, slowest.get(process.name, 0))
    return [*slowest.values()]


def in_words(ranks: Iterable[int]) -> str:
    """Name some ranks: "rank 1", "ranks 0, 2 to 5"."""
    found = sorted(ranks)
    parts: list[list[int]] = []
    for rank in found:
        if parts and rank == parts[-1][-1] + 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    told = [f"{one[0]} to {one[-1]}" if len(one) > 2 else ", ".join(map(str, one)) for one in parts]
    return f"rank{'s' * (len(found) > 1)} {', '.join(told)}"


def divided(name: str | Path) -> tuple[str, int | None]:
    """Divide "trace.yaml#rank1" into the file and the rank; None where none is named."""
    found = OF_RANK.fullmatch(str(name))
    return (found[1], int(found[2])) if found else (str(name), None)

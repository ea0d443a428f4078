"""Matched executions → how their durations compare: judged on one machine, as ratios across machines.

times = judge_times(places, a, b, same_machine=True)
times.findings[7]  # TimeFinding("slower", "host", a_ns=11.2e6, b_ns=13.5e6, ratio=1.21, …)
times.statistics   # TimeStatistics(judged=807, different=1, …)
"""

from __future__ import annotations

import math
import statistics as samples
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trace_tools.comparing import statistics
from trace_tools.comparing.align import Place
from trace_tools.comparing.difference import TimeFinding, TimeStatistics, Verdict
from trace_tools.rendering.document import Timing
from trace_tools.rendering.observe import rates_of, timing_of
from trace_tools.schema import Machine, Step, Trace

SHORTEST_NS = 1_000  # of a step worth judging: a probe and its clock take about 200 ns

SHORT = "shorter than 1 µs, of which the clock takes too large a share"
COMPILED = "torch.compile ran during it"
LAUNCH = "launch time: an unannotated statement on a device that works on its own"
COLD = "one side has a first run only"
CLOCKS = "one side was timed on the device, the other on the host"
FEW = f"fewer than {statistics.FEWEST_PROCESSES} processes on a side"


@dataclass(frozen=True, slots=True)
class Times:
    """A finding for each place that both sides timed, by its number, and how it was come by."""

    findings: Mapping[int, TimeFinding]
    statistics: TimeStatistics


@dataclass(frozen=True, slots=True)
class _Timed:
    """Two matched steps with their clocks."""

    number: int
    a: Step
    b: Step
    of_a: Timing
    of_b: Timing
    logs: tuple[list[float], list[float]]


def _logs(timing: Timing) -> list[float]:
    return [math.log(ns or 1) for ns in timing.samples_ns]


def judge_times(places: Sequence[Place], a: Trace, b: Trace, *, same_machine: bool) -> Times:
    """Compare the durations of every matched execution; places keep their numbers."""
    timed = [t for n, place in enumerate(places) if (t := _timed(n, place, a.machine, b.machine))]
    reasons = {t.number: why for t in timed if (why := _why_not(t, same_machine=same_machine))}
    left_out = {t.number: replace(_plain(t), why=reasons[t.number]) for t in timed if t.number in reasons}
    judged = [t for t in timed if t.number not in reasons]
    most = tuple(max((len(x) for t in timed if (x := (t.of_a, t.of_b)[s].samples_ns)), default=0) for s in (0, 1))
    counted = TimeStatistics(0, 0, tuple(Counter(reasons.values()).most_common()), most[0], most[1])
    if not judged:
        return Times(left_out, counted)
    if same_machine:
        found, counted = _on_one_machine(judged, counted)
    else:
        found = _across_machines(judged)
    shared = {t.number: _with_shares(found[t.number], t, a.machine, b.machine) for t in judged}
    return Times({**left_out, **shared}, counted)


def _timed(number: int, place: Place, on_a: Machine, on_b: Machine) -> _Timed | None:
    if place.a is None or place.b is None:
        return None
    of_a, of_b = timing_of(place.a, on_a), timing_of(place.b, on_b)
    if of_a is None or of_b is None:
        return None
    return _Timed(number, place.a, place.b, of_a, of_b, (_logs(of_a), _logs(of_b)))


def _why_not(timed: _Timed, *, same_machine: bool) -> str | None:
    a, b = timed.of_a, timed.of_b
    if timed.a.compiled or timed.b.compiled:
        return COMPILED
    if "launch" in (a.clock, b.clock):
        return LAUNCH
    if _is_cold(timed.a) != _is_cold(timed.b):
        return COLD
    if a.clock != b.clock and same_machine:
        return CLOCKS
    if max(samples.median(a.samples_ns), samples.median(b.samples_ns)) < SHORTEST_NS:
        return SHORT
    few = min(len(a.samples_ns), len(b.samples_ns)) < statistics.FEWEST_PROCESSES
    return FEW if few and same_machine else None


def _is_cold(step: Step) -> bool:
    return not step.device_ns and not step.host_ns


def _plain(timed: _Timed) -> TimeFinding:
    a_ns, b_ns = samples.median(timed.of_a.samples_ns), samples.median(timed.of_b.samples_ns)
    return TimeFinding("not judged", timed.of_b.clock, a_ns, b_ns)


def _typical(logs: Sequence[float]) -> float:
    """Return the geometric mean over processes: what the test compares."""
    return math.exp(math.fsum(logs) / len(logs))


# --- one machine ----------------------------------------------------------------------------------


def _on_one_machine(timed: Sequence[_Timed], counted: TimeStatistics) -> tuple[dict[int, TimeFinding], TimeStatistics]:
    judged = statistics.moderated([t.logs for t in timed])
    low, high = judged.intervals()
    detectable = judged.detectable()
    found = {}
    for place, t in enumerate(timed):
        effect = float(judged.effect[place])
        verdict: Verdict = "no difference detected"
        if judged.called[place]:
            verdict = "slower" if effect > 0 else "faster"
        found[t.number] = replace(
            _plain(t),
            verdict=verdict,
            a_ns=_typical(t.logs[0]),
            b_ns=_typical(t.logs[1]),
            ratio=math.exp(effect),
            interval=(float(low[place]), float(high[place])),
            p=float(judged.p[place]),
            adjusted_p=float(judged.adjusted_p[place]),
            detectable=float(detectable[place]),
        )
    return found, replace(
        counted,
        judged=len(timed),
        different=int(judged.called.sum()),
        noise=math.sqrt(judged.prior.variance),
        degrees_of_freedom=judged.prior.degrees_of_freedom,
        detectable=float(np.median(detectable)),
        passes_for_20_percent=statistics.processes_needed(1.2, judged.prior, judged.threshold),
    )


# --- two machines ---------------------------------------------------------------------------------


def _across_machines(timed: Sequence[_Timed]) -> dict[int, TimeFinding]:
    several = [t for t in timed if min(len(side) for side in t.logs) > 1]
    found = {t.number: _ratio(t) for t in timed}
    if several:
        logs = [t.logs for t in several]
        for t, factor in zip(several, statistics.side_by_side(logs), strict=True):
            ratio = found[t.number].ratio or 1.0
            found[t.number] = replace(found[t.number], interval=(ratio / float(factor), ratio * float(factor)))
    return found


def _ratio(timed: _Timed) -> TimeFinding:
    plain = _plain(timed)
    return replace(plain, verdict="ratio", ratio=max(plain.b_ns, 1.0) / max(plain.a_ns, 1.0))


def _with_shares(found: TimeFinding, timed: _Timed, on_a: Machine, on_b: Machine) -> TimeFinding:
    """Add what fraction of its own machine's roof each side came to."""
    sides = [_best_share(timed.a, timed.of_a, on_a), _best_share(timed.b, timed.of_b, on_b)]
    names = list(dict.fromkeys(name for _, name in sides if name))
    if not names:
        return found
    roof = names[0] if len(names) == 1 else f"A: {names[0]}, B: {names[1]}"
    return replace(found, a_share=sides[0][0], b_share=sides[1][0], roof=roof)


def _best_share(step: Step, timing: Timing, machine: Machine) -> tuple[float | None, str | None]:
    shares = [(r.share, r.roof.split(" peak")[0]) for r in rates_of(step, timing, machine) if r.share and r.roof]
    return max(shares, default=(None, None))

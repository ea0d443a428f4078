"""Compute the time of a recorded step, its rates with the machine's roof, and its least time on another machine.

    timing_of(step, machine)           Timing("host", (11200000, …))
    floor_of(step, known_machine("H100"))    Floor(seconds=1.2e-06, roof="memory")
    rates_of(step, timing, machine)    (Rate("FLOP/s", 2.1e12, share=0.31, …), …)
    statement_costs(tree, frames, where)    (StatementCost("loss = model(x)", "L216", True, 11200000, 8192, …), …)

Only this module computes rates.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from trace_tools.machines.peaks import KnownMachine, has_tf32, peak_of
from trace_tools.trace.model import Counts, Frame, Machine, Measured, Step
from trace_tools.trace.tree import Tree
from trace_tools.util import formats

FLOATING = ("float", "bfloat")
WORTH_SHOWING_NS = 1_000_000  # least time that is shown for a statement without annotation
WORTH_SHOWING_ANNOTATED_NS = 10_000
AT_ONCE_NS = 100_000  # shorter or more variable times are shown on demand
AT_ONCE_WITHIN = 0.25  # half the range of its samples, relative to their median

# Limits within which a statement's own time shows the speed of its operators (see `why_no_rate`).
LEAST_RUNS = 3
HARNESS = "its own time covers all the calls that `measure` or `count` made"
SHORTEST_NS = 100_000
APART = 1.25  # slowest run over fastest

Clock = Literal["device", "host", "launch", "call"]


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of one step, one per timed pass.

    `clock` is "device" (between device events), "host", "launch" or "call". "launch" is the host's time for work that
    the device may not have finished, so the duration of that work is unknown. "call" is the time of one call, as the
    step's only `measure` reported it; the step itself took `whole_ns`.
    """

    clock: Clock
    samples_ns: Sequence[int]
    cold_ns: Sequence[int] = ()
    whole_ns: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Rate:
    """An achieved rate with its roof, of a step or of one call that it measured."""

    name: str  # "FLOP/s" or "B/s"
    per_second: float
    share: float | None = None  # of the roof
    roof: str | None = None  # description of the roof, or why it is missing
    peak: str | None = None  # name of the peak that `share` refers to: "float32", "memory"; None without a share
    call: int | None = None  # n if it is of the step's n-th `measure`, from 1; None if of its own time
    intensity: float | None = None  # FLOP per byte of the same work
    above: str | None = None  # the warning for a rate above its roof


def timing_of(step: Step, machine: Machine) -> Timing | None:
    """Return the time of a step, by the clock that covers all of it ("launch" if no clock does).

    For a step with one measurement, return the time per call, because its own time covers hundreds of calls.
    """
    if step.suspended:
        return None
    cold = step.cold_ns or ()
    samples = step.device_ns or step.host_ns or cold
    if step.measured and len(step.measured) == 1 and step.measured[0].seconds:
        return Timing("call", call_ns(step.measured[0]), whole_ns=samples)
    if not samples:
        return None
    if step.device_ns:
        return Timing("device", samples, cold)
    launched = machine.device != "cpu" and not step.annotated
    return Timing("launch" if launched else "host", samples, cold)


def call_ns(measured: Measured) -> tuple[int, ...]:
    """Return the durations of one call of `measure`'s function, one per timed pass."""
    return tuple(max(1, round(1e9 * seconds)) for seconds in measured.seconds)


def rates_of(step: Step, timing: Timing | None, machine: Machine) -> tuple[Rate, ...]:
    """Return achieved FLOP/s and bytes/s with their share of the machine's roof, if both counts and time were measured.

    Counts and time cover the same work: each measured call if the step called `measure`, else the whole step. A step
    has no rates if its operators do not account for its time (`why_no_rate`), or an operator has no FLOP formula.
    """
    if step.measured:
        calls = [(statistics.median(call.seconds or [0.0]), call) for call in step.measured]
        rates = (_rates(call, seconds, call.dtype, machine, n) for n, (seconds, call) in enumerate(calls, start=1))
        return tuple(chain.from_iterable(rates))
    if step.meters is None or timing is None or why_no_rate(step, timing) is not None:
        return ()
    dtypes = {value.tensor.dtype for _, value in step.values or () if value.tensor is not None}
    floating = {dtype for dtype in dtypes if dtype.startswith(FLOATING)}
    dtype = step.meters.dtype or (floating.pop() if len(floating) == 1 else None)
    return tuple(_rates(step.meters, statistics.median(timing.samples_ns) / 1e9, dtype, machine))


def why_no_rate(step: Step, timing: Timing | None) -> str | None:
    """Return the reason, if a step's time does not show the speed of its operators.

    One execution is not a benchmark. Below 100 µs, dispatching operators takes most of the time; a first run also loads
    and allocates; and if three runs do not agree within 25%, other work took the time.
    """
    if step.measured or step.harness:
        return HARNESS
    if step.meters is not None and (missing := not_counted(step.meters)):
        return missing
    if timing is None:
        return "it was not timed"
    if timing.clock == "launch":
        return "only its launch was timed"
    if step.compiled:
        return "torch.compile ran during it"
    if not step.device_ns and not step.host_ns:
        return "only first runs were timed"
    samples = timing.samples_ns
    if len(samples) < LEAST_RUNS:
        return f"{formats.plural(len(samples), 'timed run')}; at least {LEAST_RUNS} are needed"
    if statistics.median(samples) < SHORTEST_NS:
        return f"shorter than {formats.duration(SHORTEST_NS)}: mostly dispatch"
    if max(samples) > APART * min(samples):
        times = formats.three_digits(max(samples) / max(min(samples), 1))
        return f"the slowest run took {times} times as long as the fastest"
    return None


def moved_bytes(counts: Counts) -> int:
    """Return the sum of bytes read and written; 0 if no bytes were counted."""
    return (counts.bytes_read or 0) + (counts.bytes_written or 0)


def intensity_of(counts: Counts) -> float | None:
    """Return FLOPs per byte read or written, if both are counted and not 0."""
    moved, flops = moved_bytes(counts), computed_flops(counts)
    return flops / moved if flops and moved and not counts.uncounted else None


def computed_flops(counts: Counts) -> int | None:
    """Return the computed FLOPs, without those on tensors that have no memory (device "meta", fake tensors)."""
    return counts.flops and counts.flops - (counts.meta_flops or 0)


def not_counted(counts: Counts, names: int = 12) -> str | None:
    """Name the operators without counted FLOPs, if any: "not counted: aten.sort"."""
    missing = counts.uncounted or []
    more = [f"and {len(missing) - names} more"] if len(missing) > names else []
    return f"not counted: {', '.join([*missing[:names], *more])}" if missing else None


def flops_in_words(counts: Counts) -> str | None:
    """Format the counted FLOPs: "2 MFLOP", "at least 2 MFLOP" if some were not counted."""
    if counts.flops is None or (counts.uncounted and not counts.flops):
        return None
    amount = formats.quantity(counts.flops, "FLOP", 3)
    return f"at least {amount}" if counts.uncounted else amount


def above_roof(name: str, share: float | None, *, measured: bool) -> str | None:
    """Return the warning for a rate with a `share` of its roof above 1.

    `name` is "FLOP/s" or "B/s"; `measured` is whether the roof was measured or comes from a datasheet.
    """
    if share is None or share <= 1:
        return None
    why = "the operators may need fewer FLOPs than are counted, or compute in a format with a higher peak"
    why = "a cache served some of the bytes" if name == "B/s" else why
    if measured:
        return f"above this machine's measured peak: {why}, or the peak was measured too low, while other programs ran"
    return f"above this machine's datasheet peak: {why}, or it runs faster than its datasheet"


def _rates(
    counts: Counts, seconds: float, dtype: str | None, machine: Machine, call: int | None = None
) -> Iterator[Rate]:
    moved, intensity = moved_bytes(counts), intensity_of(counts)
    if not seconds > 0 or counts.uncounted:
        return
    in_tf32 = any((work[1] or "").startswith("tf32") for work in counts.work or ())  # as float32 matmuls may be
    tf32 = dtype == "float32" and in_tf32 and has_tf32(machine.compute_capability)
    amounts = (("FLOP/s", computed_flops(counts), "tf32" if tf32 else dtype), ("B/s", moved, "memory"))
    for name, amount, peak_name in amounts:
        if not amount:
            continue
        rate = amount / seconds
        peak = peak_of(machine, peak_name) if peak_name is not None else None
        if peak is not None and peak.per_second:
            roof, share = f"{peak.name} peak, {peak.source}", rate / peak.per_second
            above = above_roof(name, share, measured=peak.measured)
            yield Rate(name, rate, share, roof, peak.name, call, intensity, above)
        elif peak_name is None:
            yield Rate(name, rate, roof="no peak: its FLOPs have no single dtype", call=call, intensity=intensity)
        else:
            source = "not in the table" if peak is None else peak.source
            yield Rate(name, rate, roof=f"no {peak_name} peak: {source}", call=call, intensity=intensity)


# --- the cost of a section by statement -----------------------------------------------------------


DEEPEST = 8  # calls inside calls

Where = Callable[[Step], tuple[str, str, bool]]  # a step → its code and anchor; a part: its title, anchor, False


@dataclass(frozen=True, slots=True)
class StatementCost:
    """One statement with all its executions, or a part of the text: its time, its memory, and what it called."""

    label: str  # its code or title
    anchor: str  # "" where it is not on the page
    is_code: bool
    ns: int  # in all
    peak_bytes: int = 0  # of tensors, at once
    inside: tuple[StatementCost, ...] = ()


def statement_costs(
    tree: Tree, frames: Sequence[Frame], where: Where, left_out: Collection[int] = (), depth: int = 0
) -> tuple[StatementCost, ...]:
    """Return the costs of the statements in these calls, in the order of their first execution.

    Executions of one statement count together, and so do the calls it made. Times are the host's: with a device they
    show when the host continued, not when the work was done. `left_out` are the numbers of statements to leave out.
    """
    executed: dict[int, list[Step]] = {}
    for frame in frames:
        for step in tree.steps_of(frame.frame):
            executed.setdefault(step.statement, []).append(step)
    statements = []
    for statement, steps in executed.items():
        if statement in left_out:
            continue
        unrecorded = [event for frame in frames for event in tree.omitted(frame.frame, statement)]
        calls = [call for step in steps for call in tree.calls(step.id)] if depth < DEEPEST else []
        ns = sum(map(typical_ns, steps)) + sum(event.host_ns for event in unrecorded)
        inside = statement_costs(tree, calls, where, left_out, depth + 1) if calls else ()
        peaks = [it.meters.peak_bytes or 0 for it in steps if it.meters] + [it.peak_bytes for it in inside]
        statements.append(StatementCost(*where(steps[0]), ns, max(peaks, default=0), inside))
    return tuple(statements)


def typical_ns(step: Step) -> int:
    """Return the median of a step's host times (ns), of warm runs if it has any; 0 without times."""
    samples: Sequence[int] = step.host_ns or step.cold_ns or ()
    return sorted(samples)[len(samples) // 2] if samples and not step.suspended else 0


# --- the least time on another machine ------------------------------------------------------------
# The floor of one operator is the larger of its FLOPs ÷ the peak of their dtype and its bytes ÷ the bandwidth (the
# roofline model: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009). The floor
# of a step is the sum over its operators, without launches, synchronisation and workspaces. Only three kinds of work
# can be faster: work that a cache served; convolutions by the algorithms of Winograd or Fourier; and operators that run
# at the same time. Compiled code moves fewer bytes than its operators would, so its bytes are not counted.


@dataclass(frozen=True, slots=True)
class Floor:
    """The least seconds for a step's operators on a machine, and the roof that accounts for most of them.

    The roof is "memory" or the name of a peak. If the machine has no peak of a dtype, `seconds` is None, and `roof`
    names that peak.
    """

    seconds: float | None
    roof: str


def floor_of(step: Step, machine: KnownMachine) -> Floor | None:
    """Return the floor of a step, or of the one call that it measured, as `timing_of`, if its work is known."""
    counts = step.measured[0] if step.measured and len(step.measured) == 1 else step.meters
    if counts is None or not counts.work or counts.uncounted:
        return None
    if len(step.measured or ()) > 1 or (step.harness and not step.measured):
        return None
    bound: Counter[str] = Counter()
    for operator, dtype, flops, moved in counts.work:
        computing, roof = 0.0, "memory"
        if dtype is not None and flops:
            roof = _peak_name(operator, dtype, machine.flops_per_second)
            if roof not in machine.flops_per_second:
                return Floor(None, roof)
            computing = flops / machine.flops_per_second[roof]
        moving = moved / machine.bytes_per_second
        bound[roof if computing > moving else "memory"] += max(computing, moving)  # type: ignore[assignment]
    return Floor(sum(bound.values()), max(bound, key=bound.__getitem__))


def _peak_name(operator: str, dtype: str, rates: Mapping[str, float]) -> str:
    """Return the name of the peak that an operator can't exceed.

    cuDNN computes float32 recurrent layers in tf32 by default, and fused attention in float32 uses the tf32 units three
    times for each product (CUTLASS, `OpMultiplyAddFastF32`). A machine that is slow at a narrow dtype may widen it.
    """
    if dtype.startswith(("float8", "float4")):
        dtype = dtype[:6]
    if dtype == "float64" and "float64_tensor" in rates:
        return "float64_tensor"
    if dtype == "float32" and any(word in operator for word in ("rnn", "attention")) and "tf32" in rates:
        return "tf32"
    if dtype.startswith("tf32"):
        if "tf32" in rates:
            return "tf32"
        dtype = "bfloat16" if dtype == "tf32_or_bfloat16" and "bfloat16" in rates else "float32"
    if dtype in ("float16", "bfloat16") and dtype in rates and rates.get("float32", 0.0) > rates[dtype]:
        return "float32"
    return dtype


def floor_in_words(floor: Floor, at_least: str = "at least ") -> str:
    """Format a floor that is known: at least 1.2 µs, memory."""
    assert floor.seconds is not None
    ns = 1e9 * floor.seconds
    return f"{at_least}{formats.duration(ns)}, {floor.roof}" if ns >= 1 else f"under 1 ns, {floor.roof}"

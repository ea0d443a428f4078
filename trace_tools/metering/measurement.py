"""Provide `measure` and `count`: the time and the operations of a call, as numbers for calculations in a lecture.

Both call a function and return a frozen record of plain numbers; they drop the function's results. Both work in a plain
`python lecture.py` and in a trace.

    matmul = lambda: x @ w
    count(matmul).flops / measure(matmul).seconds  # FLOP/s
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, NamedTuple, overload

from trace_tools.machines import accelerators
from trace_tools.metering.threads import OtherThreads, in_words
from trace_tools.trace.model import Collective
from trace_tools.util.interpreter import collector_paused


class Lasted(NamedTuple):
    """The total time of some calls, by each clock; the host's includes its wait for the device."""

    host_s: float
    device_s: float | None = None  # None without a device in use


Batch = Callable[[int], Lasted]  # number of calls → their duration

# If the device's clock shows less than this share of the host's time, it does not see the host's own work.
SEEN = 0.5
LONG_S = 2e-3  # from here on, the wait itself (some µs) is negligible
# An idle GPU lowers its clocks. After a pause of IDLE_S, `measure` makes calls for WARM_S before the first sample.
IDLE_S, WARM_S = 0.5, 0.05

NOTHING_COUNTED = "no torch operator ran in it: NumPy and plain Python are not counted"
TOO_LATE = "torch was first imported inside it, so nothing was counted; import torch earlier"


@dataclass(frozen=True, slots=True)
class Measurement:
    """Seconds per call, in several samples; each sample is the average over `calls_per_sample` calls."""

    samples_s: tuple[float, ...]
    calls_per_sample: int
    device: str  # the device of the clock: "cpu", "cuda:0"

    @property
    def seconds(self) -> float:
        """Median of the samples, in seconds per call."""
        return statistics.median(self.samples_s)

    @property
    def low_s(self) -> float | None:
        """First quartile, in seconds per call; None for a single sample."""
        return self._quartile(0)

    @property
    def high_s(self) -> float | None:
        """Third quartile, in seconds per call; None for a single sample."""
        return self._quartile(2)

    @property
    def spread(self) -> float | None:
        """Distance between the quartiles over the median (0.02 is 2%); None for a single sample."""
        low, high = self.low_s, self.high_s
        return None if low is None or high is None else (high - low) / self.seconds

    def _quartile(self, which: int) -> float | None:
        if len(self.samples_s) < 2:
            return None
        return statistics.quantiles(self.samples_s, n=4, method="inclusive")[which]


@dataclass(frozen=True, slots=True)
class Count:
    """The operations of one call.

    FLOPs follow the convention in `flops`. If `uncounted` names operators, FLOPs are a lower bound, or None if no other
    operator has any, and the intensity is None. Bytes are the least that an operator must move (`operators`); None when
    compiled code ran, which fuses operators. All are None when no torch operator ran in this thread: work in NumPy,
    plain Python or another thread is unknown. `why` gives the reason, also if another thread worked at the same time.
    """

    flops: int | None
    bytes_read: int | None
    bytes_written: int | None
    peak_bytes: int | None  # most tensor bytes alive at once; inputs count from their first use
    flops_by_operator: dict[str, int]  # most first
    bytes_by_operator: dict[str, int]  # read and written; most first
    operators: dict[str, int]  # number of calls
    uncounted: tuple[str, ...]  # operators without a FLOP formula
    collectives: tuple[Collective, ...] = ()  # communication between ranks
    why: str | None = None  # why a figure is None, or what all figures lack

    @property
    def bytes_moved(self) -> int | None:
        """Sum of bytes read and written."""
        if self.bytes_read is None or self.bytes_written is None:
            return None
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte moved; None without bytes, or if some operators were not counted."""
        is_known = self.flops is not None and self.bytes_moved and not self.uncounted
        return self.flops / self.bytes_moved if is_known else None  # type: ignore[operator]


def count(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Count:
    """Call `f(*args, **kwargs)` once and count the work of its operators.

    Operators in other threads are not counted, except autograd's own threads; if another thread worked, `why` names it.
    Raises TypeError if `f` is not callable.
    """
    _refuse_uncallable("count", f)
    for witness in _witnesses:
        witness.began("count")
    if "torch" not in sys.modules:
        f(*args, **kwargs)
        why = TOO_LATE if "torch" in sys.modules else NOTHING_COUNTED
        return Count(None, None, None, None, {}, {}, {}, (), why=why)
    from trace_tools.metering.collectives import in_plain
    from trace_tools.metering.meters import Meter

    with OtherThreads() as other_threads, Meter() as meter:
        f(*args, **kwargs)
    worked = other_threads.worked(much=bool(meter.operators))
    other_threads_text = in_words(worked) if worked else None
    why_nothing = (other_threads_text or NOTHING_COUNTED) if not meter.operators else None
    why_no_bytes = why_nothing or ("fused" if meter.fused else None)
    uncounted_text = f"not counted: {', '.join(sorted(meter.uncounted))}" if meter.uncounted else None
    return Count(
        flops=None if why_nothing or (uncounted_text and not meter.flops) else meter.flops,
        bytes_read=None if why_no_bytes else meter.bytes_read,
        bytes_written=None if why_no_bytes else meter.bytes_written,
        peak_bytes=None if why_nothing else meter.take_peak(),
        flops_by_operator=_most_first(meter.flops_by_operator),
        bytes_by_operator={} if why_no_bytes else _most_first(meter.bytes_by_operator),
        operators=_most_first(meter.operators),
        uncounted=tuple(sorted(meter.uncounted)),
        collectives=tuple(Collective(**one) for one in in_plain(meter.collectives)),
        why=why_no_bytes or other_threads_text or uncounted_text,
    )


@overload
def measure(
    f: Callable[[], Any],
    /,
    *,
    warmup: int = ...,
    repeats: int = ...,
    min_seconds: float = ...,
    max_seconds: float = ...,
) -> Measurement: ...


@overload
def measure(
    f: Callable[[], Any],
    g: Callable[[], Any],
    /,
    *more: Callable[[], Any],
    warmup: int = ...,
    repeats: int = ...,
    min_seconds: float = ...,
    max_seconds: float = ...,
) -> list[Measurement]: ...


def measure(
    *functions: Callable[[], Any],
    warmup: int = 2,
    repeats: int = 20,
    min_seconds: float = 0.2,
    max_seconds: float = 2.0,
) -> Measurement | list[Measurement]:
    """Call `f()` many times and return the time of one call; for several functions, return a list.

    `measure` makes at least `warmup` calls, then `repeats` samples that last `min_seconds` together: a short function
    is called many times per sample. After `max_seconds` no further sample begins, so a long function gets fewer
    samples, but at least one. Python's garbage collector is off meanwhile. Caches stay as the calls before left them;
    the loop itself costs about 20 ns per call.

    Several functions are sampled in turn, forwards and then backwards: `measure(f, g)` samples f, g, g, f, f, g …
    Each gets the same number of samples, and the n-th samples of all are taken one after another. So a clock that rises
    or falls meanwhile, or another program, affects both. To compare two functions, measure them in one call.

    Once a GPU is in use, the device's clock counts: a sample begins when the device is idle, and lasts until the
    kernels of its calls are done, on any stream (`accelerators`). A device that was idle for half a second is first
    kept busy with more calls for 50 ms, because an idle GPU lowers its clocks. Kernels shorter than their launch are
    measured at the rate of launches. If the driver's clock shows less than half of the host's time (Windows' drivers
    exclude the host's own work), the host's clock counts; `device` names the clock.

    If `f` communicates with other ranks (torch.distributed), all ranks of its group measure together: each makes as
    many calls as the slowest requires.

    Raises ValueError if `repeats` is less than 1, TypeError if an argument is not callable. Tracers observe these calls
    through a `Witness`.
    """
    if not functions:
        raise TypeError("measure: found no function; expected one or more, as in measure(lambda: f(x))")
    if repeats < 1:
        raise ValueError(f"measure: repeats is {repeats}; expected at least 1")
    for f in functions:
        _refuse_uncallable("measure", f)
    for witness in _witnesses:
        witness.began("measure")
    try:
        if any(witness.single for witness in _witnesses):
            measurements = []
            for f in functions:
                lasted = _batch(f)(1)
                _called_once()
                measurements.append(_measurement([lasted], 1, by_host=not lasted.device_s))
        else:
            measurements = _sampled(functions, warmup, repeats, min_seconds, max_seconds)
        for witness in _witnesses:
            measurements = [witness.measured(measurement) for measurement in measurements]
    finally:
        for witness in _witnesses:
            witness.ended()
    return measurements if len(measurements) > 1 else measurements[0]


def _called_once() -> None:
    for witness in _witnesses:
        witness.called_once()


def _refuse_uncallable(word: str, f: object) -> None:
    """Raise TypeError if `f` is the result of a call instead of a function."""
    if not callable(f):
        hint = f"expected a function that makes the call, as in {word}(lambda: f(x))"
        raise TypeError(f"{word}: found {'an' if type(f).__name__[0] in 'aeiou' else 'a'} {type(f).__name__}; {hint}")


def _sampled(
    functions: Sequence[Callable[[], Any]], warmup: int, repeats: int, min_seconds: float, max_seconds: float
) -> list[Measurement]:
    gpu = accelerators.in_use()
    idle_s = gpu.idle_s() if gpu is not None else math.inf
    started = perf_counter()
    calls = [_first_call(f) for f in functions]
    least_s, most_s = min_seconds / 10, max_seconds / 2
    warmed_s = [_warm_up(f, call, warmup, least_s, most_s) for f, call in zip(functions, calls, strict=True)]
    batches = [_batch(f) for f in functions]  # after these calls, a GPU that the functions use is in use

    def agreed(seconds: float) -> float:
        for call in calls:
            seconds = call.agreed(seconds)
        return seconds

    if accelerators.in_use() is not None and agreed(idle_s) > IDLE_S and agreed(sum(warmed_s)) < WARM_S:
        # Call all functions in turn, more often each time, until the calls have lasted WARM_S.
        busy_since, calls_each, elapsed = perf_counter(), 1, 0.0
        while elapsed < WARM_S:
            for batch in batches:
                batch(calls_each)
            calls_each *= 2
            elapsed = agreed(perf_counter() - busy_since)
        started += elapsed
    with collector_paused():
        plans = [
            _calls_lasting(min_seconds / repeats, max_seconds, batch, call.agreed)
            for batch, call in zip(batches, calls, strict=True)
        ]
        samples = [[lasted] for _, lasted, _ in plans]
        order = range(len(functions))
        while len(samples[0]) < repeats and agreed(perf_counter() - started) < max_seconds * len(functions):
            order = order[::-1]
            for i in order:
                samples[i].append(batches[i](plans[i][0]))
    return [
        _measurement(lasted, count, by_host=by_host or not all(sample.device_s for sample in lasted))
        for lasted, (count, _, by_host) in zip(samples, plans, strict=True)
    ]


class _FirstCall(NamedTuple):
    seconds: float
    agreed: Callable[[float], float]  # maximum over all ranks that the function communicates with


def _first_call(f: Callable[[], Any]) -> _FirstCall:
    started = perf_counter()
    agreed: Callable[[float], float] = float
    distributed: Any = sys.modules.get("torch.distributed")  # without importing torch
    has_ranks = distributed is not None and distributed.is_available() and distributed.is_initialized()
    if has_ranks and distributed.get_world_size() > 1:
        from trace_tools.metering.collectives import agreement

        agreed = agreement(f)
    else:
        _batch(f)(1)
    _called_once()
    return _FirstCall(perf_counter() - started, agreed)


def _warm_up(f: Callable[[], Any], first: _FirstCall, calls: int, least_s: float, most_s: float) -> float:
    """Call `f` at least `calls` times and `least_s` in all, including its first call; return the time of all others.

    Infinity if the first call alone exceeded `most_s`.
    """
    started, call = perf_counter(), 1
    while True:
        later_s = perf_counter() - started
        elapsed = first.agreed(first.seconds + later_s)
        if elapsed > most_s or (call >= calls and elapsed > least_s):
            return math.inf if call == 1 and elapsed > most_s else later_s
        _batch(f)(1)
        call += 1


class Witness:
    """Observer of `measure` and `count` during a trace; this base class leaves them unchanged.

    `single` makes `measure` call its function exactly once, as its only sample: for a process that counts operators.
    That process does not use the measured time.
    """

    single = False

    def began(self, word: Literal["measure", "count"]) -> None:
        """Note that `measure` or `count` was called: until it returns, the running code is repeated or counted."""

    def called_once(self) -> None:
        """Note that `measure` has called one of its functions for the first time."""

    def measured(self, measurement: Measurement) -> Measurement:
        """Return the result of `measure` for one of its functions; called for each of them in order."""
        return measurement

    def ended(self) -> None:
        """Note that `measure` is about to return, or to raise its function's error."""


_witnesses: list[Witness] = []


@contextmanager
def witnessed(witness: Witness) -> Iterator[None]:
    """Notify `witness` of every `measure` and `count` inside the `with` block, in any thread."""
    _witnesses.append(witness)
    try:
        yield
    finally:
        _witnesses.remove(witness)


def _calls_lasting(
    seconds: float, most_s: float, batch: Batch, agreed: Callable[[float], float] = float
) -> tuple[int, Lasted, bool]:
    """Return how many calls last at least `seconds` together (with several ranks, on the slowest), and their time on
    this rank.

    The third value is whether the host's clock counts, because the device's does not see all of the host's time. The
    search ends at the latest when the host has spent `most_s` on it.
    """
    calls, spent_s = 1, 0.0
    while True:
        lasted = batch(calls)
        by_host = not lasted.device_s or (lasted.host_s > LONG_S and lasted.device_s < SEEN * lasted.host_s)
        longest = agreed(_seconds(lasted, by_host=by_host))
        spent_s += agreed(lasted.host_s)
        if longest >= seconds or spent_s >= most_s:
            return calls, lasted, by_host
        calls = math.ceil(calls * min(100.0, max(2.0, 1.2 * seconds / max(longest, 1e-9))))


def _seconds(lasted: Lasted, *, by_host: bool) -> float:
    return lasted.host_s if by_host or lasted.device_s is None else lasted.device_s


def _batch(f: Callable[[], Any]) -> Batch:
    """Return a function that makes a number of calls and returns their time, also on the device in use."""
    gpu = accelerators.in_use()

    def run(calls: int) -> Lasted:
        mark = gpu.start() if gpu is not None else None
        started = perf_counter()
        for _ in itertools.repeat(None, calls):
            f()
        device_s = gpu.stop(mark) if gpu is not None and mark is not None else None
        return Lasted(perf_counter() - started, device_s)

    return run


def _measurement(samples: list[Lasted], calls: int, *, by_host: bool) -> Measurement:
    gpu = accelerators.in_use()
    clock = "cpu" if gpu is None or by_host else f"{gpu.type}:{gpu.index()}"
    return Measurement(tuple(_seconds(sample, by_host=by_host) / calls for sample in samples), calls, clock)


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

"""Provide `measure` and `count`, which return the time and the operations of a call for calculations in a lecture.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Protocol, overload

from trace_tools.machines import accelerators
from trace_tools.trace.model import Collective
from trace_tools.util.interpreter import collector_paused

Call = Callable[[], Any]
Batch = Callable[[int], float]  # number of calls → their seconds

# An idle GPU lowers its clocks. After a pause of IDLE_S, `measure` makes calls for WARM_S before the first sample.
IDLE_S, WARM_S = 0.5, 0.05

witness: Witness | None = None  # observes `measure` and `count` during a trace
NOTHING_COUNTED = "no torch operator ran in it: NumPy, plain Python and other threads are not counted"
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
    def spread(self) -> float | None:
        """Distance between the quartiles over the median (0.02 is 2%), if the samples are several."""
        if len(self.samples_s) < 2:
            return None
        low, _, high = statistics.quantiles(self.samples_s, n=4, method="inclusive")
        return (high - low) / self.seconds


@dataclass(frozen=True, slots=True)
class Count:
    """The operations of one call.

    FLOPs follow the convention in `flops`. If `uncounted` names operators, FLOPs are a lower bound, or None if no other
    operator has any, and the intensity is None. Bytes are the least that an operator must move (`operators`); None when
    compiled code ran, which fuses operators. All are None when no torch operator ran in this thread: work in NumPy,
    plain Python or another thread is unknown. `why` gives the reason.
    """

    flops: int | None
    bytes_read: int | None
    bytes_written: int | None
    peak_bytes: int | None  # most tensor bytes alive at once; inputs count from their first use
    flops_by_operator: dict[str, int]  # most first
    operators: dict[str, int]  # number of calls
    uncounted: tuple[str, ...]  # operators without a FLOP formula
    collectives: tuple[Collective, ...] = ()  # communication between ranks
    why: str | None = None  # why a figure is None or a lower bound

    @property
    def bytes_moved(self) -> int | None:
        """Sum of bytes read and written."""
        if self.bytes_read is None or self.bytes_written is None:
            return None
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte moved, if bytes moved and all operators were counted."""
        is_known = self.flops is not None and self.bytes_moved and not self.uncounted
        return self.flops / self.bytes_moved if is_known else None  # type: ignore[operator]


class Witness(Protocol):
    """An observer of `measure` and `count`; until they return, the running code is repeated or counted."""

    def on_count(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Note that `count` was called; return the function that it calls instead of `f`."""

    def on_measure(self, functions: Sequence[Call], sample: Callable[[], list[Measurement]]) -> list[Measurement]:
        """Return the measurements of the functions, which `sample` makes."""


def count(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Count:
    """Call `f(*args, **kwargs)` once and count the work of its operators.

    Operators in other threads are not counted, except autograd's own threads.
    Raises TypeError if `f` is not callable.
    """
    _refuse_uncallable("count", f)
    if witness is not None:
        f = witness.on_count(f)
    if "torch" not in sys.modules:
        f(*args, **kwargs)
        why = TOO_LATE if "torch" in sys.modules else NOTHING_COUNTED
        return Count(None, None, None, None, {}, {}, (), why=why)
    from trace_tools.metering.meters import Meter

    with Meter() as meter:
        f(*args, **kwargs)
    totals = meter.reading()
    if not totals.operators:
        return Count(None, None, None, None, {}, {}, (), why=NOTHING_COUNTED)
    plain, uncounted = totals.plain(), tuple(sorted(totals.uncounted))
    return Count(
        flops=None if uncounted and not totals.flops else totals.flops,
        bytes_read=plain["bytes_read"],
        bytes_written=plain["bytes_written"],
        peak_bytes=meter.take_peak(),
        flops_by_operator=_most_first(totals.flops_by_operator),
        operators=_most_first(totals.operators),
        uncounted=uncounted,
        collectives=tuple(Collective(**one) for one in plain["collectives"]),
        why=plain["why"] or (f"not counted: {', '.join(uncounted)}" if uncounted else None),
    )


@overload
def measure(
    f: Call, /, *, warmup: int = 2, repeats: int = 20, min_seconds: float = 0.2, max_seconds: float = 2.0
) -> Measurement: ...


@overload
def measure(
    f: Call,
    g: Call,
    /,
    *more: Call,
    warmup: int = 2,
    repeats: int = 20,
    min_seconds: float = 0.2,
    max_seconds: float = 2,
) -> list[Measurement]: ...


def measure(
    *functions: Call, warmup: int = 2, repeats: int = 20, min_seconds: float = 0.2, max_seconds: float = 2.0
) -> Measurement | list[Measurement]:
    """Call `f()` many times and return the time of one call; for several functions, return a list.

    `measure` makes at least `warmup` calls, then `repeats` samples that last `min_seconds` together: a short function
    is called many times per sample. After `max_seconds` no further sample begins, so a long function gets fewer
    samples, but at least one. Python's garbage collector is off meanwhile. Caches stay as the calls before left them;
    the loop itself costs about 20 ns per call.

    Several functions are sampled in turn, forwards and then backwards: `measure(f, g)` samples f, g, g, f, f, g …
    Each gets the same number of samples, and the n-th samples of all are taken one after another. So a clock that rises
    or falls meanwhile, or another program, affects both. To compare two functions, measure them in one call.

    Once a GPU is in use, the device's clock counts. Each sample begins when the device is idle, and lasts until the
    kernels of its calls are done, on any stream (`accelerators`). A device that was idle for half a second is first
    kept busy with more calls for 50 ms, because an idle GPU lowers its clocks. Kernels shorter than their launch are
    measured at the rate of launches.

    If `f` communicates with other ranks (torch.distributed), all ranks of its group measure together: each makes as
    many calls as the slowest requires.

    Raises ValueError if `repeats` is less than 1, TypeError if an argument is not callable.
    """
    if not functions:
        raise TypeError("measure: found no function; expected one or more, as in measure(lambda: f(x))")
    if repeats < 1:
        raise ValueError(f"measure: repeats is {repeats}; expected at least 1")
    for f in functions:
        _refuse_uncallable("measure", f)
    sample = partial(_sampled, functions, warmup, repeats, min_seconds, max_seconds)
    measurements = sample() if witness is None else witness.on_measure(functions, sample)
    return measurements if len(measurements) > 1 else measurements[0]


def _refuse_uncallable(word: str, f: object) -> None:
    """Raise TypeError if `f` is the result of a call instead of a function."""
    if not callable(f):
        hint = f"expected a function that makes the call, as in {word}(lambda: f(x))"
        raise TypeError(f"{word}: found {'an' if type(f).__name__[0] in 'aeiou' else 'a'} {type(f).__name__}; {hint}")


def called_once(f: Call) -> Measurement:
    """Call `f()` once; return its time as the only sample."""
    return Measurement((_batch(f)(1),), 1, _clock())


def _sampled(
    functions: Sequence[Call], warmup: int, repeats: int, min_seconds: float, max_seconds: float
) -> list[Measurement]:
    gpu = accelerators.in_use()
    idle_s = gpu.idle_s() if gpu is not None else math.inf
    started = perf_counter()
    agreed = _first_calls(functions)
    first_s = agreed(perf_counter() - started)
    batches = [_batch(f) for f in functions]  # after these calls, a GPU that the functions use is in use
    was_idle = accelerators.in_use() is not None and agreed(idle_s) > IDLE_S
    least_s, most_s = min_seconds / 10 * len(functions), max_seconds / 2 * len(functions)
    warming_since, calls, warmed_s = perf_counter(), 1, 0.0
    while first_s + warmed_s < most_s and (
        calls < warmup or first_s + warmed_s < least_s or (was_idle and warmed_s < WARM_S)
    ):
        for batch in batches:
            batch(calls)  # more each time, so that a GPU does not wait between them
        calls *= 2
        warmed_s = agreed(perf_counter() - warming_since)
    with collector_paused():
        plans = [_calls_lasting(min_seconds / repeats, max_seconds, batch, agreed) for batch in batches]
        samples = [[seconds] for _, seconds in plans]
        order = range(len(functions))
        while len(samples[0]) < repeats and agreed(perf_counter() - started) < max_seconds * len(functions):
            order = order[::-1]
            for i in order:
                samples[i].append(batches[i](plans[i][0]))
    return [
        Measurement(tuple(seconds / calls for seconds in taken), calls, _clock())
        for taken, (calls, _) in zip(samples, plans, strict=True)
    ]


def _first_calls(functions: Sequence[Call]) -> Callable[[float], float]:
    """Call each function once; return a function for the maximum of a number over the ranks that they communicate with.

    With several ranks, all must decide alike, or a rank waits for a call that another does not make.
    """
    distributed: Any = sys.modules.get("torch.distributed")  # without importing torch
    has_ranks = distributed is not None and distributed.is_available() and distributed.is_initialized()
    if has_ranks and distributed.get_world_size() > 1:
        from trace_tools.metering.collectives import agreement

        return agreement(functions)
    for f in functions:
        _batch(f)(1)
    return float


def _batch(f: Call) -> Batch:
    """Return a function that makes a number of calls and returns their seconds, by the clock of the device in use."""
    gpu = accelerators.in_use()

    def run(calls: int) -> float:
        mark = gpu.start() if gpu is not None else None
        started = perf_counter()
        for _ in itertools.repeat(None, calls):
            f()
        return gpu.stop(mark) if gpu is not None and mark is not None else perf_counter() - started

    return run


def _calls_lasting(seconds: float, most_s: float, batch: Batch, agreed: Callable[[float], float]) -> tuple[int, float]:
    """Return how many calls last at least `seconds` together (on the slowest rank), and their time on this rank.

    The search ends at the latest after `most_s` by the host's clock: by a device's clock, a function without a launch
    takes no time, and was once called more than 10**10 times.
    """
    calls, spent_s = 1, 0.0
    while True:
        began = perf_counter()
        lasted = batch(calls)
        longest = agreed(perf_counter() - began)
        spent_s += longest
        if longest >= seconds or spent_s >= most_s:
            return calls, lasted
        calls = math.ceil(calls * min(100.0, max(2.0, 1.2 * seconds / max(longest, 1e-9))))


def _clock() -> str:
    gpu = accelerators.in_use()
    return "cpu" if gpu is None else f"{gpu.type}:{gpu.index()}"


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

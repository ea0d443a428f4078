"""`measure` and `count`: how long a call takes, and what it does, as numbers a lecture can reason with.

A function goes in, its calls happen, a frozen record of plain numbers comes out; the function's results
are dropped. Both work in a plain `python lecture.py` as in a trace.

    matmul = lambda: x @ w
    count(matmul).flops / measure(matmul).seconds  # FLOP/s
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

from trace_tools import accelerators
from trace_tools.garbage import collector_paused
from trace_tools.schema import Collective

Batch = Callable[[int], float]  # how many calls → the seconds they took together

NOTHING_COUNTED = "no torch operator ran in it: NumPy and plain Python are not counted"
TOO_LATE = "torch was first imported in it: nothing was counted; import it before"


@dataclass(frozen=True, slots=True)
class Measurement:
    """Seconds per call, in several samples; each sample is the average over `calls_per_sample` calls."""

    samples_s: tuple[float, ...]
    calls_per_sample: int
    device: str  # whose clock it was: "cpu", "cuda:0"

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
    """What the operators of one call did.

    FLOPs follow the convention in `flops`, and are a lower bound when `uncounted` names operators.
    Bytes are the least an operator must move (`operators`); None when compiled code ran, which fuses operators.
    All are None when no operator of torch ran: what NumPy or plain Python did is not known. `why` says so.
    """

    flops: int | None
    bytes_read: int | None
    bytes_written: int | None
    peak_bytes: int | None  # most tensor bytes alive at once, those of the inputs from when they are first used
    flops_by_operator: dict[str, int]  # most first
    bytes_by_operator: dict[str, int]  # read and written; most first
    operators: dict[str, int]  # how often each ran
    uncounted: tuple[str, ...]  # operators without a FLOP formula
    collectives: tuple[Collective, ...] = ()  # what went between ranks
    why: str | None = None  # why a figure is None

    @property
    def bytes_moved(self) -> int | None:
        """Bytes read and written together."""
        if self.bytes_read is None or self.bytes_written is None:
            return None
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte moved; None where no byte was, or nothing was counted."""
        return self.flops / self.bytes_moved if self.flops is not None and self.bytes_moved else None


def count(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Count:
    """Call `f(*args, **kwargs)` once and count what its operators do.

    Operators in other threads than this one are not seen, but for autograd's own. Raises TypeError for what can't be
    called.
    """
    _refuse_uncallable("count", f)
    for witness in _witnesses:
        witness.began("count")
    if "torch" not in sys.modules:
        f(*args, **kwargs)
        why = TOO_LATE if "torch" in sys.modules else NOTHING_COUNTED
        return Count(None, None, None, None, {}, {}, {}, (), why=why)
    from trace_tools.metering.collectives import as_collectives
    from trace_tools.metering.meters import Meter

    with Meter() as meter:
        f(*args, **kwargs)
    unseen = NOTHING_COUNTED if not meter.operators else None
    hidden = unseen or ("fused" if meter.fused else None)
    return Count(
        flops=None if unseen else meter.flops,
        bytes_read=None if hidden else meter.bytes_read,
        bytes_written=None if hidden else meter.bytes_written,
        peak_bytes=None if unseen else meter.take_peak(),
        flops_by_operator=_most_first(meter.flops_by_operator),
        bytes_by_operator={} if hidden else _most_first(meter.bytes_by_operator),
        operators=_most_first(meter.operators),
        uncounted=tuple(sorted(meter.uncounted)),
        collectives=as_collectives(meter.collectives),
        why=hidden,
    )


def measure(
    f: Callable[[], Any], *, warmup: int = 2, repeats: int = 20, min_seconds: float = 0.2, max_seconds: float = 2.0
) -> Measurement:
    """Call `f()` many times and return how long one call takes.

    First at least `warmup` calls, then `repeats` samples that last `min_seconds` together: a short function is
    called many times a sample. After `max_seconds` no other call begins but for the first sample's, so a long
    function makes fewer samples. Python's garbage collector is off meanwhile. Caches stay as the calls before
    left them; the loop itself costs about 20 ns a call.

    Once a GPU is in use, the clock is the device's: a sample begins when it has nothing left to do, and lasts until
    the kernels of its calls are done, on any stream (`accelerators`). Kernels shorter than their launch are
    measured at the rate they can be launched.

    Where `f` speaks to other ranks (torch.distributed), all of its group measure together: each makes as many calls as
    the slowest asks for.

    Raises ValueError when `repeats` is less than 1, TypeError for what can't be called. What a tracer does about it is
    its `Witness`'s.
    """
    if repeats < 1:
        raise ValueError(f"measure: repeats is {repeats}; expected at least 1")
    _refuse_uncallable("measure", f)
    for witness in _witnesses:
        witness.began("measure")
    if any(witness.single for witness in _witnesses):
        measurement = Measurement((_batch(f)(1),), 1, _device())
    else:
        measurement = _sampled(f, warmup, repeats, min_seconds, max_seconds)
    for witness in _witnesses:
        measurement = witness.measured(measurement)
    return measurement


def _refuse_uncallable(word: str, f: object) -> None:
    """Raise TypeError where the result of a call was handed over, and not the call."""
    if not callable(f):
        hint = f"expected a function that makes the call, as in {word}(lambda: f(x))"
        raise TypeError(f"{word}: found {'an' if type(f).__name__[0] in 'aeiou' else 'a'} {type(f).__name__}; {hint}")


def _sampled(f: Callable[[], Any], warmup: int, repeats: int, min_seconds: float, max_seconds: float) -> Measurement:
    started = perf_counter()
    agreed: Callable[[float], float] = float
    for call in itertools.count(1):
        if call == 1 and _several():
            from trace_tools.metering.collectives import agreement

            agreed = agreement(f)
        else:
            _batch(f)(1)
        elapsed = agreed(perf_counter() - started)
        if elapsed > max_seconds / 2 or (call >= warmup and elapsed > min_seconds / 10):
            break
    batch = _batch(f)  # by now f has put a GPU to use if it ever will
    with collector_paused():
        calls, seconds = _calls_lasting(min_seconds / repeats, batch, agreed)
        samples = [seconds / calls]
        while len(samples) < repeats and agreed(perf_counter() - started) < max_seconds:
            samples.append(batch(calls) / calls)
    return Measurement(tuple(samples), calls, _device())


class Witness:
    """Is told of `measure` and `count` while a trace is made; this one lets them be.

    `single` makes `measure` call its function exactly once, as its only sample: for a process that counts
    operators. There a call is a call, and its time means nothing.
    """

    single = False

    def began(self, word: Literal["measure", "count"]) -> None:
        """One of them has been called: until it returns, what runs is many calls, or a counted one."""

    def measured(self, measurement: Measurement) -> Measurement:
        """Return what `measure` is to return."""
        return measurement


_witnesses: list[Witness] = []


@contextmanager
def witnessed(witness: Witness) -> Iterator[None]:
    """Tell `witness` of every `measure` and `count` inside the `with` block, in any thread."""
    _witnesses.append(witness)
    try:
        yield
    finally:
        _witnesses.remove(witness)


def _calls_lasting(seconds: float, batch: Batch, agreed: Callable[[float], float] = float) -> tuple[int, float]:
    """Return how many calls last at least `seconds` together, of several ranks on the slowest, and how long here."""
    calls = 1
    while (longest := agreed(took := batch(calls))) < seconds:
        calls = math.ceil(calls * min(100.0, max(2.0, 1.2 * seconds / max(longest, 1e-9))))
    return calls, took


def _several() -> bool:
    """Whether this process is one of several ranks at the moment; torch is not loaded to find out."""
    distributed = sys.modules.get("torch.distributed")
    there = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return there and distributed.get_world_size() > 1  # type: ignore[union-attr]


def _batch(f: Callable[[], Any]) -> Batch:
    """Return what calls `f` a number of times and says how many seconds that took on the device in use."""
    gpu = accelerators.in_use()

    def on_host(calls: int) -> float:
        started = perf_counter()
        for _ in itertools.repeat(None, calls):
            f()
        return perf_counter() - started

    def on_device(calls: int) -> float:
        assert gpu is not None
        mark = gpu.start()
        for _ in itertools.repeat(None, calls):
            f()
        return gpu.stop(mark)

    return on_host if gpu is None else on_device


def _device() -> str:
    gpu = accelerators.in_use()
    return "cpu" if gpu is None else f"{gpu.type}:{gpu.index()}"


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

"""A run in which clocks are wrong on purpose: what moves in it follows from a clock.

Inside the `with` block every reading of a clock, every `measure` and every measured peak says something else than
it would, by a factor; everything else is as it was. A value that was the same in all timed runs and is another
here follows from time, however it was come by, and so does a branch that is taken only here. No analysis of the
source finds both without also suspecting what is stable.

    with shaken_clocks(seed=0, inverted=False): main()
    with shaken_clocks(seed=0, inverted=True): main()     # what was made longer is made shorter

Each reading has a factor of its own, since most of what a lecture says of times are ratios of two, and one factor
for all would leave these as they are. The factors are a cycle of levels in a drawn order, so that readings near
one another never have the same. Two runs with inverted factors move each ratio up once and down once, whatever
side of a threshold it was on.

`shaken_devices` is the like for what was drawn on a device: its generators have other seeds.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from trace_tools import accelerators
from trace_tools.machines.machine import STORED, from_json, to_json
from trace_tools.metering.measurement import Measurement, Witness, witnessed
from trace_tools.tracing.replaced import replaced

LEVELS = (1.45, 2.0, 2.9, 4.2)  # a quiet machine varies by less than the smallest, a noisy one says so itself
CLOCKS = ("perf_counter", "monotonic", "process_time", "thread_time", "time")
OTHER_SEED = 1_000_003  # added to each seed of a device's generator

Factor = Callable[[], float]


@contextlib.contextmanager
def shaken_clocks(seed: int, *, inverted: bool, folder: Path) -> Iterator[None]:
    """Make clocks, `measure` and measured peaks wrong inside the `with` block; `folder` is for the wrong peaks."""
    factor = _factors(seed, inverted=inverted)
    with contextlib.ExitStack() as stack:
        for name in CLOCKS:
            for clock in (name, f"{name}_ns"):
                stack.enter_context(replaced(time, clock, _clock(getattr(time, clock), factor)))
        stack.enter_context(replaced(timeit, "default_timer", time.perf_counter))
        stack.enter_context(replaced(timeit.Timer, "timeit", _scaled(timeit.Timer.timeit, factor)))
        for event in _event_types():
            stack.enter_context(replaced(event, "elapsed_time", _scaled(event.elapsed_time, factor)))
        stack.enter_context(witnessed(_Measurements(factor)))
        stack.enter_context(_shaken_peaks(factor, folder / f"machine-shaken-{'down' if inverted else 'up'}.json"))
        yield


def _other(seed: int) -> int:
    return (seed + OTHER_SEED) % 2**64


@contextlib.contextmanager
def shaken_devices() -> Iterator[None]:
    """Give the devices' generators other seeds than the lecture asks for, inside the `with` block."""
    import torch

    class Generator(torch.Generator):
        def manual_seed(self, seed: int) -> Any:
            return super().manual_seed(seed if self.device.type == "cpu" else _other(seed))

    modules = [backend().module for backend in accelerators.BACKENDS.values()]
    names = ("manual_seed", "manual_seed_all")
    seeding = [(module, name) for module in modules for name in names if hasattr(module, name)]
    with contextlib.ExitStack() as stack:
        for module, name in seeding:  # torch.manual_seed comes by here, too
            plain = getattr(module, name)
            stack.enter_context(replaced(module, name, lambda seed, plain=plain: plain(_other(int(seed)))))
        stack.enter_context(replaced(torch, "Generator", Generator))
        yield


def _factors(seed: int, *, inverted: bool) -> Factor:
    """Return what gives the next reading's factor: above 1 and below it in turn, no two alike in eight readings."""
    drawn = random.Random(f"shaken {seed}")
    above, below = ([*LEVELS], [1 / level for level in LEVELS])
    drawn.shuffle(above)
    drawn.shuffle(below)
    levels = [level for pair in zip(above, below, strict=True) for level in pair]
    place = drawn.randrange(len(levels))

    def factor() -> float:
        nonlocal place
        place = (place + 1) % len(levels)
        return 1 / levels[place] if inverted else levels[place]

    return factor


def _clock(real: Callable[[], float], factor: Factor) -> Callable[[], float]:
    """Return a clock that runs too fast or too slow from each reading to the next, and never back."""
    last, shown = real(), real()

    def read() -> float:
        nonlocal last, shown
        now = real()
        shown, last = shown + type(now)((now - last) * factor()), now
        return shown

    return read


def _scaled(timed: Callable[..., float], factor: Factor) -> Callable[..., float]:
    return lambda *args, **kwargs: timed(*args, **kwargs) * factor()


class _Measurements(Witness):
    single = True  # how long it really took is of no interest here

    def __init__(self, factor: Factor) -> None:
        self.factor = factor

    def measured(self, measurement: Measurement) -> Measurement:
        factor = self.factor()
        return replace(measurement, samples_s=tuple(sample * factor for sample in measurement.samples_s))


@contextlib.contextmanager
def _shaken_peaks(factor: Factor, path: Path) -> Iterator[None]:
    """Let the lecture read other peaks where they were measured; a datasheet's are facts."""
    stored = os.environ.get(STORED)
    if stored is None:
        yield
        return
    machine = from_json(Path(stored).read_text(encoding="utf-8"))
    peaks = [
        replace(peak, per_second=peak.per_second * factor()) if peak.measured and peak.per_second else peak
        for peak in machine.peaks
    ]
    path.write_text(to_json(replace(machine, peaks=peaks)), encoding="utf-8")
    os.environ[STORED] = str(path)
    try:
        yield
    finally:
        os.environ[STORED] = stored


def _event_types() -> list[Any]:
    found = accelerators.accelerator(accelerators.best()) if "torch" in sys.modules else None
    return [found.module.Event] if found is not None else []

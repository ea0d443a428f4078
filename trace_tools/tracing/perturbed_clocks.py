"""Run with perturbed clocks, to find the values and branches that depend on time.

Inside the `with` block, every clock reading, every `measure` and every measured peak is changed by a factor; everything
else stays the same. A value that was equal in all timed runs and differs here depends on time, however it was computed;
so does a branch that is taken only here. Analysis of the source can't find both without also suspecting stable values.

    with perturb_clocks(seed=0, inverted=False): main()
    with perturb_clocks(seed=0, inverted=True): main()     # the inverse factors

Each reading has its own factor, because a lecture mostly reports ratios of two times, and a common factor would not
change them. The factors cycle through levels in random order, so that nearby readings never have the same factor. Two
runs with inverse factors move each ratio up once and down once, on whichever side of a threshold it was.

`perturb_seeds` does the same for random numbers drawn on a device, by changing the seeds of its generators.
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

from trace_tools.machines import accelerators
from trace_tools.machines.machine import STORED, from_json, to_json
from trace_tools.metering.measurement import Measurement, Witness, witnessed
from trace_tools.util.interpreter import replaced

# on a quiet machine, times vary by less than the smallest; on a noisy one the trace states so
LEVELS = (1.45, 2.0, 2.9, 4.2)
CLOCKS = ("perf_counter", "monotonic", "process_time", "thread_time", "time")
OTHER_SEED = 1_000_003  # added to each seed of a device's generator

Factor = Callable[[], float]


@contextlib.contextmanager
def perturb_clocks(seed: int, *, inverted: bool, folder: Path) -> Iterator[None]:
    """Perturb clocks, `measure` and measured peaks inside the `with` block; write the changed peaks to `folder`."""
    factor = _factors(seed, inverted=inverted)
    with contextlib.ExitStack() as stack:
        for name in CLOCKS:
            for clock in (name, f"{name}_ns"):
                stack.enter_context(replaced(time, clock, _clock(getattr(time, clock), factor)))
        stack.enter_context(replaced(timeit, "default_timer", time.perf_counter))
        stack.enter_context(replaced(timeit.Timer, "timeit", _scaled(timeit.Timer.timeit, factor)))
        gpu = accelerators.accelerator(accelerators.best()) if "torch" in sys.modules else None
        if gpu is not None:
            event = gpu.module.Event
            stack.enter_context(replaced(event, "elapsed_time", _scaled(event.elapsed_time, factor)))
        stack.enter_context(witnessed(_Measurements(factor)))
        stack.enter_context(_perturbed_peaks(factor, folder / f"machine-shaken-{'down' if inverted else 'up'}.json"))
        yield


def _other(seed: int) -> int:
    return (seed + OTHER_SEED) % 2**64


@contextlib.contextmanager
def perturb_seeds() -> Iterator[None]:
    """Give the devices' generators seeds other than the requested ones, inside the `with` block."""
    import torch

    class Generator(torch.Generator):
        def manual_seed(self, seed: int) -> Any:
            return super().manual_seed(seed if self.device.type == "cpu" else _other(seed))

    modules = [backend().module for backend in accelerators.BACKENDS.values()]
    names = ("manual_seed", "manual_seed_all")
    seeding = [(module, name) for module in modules for name in names if hasattr(module, name)]
    with contextlib.ExitStack() as stack:
        for module, name in seeding:  # torch.manual_seed calls these as well
            plain = getattr(module, name)
            stack.enter_context(replaced(module, name, lambda seed, plain=plain: plain(_other(int(seed)))))
        stack.enter_context(replaced(torch, "Generator", Generator))
        yield


def _factors(seed: int, *, inverted: bool) -> Factor:
    """Return a function that returns factors alternately above and below 1, all different in eight readings."""
    generator = random.Random(f"shaken {seed}")
    larger, smaller = ([*LEVELS], [1 / level for level in LEVELS])
    generator.shuffle(larger)
    generator.shuffle(smaller)
    levels = [level for pair in zip(larger, smaller, strict=True) for level in pair]
    index = generator.randrange(len(levels))

    def factor() -> float:
        nonlocal index
        index = (index + 1) % len(levels)
        return 1 / levels[index] if inverted else levels[index]

    return factor


def _clock(real: Callable[[], float], factor: Factor) -> Callable[[], float]:
    """Return a clock that runs too fast or too slow between readings, and never runs backwards."""
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
    single = True  # one call is enough, because its real time is not used

    def __init__(self, factor: Factor) -> None:
        self.factor = factor

    def measured(self, measurement: Measurement) -> Measurement:
        factor = self.factor()
        return replace(measurement, samples_s=tuple(sample * factor for sample in measurement.samples_s))


@contextlib.contextmanager
def _perturbed_peaks(factor: Factor, path: Path) -> Iterator[None]:
    """Show the lecture changed peaks if they were measured; peaks from a datasheet stay."""
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

"""Real traces → traces of machines that do not exist, to see how the tools grow. No measurement: never published.

    python -m tests.checks.pretend_machines OUT 10       OUT/pretend-00/trace.yaml, … of the traces in rendered/

Each machine has a speed of its own, each of its statements a factor and each sample some noise; its peaks follow its
speed. What the lecture computed, counted and claimed stays as it was. The same number gives the same trace. Every
name begins with "Pretend", and every trace says of itself that it is emulated, which `site` refuses to publish.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from trace_tools.file_format.trace_file import load, write
from trace_tools.schema import Frame, Measured, Omitted, Step, Trace, Value

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("A100", "B200", "EPYC", "Grace", "H100", "H200", "L40S", "M3", "MI300X", "Xeon")
SCALED = {"s": -1.0, "FLOP/s": 1.0, "B/s": 1.0}  # values that the lecture measured, and how they follow speed
NOISE = 0.04  # of the log of a sample
SPREAD = 0.3  # of the log of a statement's own factor


def pretend(trace: Trace, number: int, *, slower: float = 1.0, started: str = "", commit: str = "") -> Trace:
    """Return the trace as the `number`-th machine's; `slower` times slower than that machine is."""
    kind = KINDS[number % len(KINDS)]
    own = random.Random(number)
    speed = 10 ** own.uniform(-0.5, 1.5)
    noise = random.Random(f"{number} {started}")
    factors: dict[int, float] = {}

    def factor(statement: int) -> float:
        if statement not in factors:
            factors[statement] = slower / speed * 2.718281828 ** random.Random(f"{number} {statement}").gauss(0, SPREAD)
        return factors[statement]

    def scaled(samples: Sequence[int] | None, by: float) -> list[int] | None:
        if samples is None:
            return None
        return [max(1, round(ns * by * 2.718281828 ** noise.gauss(0, NOISE))) for ns in samples]

    def of(event: Frame | Step | Omitted) -> Frame | Step | Omitted:
        if not isinstance(event, Step):
            return event
        by = factor(event.statement)
        return replace(
            event,
            host_ns=scaled(event.host_ns, by),
            cold_ns=scaled(event.cold_ns, by),
            device_ns=scaled(event.device_ns, by),
            measured=event.measured and [_measured(one, by) for one in event.measured],
            values=event.values and [(name, _value(value, by)) for name, value in event.values],
        )

    machine = replace(
        trace.machine,
        name=f"Pretend {kind} {number:02}",
        slug=f"pretend-{kind.lower()}-{number:02}",
        emulated=True,
        peaks=[
            replace(peak, per_second=peak.per_second and peak.per_second * speed, source="pretended", measured=True)
            for peak in trace.machine.peaks
        ],
    )
    processes = [
        replace(
            one,
            cold_ns=one.cold_ns and round(one.cold_ns / speed * slower),
            warm_ns=one.warm_ns and round(one.warm_ns / speed * slower),
        )
        for one in trace.run.processes
    ]
    run = replace(
        trace.run, processes=processes, started=started or trace.run.started, commit=commit or trace.run.commit
    )
    return replace(trace, machine=machine, run=run, steps=[of(event) for event in trace.steps])


def _measured(one: Measured, by: float) -> Measured:
    return replace(one, seconds=[seconds * by for seconds in one.seconds])


def _value(value: Value, by: float) -> Value:
    if value.unit not in SCALED or type(value.value) is not float or not (value.varies or value.clock):
        return value
    ratio = by ** -SCALED[value.unit]
    samples = [
        [s * ratio if isinstance(s, float) else s for s in some] if some else some
        for some in (value.samples, value.cold_samples)
    ]
    return replace(value, value=value.value * ratio, samples=samples[0], cold_samples=samples[1])


def pretended(count: int) -> Iterator[Trace]:
    """Yield `count` machines, made of the committed traces in turn."""
    real = [load(path).trace for path in sorted((ROOT / "rendered").glob("*/trace.yaml"))]
    for number in range(count):
        yield pretend(real[number % len(real)], number)


def write_machines(out: Path, count: int) -> None:
    """Write each machine's trace into a folder of its own."""
    for trace in pretended(count):
        folder = out / trace.machine.slug
        folder.mkdir(parents=True, exist_ok=True)
        write(trace, folder / "trace.yaml")


if __name__ == "__main__":
    write_machines(Path(sys.argv[1]), int(sys.argv[2]))

"""A trace of a GPU that does not exist, made from a CPU trace, only for tests of comparisons.

Every time in it is made up; the machine's name, its driver and the source of each peak state this. The CPU trace is
changed as follows, so that comparisons behave as with a GPU:

- annotated steps get device times: a launch of 6 µs, plus the time of their counted bytes and FLOPs at half of the
  made-up peaks, with 2% noise from a fixed seed; their host times are 4 µs longer
- the host time of all other steps is a third of the CPU's, as launch time
- tensors are on "cuda:0"
- allocated bytes after a step are rounded up to 512 bytes; tensor bytes stay as counted
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from trace_tools.trace.model import Event, Machine, Meters, Peak, Step, Trace, Value

MADE_UP = "made up for tests; there is no such machine"
FLOPS_PER_SECOND = 400e12
BYTES_PER_SECOND = 4e12
LAUNCH_NS = 6_000
BLOCK = 512  # bytes


def pretend_gpu(trace: Trace, seed: int = 0) -> Trace:
    """Return `trace` as if a GPU had run it; the same trace and seed give the same result."""
    draw = random.Random(seed)
    run = replace(trace.run, processes=[replace(p, notes=[MADE_UP]) for p in trace.run.processes])
    versions = [(name, text.split("+")[0] + "+cu130" if name == "torch" else text) for name, text in trace.versions]
    steps = [_step(event, draw) for event in trace.steps]
    return replace(trace, run=run, machine=machine(trace.machine), versions=versions, steps=steps)


def machine(cpu: Machine) -> Machine:
    """Return the machine that does not exist."""
    peaks = [
        Peak("float32", 60e12, MADE_UP),
        Peak("tf32", 200e12, MADE_UP),
        Peak("bfloat16", FLOPS_PER_SECOND, MADE_UP),
        Peak("float16", FLOPS_PER_SECOND, MADE_UP),
        Peak("float64", None, MADE_UP),
        Peak("memory", BYTES_PER_SECOND, MADE_UP),
    ]
    return replace(
        cpu,
        name="Pretend GPU (made up for tests)",
        slug="pretend-gpu",
        device="cuda",
        memory_bytes=64 * 2**30,
        multiprocessors=100,
        driver=MADE_UP,
        cuda="13.0",
        peaks=peaks,
    )


def _step(event: Event, draw: random.Random) -> Event:
    if not isinstance(event, Step):
        return event
    changes: dict[str, Any] = {}
    if event.annotated:
        device = [_device_ns(event, draw) for _ in event.host_ns or ()]
        changes = {"device_ns": device or None, "host_ns": [ns + 4_000 for ns in device] or None}
    elif event.host_ns:
        changes["host_ns"] = [max(ns // 3, 1) for ns in event.host_ns]
    if event.values:
        changes["values"] = [(name, _value(value)) for name, value in event.values]
    if event.meters is not None:
        live = event.meters.live_bytes
        changes["allocated_bytes"] = None if live is None else -(-live // BLOCK) * BLOCK
    return replace(event, **changes)


def _device_ns(step: Step, draw: random.Random) -> int:
    """Return the launch time plus the longer of compute and memory time at half of the peaks, with 2% noise (ns)."""
    meters = step.meters or Meters()
    moved = (meters.bytes_read or 0) + (meters.bytes_written or 0)
    flops = meters.flops or 0 if moved else 0  # tensors without memory compute nothing
    busy_s = max(flops / (FLOPS_PER_SECOND / 2), moved / (BYTES_PER_SECOND / 2))
    return round((LAUNCH_NS + 1e9 * busy_s) * draw.gauss(1, 0.02))


def _value(value: Value) -> Value:
    """Return a value whose tensors are on the GPU."""
    tensor = (
        None if value.tensor is None else replace(value.tensor, device=value.tensor.device.replace("cpu", "cuda:0"))
    )
    items = None if value.items is None else [_value(item) for item in value.items]
    return replace(value, tensor=tensor, items=items)

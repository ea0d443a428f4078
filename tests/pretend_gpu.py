"""A trace of a GPU that does not exist, made from a CPU trace, only for tests of comparisons.

Every time in it is made up: annotated steps get device times, a launch of 6 µs and the time of their counted bytes and
FLOPs at half of the peaks; the host only launches the other steps, in a third of the CPU's time. Tensors are on
"cuda:0", and allocated bytes are rounded up as CUDA's allocator does.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from trace_tools.trace.model import Event, Meters, Peak, Step, Trace, Value

MADE_UP = "made up for tests; there is no such machine"
RATES = {"float32": 60e12, "tf32": 200e12, "bfloat16": 400e12, "float16": 400e12, "float64": None, "memory": 4e12}
BLOCK = 512  # bytes


def pretend_gpu(trace: Trace) -> Trace:
    """Return `trace` as if a GPU had run it; the same trace gives the same result."""
    draw = random.Random(0)
    machine = replace(
        trace.machine,
        name="Pretend GPU (made up for tests)",
        slug="pretend-gpu",
        device="cuda",
        multiprocessors=100,
        driver=MADE_UP,
        peaks=[Peak(dtype, rate, MADE_UP) for dtype, rate in RATES.items()],
    )
    return replace(trace, machine=machine, steps=[_step(event, draw) for event in trace.steps])


def _step(event: Event, draw: random.Random) -> Event:
    if not isinstance(event, Step):
        return event
    meters, changes = event.meters or Meters(), dict[str, Any]()
    if event.annotated and event.host_ns:
        moved = (meters.bytes_read or 0) + (meters.bytes_written or 0)
        flops = meters.flops or 0 if moved else 0  # tensors without memory compute nothing
        busy_ns = 6_000 + 1e9 * max(flops / 200e12, moved / 2e12)
        device_ns = [round(busy_ns * draw.gauss(1, 0.02)) for _ in event.host_ns]
        changes = {"device_ns": device_ns, "host_ns": [ns + 4_000 for ns in device_ns]}
    elif event.host_ns:
        changes["host_ns"] = [max(ns // 3, 1) for ns in event.host_ns]
    if event.values:
        changes["values"] = [(name, _value(value)) for name, value in event.values]
    if meters.live_bytes is not None:
        changes["allocated_bytes"] = -(-meters.live_bytes // BLOCK) * BLOCK
    return replace(event, **changes)


def _value(value: Value) -> Value:
    tensor = value.tensor and replace(value.tensor, device=value.tensor.device.replace("cpu", "cuda:0"))
    return replace(value, tensor=tensor)

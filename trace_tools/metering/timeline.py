"""Functions called one after another → the tensor bytes alive after each operator of each.

For a figure of memory over time: what `count(f).peak_bytes` says of a whole call, operator by operator.

    forward, backward = bytes_alive([x, *model.parameters()], lambda: losses.append(model(x)), run_backward)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from trace_tools.metering.meters import Meter
from trace_tools.metering.operators import EagerMode


def bytes_alive(held: Iterable[torch.Tensor], *phases: Callable[[], object]) -> list[list[int]]:
    """Call each phase once, in order, and return for each the bytes alive after each of its operators.

    The tensors in `held` count from the start, others from when an operator makes or is first handed them.
    What an operator frees shows after the next one. Each list begins with what was alive before its phase.
    """
    with Meter() as meter:
        for tensor in held:
            tensor.detach()  # an operator that shows the meter its memory
        return [_phase(meter, phase) for phase in phases]


def _phase(meter: Meter, phase: Callable[[], object]) -> list[int]:
    with _Readings(meter) as readings:
        phase()
    return [*readings.live_bytes, meter.live_bytes]


class _Readings(EagerMode):
    """Reads a meter after each operator; entered after the meter, so it runs around it."""

    def __init__(self, meter: Meter) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._meter = meter
        self.live_bytes = [meter.live_bytes]

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.live_bytes.append(self._meter.live_bytes)
        return out

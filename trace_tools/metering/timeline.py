"""Record the live tensor bytes after each operator of several functions, for a figure of memory over time.

forward, backward = bytes_alive([x, *model.parameters()], lambda: losses.append(model(x)), run_backward)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from trace_tools.metering.meters import Meter
from trace_tools.metering.operators import EagerMode


def bytes_alive(held: Iterable[torch.Tensor], *phases: Callable[[], object]) -> list[list[int]]:
    """Call each phase once, in order, and return for each the live bytes after each of its operators.

    The tensors in `held` count from the start, others from when an operator first makes or receives them. Memory that
    an operator frees shows after the next operator. Each list begins with the live bytes before its phase.
    """
    with Meter() as meter:
        for tensor in held:
            tensor.detach()  # an operator that shows the meter its memory
        alive = []
        for phase in phases:
            with _Readings(meter) as readings:
                phase()
            alive.append([*readings.live_bytes, meter.storages.live_bytes])
        return alive


class _Readings(EagerMode):
    """Reads a meter after each operator; entered after the meter, so it runs around it."""

    def __init__(self, meter: Meter) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.meter, self.live_bytes = meter, [meter.storages.live_bytes]

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.live_bytes.append(self.meter.storages.live_bytes)
        return out

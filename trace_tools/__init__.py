"""Tools that trace an executable lecture, render what it did, and compare machines.

A lecture imports its vocabulary from here; `measure`, `count` and the peaks load torch when first used.
"""

from __future__ import annotations

from typing import Any

from trace_tools import narrative
from trace_tools.narrative import *  # noqa: F403

__all__ = ["count", "device", "measure", "peak_bandwidth", "peak_flops"]  # noqa: F405
__all__ += narrative.__all__
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in ("measure", "count"):
        from trace_tools.metering import measurement

        return getattr(measurement, name)
    if name in ("device", "peak_flops", "peak_bandwidth"):
        from trace_tools.machines import machine

        return getattr(machine, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

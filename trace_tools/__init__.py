"""Trace an executable lecture, render its trace, and compare machines.

A lecture imports its vocabulary from here. `measure`, `count` and the peaks load torch when first used.
"""

from __future__ import annotations

import atexit
import sys
from importlib import import_module
from typing import Any

from trace_tools.lecture import vocabulary
from trace_tools.lecture.vocabulary import *  # noqa: F403

# The rest of the lecture's API, by module: imported when first used, because most of it loads torch or matplotlib.
_MODULES = {
    "lecture.drawings": (
        *("draw_batched_matmul", "draw_bits", "draw_chain", "draw_gpu", "draw_memories"),
        *("draw_road_map", "draw_roofline", "draw_segments", "draw_storage", "draw_views"),
    ),
    "machines.accelerators": ("accelerator",),
    "machines.host": ("GpuState", "gpu_state"),
    "machines.peaks": ("known_machine", "known_machines"),
    "machines.machine": ("device", "fast_format", "memory_bytes", "peak_bandwidth", "peak_flops", "peak_is_promised"),
    "metering.measurement": ("Count", "Measurement", "count", "measure"),
    "metering.timeline": ("bytes_alive",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["count", "device", "measure", "peak_bandwidth", "peak_flops"]  # noqa: F405
__all__ += vocabulary.__all__
__version__ = "0.1.0"


def _name_the_pages() -> None:
    from trace_tools.lecture import run_plain

    run_plain.name_the_pages()


if getattr(sys.modules.get("__main__"), "__spec__", True) is None:  # `python talk.py`
    atexit.register(_name_the_pages)


def __dir__() -> list[str]:
    return [*__all__, *_MODULE_OF, "plain"]


def __getattr__(name: str) -> Any:
    if name == "plain":
        return import_module("trace_tools.lecture.run_plain")
    if name in _MODULE_OF:
        return getattr(import_module(f"trace_tools.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Trace an executable lecture, render its trace, and compare machines.

A lecture imports its vocabulary from here. `measure`, `count` and the peaks load torch when first used.
"""

from __future__ import annotations

import shlex
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# The modules that the tools import, by the names of their packages in pyproject.toml.
_NEEDED = {
    **{name: name for name in ("msgspec", "matplotlib", "click", "rich", "jinja2", "pygments", "latex2mathml")},
    **{name: name for name in ("starlette", "uvicorn", "watchfiles")},
    **{"pyyaml": "yaml", "markdown-it-py": "markdown_it", "mdit-py-plugins": "mdit_py_plugins"},
}

if _missing := [package for package, module in _NEEDED.items() if find_spec(module) is None]:
    _source = f"{Path(__file__).resolve().parents[1]}[lecture]"
    _install = shlex.join([sys.executable, "-m", "pip", "install", "-e", _source])
    _problem = f"this Python lacks {', '.join(_missing)}; to install them: {_install}"
    if sys.argv[0] != "-m":
        raise ImportError(_problem)
    print(f"error: {_problem}", file=sys.stderr)  # python -m trace_tools
    sys.exit(2)

from trace_tools.lecture import vocabulary  # noqa: E402
from trace_tools.lecture.vocabulary import *  # noqa: E402, F403

# The rest of the lecture's API, by module: imported when first used, because most of it loads torch or matplotlib.
_MODULES = {
    "lecture.drawings": (
        *("draw_batched_matmul", "draw_bits", "draw_chain", "draw_layer", "draw_road_map", "draw_roofline"),
        *("draw_storage", "draw_token_and_weights", "draw_views"),
    ),
    "machines.peaks": ("known_machine", "known_machines"),
    "machines.machine": ("device", "memory_bytes", "peak_bandwidth", "peak_flops"),
    "metering.measurement": ("Count", "Measurement", "count", "measure"),
    "metering.meters": ("bytes_alive",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["count", "device", "measure", "peak_bandwidth", "peak_flops"]  # noqa: F405
__all__ += vocabulary.__all__
__version__ = "0.1.0"


def __dir__() -> list[str]:
    return [*__all__, *_MODULE_OF, "plain"]


def __getattr__(name: str) -> Any:
    if name == "plain":
        return import_module("trace_tools.lecture.run_plain")
    if name in _MODULE_OF:
        return getattr(import_module(f"trace_tools.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

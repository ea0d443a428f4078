"""Make the options of `trace` and `serve` from the one table of options.

@trace_options("only", "draft")                      # the command takes `options`, a `TraceOptions`
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from trace_tools.tracing.options import DEFAULTS, OPTIONS, TraceOptions, flag_of


def trace_options(*names: str, **changes: Mapping[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add options of the table to a command, which takes all of them as one argument `options`.

    `changes` maps an option's name to click's attributes that replace those of the table.
    """

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def called(*arguments: Any, **given: Any) -> Any:
            options = TraceOptions(**{name: given.pop(name) for name in names})
            return command(*arguments, options=options, **given)

        for name in reversed(names):
            option, flags = OPTIONS[name], OPTIONS[name].flags or (flag_of(name),)
            if option.type is bool and getattr(DEFAULTS, name) is None:  # its default depends on the device
                flags = (f"{flags[0]}/--no-{flags[0][2:]}",)
            called = click.option(*flags, name, **{**_attributes(name), **changes.get(name, {})})(called)
        return called

    return decorated


def _attributes(name: str) -> dict[str, Any]:
    """Return a field of `TraceOptions` as click describes an option."""
    option, default = OPTIONS[name], getattr(DEFAULTS, name)
    kind: Any = option.type if option.type in (int, str, float, bool) else click.types.FuncParamType(option.type)
    if option.least is not None:
        kind = click.IntRange(min=option.least)
    return {
        "type": kind,
        "help": option.help,
        "metavar": option.metavar,
        "default": default,
        "show_default": type(default) in (int, float, str),
        "is_flag": option.type is bool,
    }


def from_here(path: Path) -> Path:
    """Return a path as short as it would be typed: relative if it is below the current folder."""
    with suppress(ValueError):
        return Path(os.path.normpath(path)).relative_to(Path.cwd())
    return Path(os.path.normpath(path))

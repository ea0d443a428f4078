"""Make the command line from the table of options, with defaults from `[tool.trace_tools]` in pyproject.toml.

    [tool.trace_tools]
    passes = 5
    out = "pages"                                       # relative to this file, not to the current folder

    wanted(Path("talks/one.py"))                        {"passes": 5, "out": Path("pages")}
    @click.argument("lecture", is_eager=True, callback=of_project)      # fills click's default_map first
    @click.option("--out", cls=ProjectOption)           # an option of the table below; the command line wins
    @trace_options("only", "draft")                      # the command takes `options`, a `TraceOptions`

The nearest pyproject.toml with that table counts: in the folder of the lecture or above it.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from trace_tools.errors import UsageError
from trace_tools.tracing.options import DEFAULTS, TraceOptions, flag_of
from trace_tools.tracing.options import OPTIONS as OF_TRACES
from trace_tools.util.formats import one_line

FILE = "pyproject.toml"
TABLE = "trace_tools"
_MENTIONED = re.compile(r"trace[-_]tools", re.I)
_PATH = click.Path(path_type=Path)


def _attributes(name: str) -> dict[str, Any]:
    """Return a field of `TraceOptions` as click describes an option."""
    option, default = OF_TRACES[name], getattr(DEFAULTS, name)
    kind: Any = option.type if option.type in (int, str, float, bool) else click.types.FuncParamType(option.type)
    if option.least is not None:
        kind = click.IntRange(min=option.least)
    return {
        "type": kind,
        "help": option.help,
        "metavar": option.metavar,
        "default": default,
        "show_default": type(default) in (int, float, str),
        "multiple": isinstance(default, tuple),
        "is_flag": option.type is bool,
    }


# The options that a project can set, by their names on the command line, as click describes them.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "out": {"type": _PATH, "help": "Folder for traces and pages (default: `rendered`, next to the lecture)."},
    "lecture": {"type": _PATH, "help": "Take the prose and images from this file."},
    **{flag_of(name)[2:]: _attributes(name) for name, option in OF_TRACES.items() if option.project},
    "port": {"type": click.IntRange(0, 65535), "help": "Port of the web server; 0 picks a free one.", "default": 8000},
    "open": {"type": click.BOOL, "help": "Open the pages in a browser.", "default": True},
}


class ProjectOption(click.Option):
    """An option whose default a project can set under its name on the command line."""

    def __init__(self, names: Sequence[str], **attributes: Any) -> None:
        self.key = next(name for name in names if name.startswith("--")).partition("/")[0].removeprefix("--")
        super().__init__(names, **{**OPTIONS[self.key], **attributes})


def trace_options(*names: str, **changes: Mapping[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add options of the table to a command, which takes all of them as one argument `options`.

    A project sets their defaults where the table says so. `changes` maps an option's name to click's attributes that
    replace those of the table.
    """

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def called(*arguments: Any, **given: Any) -> Any:
            options = TraceOptions(**{name: given.pop(name) for name in names})
            return command(*arguments, options=options, **given)

        for name in reversed(names):
            flags = OF_TRACES[name].flags or (flag_of(name),)
            attributes = {**_attributes(name), **changes.get(name, {})}
            if OF_TRACES[name].project:
                if attributes["is_flag"]:  # else the command line could not switch it off
                    flags = (f"{flags[0]}/--no-{flags[0][2:]}",)
                attributes["cls"] = ProjectOption
            called = click.option(*flags, name, **attributes)(called)
        return called

    return decorated


def of_project(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
    """Take the defaults of a command's options from the project of its lecture, or of the current folder."""
    path = value[0] if isinstance(value, tuple) else value
    if path is not None or ctx.default_map is None:
        settings = wanted(path or Path(FILE))
        options = [option for option in ctx.command.params if isinstance(option, ProjectOption)]
        ctx.default_map = {str(option.name): settings[option.key] for option in options if option.key in settings}
    return value


def wanted(lecture: Path) -> dict[str, Any]:
    """Return the settings of a lecture's project by option. Raises UsageError with the file and the key."""
    for path in (folder / FILE for folder in Path(os.path.abspath(lecture)).parents):
        content = path.read_bytes() if path.is_file() else b""
        if not _MENTIONED.search(content.decode("utf-8", "replace")):  # such a file may be malformed
            continue
        try:
            tools = tomllib.loads(content.decode("utf-8-sig")).get("tool", {})
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{from_here(path)}: not valid TOML: {error}") from None
        for name in tools if isinstance(tools, dict) else ():
            if name != TABLE and _MENTIONED.fullmatch(name):
                raise UsageError(f"{from_here(path)}: found [tool.{name}]; expected [tool.{TABLE}]")
        if isinstance(tools, dict) and TABLE in tools:
            if not isinstance(table := tools[TABLE], dict):
                expected = f"expected a table of {', '.join(OPTIONS)}"
                raise UsageError(f"{from_here(path)}: tool.{TABLE} is {table!r}; {expected}")
            return {key: _setting(path, key, value) for key, value in table.items()}
    return {}


def _setting(path: Path, key: str, value: Any) -> Any:
    """Return a value of the table, as an option takes it: a path relative to its file."""
    where = f"{from_here(path)}: [tool.{TABLE}]"
    if key not in OPTIONS:
        near = difflib.get_close_matches(key.replace("_", "-"), OPTIONS, 1)
        hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(OPTIONS)}"
        raise UsageError(f"{where} has an unknown key {key}; {hint}")
    kind, default = click.types.convert_type(OPTIONS[key]["type"]), OPTIONS[key].get("default")
    types: set[type] = {str}
    noun = "text in quotes"
    if isinstance(kind, click.types.BoolParamType):
        types, noun = {bool}, "true or false"
    elif isinstance(kind, click.types.IntParamType) or isinstance(default, int):
        types, noun = {int}, "a whole number"
    if type(value) not in types or value == "":  # click would take "3" for 3, and 1 for true
        shown = str(value).lower() if isinstance(value, bool) else one_line(repr(value), 80)
        raise UsageError(f"{where} {key} is {shown}; expected {noun}")
    try:
        kind.convert(value, None, None)
    except (click.UsageError, UsageError) as error:
        raise UsageError(f"{where} {key}: {getattr(error, 'message', error)}") from None
    return from_here(path.parent / os.path.expanduser(value)) if kind is _PATH else value


def from_here(path: Path) -> Path:
    """Return a path as short as it would be typed: relative if it is below the current folder."""
    with suppress(ValueError):
        return Path(os.path.normpath(path)).relative_to(Path.cwd())
    return Path(os.path.normpath(path))

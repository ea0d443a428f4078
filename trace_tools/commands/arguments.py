"""Read the arguments of several commands: traces (a file, its folder, or its name), and the options of `trace`.

    @trace_options("device")                    the command takes `options`, a `TraceOptions`
    @click.argument("path", metavar="TRACE", type=path_of)
    path_of("cpu")             Path("rendered/cpu/trace.yaml"), if no file or folder here is called cpu
    open_side("HEAD~1:rendered/cpu/trace.yaml")  # the trace at a revision, as in `git show`

A name refers to a folder in `rendered`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trace_tools.errors import UsageError
from trace_tools.tracing.options import DEFAULTS, OPTIONS, TraceOptions, flag_of
from trace_tools.util.git import is_committed

if TYPE_CHECKING:
    from trace_tools.diff.difference import Side

TRACE = "trace.yaml"
RENDERED = "rendered"  # where `trace` puts its folders
PATH = click.Path(path_type=Path, readable=False)  # each command reports in one line what it cannot read


def path_of(name: str | Path) -> Path:
    """Return the path of a trace. An existing path wins; a name that can only be a file is returned unchanged.

    Raises UsageError that lists the traces in the folder of pages if no such path or name exists.
    """
    path = Path(name)
    if path.is_dir() and (path / TRACE).is_file():
        return path / TRACE
    if path.exists() or path.is_symlink() or path.suffix in (".yaml", ".yml"):
        return path
    if (named := Path(RENDERED) / path / TRACE).is_file():
        return named
    raise UsageError(f"{name}: no such trace; expected a file, a folder or a name: {what_is_there()}")


def open_side(argument: str) -> Side:
    """Load a trace for a comparison from a file, its folder, or REV:path.

    The path after REV is relative to the root of the repository, or, with `./`, to the current folder. Raises
    `TraceFileError` if it is not a trace, `UsageError` if git has no such file at the revision.
    """
    from trace_tools.diff.difference import Side
    from trace_tools.trace.file import load, parse
    from trace_tools.util.git import show

    path = Path(argument) / TRACE if (Path(argument) / TRACE).is_file() else Path(argument)
    if ":" in argument and not path.exists():
        return Side(argument, parse(BytesIO(show(argument)), path))
    return Side(str(path), load(path))


def reference_in(folder: Path, besides: Path | None = None) -> Path | None:
    """Return the reference of comparisons, which is the first trace by name that git tracks, else the first by name."""
    paths = [path for path in sorted(folder.glob(f"*/{TRACE}")) if path != besides]
    return next(filter(is_committed, paths), next(iter(paths), None))


def reference_and_latest() -> tuple[str, str]:
    """Return the project's reference, and the latest of the other traces that was made here.

    A trace in git counts as made elsewhere, unless all are in git. Raises UsageError without two traces.
    """
    from trace_tools.trace.file import load_head

    folder = Path(RENDERED)
    reference = reference_in(folder)
    others = [path for path in (*folder.glob(f"*/{TRACE}"), *folder.glob(f"*/partial/{TRACE}")) if path != reference]
    if not others:
        raise UsageError(f"expected two traces to compare; {what_is_there()}")
    made_here = [path for path in others if not is_committed(path)] or others
    return str(reference), str(max(made_here, key=lambda path: load_head(path).run.started))


def what_is_there() -> str:
    """Name the traces in the project's folder of pages."""
    rendered = Path(RENDERED)
    names = sorted(path.parent.name for path in rendered.glob(f"*/{TRACE}"))
    return f"the traces in {rendered} are {', '.join(names)}" if names else f"{rendered} has no traces"


def trace_options(*names: str, **changes: Mapping[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add options of `tracing.options` to a command, which takes all of them as one argument `options`.

    `changes` maps an option's name to attributes of click, which replace the table's.
    """

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def called(*arguments: Any, **given: Any) -> Any:
            options = TraceOptions(**{name: given.pop(name) for name in names})
            return command(*arguments, options=options, **given)

        for name in reversed(names):
            option, default = OPTIONS[name], getattr(DEFAULTS, name)
            flags = option.flags or (flag_of(name),)
            if option.type is bool and default is None:  # its default depends on the device
                flags = (f"{flags[0]}/--no-{flags[0][2:]}",)
            attributes = {"help": option.help, "metavar": option.metavar, "default": default}
            attributes |= {"show_default": type(default) in (int, float, str), "is_flag": option.type is bool}
            attributes["type"] = click.IntRange(min=option.least) if option.least is not None else option.type
            called = click.option(*flags, name, **{**attributes, **changes.get(name, {})})(called)
        return called

    return decorated


def from_here(path: Path) -> Path:
    """Return a path as short as it would be typed: relative if it is below the current folder."""
    path = Path(os.path.normpath(path))
    with suppress(ValueError):
        return path.relative_to(Path.cwd())
    return path

"""What a project wants of the commands, from `[tool.trace_tools]` of its pyproject.toml.

    [tool.trace_tools]
    passes = 5
    out = "pages"                                       # from the file's folder, not from where a command is run

    wanted(Path("talks/one.py"))                        {"passes": 5, "out": Path("pages")}
    @click.argument("lecture", is_eager=True, callback=of_project)      # before options look for their defaults
    @click.option("--passes", cls=ProjectOption)        # which is one of these keys, and the command line wins

The nearest pyproject.toml with that table counts: in the folder of the lecture, else above it.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from trace_tools.errors import UsageError
from trace_tools.machines.devices import FORMS, checked
from trace_tools.vocabularies import BORROWED

FILE = "pyproject.toml"
TABLE = "trace_tools"
SEEDS = range(-(2**63), 2**64)  # what `torch.manual_seed` takes
_MENTIONED = re.compile(r"trace[-_]tools", re.I)


def seed(text: str | int) -> int:
    """Return a seed. Raises UsageError where torch would take no such one."""
    with suppress(ValueError):
        if int(text) in SEEDS:
            return int(text)
    raise UsageError(f"--seed {text}: expected a whole number of 64 bits")


@dataclass(frozen=True, slots=True)
class Key:
    """What a project may say: how an option takes it, and what it is in the file."""

    taken: click.ParamType[Any]
    written: type
    expected: str


_PATH = click.Path(path_type=Path)
_FLAG = Key(click.BOOL, bool, "true or false")
KEYS: Mapping[str, Key] = {
    "out": Key(_PATH, str, 'a folder, as in "rendered"'),
    "lecture": Key(_PATH, str, 'a file, as in "lecture.py"'),
    "device": Key(click.types.FuncParamType(checked), str, f"a text: {FORMS}"),
    "passes": Key(click.IntRange(min=1), int, "a whole number, 1 or more"),
    "seed": Key(click.types.FuncParamType(seed), int, "a whole number of 64 bits"),
    "limit": Key(click.IntRange(min=2), int, "a whole number, 2 or more"),
    "keep-going": _FLAG,
    "inspect-all": _FLAG,
    "vocabulary": Key(click.Choice(BORROWED), str, f"one of {', '.join(BORROWED)}, or a list of these"),
    "port": Key(click.IntRange(0, 65535), int, "a whole number from 0 to 65535"),
    "open": _FLAG,
}


class ProjectOption(click.Option):
    """An option whose default a project can set, by the name that it has on the command line."""

    def __init__(self, names: Sequence[str], **attributes: Any) -> None:
        self.key = next(name for name in names if name.startswith("--")).partition("/")[0].removeprefix("--")
        super().__init__(names, type=KEYS[self.key].taken, **attributes)


def of_project(ctx: click.Context, _: click.Parameter, found: Any) -> Any:
    """Take the defaults of a command's options from the project of its lecture, or of the folder it is run in."""
    path = found[0] if isinstance(found, tuple) else found
    if path is not None or ctx.default_map is None:
        said = wanted(path or Path(FILE))
        options = (option for option in ctx.command.params if isinstance(option, ProjectOption))
        ctx.default_map = {str(option.name): said[option.key] for option in options if option.key in said}
    return found


def wanted(lecture: Path) -> dict[str, Any]:
    """Return what the project of a lecture says, by keys. Raises UsageError for what it can't mean."""
    for folder in Path(os.path.abspath(lecture)).parents:
        path = folder / FILE
        if path.is_file() and (table := _table(path)) is not None:
            return dict(_checked(path, table))
    return {}


def _table(path: Path) -> Mapping[str, Any] | None:
    """Return our table of a file; None where it has none. What doesn't mention us need not be right."""
    content = path.read_bytes()
    if not _MENTIONED.search(content.decode("utf-8", "replace")):
        return None
    try:
        tools = tomllib.loads(content.decode("utf-8-sig")).get("tool", {})
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{_shown(path)}: not valid TOML: {error}") from None
    if not isinstance(tools, dict):
        return None
    for name in tools:
        if name != TABLE and _MENTIONED.fullmatch(name):
            raise UsageError(f"{_shown(path)}: found [tool.{name}]; expected [tool.{TABLE}]")
    table = tools.get(TABLE)
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{_shown(path)}: tool.{TABLE} is {table!r}; expected a table of {', '.join(KEYS)}")
    return table


def _checked(path: Path, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        key = KEYS.get(name)
        if key is None:
            near = difflib.get_close_matches(name.replace("_", "-"), KEYS, 1)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(KEYS)}"
            raise UsageError(f"{_shown(path)}: [tool.{TABLE}] has an unknown key {name}; {hint}")
        several = value if name == "vocabulary" and isinstance(value, list) else [value]
        if not all(_fits(key, one) for one in several):
            raise UsageError(f"{_shown(path)}: [tool.{TABLE}] {name} is {_in_toml(value)}; expected {key.expected}")
        if key.taken is _PATH:
            yield name, _from_here(path.parent / os.path.expanduser(value))
        else:
            yield name, several if name == "vocabulary" else value


def _fits(key: Key, value: Any) -> bool:
    if type(value) is not key.written or value == "":
        return False
    try:
        key.taken.convert(value, None, None)
    except (click.UsageError, UsageError):
        return False
    return True


def _in_toml(value: Any) -> str:
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    return shown if len(shown) <= 80 else shown[:79] + "…"


def _from_here(path: Path) -> Path:
    """Return a path as short as it would be typed: relative, where it lies below the current folder."""
    with suppress(ValueError):
        return Path(os.path.normpath(path)).relative_to(Path.cwd())
    return Path(os.path.normpath(path))


def _shown(path: Path) -> str:
    return str(_from_here(path))

"""Plain data ↔ the dataclasses of `schema`, by their type hints alone.

Each class is compiled once into functions, so that reading a hundred thousand steps looks at no
type hint. Nothing is coerced: a bool is no int, an unknown key is an error, and the error says
where (`steps[12].values[0][1].tensor.shape[2]: expected int, found str 'x'`).

    to_plain(Peak("memory", 4.8e12, "datasheet"))  # {"name": "memory", "per_second": 4.8e12, "source": "datasheet"}
    from_plain(Peak, {"name": "memory", …}, Path("trace.yaml"))  # Peak("memory", …)
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from trace_tools import formats
from trace_tools.errors import TraceFileError

T = TypeVar("T")
Convert = Callable[[Any], Any]

LARGEST_FLOAT = 2**1023
LONGEST_MESSAGE = 300  # characters of what is wrong: a file may quote itself at any length

_NAMES = {type(None): "null", dict: "mapping"}


def _once(build: Callable[[Any], Convert]) -> Callable[[Any], Convert]:
    """Make `build` run once for each type hint."""
    return cache(build)


class Mismatch(Exception):
    """Data that is not what the schema says; each level it passes adds its part of the place."""

    def __init__(self, message: str, *parts: str) -> None:
        super().__init__(message)
        self.parts = list(parts)  # innermost first: ".line", "[12]", ".steps"

    def at(self, path: Path | str) -> TraceFileError:
        """Return the error to show for the file at `path`."""
        where = "".join(reversed(self.parts)).lstrip(".")
        return TraceFileError(path, where or None, formats.one_line(str(self), LONGEST_MESSAGE))


def from_plain(cls: type[T], plain: object, path: Path | str) -> T:
    """Return the instance of `cls` that `plain` describes; lists are shared with it, not copied.

    Raises `TraceFileError`, naming the file `path` and the place inside it, when it describes none.
    """
    try:
        made = _reader(cls)(plain)
    except Mismatch as mismatch:
        raise mismatch.at(path) from None
    assert isinstance(made, cls)
    return made


def to_plain(instance: object) -> dict[str, Any]:
    """Return a dataclass's fields as plain data, in their order, without those at their defaults.

    Lists of scalars are shared with the instance, not copied.
    """
    plain: dict[str, Any] = _writer(type(instance))(instance)
    return plain


# --- plain data → instances -----------------------------------------------------------------------


@_once
def _reader(hint: Any) -> Convert:
    """Return the function that checks plain data against one type hint and builds what it names."""
    if is_dataclass(hint):
        return _record_reader(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is list:
        return _list_reader(arguments[0])
    if origin is tuple:
        return _tuple_reader(arguments)
    return _choice_reader(hint)


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _atoms(hint: Any) -> frozenset[type]:
    """Return the types that may stand as they are where `hint` is expected."""
    return frozenset(member for member in _members(hint) if member in (bool, int, float, str, type(None)))


def _record_reader(cls: Any) -> Convert:
    converters: dict[str, tuple[frozenset[type], Convert]] = {}  # filled at first use: a Value may hold Values

    def build(plain: Any) -> Any:
        if type(plain) is not dict:
            raise Mismatch(unlike("a mapping", plain))
        if not converters:
            hints = get_type_hints(cls)
            converters.update((f.name, (_atoms(hints[f.name]), _reader(hints[f.name]))) for f in fields(cls))
        made = plain.copy()
        for key, value in plain.items():
            known = converters.get(key)
            if known is None:
                raise Mismatch(f"unknown key {short(key)}; expected {_listed(converters)}")
            if type(value) not in known[0]:
                try:
                    made[key] = known[1](value)
                except Mismatch as mismatch:
                    mismatch.parts.append(f".{key}")
                    raise
        try:
            return cls(**made)
        except TypeError:
            missing = next(name for name in _required(cls) if name not in made)
            raise Mismatch(f"the key {missing!r} is missing") from None

    return build


def _required(cls: Any) -> list[str]:
    return [f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING]


def _list_reader(item: Any) -> Convert:
    atoms, convert = _atoms(item), _reader(item)

    def build(plain: Any) -> Any:
        if type(plain) is not list:
            raise Mismatch(unlike("a list", plain))
        if atoms and atoms.issuperset(map(type, plain)):
            return plain
        made: list[Any] = []
        try:
            for value in plain:
                made.append(convert(value))
        except Mismatch as mismatch:
            mismatch.parts.append(f"[{len(made)}]")
            raise
        return made

    return build


def _tuple_reader(items: tuple[Any, ...]) -> Convert:
    converters = [_reader(item) for item in items]

    def build(plain: Any) -> Any:
        if type(plain) is not list or len(plain) != len(converters):
            raise Mismatch(unlike(f"a list of {len(converters)}", plain))
        made: list[Any] = []
        try:
            for value, convert in zip(plain, converters, strict=True):
                made.append(convert(value))
        except Mismatch as mismatch:
            mismatch.parts.append(f"[{len(made)}]")
            raise
        return tuple(made)

    return build


def _choice_reader(hint: Any) -> Convert:
    """Choose among a union's members by the type of what is there; a scalar's type is a union of one."""
    members, atoms = _members(hint), _atoms(hint)
    lists = [_reader(member) for member in members if get_origin(member) in (list, tuple)]
    records = [member for member in members if is_dataclass(member)]
    if len(records) > 1 and len(records) == len(members):
        return _record_choice(records)
    record = _reader(records[0]) if records else None
    expected = " or ".join([_name(m) for m in members if m is not type(None)])

    def build(plain: Any) -> Any:
        if type(plain) in atoms:
            return plain
        if type(plain) is int and float in atoms:  # where it is no larger than a float can be
            if abs(plain) >= LARGEST_FLOAT:
                raise Mismatch(unlike("a float", plain))
            return plain
        if lists and type(plain) is list:
            return lists[0](plain)
        if record and type(plain) is dict:
            return record(plain)
        raise Mismatch(unlike(expected, plain))

    return build


def _record_choice(classes: list[Any]) -> Convert:
    """Tell classes apart by a required field that no other of them has."""
    marks = {}
    for cls in classes:
        others = {f.name for other in classes if other is not cls for f in fields(other)}
        marks[next(name for name in _required(cls) if name not in others)] = _reader(cls)

    def build(plain: Any) -> Any:
        if type(plain) is not dict:
            raise Mismatch(unlike(" or ".join(map(_name, classes)), plain))
        for mark, read in marks.items():
            if mark in plain:
                return read(plain)
        raise Mismatch(f"expected one of the keys {_listed(marks)}, found {_listed(plain) or 'none'}")

    return build


def unlike(expected: str, plain: object) -> str:
    """Say on one line what was expected and what `plain` is, shortened."""
    kind = _NAMES.get(type(plain), type(plain).__name__)
    if isinstance(plain, list):
        return f"expected {expected}, found a list of {len(plain)}"
    return f"expected {expected}, found {kind}" + ("" if plain is None or kind == "mapping" else f" {short(plain)}")


def _name(hint: Any) -> str:
    if get_origin(hint) in (list, tuple):
        return "a list"
    return "a mapping" if is_dataclass(hint) else str(getattr(hint, "__name__", hint))


def short(plain: object) -> str:
    """Write plain data as an error may show it."""
    shown = plain[:41] if isinstance(plain, str) else plain
    try:
        text = repr(shown)
    except ValueError:  # an int of more digits than Python prints
        text = "of thousands of digits"
    return text if len(text) <= 60 else text[:60] + "…"


def _listed(names: Any) -> str:
    return ", ".join(short(name) for name in list(names)[:30])


# --- instances → plain data -----------------------------------------------------------------------


@_once
def _writer(cls: Any) -> Convert:
    """Return the function that turns an instance of `cls` into plain data."""
    names = [f.name for f in fields(cls)]
    values_of = attrgetter(*names) if len(names) > 1 else lambda instance: (getattr(instance, names[0]),)
    columns: list[tuple[str, Any, Convert | None]] = []  # filled at first use: a Value may hold Values

    def write(instance: Any) -> dict[str, Any]:
        if not columns:
            columns.extend(_columns(cls))
        plain = {}
        for (name, default, convert), value in zip(columns, values_of(instance), strict=True):
            if value is default or (type(value) is type(default) and value == default):
                continue
            plain[name] = convert(value) if convert and value is not None else value
        return plain

    return write


def _columns(cls: Any) -> Iterator[tuple[str, Any, Convert | None]]:
    hints = get_type_hints(cls)
    for f in fields(cls):
        default = f.default_factory() if f.default_factory is not MISSING else f.default
        yield f.name, default, _conversion(hints[f.name])


def _conversion(hint: Any) -> Convert | None:
    """Return how to turn a value of this type into plain data; None when it is plain already."""
    if is_dataclass(hint):
        return _writer(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is list:
        inner = _conversion(arguments[0])
        return None if inner is None else lambda values: [inner(value) for value in values]
    if origin is tuple:
        inners = [_conversion(argument) for argument in arguments]
        return lambda pair: [inner(x) if inner else x for inner, x in zip(inners, pair, strict=True)]
    needed = [member for member in _members(hint) if member is not hint and _conversion(member)]
    if len(needed) > 1:
        return lambda value: _writer(type(value))(value)  # a union of classes
    return _conversion(needed[0]) if needed else None

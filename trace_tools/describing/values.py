"""Describe any object in the file form of a `Value`: a plain dict of the fields that differ from their defaults.

The description runs in the lecture's process at every `@inspect`, on any object, so it trusts only `type(obj)`. Methods
that a class could override are looked up and called only through the guard (`repr`, a property that is a field), and no
reference to the object is kept.

    describe = Describer().describe
    describe(3)           # {"type": "int", "value": 3}
    describe([1.5, "a"])  # {"type": "list", "length": 2, "items": [{"type": "float", "value": 1.5}, …]}
"""

from __future__ import annotations

import enum
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from inspect import getattr_static
from itertools import islice
from typing import Any

from trace_tools.describing.guarded_repr import Guard, is_a
from trace_tools.describing.redact import MARGIN
from trace_tools.describing.storage_labels import StorageLabels
from trace_tools.describing.walk import Describe, Plain, ValueLimits, Walk, scalar

_MOST_BITS = 2_000  # of an integer that is written out: its 600 digits are below any limit of Python's


class Describer:
    """Describes the values of one run, with the same storage labels for all of them."""

    def __init__(self, *, limits: ValueLimits | None = None, redact: Callable[[str], str] = str) -> None:
        self.limits = limits or ValueLimits()
        self.redact = redact
        self.labels = StorageLabels()
        self.guard = Guard()

    def describe(self, obj: object) -> Plain:
        """Return `obj` as plain data. Changes no state, and raises only errors of a signal's handler."""
        if (plain := scalar(obj)) is not None:  # before all else, because a loop inspects numbers most often
            return plain
        if type(obj) is str and len(obj) <= self.limits.text:
            return {"type": "str", "value": self.clean(obj)}
        return Walk(self.limits, self.labels, self.guard, self.clean, function_for).value(obj)

    def error(self, error: BaseException) -> Plain:
        """Return the description of an expression that raised `error`."""
        return {"type": "error", "text": self.clean(self.guard.describe_exception(error))}

    def clean(self, text: str, limit: int | None = None) -> str:
        """Return `text` redacted, cut, and without surrogates, which no file can hold."""
        limit = limit or self.limits.text
        text = self.redact(text if len(text) <= limit else text[: limit + MARGIN])
        if not text.isascii():
            text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        return text[:limit]


def function_for(kind: type) -> Describe:
    """Return the function that describes objects of this class."""
    if (exact := _EXACT.get(id(kind))) is not None:
        return exact
    for base, describe in (*_of_libraries(), *_BASES):
        if is_a(kind, base):
            if base is kind:
                _EXACT[id(kind)] = describe
            return describe
    return Walk.other


def _of_libraries() -> Iterator[tuple[object, Describe]]:
    """Yield classes of the libraries that the lecture has imported, the most specific first, and their functions."""
    if sys.modules.get("torch") is not None:
        from trace_tools.describing import tensors

        yield from tensors.BASES
    if sys.modules.get("numpy") is not None:
        from trace_tools.describing import arrays

        yield from arrays.BASES
    for name in ("pandas", "polars"):
        if (library := sys.modules.get(name)) is not None:
            from trace_tools.describing import arrays

            yield getattr(library, "DataFrame", None), arrays.frame
            yield getattr(library, "Series", None), arrays.series


def _int(walk: Walk, obj: int) -> Plain:
    if (address := walk.labels.of_address(obj)) is not None:
        return {"type": "int", "text": address}
    if obj.bit_length() <= _MOST_BITS:
        return {"type": "int", "value": obj}
    top = abs(obj) >> (obj.bit_length() - 64) // 4 * 4  # its first hexadecimal digits
    text = f"{'-' if obj < 0 else ''}0x{top:x}… ({obj.bit_length()} bits)"
    return {"type": "int", "text": text, "note": "too long to write out"}


def _str(walk: Walk, obj: str) -> Plain:
    value: Plain = {"type": "str", "value": walk.text(obj)}
    return value | {"length": len(obj)} if len(obj) > walk.limits.text else value


def _bytes(walk: Walk, obj: bytes | bytearray) -> Plain:
    return walk.as_text(obj, repr(obj[: walk.limits.text]), len(obj))


def _list(walk: Walk, obj: list[Any]) -> Plain:
    return walk.members(obj, list.__len__(obj), list.__iter__(obj))


def _deque(walk: Walk, obj: deque[Any]) -> Plain:
    return walk.members(obj, deque.__len__(obj), deque.__iter__(obj))


def _tuple(walk: Walk, obj: tuple[Any, ...]) -> Plain:
    kind = type(obj)
    names = None if kind is tuple else getattr_static(kind, "__match_args__", None)  # torch.return_types also have them
    if type(names) is tuple and len(names) == tuple.__len__(obj) > 0:
        return walk.entries(obj, zip(names, tuple.__iter__(obj), strict=True))
    return walk.members(obj, tuple.__len__(obj), tuple.__iter__(obj))


def _set(walk: Walk, obj: set[Any] | frozenset[Any]) -> Plain:
    """Describe a set in sorted order, because Python's order differs between processes."""
    base: Any = set if is_a(type(obj), set) else frozenset
    length: int = base.__len__(obj)
    members = list(islice(base.__iter__(obj), walk.limits.sorted_members))
    kinds = set(map(type, members))
    if sortable := len(kinds) == 1 and not kinds.isdisjoint((int, str, float, bytes)):
        members.sort(key=lambda member: (member != member, member))  # nan, which has no order, at the end
    value = walk.members(obj, length, members)
    if not sortable and "items" in value:
        value["items"].sort(key=repr)
    if length > (len(members) if sortable else walk.limits.items):
        value.setdefault("note", "some of them")
    return value


def _dict(walk: Walk, obj: dict[Any, Any]) -> Plain:
    base: Any = OrderedDict if is_a(type(obj), OrderedDict) else dict  # which keeps its own order
    return walk.entries(obj, base.items(obj), dict.__len__(obj))


def _class(walk: Walk, obj: type) -> Plain:
    return walk.as_text(obj, type.__repr__(obj))


def _module(walk: Walk, obj: types.ModuleType) -> Plain:
    return walk.as_text(obj, f"<module {obj.__name__!r}>")  # without its file, which differs between machines


def _method(walk: Walk, obj: types.MethodType) -> Plain:
    function = obj.__func__
    name = function.__qualname__ if type(function) in (types.FunctionType, types.BuiltinFunctionType) else "?"
    return walk.as_text(obj, f"<bound method {name}>")  # the repr of its object may be pages long


_CLASSES: dict[type, Describe] = {
    int: _int,
    str: _str,
    bytes: _bytes,
    bytearray: _bytes,
    complex: Walk.plainly,
    types.FunctionType: Walk.plainly,
    types.BuiltinFunctionType: Walk.plainly,
    list: _list,
    tuple: _tuple,
    dict: _dict,
    set: _set,
    frozenset: _set,
}
# by id, because a metaclass may have an `__eq__` of its own and no hash
_EXACT = {id(kind): describe for kind, describe in _CLASSES.items()}
# Base classes, the most specific first, with the functions that describe their instances.
_BASES: tuple[tuple[type, Describe], ...] = (
    (enum.Enum, Walk.by_repr),
    (tuple, _tuple),
    (dict, _dict),
    (list, _list),
    (set, _set),
    (frozenset, _set),
    (deque, _deque),
    (type, _class),
    (types.ModuleType, _module),
    (types.MethodType, _method),
)

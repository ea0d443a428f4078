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
import math
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from trace_tools.describing import library_values
from trace_tools.describing.elements import Limits
from trace_tools.describing.guarded_repr import Guard
from trace_tools.describing.redact import MARGIN
from trace_tools.describing.safe_repr import class_attribute, class_name, is_a, plain_repr
from trace_tools.describing.storage_labels import LEAST_HASH, StorageLabels
from trace_tools.describing.walk import Plain, Walk

_MOST_DIGITS = 4_300  # Python's own limit for an integer's text, unless it is set lower
_BITS_PER_DIGIT = math.log2(10)


class Describer:
    """Describes the values of one run, with the same storage labels for all of them."""

    def __init__(self, *, limits: Limits | None = None, redact: Callable[[str], str] = str) -> None:
        self.limits = limits or Limits()
        self.redact = redact
        self.labels = StorageLabels()
        self.guard = Guard()

    def describe(self, obj: object) -> Plain:
        """Return `obj` as plain data. Changes no state, and raises only KeyboardInterrupt."""
        kind = type(obj)
        if kind is float or kind is bool:
            return {"type": "float" if kind is float else "bool", "value": obj}
        if kind is int and -LEAST_HASH < obj < LEAST_HASH:  # type: ignore[operator]
            return {"type": "int", "value": obj}
        if kind is str and len(obj) <= self.limits.text:  # type: ignore[arg-type]
            return {"type": "str", "value": self.clean(obj)}  # type: ignore[arg-type]
        return _Walk(self.limits, self.labels, self.guard, self.clean).value(obj)

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


class _Walk(Walk):
    """A walk that knows the classes of Python and of libraries."""

    __slots__ = ()

    def function_for(self, kind: type) -> Callable[[Walk, Any], Plain]:
        """Return the function that describes objects of this class."""
        if exact := _EXACT.get(id(kind)):
            return exact
        for base, describe in _BASES:
            # Classes of torch, NumPy and similar packages are compared only if the lecture has imported the package.
            if is_a(kind, _imported(*base) if type(base) is tuple else base):
                return describe
        return Walk.other


def _number(walk: Walk, obj: float) -> Plain:
    return {"type": class_name(type(obj)), "value": obj}


def _int(walk: Walk, obj: int) -> Plain:
    if obj >= LEAST_HASH and (address := walk.labels.of_address(obj)) is not None:
        return {"type": "int", "text": address}
    digits = obj.bit_length() / _BITS_PER_DIGIT
    if digits < min(_MOST_DIGITS, sys.get_int_max_str_digits() or _MOST_DIGITS) - 1:
        return {"type": "int", "value": obj}
    top = abs(obj) >> (obj.bit_length() - 64) // 4 * 4  # its first hexadecimal digits
    text = f"{'-' if obj < 0 else ''}0x{top:x}… ({obj.bit_length()} bits)"
    return {"type": "int", "text": text, "note": "too long to write out"}


def _none(walk: Walk, obj: None) -> Plain:
    return {"type": "none"}


def _str(walk: Walk, obj: str) -> Plain:
    return walk.as_text(obj, obj, len(obj), "value")


def _bytes(walk: Walk, obj: bytes | bytearray) -> Plain:
    return walk.as_text(obj, repr(obj[: walk.limits.text]), len(obj))


def _sequence(walk: Walk, obj: Any) -> Plain:
    base: Any = list if is_a(type(obj), list) else deque
    return walk.members(obj, base.__len__(obj), base.__iter__(obj))


def _tuple(walk: Walk, obj: tuple[Any, ...]) -> Plain:
    kind = type(obj)
    names = None if kind is tuple else class_attribute(kind, "__match_args__")  # torch.return_types also have them
    if type(names) is tuple and len(names) == tuple.__len__(obj) > 0:
        return walk.entries(obj, zip(names, tuple.__iter__(obj), strict=True))
    return walk.members(obj, tuple.__len__(obj), tuple.__iter__(obj))


def _set(walk: Walk, obj: set[Any] | frozenset[Any]) -> Plain:
    base: Any = set if is_a(type(obj), set) else frozenset
    length: int = base.__len__(obj)
    if length > walk.limits.sorted_members:
        return {"note": "the first ones, in no order"} | walk.members(obj, length, base.__iter__(obj))
    members = list(base.__iter__(obj))
    kinds = {id(type(member)) for member in members}
    if len(kinds) == 1 and type(members[0]) in (int, str, float, bytes):
        members.sort(key=lambda member: (member != member, member))  # nan, which has no order, at the end
        return walk.members(obj, length, members)
    value = walk.members(obj, length, members)
    if "items" in value:
        value["items"].sort(key=repr)
    return value if length <= walk.limits.items else {"note": "some of them, in no order"} | value


def _dict(walk: Walk, obj: dict[Any, Any]) -> Plain:
    return walk.entries(obj, dict.items(obj), dict.__len__(obj))


def _ordered_dict(walk: Walk, obj: OrderedDict[Any, Any]) -> Plain:
    keys = islice(OrderedDict.__iter__(obj), walk.limits.items)  # it keeps its own order
    pairs, why = walk.attempt(lambda: [(key, dict.__getitem__(obj, key)) for key in keys], "__hash__", type(obj))
    if pairs is None:
        return _dict(walk, obj) | {"note": walk.note(f"in order of insertion: {why}")}
    return walk.entries(obj, pairs, dict.__len__(obj))


def _class(walk: Walk, obj: type) -> Plain:
    return walk.as_text(obj, type.__repr__(obj))


def _module(walk: Walk, obj: types.ModuleType) -> Plain:
    name = object.__getattribute__(obj, "__dict__").get("__name__")
    # without its file, which differs between machines
    return walk.as_text(obj, f"<module {name!r}>" if type(name) is str else "<module>")


def _plainly(walk: Walk, obj: object) -> Plain:
    """Describe an object of a class whose repr is known to be fast and to run no other code."""
    return walk.as_text(obj, plain_repr(obj))


def _size(walk: Walk, obj: Any) -> Plain:
    return _plainly(walk, obj) if type(obj) is _imported("torch", "Size") else _tuple(walk, obj)


def _method(walk: Walk, obj: types.MethodType) -> Plain:
    function = obj.__func__
    name = function.__qualname__ if type(function) in (types.FunctionType, types.BuiltinFunctionType) else "?"
    return walk.as_text(obj, f"<bound method {name}>")  # the repr of its object may be pages long


def _imported(module: str, name: str) -> object:
    """Return the object that a module holds as `name`; None if the module is not imported, or is no module."""
    holder = sys.modules.get(module)
    return object.__getattribute__(holder, "__dict__").get(name) if is_a(type(holder), types.ModuleType) else None


_CLASSES: dict[type, Callable[[Walk, Any], Plain]] = {
    bool: _number,
    float: _number,
    int: _int,
    type(None): _none,
    str: _str,
    bytes: _bytes,
    bytearray: _bytes,
    complex: _plainly,
    types.FunctionType: _plainly,
    types.BuiltinFunctionType: _plainly,
    list: _sequence,
    tuple: _tuple,
    dict: _dict,
    set: _set,
    frozenset: _set,
}
# by id, because a metaclass can have a hash of its own
_EXACT = {id(kind): describe for kind, describe in _CLASSES.items()}
# Base classes, the most specific first, with the functions that describe their instances.
_BASES: tuple[tuple[type | tuple[str, str], Callable[[Walk, Any], Plain]], ...] = (
    (("torch", "Tensor"), library_values.tensor),
    (("torch", "Size"), _size),
    (("torch", "dtype"), _plainly),
    (("torch", "device"), _plainly),
    (("torch.nn", "Module"), library_values.neural_module),
    (("numpy", "ndarray"), library_values.array),
    (("numpy", "generic"), library_values.numpy_scalar),
    (("pandas", "DataFrame"), library_values.frame),
    (("pandas", "Series"), library_values.series),
    (("polars", "DataFrame"), library_values.frame),
    (("polars", "Series"), library_values.series),
    (enum.Enum, Walk.by_repr),
    (tuple, _tuple),
    (OrderedDict, _ordered_dict),
    (dict, _dict),
    (list, _sequence),
    (set, _set),
    (frozenset, _set),
    (deque, _sequence),
    (type, _class),
    (types.ModuleType, _module),
    (types.MethodType, _method),
)

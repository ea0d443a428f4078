"""Describe any object in the file form of a `schema.Value`: a plain dict of the fields that differ from their defaults.

The description runs in the lecture's process at every `@inspect`, on any object, so it trusts only `type(obj)`: it
neither calls nor looks up methods that a class could override, except through the gate (`repr`, a property that is a
field), and keeps no reference to the object.

    describe = Describer().describe
    describe(3)           # {"type": "int", "value": 3}
    describe([1.5, "a"])  # {"type": "list", "length": 2, "items": [{"type": "float", "value": 1.5}, …]}
"""

from __future__ import annotations

import dataclasses
import enum
import math
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any

from trace_tools.describing.elements import Budget, Limits
from trace_tools.describing.guarded_repr import Gate
from trace_tools.describing.redact import MARGIN
from trace_tools.describing.safe_repr import (
    class_attribute,
    class_name,
    is_a,
    is_installed,
    plain_repr,
    without_addresses,
)
from trace_tools.describing.storage_labels import StorageLabels

Plain = dict[str, Any]

_SMALL = 2**63  # smaller integers are written without counting their digits
_MOST_DIGITS = 4_300  # Python's own limit for an integer's text, unless it is set lower
_BITS_PER_DIGIT = math.log2(10)
_CHARACTERS = 16  # of text that cost as much as one node
_NOTE = 300  # characters of a note


class Describer:
    """Describes the values of one run, with the same storage labels for all of them."""

    def __init__(self, *, limits: Limits | None = None, redact: Callable[[str], str] = str) -> None:
        self.limits = limits or Limits()
        self.redact = redact
        self.labels = StorageLabels()
        self.gate = Gate()

    def describe(self, obj: object) -> Plain:
        """Return `obj` as plain data. Changes no state, and raises only KeyboardInterrupt."""
        kind = type(obj)
        if kind is float or kind is bool:
            return {"type": "float" if kind is float else "bool", "value": obj}
        if kind is int and -_SMALL < obj < _SMALL:  # type: ignore[operator]
            return {"type": "int", "value": obj}
        if kind is str and len(obj) <= self.limits.text:  # type: ignore[arg-type]
            return {"type": "str", "value": self.clean(obj)}  # type: ignore[arg-type]
        return _Walk(self).value(obj)

    def error(self, error: BaseException) -> Plain:
        """Return the description of an expression that raised `error`."""
        return {"type": "error", "text": self.clean(self.gate.describe_exception(error))}

    def clean(self, text: str, limit: int | None = None) -> str:
        """Return `text` redacted, cut, and without surrogates, which no file can hold."""
        limit = limit or self.limits.text
        text = self.redact(text if len(text) <= limit else text[: limit + MARGIN])
        if not text.isascii():
            text = text.encode("utf-8", "backslashreplace").decode("utf-8")
        return text[:limit]


class _Walk:
    """The description of one value in progress: the rest of its limits, and the containers around it."""

    __slots__ = ("budget", "describer", "inside", "limits")

    def __init__(self, describer: Describer) -> None:
        self.describer = describer
        self.limits = describer.limits
        self.budget = Budget(describer.limits)
        self.inside: list[int] = []  # ids of containers

    def value(self, obj: Any) -> Plain:
        """Return the description of any object."""
        kind = type(obj)
        self.budget.size -= 1
        if self.budget.size < 0:
            return {"type": class_name(kind), "note": "not described: the value it is in is too large"}
        try:
            return self._known(kind)(self, obj)
        except Exception as error:  # no inspected object may stop the trace
            why = self._note(f"could not be described: {self.describer.gate.describe_exception(error)}")
            return {"type": class_name(kind), "note": why}

    def _known(self, kind: type) -> Callable[[_Walk, Any], Plain]:
        """Return the function that describes objects of this class."""
        if exact := _EXACT.get(id(kind)):
            return exact
        for base, describe in _BASES:
            # Classes of torch, NumPy and similar packages are compared only if the lecture has imported the package.
            if is_a(kind, _imported(*base) if type(base) is tuple else base):
                return describe
        return _Walk._unknown

    # ------------------------------------------------------------ scalars and text

    def _number(self, obj: float) -> Plain:
        return {"type": class_name(type(obj)), "value": obj}

    def _int(self, obj: int) -> Plain:
        digits = obj.bit_length() / _BITS_PER_DIGIT
        if digits < min(_MOST_DIGITS, sys.get_int_max_str_digits() or _MOST_DIGITS) - 1:
            return {"type": "int", "value": obj}
        top = abs(obj) >> (obj.bit_length() - 64) // 4 * 4  # its first hexadecimal digits
        text = f"{'-' if obj < 0 else ''}0x{top:x}… ({obj.bit_length()} bits)"
        return {"type": "int", "text": text, "note": "too long to write out"}

    def _none(self, obj: None) -> Plain:
        return {"type": "none"}

    def _str(self, obj: str) -> Plain:
        return self._as_text(obj, obj, len(obj), "value")

    def _bytes(self, obj: bytes | bytearray) -> Plain:
        return self._as_text(obj, repr(obj[: self.limits.text]), len(obj))

    def _as_text(self, obj: object, text: str, length: int = 0, field: str = "text") -> Plain:
        """Describe an object by a text, and by the full length if that exceeds the recorded text."""
        value = {"type": class_name(type(obj)), field: self._text(text)}
        return value | {"length": length} if length > self.limits.text else value

    def _text(self, text: str) -> str:
        text = self.describer.clean(text)
        self.budget.size -= len(text) // _CHARACTERS
        return text

    def _note(self, text: str) -> str:
        return self.describer.clean(text, _NOTE)

    # ------------------------------------------------------------ containers

    def _sequence(self, obj: Any) -> Plain:
        base: Any = list if is_a(type(obj), list) else deque
        return self._members(obj, base.__len__(obj), base.__iter__(obj))

    def _tuple(self, obj: tuple[Any, ...]) -> Plain:
        kind = type(obj)
        names = None if kind is tuple else class_attribute(kind, "__match_args__")  # torch.return_types also have them
        if type(names) is tuple and len(names) == tuple.__len__(obj) > 0:
            return self._entries(obj, zip(names, tuple.__iter__(obj), strict=True))
        return self._members(obj, tuple.__len__(obj), tuple.__iter__(obj))

    def _set(self, obj: set[Any] | frozenset[Any]) -> Plain:
        base: Any = set if is_a(type(obj), set) else frozenset
        length: int = base.__len__(obj)
        if length > self.limits.sorted_members:
            return {"note": "the first ones, in no order"} | self._members(obj, length, base.__iter__(obj))
        members = list(base.__iter__(obj))
        kinds = {id(type(member)) for member in members}
        if len(kinds) == 1 and type(members[0]) in (int, str, float, bytes):
            members.sort(key=lambda member: (member != member, member))  # nan, which has no order, at the end
            return self._members(obj, length, members)
        value = self._members(obj, length, members)
        if "items" in value:
            value["items"].sort(key=repr)
        return value if length <= self.limits.items else {"note": "some of them, in no order"} | value

    def _dict(self, obj: dict[Any, Any]) -> Plain:
        return self._entries(obj, dict.items(obj), dict.__len__(obj))

    def _ordered_dict(self, obj: OrderedDict[Any, Any]) -> Plain:
        keys = islice(OrderedDict.__iter__(obj), self.limits.items)  # it keeps its own order
        pairs, why = self._attempt(lambda: [(key, dict.__getitem__(obj, key)) for key in keys], "__hash__", type(obj))
        if pairs is None:
            return self._dict(obj) | {"note": self._note(f"in order of insertion: {why}")}
        return self._entries(obj, pairs, dict.__len__(obj))

    def _members(self, obj: object, length: int, members: Iterable[Any]) -> Plain:
        value: Plain = {"type": class_name(type(obj)), "length": length}
        return self._nested(obj, value, "items", members, self.value)

    def _entries(self, obj: object, pairs: Iterable[tuple[Any, Any]], length: int | None = None) -> Plain:
        value: Plain = {"type": class_name(type(obj))}
        if length is not None:
            value["length"] = length
        return self._nested(obj, value, "entries", pairs, self._entry)

    def _entry(self, pair: tuple[Any, Any]) -> list[Plain]:
        return [self.value(pair[0]), self.value(pair[1])]

    def _nested(
        self, obj: object, value: Plain, field: str, members: Iterable[Any], describe: Callable[[Any], Any]
    ) -> Plain:
        """Add the first members of `obj`, as many as the limits allow, unless it contains itself or is too deep."""
        if id(obj) in self.inside:
            return {"type": "cycle"}
        if len(self.inside) >= self.limits.depth:
            return value | {"note": "nested too deep"}
        self.inside.append(id(obj))
        described: list[Any] = []
        try:
            # a list, because describing may run code that changes the container
            for member in list(islice(members, self.limits.items)):
                if self.budget.size <= 0:
                    break
                described.append(describe(member))
            return value | {field: described}
        finally:
            self.inside.pop()

    # ------------------------------------------------------------ tensors and modules

    def _tensor(self, obj: Any) -> Plain:
        from trace_tools.describing.tensors import describe_tensor, inner_tensors, is_wrapper

        value, parts = describe_tensor(obj, self.describer.labels, self.limits, self.budget)
        if is_wrapper(obj):
            inner, why = self._attempt(lambda: inner_tensors(obj), "__tensor_flatten__", type(obj))
            parts = inner or []
            value["note"] = "; ".join(filter(None, (value["note"], why)))
        if "note" in value:
            value["note"] = self._note(value["note"])
        if parts and parts[0][0] is None:
            return self._nested(obj, value, "items", (part for _, part in parts), self.value)
        return self._nested(obj, value, "entries", parts, self._entry) if parts else value

    def _array(self, obj: Any) -> Plain:
        from trace_tools.describing.arrays import describe_array

        value, members = describe_array(obj, self.describer.labels, self.limits, self.budget)
        tensor = value["tensor"]
        for field in {"elements", "corner"} & tensor.keys():
            tensor[field] = [self._text(e) if type(e) is str else e for e in tensor[field]]
        return self._nested(obj, value, "items", members, self.value) if members else value

    def _table(self, obj: Any) -> Plain:
        """Describe a DataFrame by its columns, each like an array."""
        from trace_tools.describing.columns import columns

        limit = self.limits.items
        contents, why = self._attempt(lambda: (columns(obj, limit), int(obj.shape[1])), "its columns", type(obj))
        if contents is None:
            return {"type": class_name(type(obj)), "note": self._note(why)}
        pairs, length = contents
        value: Plain = {"type": class_name(type(obj)), "length": length}
        value = self._nested(obj, value, "entries", pairs, lambda pair: [self.value(pair[0]), self._column(pair[1])])
        return self._labelled(obj, value)

    def _series(self, obj: Any) -> Plain:
        return self._labelled(obj, self._column(obj))

    def _labelled(self, obj: Any, value: Plain) -> Plain:
        """Add the labels of the first rows of a pandas object."""
        from trace_tools.describing.columns import labels

        row_labels, why = self._attempt(lambda: labels(obj, self.limits.items), "its index", type(obj))
        if row_labels:
            value = self._nested(obj, value, "labels", row_labels, self.value)
        elif why:
            value = value | {
                "note": self._note("; ".join(filter(None, (value.get("note"), f"without its index: {why}"))))
            }
        return value

    def _column(self, obj: Any) -> Plain:
        """Describe a series by its memory, or by its first elements if it is not a plain array."""
        from trace_tools.describing.columns import as_array, first, is_lasting

        array, _ = self._attempt(lambda: as_array(obj), "to_numpy", type(obj))
        if array is not None:
            value = self._array(array)
            if not is_lasting(obj):
                value["tensor"] = _without_positions(value["tensor"])
            return value | {"type": class_name(type(obj))}
        limit = self.limits.items
        described, why = self._attempt(lambda: (first(obj, limit), len(obj), str(obj.dtype)), "its elements", type(obj))
        if described is None:
            return {"type": class_name(type(obj)), "note": self._note(why)}
        members, length, dtype = described
        return self._members(obj, length, members) | {"note": self._note(f"dtype {dtype}")}

    def _of_jax(self, obj: Any) -> Plain:
        from trace_tools.describing.columns import of_jax

        converted, why = self._attempt(lambda: of_jax(obj), "its elements", type(obj))
        if converted is None:
            return {"type": class_name(type(obj)), "note": self._note(why)}
        elements, own = converted
        if elements is None:
            return {"type": class_name(type(obj)), "tensor": own, "note": "its elements are not copied to the host"}
        value = self._array(elements)
        return value | {"type": class_name(type(obj)), "tensor": _without_positions(value["tensor"]) | own}

    def _numpy_scalar(self, obj: Any) -> Plain:
        from trace_tools.describing.arrays import describe_scalar, is_plain

        if not is_plain(obj):  # of a subclass, or a record that may hold any object
            return self._repr(obj, lambda: without_addresses(str(obj)))
        value = describe_scalar(obj)
        return value | {"text": self._text(value["text"])}

    def _neural(self, obj: Any) -> Plain:
        from trace_tools.describing.tensors import parameter_count

        count, why = self._attempt(lambda: parameter_count(obj), "parameters()", type(obj))
        value = self._unknown(obj)
        if count is not None:
            value["entries"] = [[{"type": "str", "value": "parameters"}, {"type": "int", "value": count}]]
        else:
            value.setdefault("note", self._note(why))
        return value

    # ------------------------------------------------------------ other objects

    def _class(self, obj: type) -> Plain:
        return self._as_text(obj, type.__repr__(obj))

    def _module(self, obj: types.ModuleType) -> Plain:
        name = object.__getattribute__(obj, "__dict__").get("__name__")
        return self._as_text(
            obj, f"<module {name!r}>" if type(name) is str else "<module>"
        )  # its file differs between machines

    def _plainly(self, obj: object) -> Plain:
        """Describe an object of a class whose repr is known to be fast and to run no other code."""
        return self._as_text(obj, plain_repr(obj))

    def _size(self, obj: Any) -> Plain:
        return self._plainly(obj) if type(obj) is _imported("torch", "Size") else self._tuple(obj)

    def _method(self, obj: types.MethodType) -> Plain:
        function = obj.__func__
        name = function.__qualname__ if type(function) in (types.FunctionType, types.BuiltinFunctionType) else "?"
        return self._as_text(obj, f"<bound method {name}>")  # the repr of its object may be pages long

    def _unknown(self, obj: Any) -> Plain:
        """Describe a dataclass by its fields, and so an object of the lecture's own class that has no repr of its own.

        All other objects are described by their repr.
        """
        fields = class_attribute(type(obj), "__dataclass_fields__")
        if type(fields) is dict and all(type(field) is dataclasses.Field for field in fields.values()):
            field_type = dataclasses._FIELD  # type: ignore[attr-defined]  # else of the class, or given to `__init__` only
            own = [field for field in fields.values() if field._field_type is field_type]
            names = [field.name for field in own if field.repr]
            value: Plain = {"type": class_name(type(obj))}
            return self._nested(obj, value, "entries", names, partial(self._field, obj))
        if class_attribute(type(obj), "__repr__") is object.__repr__ and not is_installed(type(obj)):
            state, _ = self._attempt(lambda: object.__getattribute__(obj, "__dict__"), "__dict__", type(obj))
            if type(state) is dict and state and all(type(name) is str for name in state):
                return self._nested(obj, {"type": class_name(type(obj))}, "entries", list(state.items()), self._entry)
        return self._repr(obj)

    def _field(self, obj: object, name: str) -> list[Plain]:
        """Describe one field: from the instance itself, unless its class computes it."""
        content, why = self._attempt(lambda: (object.__getattribute__(obj, name),), name, type(obj))
        return [self.value(name), self.value(content[0]) if content else {"type": "error", "text": self._note(why)}]

    def _repr(self, obj: object, call: Callable[[], str] | None = None) -> Plain:
        text, why = self._attempt(call or (lambda: plain_repr(obj)), "repr", type(obj))
        if text is None:
            return {"type": class_name(type(obj)), "note": self._note(why)}
        return self._as_text(obj, text, len(text))

    def _attempt(self, call: Callable[[], Any], name: str, kind: type) -> tuple[Any, str]:
        """Call code of the lecture within the remaining time for this value."""
        if self.budget.repr_seconds <= 0:
            return None, f"{name} not called: this value already took too long"
        started = perf_counter()
        try:
            result, why = self.describer.gate.call(call, name, self.budget.repr_seconds, kind)
            return result, why or ""
        finally:
            self.budget.repr_seconds -= perf_counter() - started


def _without_positions(tensor: Plain) -> Plain:
    """Return a tensor's description without the positions of its elements, which its owner does not give."""
    positions = {"storage", "storage_bytes", "strides", "offset", "contiguous"}
    return {field: value for field, value in tensor.items() if field not in positions}


def _imported(module: str, name: str) -> object:
    """Return the object that a module holds as `name`; None if the module is not imported, or is no module."""
    holder = sys.modules.get(module)
    return object.__getattribute__(holder, "__dict__").get(name) if is_a(type(holder), types.ModuleType) else None


_CLASSES: dict[type, Callable[[_Walk, Any], Plain]] = {
    bool: _Walk._number,
    float: _Walk._number,
    int: _Walk._int,
    type(None): _Walk._none,
    str: _Walk._str,
    bytes: _Walk._bytes,
    bytearray: _Walk._bytes,
    complex: _Walk._plainly,
    types.FunctionType: _Walk._plainly,
    types.BuiltinFunctionType: _Walk._plainly,
    list: _Walk._sequence,
    tuple: _Walk._tuple,
    dict: _Walk._dict,
    set: _Walk._set,
    frozenset: _Walk._set,
}
# by id, because a metaclass can have a hash of its own
_EXACT = {id(kind): describe for kind, describe in _CLASSES.items()}
# Base classes, the most specific first, with the functions that describe their instances.
_BASES: tuple[tuple[type | tuple[str, str], Callable[[_Walk, Any], Plain]], ...] = (
    (("torch", "Tensor"), _Walk._tensor),
    (("torch", "Size"), _Walk._size),
    (("torch", "dtype"), _Walk._plainly),
    (("torch", "device"), _Walk._plainly),
    (("torch.nn", "Module"), _Walk._neural),
    (("numpy", "ndarray"), _Walk._array),
    (("numpy", "generic"), _Walk._numpy_scalar),
    (("pandas", "DataFrame"), _Walk._table),
    (("pandas", "Series"), _Walk._series),
    (("polars", "DataFrame"), _Walk._table),
    (("polars", "Series"), _Walk._series),
    (("jaxlib._jax", "ArrayImpl"), _Walk._of_jax),
    (enum.Enum, _Walk._repr),
    (tuple, _Walk._tuple),
    (OrderedDict, _Walk._ordered_dict),
    (dict, _Walk._dict),
    (list, _Walk._sequence),
    (set, _Walk._set),
    (frozenset, _Walk._set),
    (deque, _Walk._sequence),
    (type, _Walk._class),
    (types.ModuleType, _Walk._module),
    (types.MethodType, _Walk._method),
)

"""Walk through one value: describe its members within the limits that remain, and call the lecture's code with a guard.

`function_for` gives the function that describes the objects of a class, such as `values.function_for`.

    walk = Walk(ValueLimits(), StorageLabels(), Guard(), clean, function_for)
    walk.value(Point(x=1))  # {"type": "Point", "entries": [[{…, "value": "x"}, {…, "value": 1}]]}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from inspect import getattr_static
from itertools import islice
from time import perf_counter
from typing import Any

from trace_tools.describing.guarded_repr import Guard, class_name, is_installed, is_of_a_signal, plain_repr
from trace_tools.describing.storage_labels import LEAST_HASH, StorageLabels

Plain = dict[str, Any]
Describe = Callable[["Walk", Any], Plain]

_CHARACTERS = 16  # of text that cost as much as one node
_NOTE = 300  # characters of a note


@dataclass(frozen=True, slots=True)
class ValueLimits:
    """Bounds on the description of one value; larger parts are cut, with a note."""

    elements: int = 256  # of a tensor: all up to this number, else a corner and statistics
    items: int = 100  # of a container, from its start
    depth: int = 6  # containers inside containers
    text: int = 2_000  # characters of one string or repr
    size: int = 5_000  # of the whole value: 1 for each node and element, 1 for every 16 characters
    sorted_members: int = 10_000  # of a set of numbers or strings; a larger one is not sorted
    repr_seconds: float = 0.2  # for all calls of `repr` together, on the main thread
    statistics: int = 2**24  # elements of all its tensors together that are read for statistics; takes 128 MiB


def scalar(obj: object) -> Plain | None:
    """Return the description of None or a number, unless it may be an address."""
    kind = type(obj)
    if kind is float or kind is bool or (kind is int and -LEAST_HASH < obj < LEAST_HASH):  # type: ignore[operator]
        return {"type": kind.__name__, "value": obj}
    return {"type": "none"} if obj is None else None


@dataclass(eq=False)
class Walk:
    """The description of one value in progress, with the rest of its limits and the containers around it."""

    limits: ValueLimits
    labels: StorageLabels
    guard: Guard
    clean: Callable[..., str]
    function_for: Callable[[type], Describe]
    inside: list[int] = field(default_factory=list)  # ids of containers

    def __post_init__(self) -> None:
        self.size = self.limits.size
        self.repr_seconds = self.limits.repr_seconds
        self.statistics = self.limits.statistics

    def value(self, obj: Any) -> Plain:
        """Return the description of any object."""
        self.size -= 1
        if self.size < 0:
            return {"type": class_name(type(obj)), "note": "not described: the value that contains it is too large"}
        if (plain := scalar(obj)) is not None:
            return plain
        try:
            return self.function_for(type(obj))(self, obj)
        except Exception as error:  # no inspected object may stop the trace
            if is_of_a_signal(error):
                raise
            why = self.note(f"could not be described: {self.guard.describe_exception(error)}")
            return {"type": class_name(type(obj)), "note": why}

    def text(self, text: str) -> str:
        """Return `text` cleaned, and subtract it from the size that is left."""
        text = self.clean(text)
        self.size -= len(text) // _CHARACTERS
        return text

    def note(self, text: str) -> str:
        """Return `text` cleaned, and cut to the length of a note."""
        return self.clean(text, _NOTE)

    def as_text(self, obj: object, text: str, length: int = 0) -> Plain:
        """Describe an object by a text, and by the full length if that exceeds the recorded text."""
        value = {"type": class_name(type(obj)), "text": self.text(text)}
        return value | {"length": length} if length > self.limits.text else value

    def members(self, obj: object, length: int, members: Iterable[Any]) -> Plain:
        """Describe a container by its first members."""
        value: Plain = {"type": class_name(type(obj)), "length": length}
        return self.nested(obj, value, "items", members, self.value)

    def entries(self, obj: object, pairs: Iterable[tuple[Any, Any]], length: int | None = None) -> Plain:
        """Describe a container by its first keys and values."""
        value: Plain = {"type": class_name(type(obj))}
        if length is not None:
            value["length"] = length
        return self.nested(obj, value, "entries", pairs, lambda pair: [self.value(part) for part in pair])

    def nested(
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
                if self.size <= 0:
                    break
                described.append(describe(member))
        finally:
            self.inside.pop()
        value[field] = described
        return value

    def other(self, obj: Any) -> Plain:
        """Describe a dataclass by its fields, likewise an object of a class of the lecture without its own repr.

        All other objects are described by their repr.
        """
        kind = type(obj)
        try:
            state = object.__getattribute__(obj, "__dict__")
        except AttributeError:  # it has slots
            state = {}

        def entry(name: str) -> list[Plain]:
            if name in state:
                return [self.value(name), self.value(state[name])]
            content, why = self.attempt(lambda: (getattr(obj, name),), name)  # its class computes it, or has a slot
            return [self.value(name), self.value(content[0]) if content else {"type": "error", "text": self.note(why)}]

        if type(getattr_static(kind, "__dataclass_fields__", None)) is dict:
            names = [field.name for field in dataclasses.fields(kind) if field.repr]
            return self.nested(obj, {"type": class_name(kind)}, "entries", names, entry)
        if getattr_static(kind, "__repr__") is object.__repr__ and state and not is_installed(kind):
            return self.entries(obj, list(state.items()))
        return self.by_repr(obj)

    def plainly(self, obj: object) -> Plain:
        """Describe an object of a class with a repr that is known to be fast and to run no other code."""
        return self.as_text(obj, plain_repr(obj))

    def by_repr(self, obj: object, call: Callable[[], str] | None = None) -> Plain:
        """Describe an object by its repr, or by the text that `call` returns."""
        text, why = self.attempt(call or (lambda: plain_repr(obj)), "repr")
        if text is None:
            return {"type": class_name(type(obj)), "note": self.note(why)}
        return self.as_text(obj, text, len(text))

    def attempt(self, call: Callable[[], Any], name: str) -> tuple[Any, str]:
        """Call code of the lecture within the remaining time for this value."""
        if self.repr_seconds <= 0:
            return None, f"{name} not called: this value already took too long"
        started = perf_counter()
        try:
            result, why = self.guard.call(call, name, self.repr_seconds)
            return result, why or ""
        finally:
            self.repr_seconds -= perf_counter() - started

"""Walk through one value: describe its members within the limits that remain, and call the lecture's code with a guard.

walk = Walk(limits, StorageLabels(), Guard(), clean)
walk.value(Point(x=1))  # {"type": "Point", "entries": [[{…, "text": "'x'"}, {…, "text": "1"}]]}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any

from trace_tools.describing.elements import Budget, Limits
from trace_tools.describing.guarded_repr import Guard
from trace_tools.describing.safe_repr import class_attribute, class_name, is_installed, plain_repr
from trace_tools.describing.storage_labels import StorageLabels

Plain = dict[str, Any]

_CHARACTERS = 16  # of text that cost as much as one node
_NOTE = 300  # characters of a note


class Walk:
    """The description of one value in progress: the rest of its limits, and the containers around it."""

    __slots__ = ("budget", "clean", "guard", "inside", "labels", "limits")

    def __init__(self, limits: Limits, labels: StorageLabels, guard: Guard, clean: Callable[..., str]) -> None:
        self.limits = limits
        self.labels = labels
        self.guard = guard
        self.clean = clean
        self.budget = Budget(limits)
        self.inside: list[int] = []  # ids of containers

    def value(self, obj: Any) -> Plain:
        """Return the description of any object."""
        kind = type(obj)
        self.budget.size -= 1
        if self.budget.size < 0:
            return {"type": class_name(kind), "note": "not described: the value that contains it is too large"}
        try:
            return self.function_for(kind)(self, obj)
        except Exception as error:  # no inspected object may stop the trace
            why = self.note(f"could not be described: {self.guard.describe_exception(error)}")
            return {"type": class_name(kind), "note": why}

    def function_for(self, kind: type) -> Callable[[Walk, Any], Plain]:
        """Return the function that describes objects of this class; a subclass may know better ones."""
        return Walk.other

    def text(self, text: str) -> str:
        """Return `text` cleaned, and subtract it from the budget."""
        text = self.clean(text)
        self.budget.size -= len(text) // _CHARACTERS
        return text

    def note(self, text: str) -> str:
        """Return `text` cleaned, and cut to the length of a note."""
        return self.clean(text, _NOTE)

    def as_text(self, obj: object, text: str, length: int = 0, field: str = "text") -> Plain:
        """Describe an object by a text, and by the full length if that exceeds the recorded text."""
        value = {"type": class_name(type(obj)), field: self.text(text)}
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
        return self.nested(obj, value, "entries", pairs, self.entry)

    def entry(self, pair: tuple[Any, Any]) -> list[Plain]:
        """Return the descriptions of a key and its value."""
        return [self.value(pair[0]), self.value(pair[1])]

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
                if self.budget.size <= 0:
                    break
                described.append(describe(member))
            return value | {field: described}
        finally:
            self.inside.pop()

    def other(self, obj: Any) -> Plain:
        """Describe a dataclass by its fields, likewise an object of a class of the lecture without its own repr.

        All other objects are described by their repr.
        """
        fields = class_attribute(type(obj), "__dataclass_fields__")
        if type(fields) is dict and all(type(field) is dataclasses.Field for field in fields.values()):
            field_type = dataclasses._FIELD  # type: ignore[attr-defined]  # else of the class, or given to `__init__` only
            names = [field.name for field in fields.values() if field._field_type is field_type and field.repr]
            value: Plain = {"type": class_name(type(obj))}
            return self.nested(obj, value, "entries", names, partial(self._field, obj))
        if class_attribute(type(obj), "__repr__") is object.__repr__ and not is_installed(type(obj)):
            state, _ = self.attempt(lambda: object.__getattribute__(obj, "__dict__"), "__dict__", type(obj))
            if type(state) is dict and state and all(type(name) is str for name in state):
                return self.nested(obj, {"type": class_name(type(obj))}, "entries", list(state.items()), self.entry)
        return self.by_repr(obj)

    def _field(self, obj: object, name: str) -> list[Plain]:
        """Describe one field: from the instance itself, unless its class computes it."""
        content, why = self.attempt(lambda: (object.__getattribute__(obj, name),), name, type(obj))
        return [self.value(name), self.value(content[0]) if content else {"type": "error", "text": self.note(why)}]

    def by_repr(self, obj: object, call: Callable[[], str] | None = None) -> Plain:
        """Describe an object by its repr, or by the text that `call` returns."""
        text, why = self.attempt(call or (lambda: plain_repr(obj)), "repr", type(obj))
        if text is None:
            return {"type": class_name(type(obj)), "note": self.note(why)}
        return self.as_text(obj, text, len(text))

    def attempt(self, call: Callable[[], Any], name: str, kind: type) -> tuple[Any, str]:
        """Call code of the lecture within the remaining time for this value."""
        if self.budget.repr_seconds <= 0:
            return None, f"{name} not called: this value already took too long"
        started = perf_counter()
        try:
            result, why = self.guard.call(call, name, self.budget.repr_seconds)
            return result, why or ""
        finally:
            self.budget.repr_seconds -= perf_counter() - started

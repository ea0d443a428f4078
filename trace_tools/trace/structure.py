"""Convert plain data to records and back, by msgspec; errors name the position of the value and the expected type.

to_plain(Peak("memory", 4.8e12, "datasheet"))  # {"name": "memory", "per_second": 4.8e12, "source": "datasheet"}
from_plain(Peak, {"name": "memory", …}, Path("trace.yaml"))  # Peak("memory", …)
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from trace_tools.errors import TraceFileError
from trace_tools.util import formats
from trace_tools.util.structs import tag

T = TypeVar("T")

LONGEST_MESSAGE = 300  # characters; a file may quote itself at any length

_POSITION = re.compile(r"\A(.*?)(?: - at `(?:key` in `)?\$(.*)`)?\Z", re.DOTALL)
_FIELD = re.compile(r"Object (?:contains unknown|missing required) field `(?P<name>.*)`", re.DOTALL)
_RANGE = re.compile("(Integer value|Number) out of range")
_WORDS = {"Expected": "expected", "object": "a mapping", "array": "a list", " | ": " or ", "`": ""}
_NAMES = {type(None): "null", dict: "mapping"}


class Mismatch(Exception):
    """Data that does not follow the schema; each level that the error passes adds its part of the position."""

    def __init__(self, message: str, *parts: str) -> None:
        super().__init__(message)
        self.parts = list(parts)  # innermost first: ".line", "[12]", ".steps"

    def at(self, path: Path | str, line: int | None = None) -> TraceFileError:
        """Return the error to show for the file at `path`."""
        where = "".join(reversed(self.parts)).lstrip(".")
        if line is not None:
            where = f"line {line}, {where}"
        return TraceFileError(path, where or None, formats.one_line(str(self), LONGEST_MESSAGE))


def from_plain(cls: type[T], plain: object, path: Path | str) -> T:
    """Return the instance of `cls` that `plain` describes. Raises `TraceFileError` with `path` and the position
    inside.
    """
    try:
        return converted(cls, plain)
    except Mismatch as mismatch:
        raise mismatch.at(path) from None


def converted(cls: type[T], plain: object) -> T:
    """Return the instance of `cls` that `plain` describes. Raises `Mismatch` if it does not describe an instance."""
    try:
        return msgspec.convert(plain, cls)
    except msgspec.ValidationError as error:
        message, position = _POSITION.findall(str(error))[0]
        hint: Any = cls
        value: Any = plain
        try:
            for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", position):
                if name:
                    hint = get_type_hints(_records_in(hint, value)[0]).get(name, hint)  # no field: it names the class
                value = value[name] if name else value[int(index)]
            records = _records_in(hint, value)
        except (LookupError, TypeError):  # not a position, but a quoted key that resembles one
            message, position, records, value = str(error), "", [cls], plain
        raise Mismatch(_reworded(message, value, records), position) from None


def to_plain(instance: object) -> dict[str, Any]:
    """Return a record as plain data: its fields in order, without fields that equal their defaults."""
    plain: dict[str, Any] = msgspec.to_builtins(instance)
    return plain


def _records_in(hint: Any, plain: Any) -> list[Any]:
    """Return the classes of records in a hint like `list[tuple[str, Value]] | None`; for a union, that of `plain`."""
    if is_dataclass(hint):
        return [hint]
    records = [one for inner in get_args(hint) for one in _records_in(inner, plain)]
    return [one for one in records if isinstance(plain, dict) and tag(one).items() <= plain.items()] or records


def _reworded(message: str, value: Any, records: list[Any]) -> str:
    """Reword msgspec's message, and add the value that was found."""
    field = _FIELD.fullmatch(message)
    if field is None:
        expected = _RANGE.sub("expected a smaller number", message.partition(", got ")[0])
        if expected.startswith("Invalid value "):
            kinds = [name for cls in records for name in tag(cls).values()]
            return f"found {short(value)}; expected one of {', '.join(kinds)}"
        for word, ours in _WORDS.items():
            expected = expected.replace(word, ours)
        return unlike(expected, value)
    keys = [name for cls in records[:1] for name in (*tag(cls), *(one.name for one in fields(cls)))]
    for key in value:
        if key not in keys:
            return f"unknown key {short(key)}; expected {', '.join(map(repr, keys))}"
    return f"the key {short(field['name'])} is missing"


def unlike(expected: str, plain: object) -> str:
    """Return a message on one line: the expectation, and the shortened value that was found."""
    kind = _NAMES.get(type(plain), type(plain).__name__)
    if isinstance(plain, list):
        return f"{expected}, found a list of {len(plain)}"
    return f"{expected}, found {kind}" + ("" if plain is None or kind == "mapping" else f" {short(plain)}")


def short(plain: object) -> str:
    """Shorten plain data for an error message."""
    shown = plain[:41] if isinstance(plain, str) else plain
    try:
        text = repr(shown)
    except ValueError:  # an int of more digits than Python prints
        text = "of thousands of digits"
    return text if len(text) <= 60 else text[:60] + "…"

"""The base of all records, which msgspec reads and checks.

class Peak(Struct, frozen=True):
    name: str
    per_second: Annotated[float, Meta(ge=1)] | None = None

msgspec.convert({"name": "memory"}, Peak)    # Peak("memory"); raises `msgspec.ValidationError` for other data
to_plain(Peak("memory"))                     # {"name": "memory"}
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import msgspec


class _DataclassFields:
    def __get__(self, instance: object, cls: type[Struct]) -> dict[str, dataclasses.Field[Any]]:
        return _dataclass_fields(cls)


class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """Immutable, compared by value, and never part of a cycle (so `gc=False`).

    `dataclasses.replace`, `fields` and `asdict` work on records as on dataclasses.
    """

    __dataclass_fields__ = _DataclassFields()  # these functions check only this attribute


@cache
def _dataclass_fields(cls: type[Struct]) -> dict[str, dataclasses.Field[Any]]:
    made: Any = dataclasses.make_dataclass(cls.__name__, cls.__struct_fields__)
    return dict(made.__dataclass_fields__)


def to_plain(instance: object) -> dict[str, Any]:
    """Return a record as plain data: its fields in order, without fields that equal their defaults."""
    plain: dict[str, Any] = msgspec.to_builtins(instance)
    return plain

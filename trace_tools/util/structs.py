"""The base of all records, which msgspec reads and checks; dataclasses where msgspec is not installed.

msgspec is compiled, so `fleet` can't send it along, and a machine that traces may lack it. There, records are
dataclasses: types are checked more slowly, and bounds are not checked.

    class Peak(Struct, frozen=True):
        name: str
        per_second: Annotated[float, Meta(ge=1)] | None = None

    converted({"name": "memory"}, Peak)  # Peak("memory"); raises `Unlike` for other data
    to_plain(Peak("memory"))            # {"name": "memory"}
"""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from importlib.util import find_spec
from types import UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Union, get_args, get_origin, get_type_hints

__all__ = ["NOT_JSON", "Meta", "Struct", "Unlike", "converted", "field", "from_json", "json_decoder", "tag", "to_plain"]

Fields = dict[str, dataclasses.Field[Any]]

if TYPE_CHECKING or find_spec("msgspec"):
    import msgspec
    from msgspec import Meta, field

    class _DataclassFields:
        def __get__(self, instance: object, cls: type[Struct]) -> Fields:
            return _dataclass_fields(cls)

    class Struct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
        """Immutable, compared by value, and never part of a cycle (so `gc=False`).

        `dataclasses.replace`, `fields` and `asdict` work on records as on dataclasses.
        """

        __dataclass_fields__ = _DataclassFields()  # these functions check only this attribute

    @cache
    def _dataclass_fields(cls: type[Struct]) -> Fields:
        described: list[Any] = []
        for one in msgspec.structs.fields(cls):
            default = {name: getattr(one, name) for name in ("default", "default_factory")}
            default = {name: value for name, value in default.items() if value is not msgspec.NODEFAULT}
            described.append((one.name, one.type, dataclasses.field(**default)))
        made: Any = dataclasses.make_dataclass(cls.__name__, described, kw_only=True)
        return dict(made.__dataclass_fields__)

    def tag(cls: Any) -> dict[str, Any]:
        """Return the key and the name by which plain data of a union names this class; {} if it is in no union."""
        config = cls.__struct_config__
        return {config.tag_field: config.tag} if config.tag_field else {}

    def json_decoder(cls: Any) -> Any:
        """Return the function that decodes the JSON of one record."""
        return msgspec.json.Decoder(cls).decode

    converted, to_plain, from_json = msgspec.convert, msgspec.to_builtins, msgspec.json.decode
    NOT_JSON: tuple[type[Exception], ...] = (msgspec.DecodeError, UnicodeDecodeError)
    Unlike: type[Exception] = msgspec.ValidationError
else:
    field, from_json = dataclasses.field, json.loads
    NOT_JSON, Unlike = (ValueError,), ValueError

    def Meta(**_: object) -> None:
        """Note bounds, which only msgspec checks."""

    class _Dataclass:
        _tagged: ClassVar[tuple[str, Any] | None] = None

        def __init_subclass__(cls, tag_field: str | None = None, tag: Any = None, **how: bool) -> None:
            if tag_field is not None:
                cls._tagged = (tag_field, tag)
            dataclasses.dataclass(**how)(cls)

    Struct = _Dataclass

    def tag(cls: Any) -> dict[str, Any]:
        """Return the key and the name by which plain data of a union names this class; {} if it is in no union."""
        tagged = getattr(cls, "_tagged", None)  # a dataclass that is no Struct has none
        return {tagged[0]: tagged[1](cls.__qualname__)} if tagged else {}

    def json_decoder(cls: Any) -> Any:
        """Return the function that decodes the JSON of one record."""
        return lambda line: converted(json.loads(line), cls)

    _hints = cache(get_type_hints)

    def converted(plain: Any, hint: Any) -> Any:
        """Convert plain data to the type of a hint. Raises ValueError if the data does not fit the hint."""
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        if type(plain) in kinds or hint is Any:
            return plain
        for kind in kinds:
            inner = get_args(kind)
            if kind is float and type(plain) is int:
                return float(plain)
            if get_origin(kind) is list and type(plain) is list:
                return [converted(item, inner[0]) for item in plain]
            if get_origin(kind) is tuple and type(plain) is list and len(plain) == len(inner):
                return tuple(map(converted, plain, inner))
            if dataclasses.is_dataclass(kind) and type(plain) is dict and tag(kind).items() <= plain.items():
                plain = {name: value for name, value in plain.items() if name not in tag(kind)}
                if unknown := plain.keys() - _hints(kind).keys():
                    raise ValueError(f"Object contains unknown field `{min(map(str, unknown))}`")
                try:
                    return kind(**{name: converted(value, _hints(kind)[name]) for name, value in plain.items()})
                except (TypeError, OverflowError) as error:
                    raise ValueError(str(error)) from None
        raise ValueError(f"Expected `{hint}`, got `{type(plain).__name__}`")

    def to_plain(made: Any) -> Any:
        """Return plain data, without the fields that are at their defaults."""
        if isinstance(made, list | tuple):
            return [to_plain(item) for item in made]
        if not dataclasses.is_dataclass(made):
            return made
        plain = tag(type(made))
        for one in dataclasses.fields(made):
            value = getattr(made, one.name)
            default = one.default if one.default_factory is dataclasses.MISSING else one.default_factory()
            if type(value) is not type(default) or value != default:
                plain[one.name] = to_plain(value)
        return plain

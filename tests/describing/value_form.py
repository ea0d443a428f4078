"""Describe objects, and check the form of the description against the schema's dataclasses and JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from trace_tools.describing.values import Describer
from trace_tools.describing.walk import ValueLimits
from trace_tools.trace.model import Value


def describe(
    obj: object, describer: Describer | None = None, *, redact: Callable[[str], str] = str, **limits: Any
) -> dict[str, Any]:
    """Return the description of `obj`, after checking its form."""
    value = (describer or Describer(limits=ValueLimits(**limits), redact=redact)).describe(obj)
    assert_form(value)
    return value


def tensor(obj: object, describer: Describer | None = None, **limits: Any) -> dict[str, Any]:
    """Return the field `tensor` of the description of the tensor or array `obj`."""
    field = describe(obj, describer, **limits)["tensor"]
    assert isinstance(field, dict)
    return field


def part(value: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the entry of a described value with this name."""
    return next(item for key, item in value["entries"] if key["value"] == name)


def assert_form(value: Any, cls: type = Value) -> None:
    """Assert that `value` is a plain dict of fields of `cls` that are not at their default."""
    assert type(value) is dict, value
    json.dumps(value)
    hints = get_type_hints(cls)
    defaults = {f.name: f.default for f in msgspec.structs.fields(cls)}
    required = {name for name, default in defaults.items() if default is msgspec.NODEFAULT}
    assert required <= value.keys() <= hints.keys(), value
    for name, content in value.items():
        assert type(content) is not type(defaults[name]) or content != defaults[name], (name, value)
        assert _fits(content, hints[name]), (name, content)


def _fits(content: Any, hint: Any) -> bool:
    if dataclasses.is_dataclass(hint):
        assert_form(content, hint)  # type: ignore[arg-type]
        return True
    if get_origin(hint) is list:
        return type(content) is list and all(_fits(item, get_args(hint)[0]) for item in content)
    if get_origin(hint) is tuple:
        hints = get_args(hint)
        return type(content) is list and len(content) == len(hints) and all(map(_fits, content, hints))
    if get_args(hint):  # a union
        return any(_fits(content, option) for option in get_args(hint))
    return type(content) is hint  # exactly: no bool for an int, no subclass of str

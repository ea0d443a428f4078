"""What is asked of an object that nobody vouches for without running any code of its own, but for its `repr`.

class_name(type(obj))                       # whatever its metaclass makes of attributes
class_attribute(type(obj), "__match_args__")
is_a(type(obj), dict)
gate.call(lambda: plain_repr(obj), "repr", 0.2)
"""

from __future__ import annotations

import re
from typing import Any

LONGEST_NAME = 200  # characters of a class name

_NAME = type.__dict__["__name__"].__get__
_MODULE = type.__dict__["__module__"].__get__
_IS_SUBCLASS: Any = type.__subclasscheck__
_MRO = type.__dict__["__mro__"].__get__
_NAMES = type.__dict__["__dict__"].__get__
_VALUE_TYPES = frozenset(
    "bool int float str none complex list tuple set frozenset dict tensor parameter ndarray error cycle".split()  # noqa: SIM905
)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+|\b0x[0-9a-fA-F]{9,16}\b")


def class_name(kind: type) -> str:
    """Return the name of a class without asking its metaclass; qualified where a `Value` type has that name."""
    name = _exact_text(_NAME(kind))
    if name in _VALUE_TYPES and (module := _exact_text(_MODULE(kind))) != "builtins":
        name = f"{module}.{name}"  # re.error is not an expression that failed
    return name[:LONGEST_NAME]


def class_attribute(kind: type, name: str) -> Any:
    """Return what `kind`, or the first of its bases that has it, defines as `name`: as it was written, or None."""
    return next((names[name] for base in _MRO(kind) if name in (names := _NAMES(base))), None)


def is_a(kind: type, base: object) -> bool:
    """Tell whether `base` is a class from which `kind` is derived, whatever their metaclasses say."""
    return bool(_IS_SUBCLASS(type, type(base)) and _IS_SUBCLASS(base, kind))


def plain_repr(obj: object) -> str:
    """Return the repr of `obj` without memory addresses."""
    return without_addresses(repr(obj))


def without_addresses(text: str) -> str:
    """Remove what differs from run to run: `<f at 0x7f3a…>` becomes `<f>`."""
    text = str.__str__(text)  # a subclass could still run code of its own
    return _ADDRESS.sub(lambda found: "" if found[0].startswith(" ") else "0x…", text) if "0x" in text else text


def _exact_text(text: object) -> str:
    """Return a text that may be of a class with methods of its own as Python's own, anything else as "?"."""
    return str.__str__(text) if is_a(type(text), str) else "?"

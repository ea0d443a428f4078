"""Inspect an object without running any code of its own, except its `repr`.

is_a(type(obj), dict)
guard.call(lambda: plain_repr(obj), "repr", 0.2)
"""

from __future__ import annotations

import re
import sys
import sysconfig

LONGEST_NAME = 200  # characters of a class name

_VALUE_TYPES = frozenset(
    "bool int float str none complex list tuple set frozenset dict tensor parameter ndarray error cycle".split()  # noqa: SIM905
)
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+|\b0x[0-9a-fA-F]{9,16}\b")


def class_name(kind: type) -> str:
    """Return the name of a class, with its module if it is the name of a type of `Value`."""
    name = kind.__name__
    if name in _VALUE_TYPES and kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"  # the class re.error is no failed expression
    return name[:LONGEST_NAME]


def is_a(kind: type, base: object) -> bool:
    """Return whether `base` is a class from which `kind` is derived, whatever a metaclass such as ABCMeta registers."""
    return isinstance(base, type) and type.__subclasscheck__(base, kind)


def is_installed(kind: type) -> bool:
    """Return whether a class comes from Python or an installed package, not from the lecture."""
    if kind.__module__ == "__main__":
        return False
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return type(file) is not str or file.startswith(_INSTALLED)


def plain_repr(obj: object) -> str:
    """Return the repr of `obj` without memory addresses."""
    return without_addresses(repr(obj))


def without_addresses(text: str) -> str:
    """Remove differences between runs: `<f at 0x7f3a…>` becomes `<f>`."""
    text = str.__str__(text)  # a subclass could still run its own code
    return _ADDRESS.sub(lambda match: "" if match[0].startswith(" ") else "0x…", text) if "0x" in text else text

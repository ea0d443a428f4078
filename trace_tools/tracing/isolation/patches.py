"""Undo a lecture's changes to modules and classes of others, and unload the lecture's own modules, between runs.

    before = Names.read(Path("course"))     # the lecture's folder
    module.main()                           # math.pi = 3; torch.Tensor.twice = …; import helper
    before.restore(before.lectures_own())   # ["math.pi", "torch.Tensor.twice", "module helper"], []

The lecture's own modules are its file and modules imported from its folder, or from folders that it added to the search
path. A new process would import them again, and so does the warm run. Libraries stay loaded: this makes a run warm, and
a module in C cannot be loaded twice. A package put into a folder by an installer is a library, wherever it is.

Libraries also change their own globals and need to find them unchanged, such as `torch.cuda._initialized` or a filled
cache. So only bindings made by the lecture are restored. A binding counts as the lecture's if the new value is one of
its functions, classes or their instances. It also counts if the lecture's source sets or deletes an attribute of that
name (or passes the name to `setattr` or `mock.patch`) and the owner's own code never does.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import linecache
import sys
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OURS = __name__.partition(".")[0]
ABSENT = object()
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: marks classes that Python code can change
DEEPEST = 8  # maximum number of wrappers around a function
LONGEST_NAME = 200
BINDING = {"setattr", "delattr", "patch", "object", "multiple", "update", "setdefault"}
WRITES = {"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"}
Owner = Any  # a module or a class

_of_module: Any = vars(types.ModuleType)["__dict__"].__get__
_of_class: Any = type.__dict__["__dict__"].__get__
_mro: Any = type.__dict__["__mro__"].__get__
_flags: Any = type.__dict__["__flags__"].__get__


class LecturesOwn:
    """The modules that a lecture loaded, and tests for objects and names that belong to them."""

    def __init__(self, modules: dict[str, Any]) -> None:
        self.modules = modules

    def made(self, value: object) -> bool:
        """Return whether this is a function or class of the lecture, or an instance of one; runs none of its code."""
        for _ in range(DEEPEST):
            kind: Any = type(value)
            if kind is types.FunctionType:
                names = value.__globals__  # type: ignore[attr-defined]
                name = names.get("__name__")
                if name in self.modules and names is _vars(self.modules[name]):
                    return True
                value = vars(value).get("__wrapped__")
            elif kind in (staticmethod, classmethod, types.MethodType):
                value = value.__func__  # type: ignore[attr-defined]
            elif kind is property:
                value = value.fget  # type: ignore[attr-defined]
            elif kind is functools.partial:
                value = value.func  # type: ignore[attr-defined]
            else:
                return _of_class(value if _is_class(value) else kind).get("__module__") in self.modules
        return False

    @functools.cached_property
    def bound(self) -> set[str]:
        """The attributes that the lecture's sources set or delete, except those of `self`."""
        names: set[str] = set()
        for node in self._nodes:
            match node:
                case ast.Attribute(value=ast.Name(id="self")):
                    pass
                case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):  # json.dumps = …
                    names.add(name)
                case ast.Subscript(slice=ast.Constant(value=str(name)), ctx=ast.Store() | ast.Del()):
                    names.add(name)  # vars(json)["dumps"] = …
                case ast.Call(func=ast.Name(id=word) | ast.Attribute(attr=word)) if word in BINDING:
                    texts = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
                    names |= {text.rpartition(".")[2] for text in texts if isinstance(text, str)}  # patch("json.dumps")
                    names |= {keyword.arg for keyword in node.keywords if keyword.arg}
        return names

    @functools.cached_property
    def texts(self) -> set[str]:
        """The short strings in the lecture's sources, and the part before "::" in names of operators."""
        strings = [node.value for node in self._nodes if isinstance(node, ast.Constant) and type(node.value) is str]
        return {part for text in strings if len(text) < LONGEST_NAME for part in (text, text.partition("::")[0])}

    @functools.cached_property
    def _nodes(self) -> list[ast.AST]:
        nodes: list[ast.AST] = []
        for module in self.modules.values():
            # Modules without a file and extensions have no Python source.
            with contextlib.suppress(KeyError, SyntaxError, ValueError, TypeError):
                nodes += ast.walk(ast.parse("".join(linecache.getlines(_vars(module)["__file__"]))))
        return nodes


@dataclass(frozen=True, slots=True)
class Names:
    """The modules loaded at one moment, with the values of all names in them and in their classes."""

    folder: Path  # the lecture's
    path: set[str]  # folders of libraries
    modules: dict[str, Any]
    bound: list[tuple[Owner, dict[str, Any]]]

    @classmethod
    def read(cls, folder: Path) -> Names:
        """Read the names before a lecture in this folder runs."""
        folder = folder.resolve()
        path = {str(Path(entry).resolve()) for entry in sys.path} - {str(folder)}
        return cls(
            folder, path, dict(sys.modules), [(owner, dict(names)) for owner, names in _owners(sys.modules.values())]
        )

    def lectures_own(self) -> LecturesOwn:
        """Return the modules that the lecture has loaded since then."""
        late = {name: module for name, module in sys.modules.items() if self.modules.get(name) is not module}
        return LecturesOwn({name: module for name, module in late.items() if self._is_own(name)})

    def restore(self, own: LecturesOwn) -> tuple[list[str], list[str]]:
        """Undo the lecture's changes; return the names of the undone changes, and descriptions of those that cannot
        be undone.
        """
        undone, stuck = [], []
        changed = list(self._changed())
        lectures = [own.made(_vars(owner).get(name)) for owner, name, _ in changed]
        theirs: dict[int, set[str]] = {}  # by owner, computed after the values replaced by the lecture are restored
        for is_lectures in (True, False):
            for (owner, name, old), is_of_lecture in zip(changed, lectures, strict=True):
                if is_of_lecture != is_lectures:
                    continue
                if not is_of_lecture and name not in own.bound:
                    continue
                if not is_of_lecture and name in theirs.setdefault(id(owner), _written_by(owner)):
                    continue
                _bind(owner, name, old)
                undone.append(f"{_called(owner)}.{name}")
        late = {name: module for name, module in sys.modules.items() if name not in {**self.modules, **own.modules}}
        for owner, names in _owners(late.values()):
            stuck += [f"{_called(owner)}.{name} is the lecture's" for name, value in names.items() if own.made(value)]
        for name in [*own.modules, *late]:
            made_up = name in late and name in own.bound and getattr(sys.modules[name], "__spec__", None) is None
            if name in own.modules or made_up:
                spec = getattr(sys.modules.pop(name), "__spec__", None)
                undone += [f"module {name}"] if made_up or spec is not None else []  # except the lecture itself
        for name, module in self.modules.items():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
                undone += [f"module {name}"] if name not in ("__main__", "__mp_main__") else []  # the lecture itself
        return undone, stuck

    def _changed(self) -> Iterator[tuple[Owner, str, Any]]:
        """Yield each name that now has another value, with its old value."""
        for owner, before in self.bound:
            names = _vars(owner)
            for name in {**names, **before}:
                old, new = before.get(name, ABSENT), names.get(name, ABSENT)
                # An import binds a package's submodules in it.
                if new is not old and new is not sys.modules.get(f"{_called(owner)}.{name}", owner):
                    yield owner, name, old

    def _is_own(self, name: str) -> bool:
        """Return whether a newly imported module is in a folder without libraries."""
        top = name.partition(".")[0]
        module = sys.modules.get(top)
        if top == OURS or not issubclass(type(module), types.ModuleType):
            return False
        names = _vars(module)
        file, folders = names.get("__file__"), names.get("__path__")
        if isinstance(file, str):
            parent = Path(file).resolve().parent
            return self._holds_own(parent.parent if folders else parent)
        spec = names.get("__spec__")  # a folder without __init__.py has locations, but no file
        locations = list(getattr(spec, "submodule_search_locations", None) or ())
        return bool(locations) and all(self._holds_own(Path(location).resolve().parent) for location in locations)

    def _holds_own(self, folder: Path) -> bool:
        """Return whether modules in a folder are the lecture's: the folder was not on the search path and contains no
        installed packages.
        """
        above = {self.folder, *self.folder.parents}
        return str(folder) not in self.path and not any(
            _installed_into(parent) for parent in (folder, *folder.parents) if parent not in above
        )


@functools.cache
def _installed_into(folder: Path) -> bool:
    """Return whether an installer has put packages into a folder."""
    return next(folder.glob("*.dist-info"), None) is not None


def _owners(modules: Iterable[Any]) -> Iterator[tuple[Owner, Any]]:
    """Yield each module, and each changeable class among its names, once, with its own names."""
    ids: set[int] = set()
    for module in list(modules):
        if not issubclass(type(module), types.ModuleType) or id(module) in ids:
            continue
        ids.add(id(module))
        names = _vars(module)
        yield module, names
        for value in list(names.values()):
            if _is_class(value) and _flags(value) & HEAP_TYPE and id(value) not in ids:
                ids.add(id(value))
                yield value, _of_class(value)


def _is_class(value: object) -> bool:
    return issubclass(type(value), type)  # `isinstance` would query the value's `__class__`


def _vars(owner: Owner) -> Any:
    return _of_class(owner) if _is_class(owner) else _of_module(owner)


def _bind(owner: Owner, name: str, value: object) -> None:
    if not _is_class(owner):
        _vars(owner).pop(name, None) if value is ABSENT else _vars(owner).update({name: value})
    elif value is ABSENT:
        type.__delattr__(owner, name)
    else:
        type.__setattr__(owner, name, value)


def _called(owner: Owner) -> str:
    names = _vars(owner)
    if _is_class(owner):
        return f"{names.get('__module__')}.{type.__dict__['__qualname__'].__get__(owner)}"
    return str(names.get("__name__"))


def _written_by(owner: Owner) -> set[str]:
    """Return the globals and attributes that the functions of a module set or delete; for a class, of its modules."""
    kinds = _mro(owner) if _is_class(owner) else ()
    modules = [sys.modules.get(_of_class(kind).get("__module__")) for kind in kinds] or [owner]
    values = [value for _, names in _owners(modules) for value in list(names.values())]
    codes = [value.__code__ for value in values if type(value) is types.FunctionType]
    written: set[str] = set()
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        written |= {step.argval for step in dis.get_instructions(code) if step.opname in WRITES}
    return written

"""What a lecture bound in modules and classes that are not its own, and the modules that are: undone between runs.

    before = Names.read(Path("course"))     # the lecture's folder
    module.main()                           # math.pi = 3; torch.Tensor.twice = …; import helper
    before.restore(before.lectures_own())   # ["math.pi", "torch.Tensor.twice", "module helper"], []

The lecture's own modules are its file and what it imported from its folder, or from folders that it put on the search
path: a new process would import them anew, and so does the warm run. Libraries stay loaded: that is what makes a run
warm.

Libraries change their own globals, too, and must find them as they left them: `torch.cuda._initialized`, a cache that
was made. So a binding is only put back where the lecture made it. It did where the new value is one of its functions,
classes or their instances; and where its source names the attribute as what it sets or deletes (or in a string, for
`setattr` and `mock.patch`) and the owner's own code never does.
"""

from __future__ import annotations

import ast
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
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that Python code can change
DEEPEST = 8  # wrappers around a function
LONGEST_NAME = 200
WRITES = {"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"}
Owner = Any  # a module or a class

_of_module: Any = vars(types.ModuleType)["__dict__"].__get__
_of_class: Any = type.__dict__["__dict__"].__get__


class LecturesOwn:
    """The modules that a lecture brought with it, and what can be known to be of them."""

    def __init__(self, modules: dict[str, Any]) -> None:
        self.modules = modules

    def made(self, value: object) -> bool:
        """Return whether this is a function or class of the lecture, or an instance of one; runs none of its code."""
        for _ in range(DEEPEST):
            kind = type(value)
            if isinstance(value, types.FunctionType) and kind is types.FunctionType:
                name = value.__globals__.get("__name__")
                if name in self.modules and value.__globals__ is _vars(self.modules[name]):
                    return True
                value = value.__dict__.get("__wrapped__")
            elif kind in (staticmethod, classmethod, types.MethodType):
                value = value.__func__  # type: ignore[attr-defined]
            elif kind is property:
                value = value.fget  # type: ignore[attr-defined]
            elif kind is functools.partial:
                value = value.func  # type: ignore[attr-defined]
            else:
                return _of_class(value if issubclass(kind, type) else kind).get("__module__") in self.modules
        return False

    @functools.cached_property
    def mentioned(self) -> set[str]:
        """The attributes that its sources set or delete, and whatever else may name one there."""
        names: set[str] = set()
        for module in self.modules.values():
            try:
                tree = ast.parse("".join(linecache.getlines(_vars(module)["__file__"])))
            except (KeyError, SyntaxError, ValueError, TypeError):  # not Python's: an extension
                continue
            for node in ast.walk(tree):
                match node:
                    case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()) | ast.keyword(arg=str(name)):
                        names.add(name)
                    case ast.Constant(value=str(text)) if len(text) < LONGEST_NAME:
                        names |= {text, text.rpartition(".")[2], text.partition("::")[0]}
        return names


@dataclass(frozen=True, slots=True)
class Names:
    """Which modules were loaded at one moment, and what every name in them and in their classes stood for."""

    path: set[str]  # where libraries lie
    modules: dict[str, Any]
    bound: list[tuple[Owner, dict[str, Any]]]

    @classmethod
    def read(cls, folder: Path) -> Names:
        """Read them before a lecture of this folder has run."""
        path = {str(Path(entry).resolve()) for entry in sys.path} - {str(folder.resolve())}
        return cls(path, dict(sys.modules), [(owner, dict(names)) for owner, names in _owners(sys.modules.values())])

    def lectures_own(self) -> LecturesOwn:
        """Return the modules that the lecture has brought with it since."""
        late = {name: module for name, module in sys.modules.items() if name not in self.modules}
        return LecturesOwn({name: module for name, module in late.items() if self._is_own(name)})

    def restore(self, own: LecturesOwn) -> tuple[list[str], list[str]]:
        """Undo what the lecture did; return the names of that, and in words what can't be undone."""
        undone, stuck = [], []
        for owner, before in self.bound:
            names, theirs = _vars(owner), None
            for name in {**names, **before}:
                if (new := names.get(name, ABSENT)) is before.get(name, ABSENT):
                    continue
                if new is sys.modules.get(f"{_called(owner)}.{name}", owner):
                    continue  # an import binds a package's parts in it
                if not own.made(new):
                    if name not in own.mentioned:
                        continue
                    theirs = _written_by(owner) if theirs is None else theirs
                    if name in theirs:
                        continue
                _bind(owner, name, before.get(name, ABSENT))
                undone.append(f"{_called(owner)}.{name}")
        late = {name: module for name, module in sys.modules.items() if name not in {**self.modules, **own.modules}}
        for owner, names in _owners(late.values()):
            stuck += [f"{_called(owner)}.{name} is the lecture's" for name, value in names.items() if own.made(value)]
        for name in [*own.modules, *late]:
            made_up = name in late and name in own.mentioned and getattr(sys.modules[name], "__spec__", None) is None
            if name in own.modules or made_up:
                spec = getattr(sys.modules.pop(name), "__spec__", None)
                undone += [f"module {name}"] if made_up or spec is not None else []  # but for the lecture itself
        for name, module in self.modules.items():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
                undone.append(f"module {name}")
        return undone, stuck

    def _is_own(self, name: str) -> bool:
        """Return whether a module that was imported since lies where no library does."""
        top = name.partition(".")[0]
        module = sys.modules.get(top)
        if top == OURS or not issubclass(type(module), types.ModuleType):
            return False
        names = _vars(module)
        file, folders = names.get("__file__"), names.get("__path__")
        if isinstance(file, str):
            place = Path(file).resolve().parent
            return str(place.parent if folders else place) not in self.path
        spec = names.get("__spec__")  # a folder without __init__.py has places, but no file
        places = list(getattr(spec, "submodule_search_locations", None) or ())
        return bool(places) and all(str(Path(place).resolve().parent) not in self.path for place in places)


def _owners(modules: Iterable[Any]) -> Iterator[tuple[Owner, Any]]:
    """Yield modules and those classes in them that are theirs and can be changed, each once, with their names."""
    seen: set[int] = set()
    for module in list(modules):
        if not issubclass(type(module), types.ModuleType) or id(module) in seen:
            continue
        seen.add(id(module))
        names = _vars(module)
        yield module, names
        for value in list(names.values()):
            if issubclass(type(value), type) and value.__flags__ & HEAP_TYPE and id(value) not in seen:
                seen.add(id(value))
                yield value, _of_class(value)


def _vars(owner: Owner) -> Any:
    return _of_class(owner) if issubclass(type(owner), type) else _of_module(owner)


def _bind(owner: Owner, name: str, value: object) -> None:
    if not issubclass(type(owner), type):
        _vars(owner).pop(name, None) if value is ABSENT else _vars(owner).update({name: value})
    elif value is ABSENT:
        type.__delattr__(owner, name)
    else:
        type.__setattr__(owner, name, value)


def _called(owner: Owner) -> str:
    names = _vars(owner)
    if issubclass(type(owner), type):
        return f"{names.get('__module__')}.{type.__dict__['__qualname__'].__get__(owner)}"
    return str(names.get("__name__"))


def _written_by(owner: Owner) -> set[str]:
    """Return the globals and attributes that the functions of a module, or of a class's module, set or delete."""
    module = owner if not issubclass(type(owner), type) else sys.modules.get(_of_class(owner).get("__module__"))
    names = _vars(module) if issubclass(type(module), types.ModuleType) else {}
    here = [value for _, held in _owners([module] if names else []) for value in list(held.values())]
    codes = [value.__code__ for value in here if type(value) is types.FunctionType and value.__globals__ is names]
    written: set[str] = set()
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        written |= {step.argval for step in dis.get_instructions(code) if step.opname in WRITES}
    return written

"""While a lecture is traced: words of other tools' vocabularies tell our narratives, wherever it has them from.

    adoption = Adoption(("edtrace",), kept=Path("fetched"))
    sys.meta_path.insert(0, adoption)          # from now on
    import edtrace                             # the real one with our words in it, or where there is none, ours
    with adoption.run(real=folder): ...        # in a run, who asks whether it is traced is told so

A module of a vocabulary is loaded as it is, and its words are replaced; everything else in it is its own. Where there
is none, or where it needs what is not installed, ours stands in. Modules of the same names that are something else are
let alone.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import sys
import types
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from sys import _getframe
from typing import Any

from trace_tools.borrowed import Desk, guarded, stand_ins, words
from trace_tools.citations import Library
from trace_tools.tracing.replaced import replaced
from trace_tools.vocabularies import BORROWED, VOCABULARIES


class StandInWarning(UserWarning):
    """A module of the lecture's can't be loaded, and the tools' own is in its place."""


class Adoption(importlib.abc.MetaPathFinder):
    """Finds the modules of vocabularies, before anything else does."""

    def __init__(self, vocabularies: Sequence[str], kept: Path | None = None) -> None:
        self.kept = kept
        self.desk = Desk(Library(kept))
        self.names = frozenset().union(*(VOCABULARIES[name].names for name in vocabularies))
        self.asked: set[str] = set()  # names whose real module is being looked for

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how a module of a vocabulary is loaded; None for all others."""
        if name not in self.names or name in self.asked:
            return None
        self.asked.add(name)
        try:
            real = next((spec for f in sys.meta_path if f is not self and (spec := _found(f, name, path))), None)
        finally:
            self.asked.discard(name)
        if real is not None and real.loader is None:  # a folder of that name, without code
            return real
        spec = importlib.machinery.ModuleSpec(name, _Loader(self, real), origin=real.origin if real else None)
        if real is not None:
            spec.submodule_search_locations = real.submodule_search_locations
            spec.has_location, spec.cached = real.has_location, real.cached
        elif name == "edtrace":
            spec.submodule_search_locations = []
        return spec

    @contextlib.contextmanager
    def run(self, real: Path | None, root: str) -> Iterator[None]:
        """Begin a run of the lecture, whose files lie below `root`, a copy of the folder `real`."""
        self.desk.library, self.desk.real = Library(self.kept), real
        with saying_it_is_traced(root):
            yield


def _found(finder: Any, name: str, path: Sequence[str] | None) -> importlib.machinery.ModuleSpec | None:
    find = getattr(finder, "find_spec", None)
    found: importlib.machinery.ModuleSpec | None = find(name, path) if find is not None else None
    return found


def adopt_in_spawned() -> None:
    """Have the words in a process that a lecture has spawned, which imports its modules anew: nobody hears them."""
    sys.meta_path.insert(0, Adoption(BORROWED))


class _Loader(importlib.abc.Loader):
    """Loads a real module and puts our words in it; without one, makes ours."""

    def __init__(self, adoption: Adoption, real: importlib.machinery.ModuleSpec | None) -> None:
        self.adoption = adoption
        self.real = real

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        loader = self.real.loader if self.real is not None else None
        return loader.create_module(spec) if loader is not None and hasattr(loader, "create_module") else None

    def exec_module(self, module: types.ModuleType) -> None:
        desk, part = self.adoption.desk, module.__name__.removeprefix("edtrace").removeprefix(".")
        ours = stand_ins(desk)[part]
        if self.real is None or self.real.loader is None:
            vars(module).update(ours, __doc__="The tools' own, in the place of a module that is not there.")
            return
        try:
            self.real.loader.exec_module(module)
        except ModuleNotFoundError as error:
            if not error.name or error.name.partition(".")[0] in self.adoption.names:
                raise
            said = f"{module.__name__} needs {error.name}, which is not installed: the tools' own words stand in"
            warnings.warn(said, StandInWarning, stacklevel=2)
            vars(module).update(ours)
            return
        _adopt(module, part, desk)

    def get_source(self, name: str) -> str | None:
        """Return the real module's source, as tracebacks show it."""
        get = getattr(self.real.loader if self.real is not None else None, "get_source", None)
        return get(name) if get is not None else None


def _adopt(module: types.ModuleType, part: str, desk: Desk) -> None:
    """Put our words in the place of a real module's, as far as it is one of the vocabulary's."""
    has = vars(module)
    if part == "arxiv_util" and callable(has.get("arxiv_reference")) and "Reference" in has:
        has["arxiv_reference"] = guarded(desk, has["arxiv_reference"], has["Reference"])
    elif part == "execute_util" and {"Rendering", "pop_renderings", "text"} <= has.keys():
        has.update({name: word for name, word in words(desk, _resolving(has)).items() if name in has})


def _resolving(has: dict[str, Any]) -> Any:
    """Return what makes a reference of an address, as the module itself does that."""

    def resolve(url: str, **fields: Any) -> Any:
        if "url_reference" in has:
            return has["url_reference"](url, **fields)
        is_arxiv = has.get("is_arxiv_link", lambda url: False)
        return (has["arxiv_reference"] if is_arxiv(url) else has["Reference"])(url=url, **fields)

    return resolve


@contextlib.contextmanager
def saying_it_is_traced(root: str) -> Iterator[None]:
    """Answer `sys.gettrace()` with a function where code below a folder asks: whether it is traced, such lectures ask.

    What asks for another reason gets what would be there; whoever sets the answer as its trace function traces nothing.
    """
    real = sys.gettrace

    def gettrace() -> Any:
        found = real()
        if found is None and _getframe(1).f_code.co_filename.startswith(root):
            return traces_nothing
        return found

    with replaced(sys, "gettrace", gettrace):
        yield


def traces_nothing(frame: types.FrameType, event: str, argument: Any) -> None:
    """Be a trace function that wants to know nothing more."""

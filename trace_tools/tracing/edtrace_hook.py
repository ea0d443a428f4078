"""Make the functions of other tools' vocabularies emit our narratives while a lecture is traced.

    adoption = Adoption(("edtrace",), kept=Path("fetched"))
    sys.meta_path.insert(0, adoption)          # from now on
    import edtrace                             # the real module with our functions; ours if it is not installed
    with adoption.run(real=folder, …): ...     # in a run, `sys.gettrace()` returns a tracer

A real module of a vocabulary is loaded unchanged, and then its vocabulary functions are replaced. If it is not
installed, or needs a module that is not installed, ours is used. Other modules with the same names are not changed.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.machinery
import os
import sys
import types
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from sys import _getframe
from typing import Any

from trace_tools.edtrace.words import EdtraceContext, guarded, stand_ins, words, words_of_2024
from trace_tools.errors import LectureError
from trace_tools.lecture.citations import Library
from trace_tools.source.statements import FUNCTIONS, read_source
from trace_tools.source.vocabularies import VOCABULARIES
from trace_tools.tracing.recorder.recorder import Recorder
from trace_tools.util.interpreter import replaced

OTHERWISE = (
    "BehavesOtherwise: {path}, line {line} checks whether it is traced and acts on the result; "
    "without tracing, this line may do something else"
)


class StandInWarning(UserWarning):
    """A module of the lecture can't be loaded, and the tools' replacement is used."""


class Adoption(importlib.abc.MetaPathFinder):
    """Finds the modules of vocabularies, before all other finders."""

    def __init__(self, vocabularies: Sequence[str], kept: Path | None = None) -> None:
        self.kept = kept
        self.context = EdtraceContext(Library(kept))
        self.names = frozenset().union(*(VOCABULARIES[name].names for name in vocabularies))
        self.searching: set[str] = set()  # names for which a real module is being searched

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module of a vocabulary, or None for other modules."""
        if name not in self.names or name in self.searching:
            return None
        self.searching.add(name)
        try:
            finders = (f for f in sys.meta_path if f is not self and hasattr(f, "find_spec"))
            real = next((spec for f in finders if (spec := f.find_spec(name, path))), None)
        finally:
            self.searching.discard(name)
        if real is None and _part(name) not in stand_ins(self.context):
            return None
        if real is not None and real.loader is None:  # a folder with that name, without code
            return real
        spec = importlib.machinery.ModuleSpec(name, _Loader(self, real), origin=real.origin if real else None)
        if real is not None:
            spec.submodule_search_locations = real.submodule_search_locations
            spec.has_location, spec.cached = real.has_location, real.cached
        elif name == "edtrace":
            spec.submodule_search_locations = []
        return spec

    @contextlib.contextmanager
    def run(self, real: Path | None, root: str, recorder: Recorder) -> Iterator[None]:
        """Begin a run of the lecture from `root`, a copy of the folder `real`."""
        self.context.library, self.context.real = Library(self.kept), real
        with saying_it_is_traced(root, recorder):
            yield


class _Loader(importlib.abc.Loader):
    """Loads a real module and inserts our functions; if it is missing, makes our module."""

    def __init__(self, adoption: Adoption, real: importlib.machinery.ModuleSpec | None) -> None:
        self.adoption = adoption
        self.real = real

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        loader = self.real.loader if self.real is not None else None
        return loader.create_module(spec) if loader is not None and hasattr(loader, "create_module") else None

    def exec_module(self, module: types.ModuleType) -> None:
        context, part = self.adoption.context, _part(module.__name__)
        ours = stand_ins(context).get(part, {})
        if self.real is None or self.real.loader is None:
            vars(module).update(ours, __doc__="Replacement by the tools for a module that is not installed.")
            return
        try:
            self.real.loader.exec_module(module)
        except ModuleNotFoundError as error:
            if not ours or not error.name or error.name.partition(".")[0] in self.adoption.names:
                raise
            message = f"{module.__name__} needs {error.name}, which is not installed; a built-in replacement is used"
            warnings.warn(message, StandInWarning, stacklevel=2)
            vars(module).update(ours)
            return
        # Only a module that is the vocabulary's gets its functions replaced.
        names = vars(module)
        if part == "arxiv_util" and callable(names.get("arxiv_reference")) and "Reference" in names:
            names["arxiv_reference"] = guarded(context, names["arxiv_reference"], names["Reference"])
        elif part == "execute_util" and {"Rendering", "pop_renderings", "text"} <= names.keys():
            names.update({name: word for name, word in words(context, _resolving(names)).items() if name in names})
        elif part == "util" and {"add_content", "init_content", "note", "see"} <= names.keys():
            names.update(words_of_2024(context))

    def get_source(self, name: str) -> str | None:
        """Return the source of the real module, for tracebacks."""
        get = getattr(self.real.loader if self.real is not None else None, "get_source", None)
        return get(name) if get is not None else None


def _part(name: str) -> str:
    """Return a module's name without its package: "execute_util" of "edtrace.execute_util"."""
    return name.removeprefix("edtrace").removeprefix(".")


def _resolving(names: dict[str, Any]) -> Any:
    """Return a function that turns an address into a reference by the module's own means."""

    def resolve(url: str, **fields: Any) -> Any:
        if "url_reference" in names:
            return names["url_reference"](url, **fields)
        is_arxiv = names.get("is_arxiv_link", lambda url: False)
        return (names["arxiv_reference"] if is_arxiv(url) else names["Reference"])(url=url, **fields)

    return resolve


@contextlib.contextmanager
def saying_it_is_traced(root: str, recorder: Recorder) -> Iterator[None]:
    """Make `sys.gettrace()` return a function to code in the folder `root`, since some lectures check for a tracer.

    If that code branches on the result, the open step gets a warning. Other callers get the real result. Code that
    installs the returned function as its trace function traces no events.
    """
    real = sys.gettrace
    deciding: dict[str, bool] = {}  # by file
    warned: set[tuple[str, int, int]] = set()  # file, line, step

    def gettrace() -> Any:
        tracer, caller = real(), _getframe(1)
        path, line = caller.f_code.co_filename, caller.f_lineno
        if tracer is not None or not path.startswith(root):
            return tracer
        with recorder.clock.excluded():
            if path not in deciding:
                deciding[path] = decides_by_trace(path)
            owner = recorder.recorded_owner(caller)
            if deciding[path] and owner is not None and (path, line, owner.seq) not in warned:
                warned.add((path, line, owner.seq))
                recorder.emit("warnings", OTHERWISE.format(path=os.path.basename(path), line=line))
        return traces_nothing

    with replaced(sys, "gettrace", gettrace):
        yield


def decides_by_trace(path: str) -> bool:
    """Return whether a Python file branches on the result of `sys.gettrace()`, or on a name bound to it."""
    try:
        tree = read_source(path).tree
    except LectureError:
        return False
    names = {"gettrace"}

    def mentioned(nodes: Iterable[ast.AST | None]) -> bool:
        inner = (part for node in nodes if node is not None for part in ast.walk(node))
        return any(getattr(part, "id", getattr(part, "attr", None)) in names for part in inner)

    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and mentioned([node.value]):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, FUNCTIONS):
            returned = [part.value for part in ast.walk(node) if isinstance(part, ast.Return)]
            names |= {node.name} if mentioned(returned) else set()
    tests = (getattr(node, "test", getattr(node, "subject", None)) for node in ast.walk(tree))
    return mentioned(test for test in tests if isinstance(test, ast.expr))


def traces_nothing(frame: types.FrameType, event: str, argument: Any) -> None:
    """Ignore all events of a frame: a trace function that returns None."""

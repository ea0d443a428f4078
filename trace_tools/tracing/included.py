"""Trace modules with a lecture: find them by path or name, number their statements, load them with probes.

    modules = find_modules(["shapes.py", "layers"], lecture)  # [Module("shapes", "shapes.py", …), …]
    instrumented([lecture, *sources])                       # the sources with probes, numbered after the lecture
    sys.meta_path.insert(0, Loading(modules, programs))     # from now on they are loaded with probes

Code that a module runs on import belongs to the step that imports it. Its functions have frames and steps like those of
the lecture; `Frame.source` gives their source.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import itertools
import sys
import types
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from trace_tools.errors import UsageError
from trace_tools.source.directives import parse_directives
from trace_tools.source.imports import OURS
from trace_tools.source.statements import ParsedSource, read_text
from trace_tools.trace.validation import MOST_SOURCES
from trace_tools.tracing.instrument import Instrumented, instrument
from trace_tools.tracing.job import Module


def find_modules(names: Iterable[str], lecture: Path) -> list[Module]:
    """Return the requested modules, by path or name, each once; for a package or folder, all its modules.

    Raises UsageError for a name that is missing, not Python or the lecture itself. Raises LectureError, with its line,
    for a module that can't be parsed or has a mistake in its directives.
    """
    modules: dict[str, Module] = {}
    folder = lecture.resolve().parent
    for name in names:
        files = [*_by_path(name, folder)] or [*_by_name(name, folder)]
        if not files:
            raise UsageError(
                f"--include {name}: no such module; expected a Python file or folder in "
                f"{folder.name}/, or the name of a module that the lecture can import"
            )
        for path, root in files:
            if path == lecture.resolve():
                raise UsageError(f"--include {name}: this is the lecture, which is always traced")
            inside = path.relative_to(root)
            parts = inside.with_suffix("").parts
            dotted = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
            module = Module(dotted, inside.as_posix(), read_text(path).removeprefix("\ufeff"))
            parse_directives(replace(module.source, path=str(path)))
            modules.setdefault(dotted, module)
            if dotted.partition(".")[0] == OURS:
                raise UsageError(f"--include {name}: trace-tools itself can't be traced")
    if len(modules) >= MOST_SOURCES:
        raise UsageError(f"--include: {len(modules):,} modules; expected fewer than {MOST_SOURCES:,}")
    return list(modules.values())


def _by_path(name: str, folder: Path) -> Iterable[tuple[Path, Path]]:
    """Yield the files at a path, each with the lecture's folder, from where they are imported."""
    for base in (Path.cwd(), folder):
        path = (base / name).resolve()
        if path.is_relative_to(folder) and (path.suffix == ".py" or path.is_dir()) and path.exists():
            yield from ((file, folder) for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path]))
            return


def _by_name(name: str, folder: Path) -> Iterable[tuple[Path, Path]]:
    """Yield the files of a module by name, as the lecture would import it, without executing it."""
    search_path: Sequence[str] | None = [str(folder), *sys.path]
    spec = None
    for part in name.split("."):
        prefix = f"{spec.name}.{part}" if spec is not None else part
        with suppress(ImportError, ValueError, AttributeError):
            spec = importlib.machinery.PathFinder.find_spec(prefix, list(search_path or ()))
            if spec is not None:
                search_path = spec.submodule_search_locations
                continue
        return
    if spec is None:
        return
    depth = name.count(".") + 1
    for location in spec.submodule_search_locations or ():
        root = Path(location).resolve().parents[depth - 1]
        yield from ((file, root) for file in sorted(Path(location).resolve().rglob("*.py")))
    if not spec.submodule_search_locations and spec.origin and spec.origin.endswith(".py"):
        file = Path(spec.origin).resolve()
        yield file, file.parents[depth - 1]


def first_numbers(sources: Sequence[ParsedSource]) -> list[int]:
    """Return the number of each source's first statement in the joined numbering."""
    return [0, *itertools.accumulate(len(source.numbered) for source in sources[:-1])]


def together(programs: Sequence[Instrumented]) -> Instrumented:
    """Combine the facts that the recorder needs from several programs, with the tree of the first."""
    first = programs[0]
    for index, other in enumerate(programs[1:], 1):
        first = replace(
            first,
            functions=other.functions | first.functions,
            covered=first.covered | other.covered,
            claims=first.claims | other.claims,
            catching=first.catching | other.catching,
            places=first.places | other.places,
            sources=first.sources | dict.fromkeys(other.functions, index),
        )
    return first


def instrumented(sources: Sequence[ParsedSource]) -> list[Instrumented]:
    """Return all sources except the first, the lecture, with probes in the joined numbering."""
    return [
        instrument(source, parse_directives(source), first=first, imported=True)
        for source, first in zip(sources[1:], first_numbers(sources)[1:], strict=True)
    ]


class Loading(importlib.abc.MetaPathFinder):
    """Inserts probes into modules when their usual finder and loader load them."""

    def __init__(self, modules: Sequence[Module], programs: Sequence[Instrumented]) -> None:
        self.trees = {module.name: program.tree for module, program in zip(modules, programs, strict=True)}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of an included module, or None for other modules."""
        if name not in self.trees:
            return None
        finders = (finder for finder in sys.meta_path if finder is not self)
        spec = next((spec for finder in finders if (spec := finder.find_spec(name, path, target))), None)
        loader = spec.loader if spec is not None else None
        if spec is not None and spec.origin and isinstance(loader, importlib.machinery.SourceFileLoader):
            loader.get_code = partial(self._code, name, spec.origin)  # type: ignore[method-assign]
        return spec

    def _code(self, name: str, origin: str, fullname: str) -> types.CodeType:
        # Compiled again for each run: dynamo caches by code object, together with the globals of the old module.
        return compile(self.trees[name], origin, "exec", dont_inherit=True)

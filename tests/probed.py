"""A source, run as it is or with probes in it; what came of it in a form that can be compared.

outcome(text, path, tmp_path / "j.journal")           # plain: no probes, the journal stays unwritten
with Probed(text, path, journal_path) as lecture:     # probed: lecture.module.main(), lecture.recorder
    lecture.module.main()
lecture.records                                       # what it wrote down
"""

from __future__ import annotations

import contextlib
import gc
import io
import linecache
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_tools.directives import Directive, parse_directives
from trace_tools.frames import UNSET as UNSET_SIDE
from trace_tools.instrument import IS_COMPILING, OPEN, UNSET, instrument
from trace_tools.journal import Journal, read_journal
from trace_tools.recorder import Instruments, Recorder, Settings
from trace_tools.runs import RunRecord, read_process
from trace_tools.statements import parse_source
from trace_tools.values import Describer

MODULE = "source_under_test"


class Probed:
    """A source with probes, in a module of its own, and the recorder that they tell."""

    def __init__(
        self,
        text: str,
        path: str | Path,
        journal: Path,
        directives: Sequence[Directive] | None = None,
        *,
        instruments: Instruments | None = None,
        **settings: Any,
    ) -> None:
        self.source = parse_source(text, str(path))
        found = parse_directives(self.source) if directives is None else directives
        self.program = instrument(self.source, found)
        self.journal = Journal(journal)
        self.recorder = Recorder(
            self.program, self.journal, instruments or Instruments(Describer()), Settings(**settings)
        )
        self.module = new_module(text, path)
        compiling = getattr(getattr(sys.modules.get("torch"), "compiler", None), "is_compiling", bool)
        self.hooks = {OPEN: self.recorder.open, IS_COMPILING: compiling, UNSET: UNSET_SIDE}
        vars(self.module).update(self.hooks)
        self._watching = contextlib.ExitStack()
        self.code = compile(self.program.tree, str(path), "exec", dont_inherit=True)

    def __enter__(self) -> Probed:
        self.start()
        exec(self.code, vars(self.module))
        return self

    def __exit__(self, *error: object) -> None:
        self.finish()

    def start(self) -> None:
        """Begin a run in the journal, with the thread that flushes it."""
        self.journal.write([["run", "cold"]])
        self._watching.enter_context(self.recorder.watching(lambda: None))

    def finish(self) -> None:
        """End the run."""
        self._watching.close()
        self.journal.write([["end", "complete", 0]])
        self.journal.close(complete=True)

    @property
    def records(self) -> list[Any]:
        return list(read_journal(self.journal.path))

    @property
    def run(self) -> RunRecord:
        """The run, as the parent process would read it."""
        return read_process("pass 1", self.journal.path, self.source).runs[0]


def new_module(text: str, path: str | Path) -> types.ModuleType:
    """Register a module for `text`, known to `linecache` (so to `inspect`) and to pickle."""
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    vars(module)["__file__"] = str(path)
    linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))
    return module


@dataclass(frozen=True)
class Outcome:
    """What running a module and its `main` came to."""

    result: str
    printed: str
    error: Any  # see `described`


def plain(text: str, path: str | Path) -> Outcome:
    """Run `text` as it is."""
    module = new_module(text, path)
    code = compile(text, str(path), "exec", dont_inherit=True)
    return _outcome(module, lambda: exec(code, vars(module)), path)


def probed(text: str, path: str | Path, journal: Path, directives: Sequence[Directive] | None = None) -> Outcome:
    """Run `text` with probes, as a timed process would."""
    lecture = Probed(text, path, journal, directives)
    with _threads_followed(lecture.recorder):
        lecture.start()
        outcome = _outcome(lecture.module, lambda: exec(lecture.code, vars(lecture.module)), path)
        lecture.finish()
    if lecture.recorder.frames:
        gc.collect()  # a generator that nothing can reach any more
    assert not lecture.recorder.frames
    return outcome


@contextlib.contextmanager
def _threads_followed(recorder: Recorder) -> Iterator[None]:
    start = threading.Thread.start

    def following(self: threading.Thread) -> None:
        owner = recorder.owner(sys._getframe(1))
        if owner is not None:
            recorder.started_by[self] = owner  # type: ignore[assignment]
        start(self)

    threading.Thread.start = following  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


def _outcome(module: types.ModuleType, load: Callable[[], object], path: str | Path) -> Outcome:
    result, error, printed = None, None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            load()
            result = module.main()
        except BaseException as raised:
            error = described(raised, str(path))
    return Outcome(repr(result), printed.getvalue(), error)


def described(error: BaseException | None, path: str) -> Any:
    """Return an exception as plain data: with its places in `path`, its causes, notes and members."""
    if error is None:
        return None
    summary = traceback.extract_tb(error.__traceback__)
    places = [(e.name, e.lineno, e.end_lineno, e.colno, e.end_colno) for e in summary if e.filename == path]
    members = [described(member, path) for member in getattr(error, "exceptions", ())]
    chain = [described(error.__cause__, path), described(error.__context__, path), error.__suppress_context__]
    return type(error).__name__, str(error), places, chain, members, getattr(error, "__notes__", None)

"""Run a source with and without probes, and compare the outcomes.

plain(text, path)                              # the Outcome without probes
probed(text, path, journal)                    # the Outcome with probes
lecture = Probed(text, path, journal).main()
lecture.steps("x = 1")                         # the steps that the probes recorded
lecture.check("ns")                            # they have the values that the text says: `f()  #: [3, 3]`
"""

from __future__ import annotations

import contextlib
import gc
import io
import linecache
import re
import sys
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from trace_tools.describing.values import Describer
from trace_tools.machines import accelerators
from trace_tools.source.directives import Directive, parse_directives
from trace_tools.source.statements import parse_source
from trace_tools.trace.model import Frame, Step
from trace_tools.trace.records import to_plain
from trace_tools.tracing.instrument import Instrumented, instrument
from trace_tools.tracing.journal import Journal, RunEnd, RunStart, read_journal
from trace_tools.tracing.listening import listening
from trace_tools.tracing.merge.reader import RunRecord, read_process
from trace_tools.tracing.recorder import clock as recorder_clock
from trace_tools.tracing.recorder import limits, recorder
from trace_tools.tracing.recorder.recorder import Recorder, hooks

MODULE = "source_under_test"
ROOMS = dict(limits.ROOMS)
COMMENT = re.compile(r"  #: (.+)$", re.M)


def _plain_values(observed: Any) -> list[list[Any]]:
    """Return observed values as [source, unit, value] each."""
    listed = []
    for source, value in observed or ():
        plain = to_plain(value)
        listed.append([source, plain.pop("unit", None), plain])
    return listed


def recorded_run(run: RunRecord, program: Instrumented) -> Any:
    """Return a run in a form that is short to compare: lists instead of None, plain values, statements by number."""
    names = {name: number for number, name in program.functions.items()}
    claims = {test: statement for statement, (test, _) in program.claims.items()}

    calls: dict[int | None, list[str]] = {}
    for frame in run.frames.values():
        calls.setdefault(frame.of, []).append(frame.function)

    def recorded(step: Step) -> Any:
        fields = {name: getattr(step, name) for name in Step.__struct_fields__}
        clocks = {name: (fields[name] or [None])[0] for name in ("device_ns", "launch_ns", "queued_ns")}
        fields |= {name: getattr(step.meters, name, None) for name in ("flops", "live_bytes", "peak_bytes")}
        failed, claim, how = step.id in run.failed, None, ""
        if step.claim is not None:
            how = "held" if step.claim.held else "raised" if step.raised or not failed else "passed over"
            statement, read = claims[step.claim.source], dict(step.claim.sides)
            sides = [to_plain(read[s]) if s in read else None for s in program.claims[statement][1]]
            claim = [statement, how, sides]
        more = {
            "seq": step.id,
            "calls": " ".join(calls.get(step.id, ())),  # the functions that it called
            "ns": (step.host_ns or [None])[0],
            "values": _plain_values(step.values),
            "raised": to_plain(step.raised) if step.raised else None,
            "claim": claim,
            "left": failed and how == "raised",
            "narrative": [to_plain(one) for one in step.narrative or ()],
            "stdout": step.stdout or "",
            "warnings": step.warnings or [],
            "left_out": [[one.what, one.count, one.at or 0] for one in step.left_out or ()],
        }
        return types.SimpleNamespace(**fields | clocks | more)

    def called(frame: Frame) -> Any:
        number, arguments = names[frame.function], _plain_values(frame.arguments)
        return types.SimpleNamespace(
            id=frame.frame, function=number, of=frame.of, thread=frame.thread, arguments=arguments
        )

    return types.SimpleNamespace(
        steps={step.id: recorded(step) for step in run.steps.values()},
        frames={frame.frame: called(frame) for frame in run.frames.values()},
        omitted={(one.frame, one.statement): (one.omitted, one.host_ns) for one in run.omitted},
        ending=run.ending,
        open_line=run.open_line,
    )


class Probed:
    """A source with probes, loaded as a module, and the recorder that the probes call."""

    def __init__(
        self,
        text: str,
        path: str | Path,
        journal: Path,
        directives: Sequence[Directive] | None = None,
        *,
        given: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """`given` are names of the module; `bounds`, `frames` and `steps` limits; the rest arguments of a recorder."""
        said = {number: COMMENT.search(line) for number, line in enumerate(text.splitlines(), 1)}
        self.expected = {number: eval(match[1]) for number, match in said.items() if match}
        text = COMMENT.sub("", text)
        self.source = parse_source(text, str(path))
        if directives is None:
            directives = parse_directives(self.source)
        self.program = instrument(self.source, directives)
        self.journal = Journal(journal)
        limits.ROOMS.update(ROOMS | settings.pop("bounds", {}))
        bounds = {"frames": "most_calls", "steps": "most_lines"}
        most = {name: settings.pop(given_as) for given_as, name in bounds.items() if given_as in settings}
        self.recorder = Recorder(self.program, self.journal, **{"describer": Describer()} | settings)
        for name, value in most.items():
            setattr(self.recorder.limits, name, value)
        self.module = new_module(text, path)
        vars(self.module).update(given or {})
        compiling = getattr(getattr(sys.modules.get("torch"), "compiler", None), "is_dynamo_compiling", bool)
        self.hooks = hooks(self.recorder, compiling)
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
        """Begin a run in the journal, and start the thread that flushes the journal."""
        self.journal.write([RunStart("cold")])
        self._watching.enter_context(self.recorder.watching(lambda: None))

    def finish(self) -> None:
        self._watching.close()
        self.journal.write([RunEnd("complete", 0, [])])
        self.journal.close()

    def main(self) -> Probed:
        """Run the module, then its `main`."""
        with listening(self.recorder, str), self:
            self.module.main()
        return self

    def steps(self, code: str) -> list[Any]:
        """Return the steps of the first statement whose line begins with `code`, in order."""
        number = self.number(code)
        return sorted((s for s in self.run.steps.values() if s.statement == number), key=lambda step: step.seq)

    def check(self, *fields: str, of: Callable[[Any], Any] | None = None) -> Probed:
        """Compare the steps of each line that ends in `  #: [3, 3]`: by a field, several, or a function of a step."""
        read, steps = of or attrgetter(*fields), dict[int, list[Any]]((line, []) for line in self.expected)
        for step in sorted(self.run.steps.values(), key=lambda step: step.seq):
            if step.line in steps:
                steps[step.line].append(read(step))
        assert steps == self.expected and steps, f"found {steps}"
        return self

    def number(self, code: str) -> int:
        """Return the number of the first statement whose line begins with `code`."""
        lines = self.source.text.splitlines()
        return next(s.number for s in self.source.statements if lines[s.line - 1].strip().startswith(code))

    def frames(self, function: str) -> list[Any]:
        """Return the calls of a function, in order."""
        names = self.program.functions
        return [frame for frame in self.run.frames.values() if names[frame.function] == function]

    @property
    def records(self) -> list[Any]:
        return list(read_journal(self.journal.path))

    @property
    def run(self) -> Any:
        """The last run, as the parent process reads it, in the form of `recorded_run`."""
        return recorded_run(read_process(self.journal.path, self.source).runs[-1], self.program)


class Clock:
    """A clock in s; only `work` advances it, by ns."""

    def __init__(self) -> None:
        self.now = 1

    def __call__(self) -> float:
        return self.now / 1e9

    def work(self, ns: int) -> int:
        """Advance the clock by `ns`, and return `ns`."""
        self.now += ns
        return ns

    @classmethod
    def replacing(cls, monkeypatch: pytest.MonkeyPatch) -> Clock:
        """Return a clock that the probes read instead of the real one."""
        clock = cls()
        for module in (recorder, recorder_clock, accelerators):
            monkeypatch.setattr(module, "perf_counter", clock)
        return clock


Trace = Callable[..., Probed]


def new_module(text: str, path: str | Path) -> types.ModuleType:
    """Register a module for `text` in `sys.modules` (for pickle) and in `linecache` (for `inspect`)."""
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    vars(module)["__file__"] = str(path)
    linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))
    return module


@dataclass(frozen=True)
class Outcome:
    """The result, output and exception of a module and its `main`."""

    result: str
    printed: str
    error: Any  # as `described` returns it


def plain(text: str, path: str | Path) -> Outcome:
    """Run `text` without probes."""
    module = new_module(text, path)
    code = compile(text, str(path), "exec", dont_inherit=True)
    return outcome(module, lambda: exec(code, vars(module)), path)


def probed(text: str, path: str | Path, journal: Path, directives: Sequence[Directive] | None = None) -> Outcome:
    """Run `text` with probes, as a timed process does."""
    lecture = Probed(text, path, journal, directives)
    with listening(lecture.recorder, str):
        lecture.start()
        result = outcome(lecture.module, lambda: exec(lecture.code, vars(lecture.module)), path)
        lecture.finish()
    if lecture.recorder.calls:
        gc.collect()  # an unreachable generator keeps its frame until it is collected
    assert not lecture.recorder.calls
    return result


def outcome(module: types.ModuleType, load: Callable[[], object], path: str | Path) -> Outcome:
    result, error, printed = None, None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            load()
            result = module.main()
        except BaseException as raised:
            error = described(raised, str(path))
    return Outcome(repr(result), printed.getvalue(), error)


def described(error: BaseException | None, path: str, depth: int = 12) -> Any:
    """Return an exception as plain data: its lines in `path`, causes, notes and members, down to a depth."""
    if error is None or depth == 0:
        return None
    summary = traceback.extract_tb(error.__traceback__)
    positions = [(e.name, e.lineno, e.end_lineno, e.colno, e.end_colno) for e in summary if e.filename == path]
    members = [described(member, path, depth - 1) for member in getattr(error, "exceptions", ())]
    causes = [described(e, path, depth - 1) for e in (error.__cause__, error.__context__)]
    chain = [*causes, error.__suppress_context__]
    return type(error).__name__, str(error), positions, chain, members, getattr(error, "__notes__", None)

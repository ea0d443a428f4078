"""One process of `make inert`: runs tests against modules that are imported with probes, or as they are.

    python -m tests.checks.inert_process job.json

The job names the modules (patterns), the tests, whether to put probes in, and where the outcomes go.
All kinds of process import the modules afresh, so that probes are the only difference. The tracer
itself keeps the modules it was started with.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.machinery
import json
import os
import signal
import sys
import tempfile
import types
import unittest
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from trace_tools.describing.values import Describer
from trace_tools.statements import read_source
from trace_tools.tracing.instrument import Instrumented, instrument
from trace_tools.tracing.journal import Journal
from trace_tools.tracing.recorder import Instruments, Recorder, Settings, hooks


@dataclass(frozen=True)
class Job:
    """What one process is to do."""

    modules: tuple[str, ...]  # patterns of names: "json", "json.*"
    tests: tuple[str, ...]  # names of test modules; of files, for pytest
    how: str  # "plain", "probed", or "metered": with probes that read a meter at each boundary
    result: str  # a file: {"outcomes": {test: outcome}, "steps": …}
    with_pytest: bool = False

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Job:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


class Probing(importlib.machinery.SourceFileLoader):
    """Loads a module with probes in it."""

    program: Instrumented
    code: types.CodeType
    instruments: Instruments

    def prepare(self, instruments: Instruments) -> Probing:
        """Instrument the module, and let go of its tree: it is large, and the tests may collect garbage."""
        self.instruments = instruments
        program = instrument(read_source(self.path))
        self.code = compile(program.tree, self.path, "exec", dont_inherit=True)
        self.program = replace(program, tree=ast.Module([], []))
        return self

    def exec_module(self, module: types.ModuleType) -> None:
        journal = Journal(Path(tempfile.mkdtemp()) / f"{module.__name__}.journal")
        recorder = Recorder(self.program, journal, self.instruments, Settings())
        vars(module).update(hooks(recorder))
        recorders.append(recorder)
        exec(self.code, vars(module))


recorders: list[Recorder] = []


class Finder:
    """Finds the modules that are to have probes, and leaves the others to Python."""

    def __init__(self, patterns: Sequence[str], instruments: Instruments) -> None:
        self.patterns = patterns
        self.instruments = instruments
        self.loaders: dict[str, Probing] = {}

    def is_wanted(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not self.is_wanted(name):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            if name not in self.loaders:
                self.loaders[name] = Probing(name, spec.loader.path).prepare(self.instruments)
            spec.loader = self.loaders[name]
        return spec

    def prepare(self) -> None:
        """Instrument the modules there already, whose old selves the tracer itself may need for that; forget them."""
        there = [name for name in sys.modules if self.is_wanted(name)]
        for name in there:
            self.find_spec(name, getattr(sys.modules.get(name.rpartition(".")[0]), "__path__", None))
        for name in there:
            del sys.modules[name]


class Outcomes(unittest.TestResult):
    """Notes what became of each test, by its id."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def note(self, test: unittest.TestCase, outcome: str) -> None:
        name = test.id()
        while name in self.found:
            name += "'"  # made in a loop, under one name
        self.found[name] = outcome

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.note(test, "ok")

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        sys.setrecursionlimit(1000)  # a test may have left less than it takes to go on
        self.note(test, f"error: {said(err)}")

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.note(test, f"failed: {said(err)}")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.note(test, "skipped")

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.note(test, "failed as expected")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.note(test, "ok, unexpectedly")

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self.note(subtest, f"failed: {said(err)}")


def said(err: Any) -> str:
    with contextlib.suppress(Exception):  # the text may be what is wrong with it
        return f"{err[0].__name__}: {str(err[1])[:300]}"
    return str(err[0].__name__)


def run_unittest(names: Sequence[str]) -> dict[str, str]:
    """Run test modules of the standard library, without what needs a network, a screen or much time."""
    from test import support

    support.use_resources = []
    support.verbose = 0
    outcomes = Outcomes()
    loader = unittest.TestLoader()
    for name in names:
        __import__(name)
        suite = loader.loadTestsFromModule(sys.modules[name])
        suite.run(outcomes)
    return outcomes.found


def run_pytest(paths: Sequence[str]) -> dict[str, str]:
    """Run test files with pytest; hypothesis draws the same few examples each time."""
    import pytest

    with contextlib.suppress(ImportError):
        from hypothesis import settings

        settings.register_profile("few", max_examples=5, derandomize=True, database=None)
        settings.load_profile("few")

    found: dict[str, str] = {}

    class Plugin:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.when == "call" or report.outcome != "passed":
                found[report.nodeid.rpartition("/")[2]] = {"passed": "ok"}.get(report.outcome, report.outcome)

    pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", *paths], plugins=[Plugin()])
    return found


def metering() -> Any:
    """Return a meter, with all that it imports at its first use imported."""
    import torch

    from trace_tools.metering.meters import Meter

    with Meter():
        torch.ones(1, requires_grad=True).sum().backward()
    return Meter()


def main(job_path: str) -> None:
    """Run the job and write the outcomes."""
    job = Job.load(Path(job_path))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    meter = metering() if job.how == "metered" else None
    finder = Finder(job.modules, Instruments(Describer(), meter=meter))
    finder.prepare()
    if job.how != "plain":
        sys.meta_path.insert(0, finder)  # type: ignore[arg-type]
    with meter or contextlib.nullcontext():
        outcomes = run_pytest(job.tests) if job.with_pytest else run_unittest(job.tests)
    steps = sum(next(iter([recorder.sequence()])) for recorder in recorders)
    Path(job.result).write_text(json.dumps({"outcomes": outcomes, "steps": steps}), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
    sys.stdout.flush()
    os._exit(0)  # whatever threads the tests left behind

"""Check a lecture and the options of its trace, and find what its processes need, before any of them starts.

plan = plan_of(Path("lecture.py"), TraceOptions(passes=5))
plan.passes                   # ["pass 1", …, "pass 5"]
plan.torch, plan.skipped      # True, []
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trace_tools.errors import LectureError, UsageError
from trace_tools.machines import devices
from trace_tools.source.directives import parse_directives
from trace_tools.source.imports import imported, is_installed
from trace_tools.source.lint import refuse_uncallable_main, refuse_uncompilable
from trace_tools.source.statements import ParsedSource, main_of, read_source, sections
from trace_tools.trace.identities import PASS, ProcessId
from trace_tools.tracing import included
from trace_tools.tracing.options import DEFAULTS, TraceOptions
from trace_tools.util.files import why_not_inside

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")  # of a machine's folder
TAKEN = ("diff", "partial")  # folders with another content: reports, and runs that did not finish


@dataclass(frozen=True)
class Plan:
    """A lecture to trace, the options, and what the processes of its run need."""

    lecture: Path
    folder: Path  # the lecture's folder; that of its topmost package for a module
    source: ParsedSource
    options: TraceOptions
    uses: frozenset[str]  # packages that the lecture and its modules import
    torch: bool
    skipped: list[str]  # functions that the main function must not call
    modules: Sequence[included.Module]

    @property
    def name(self) -> str:
        """The path of the lecture in its folder."""
        return self.lecture.resolve().relative_to(self.folder).as_posix()

    @property
    def passes(self) -> list[str]:
        """The processes that are timed."""
        return [str(ProcessId(PASS, number)) for number in range(1, self.options.passes + 1)]

    def visible(self, device: str) -> str:
        """Return the device that the processes see: the requested card on a machine with several."""
        asked = self.options.device
        return asked if asked is not None and devices.kind(asked) == device else device


def plan_of(lecture: Path, options: TraceOptions = DEFAULTS) -> Plan:
    """Return the plan of a lecture's trace. Raises LectureError or UsageError for an invalid lecture or option."""
    source = check_lecture(lecture)
    folder = lecture.resolve().parents[len(options.package.split(".")) if options.package else 0]
    uses = imported(source, folder)
    options = replace(options, passes=1 if options.draft else options.passes)
    # If torch is not installed, the lecture itself decides how to continue.
    torch = ("torch" in uses and is_installed("torch")) or options.device not in (None, "cpu")
    functions = skipped(source, options)
    traced = included.find_modules(options.include, lecture) if options.include else []
    if options.device is not None:
        devices.checked(options.device)
    refuse_options(source, options)
    return Plan(
        lecture=lecture,
        folder=folder,
        source=source,
        options=options,
        uses=uses,
        torch=torch,
        skipped=functions,
        modules=traced,
    )


def check_lecture(path: Path) -> ParsedSource:
    """Read and check a lecture. Raises LectureError if it is not a valid lecture."""
    source = read_source(path)
    name = path.name.encode("utf-8", "backslashreplace").decode()  # in a form that a file can hold
    if (why := why_not_inside(name)) is not None:  # the trace stores it, and pages look for that file
        raise LectureError(path, None, f"can't be a lecture's name: {why}")
    refuse_uncompilable(source)
    parse_directives(source)
    refuse_uncallable_main(source)
    return source


def refuse_options(source: ParsedSource, options: TraceOptions) -> None:
    """Raise UsageError if the options fail on any machine, such as an unknown section."""
    skipped(source, options)
    name = options.name
    if name is not None and (NAME.fullmatch(name) is None or name.lower() in TAKEN):
        raise UsageError(f"--name {name}: expected a plain folder name like nvidia-h200, not {' or '.join(TAKEN)}")
    if options.passes < 1 or options.limit < 2:
        raise UsageError(
            f"passes: {options.passes}, limit: {options.limit}; expected at least 1 pass and a limit of at least 2"
        )


def skipped(source: ParsedSource, options: TraceOptions) -> list[str]:
    """Return the functions that the main function must skip so that only one section runs.

    Raises UsageError if that section does not exist.
    """
    names, only = sections(source), options.only
    if only is None:
        return []
    if only not in names:
        calls = ", ".join(f"`{name}`" for name in names) or "none"
        raise UsageError(f"--only {only}: no such section; {main_of(source)} calls {calls}")
    return [name for name in names if name != only]

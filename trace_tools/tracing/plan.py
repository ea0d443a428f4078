"""Check a lecture and the options of its trace, and find what its processes need, before any of them starts.

job, source = planned(Path("lecture.py"), TraceOptions(passes=5))
job.torch, job.skipped        # True, ()
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from trace_tools.errors import LectureError, UsageError
from trace_tools.machines.devices import checked
from trace_tools.source.directives import parse_directives
from trace_tools.source.imports import imported, needs_torch
from trace_tools.source.lint import refuse_what_cannot_run
from trace_tools.source.statements import ParsedSource, main_of, read_source, sections
from trace_tools.trace.model import FOLDER, MODULE
from trace_tools.tracing.job import Job
from trace_tools.tracing.options import DEFAULTS, TraceOptions
from trace_tools.util.files import why_not_inside


def planned(lecture: Path, options: TraceOptions = DEFAULTS) -> tuple[Job, ParsedSource]:
    """Return the job of a lecture's trace, without what only its machine decides, and the lecture's parsed source.

    Raises LectureError or UsageError for an invalid lecture or option.
    """
    source = check_lecture(lecture)
    refuse_options(options)
    if options.device is not None:
        checked(options.device)
    options = replace(options, passes=1 if options.draft else options.passes)
    job = Job(str(lecture.resolve()), source.text, options)
    return replace(
        job,
        torch=options.device not in (None, "cpu") or needs_torch(imported(source, job.folder)),
        skipped=skipped(source, options),
    ), source


def check_lecture(path: Path) -> ParsedSource:
    """Read and check a lecture. Raises LectureError if it is not a valid lecture."""
    source = read_source(path)
    name = path.name.encode("utf-8", "backslashreplace").decode()  # in a form that a file can hold
    if (why := why_not_inside(name)) is not None:  # the trace stores it, and pages look for that file
        raise LectureError(path, None, f"can't be a lecture's name: {why}")
    refuse_what_cannot_run(source)
    parse_directives(source)
    if main_of(source) == MODULE and not source.cells:
        raise LectureError(path, None, "has no statements; expected a script, or a function `main` that calls sections")
    return source


def refuse_options(options: TraceOptions) -> None:
    """Raise UsageError if the options fail with any lecture."""
    name = options.name
    if name is not None and not re.search(FOLDER, name):
        raise UsageError(f"--name {name}: expected a plain folder name like nvidia-h200, not diff or partial")
    if options.passes < 1 or options.limit < 2:
        raise UsageError(
            f"passes: {options.passes}, limit: {options.limit}; expected at least 1 pass and a limit of at least 2"
        )


def skipped(source: ParsedSource, options: TraceOptions) -> tuple[str, ...]:
    """Return the functions that the main function must skip so that only one section runs.

    Raises UsageError if that section does not exist.
    """
    names, only = sections(source), options.only
    if only is not None and main_of(source) == MODULE:
        raise UsageError(f"--only {only}: the cells of a script share variables; expected a lecture with `main`")
    if only is not None and only not in names:
        calls = ", ".join(f"`{name}`" for name in names) or "none"
        raise UsageError(f"--only {only}: no such section; {main_of(source)} calls {calls}")
    return tuple(name for name in names if only not in (None, name))

"""Run `trace lecture.py`: run the lecture, write OUT/<machine>/trace.yaml and its pages."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_tools.analysis.outcome import activity, noise_text, problems, violations, what_was_kept, where_time_went
from trace_tools.commands.arguments import PATH, from_here, reference_in, trace_options
from trace_tools.commands.keep import recover_first
from trace_tools.errors import LectureError, TraceToolsError, UsageError
from trace_tools.tracing.options import OPTIONS, TraceOptions
from trace_tools.tracing.process import started_early
from trace_tools.tracing.progress import Progress
from trace_tools.tracing.ranks import one_at_a_time
from trace_tools.util.interpreter import collector_paused

if TYPE_CHECKING:
    from trace_tools.tracing.run_folder import Traced

NAMED = 3  # files that the lecture wrote, and are named at the end


@click.command()
@click.argument("lecture", type=PATH, required=False)
@click.option("-o", "--out", type=PATH, help="Folder for traces and pages (default: `rendered`, next to the lecture).")
@trace_options(*OPTIONS)
def trace(lecture: Path | None, out: Path | None, options: TraceOptions) -> None:
    """Run a lecture on this machine and make its pages.

    The trace is written to OUT/<machine>/trace.yaml, the pages next to it; the last line names the page to open. It
    replaces the last trace of this machine and lecture, except a trace in git, of another machine or, if it has one
    pass, of several passes. Then it goes to OUT/<machine>-2 or OUT/<machine>/partial.

    \b
    Examples:
      trace-tools trace talk.py                     three runs, for reliable times
      trace-tools trace talk.py --draft             one run, for a quick look
      trace-tools trace talk.py --only matmul       only one section
      trace-tools trace -m course.lecture_01        a module inside a package
      trace-tools trace talk.py --device cuda:1     on the second GPU
    """
    if (lecture is None) == (options.module is None):
        raise UsageError("expected a lecture, as in `trace-tools trace talk.py`, or -m and the name of a module")
    if lecture is None:
        parts = (options.module or "").removesuffix(".py").split(".")
        if not all(part.isidentifier() for part in parts):
            raise UsageError(f"-m {options.module}: expected the name of a module, as in `-m course.lecture_01`")
        lecture, out = Path(*parts).with_suffix(".py"), out or Path("rendered")
    out = out or lecture.parent / "rendered"
    progress = ProgressLine(1 if options.draft else options.passes)
    early = started_early(lecture, options)
    with early or nullcontext():
        with collector_paused():
            from trace_tools.pages.site import get_ready, render_folder
            from trace_tools.source.lint import mistakes
            from trace_tools.tracing.tracer import Tracer

        try:
            tracer = Tracer(lecture, out, options, progress.show, early)
        except LectureError as error:
            others = (str(mistake) for mistake in mistakes(lecture) if str(mistake) != str(error))
            for line in dict.fromkeys(others):
                click.echo(line, err=True)
            raise
        for mistake in mistakes(lecture, tracer.source):  # they do not surely stop the run
            click.echo(str(mistake), err=True)
        if options.draft:  # its process imports torch in the meantime
            get_ready(tracer.source)
        recover_first(out)
        try:
            traced = tracer.run()
        finally:
            progress.done()
    started, path = time.monotonic(), from_here(traced.path)
    try:
        with one_at_a_time(out):
            pages = render_folder(out, lecture=lecture)
    except KeyboardInterrupt:  # a launcher sends it when another rank has failed
        again = f"the trace is in {path}: `trace-tools render {path}` makes the pages"
        raise KeyboardInterrupt(f"interrupted; {again}") from None
    except TraceToolsError as error:
        again = f"correct this, then `trace-tools render {path}` makes the pages"
        raise UsageError(f"{error}; the trace is in {path}: {again}") from None
    trace = traced.trace
    wrong = problems(trace, lecture.parents[len(Path(tracer.job.name).parts) - 1], code=True)
    lines = [*wrong] if trace.run.complete else [*wrong[1:], *what_was_kept(trace, path)]
    lines += [f"impossible figure: {violation}" for violation in violations(trace)]
    lines += where_time_went(trace, [*traced.seconds, ("pages", time.monotonic() - started)])
    if (spread := noise_text(trace)) is not None:
        lines.append(spread)
    elif trace.run.passes == 1 and not options.draft:
        lines.append("run-to-run variation unknown (one pass); use --passes 3")
    if traced.written:
        more = f" and {len(traced.written) - NAMED} more" * (len(traced.written) > NAMED)
        lines.append(f"written in the copy, discarded: {', '.join(traced.written[:NAMED])}{more}")
    lines += [f"{from_here(other)} stays: {why}; --force replaces it" for other, why in traced.stay]
    lines += _difference(out, traced)
    click.echo(path)
    for line in lines:
        click.echo(line, err=True)
    click.echo(f"open {from_here(pages)}")
    if traced.failed is not None:
        raise traced.failed
    sys.exit(1 if wrong else 0)


def _difference(out: Path, traced: Traced) -> Iterator[str]:
    """Yield one line on how a complete trace differs from the reference of the same lecture, if it has one."""
    from trace_tools.diff.difference import Side
    from trace_tools.diff.judge.between import Choices, difference_between
    from trace_tools.diff.report.difference_report import headline
    from trace_tools.trace.file import load

    run, reference = traced.trace.run, reference_in(out, besides=traced.path)
    if reference is None or not run.complete or run.only is not None:
        return
    other = load(reference)
    if other.run.lecture == run.lecture:
        with suppress(UsageError), collector_paused():  # two lectures with one name
            difference = difference_between(Side("A", other), Side("B", traced.trace), Choices())
            how = "make diff" if "MAKELEVEL" in os.environ else f"trace-tools diff {reference} {traced.path}"
            yield f"against {from_here(reference)}: {headline(difference)}; `{how}` shows more"


class ProgressLine:
    """Shows the progress of each process: one changing line on a terminal, a line per process in a log."""

    def __init__(self, passes: int) -> None:
        self._passes = passes
        self._logged: set[str] = set()

    def done(self) -> None:
        """Clear the changing line of the terminal."""
        if sys.stderr.isatty():
            _write("\r\x1b[K")

    def show(self, message: Progress) -> None:
        does = activity(message.process, self._passes)
        if sys.stderr.isatty():
            _write("\r\x1b[K" + ": ".join(filter(None, (does, message.where))))
        elif does not in self._logged:
            self._logged.add(does)
            _write(f"{does}\n")


def _write(text: str) -> None:
    with suppress(OSError):  # a closed terminal must not end a run
        click.echo(text, nl=False, err=True)

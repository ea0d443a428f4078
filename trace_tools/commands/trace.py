"""`trace lecture.py`: run it, write OUT/<machine>/trace.yaml and its pages."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trace_tools.commands.doctor import examine_first
from trace_tools.commands.recover import recover_first
from trace_tools.errors import TraceToolsError, UsageError
from trace_tools.invariants import violations
from trace_tools.machines.devices import FORMS
from trace_tools.outcome import problems, quiet, where_time_went, worth_telling
from trace_tools.project import ProjectOption, of_project
from trace_tools.schema import Trace

if TYPE_CHECKING:
    from trace_tools.tracing.processes import ForkServer

LOGGED_S = 60.0  # between two lines of a log on a process without progress


def _of_its_project(ctx: click.Context, option: click.Parameter, module: str | None) -> str | None:
    of_project(ctx, option, None if module is None else _file_of(module))
    return module


@click.command()
@click.argument("lecture", type=click.Path(path_type=Path), required=False, is_eager=True, callback=of_project)
@click.option(
    "-m",
    "--module",
    metavar="PACKAGE.MODULE",
    is_eager=True,
    callback=_of_its_project,
    help="In the place of LECTURE: one inside a package.",
)
@click.option("-o", "--out", cls=ProjectOption, help="Default: rendered, beside the lecture.")
@click.option("--device", cls=ProjectOption, metavar="DEVICE", help=f"{FORMS}; default: cuda where there is one.")
@click.option("--passes", cls=ProjectOption, default=3, show_default=True, help="Fresh processes.")
@click.option("--seed", cls=ProjectOption, default=0, show_default=True, metavar="N")
@click.option("--limit", cls=ProjectOption, default=100, show_default=True, help="Executions kept.")
@click.option("--only", metavar="SECTION", help="Run only this one of the functions that main calls.")
@click.option("--keep-going/--no-keep-going", cls=ProjectOption, help="Record what failed, and go on.")
@click.option("--inspect-all/--no-inspect-all", cls=ProjectOption, help="Inspect what every assignment assigns.")
@click.option("--vocabulary", "vocabularies", cls=ProjectOption, multiple=True, help="Whose words it is written in.")
@click.option("--include", multiple=True, metavar="PATH|MODULE", help="Trace this module, too, or all of a package.")
@click.option("--name", help="Folder for this machine, instead of its device's name.")
@click.option("--ranks", type=int, metavar="N", help="Run N processes a pass, under torchrun: torch.distributed.")
@click.option(
    "--timeout",
    "timeout_s",
    type=float,
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="With --ranks: end them when none got on for so long.",
)
@click.option("--nodes", type=int, metavar="N", help="Start the same on N machines; the ranks are divided among them.")
@click.option("--node-rank", type=int, metavar="K", help="Which of them this is; the trace is made on node 0.")
@click.option("--rdzv-endpoint", metavar="HOST:PORT", help="Where node 0 listens for the others.")
@click.option("--draft", is_flag=True, help="One run, for a quick look at the pages.")
@click.option("--survey", is_flag=True, help="Measure the machine again, though it was measured before.")
@click.option("--force", is_flag=True, help="Replace another lecture's trace.")
def trace(
    out: Path | None, nodes: int | None, node_rank: int | None, rdzv_endpoint: str | None, **options: Any
) -> None:
    """Run LECTURE on this machine; write OUT/<machine>/trace.yaml and its pages."""
    if (options["lecture"] is None) == (options["module"] is None):
        raise UsageError("expected either a lecture's file, or `-m` and the name of its module")
    if options["module"] is not None:
        options["lecture"] = _file_of(options["module"])
        out = out or Path("rendered")
    out = out or options["lecture"].parent / "rendered"
    progress = Progress()
    with _begun(options) as server:
        from trace_tools.tracing.nodes import placed
        from trace_tools.tracing.tracer import Request, Tracer

        place = placed(nodes, node_rank, rdzv_endpoint) if options["ranks"] is not None or nodes is not None else None
        tracer = Tracer(Request(out=out, nodes=place, **options), progress.show, server)
        if place is not None and place.node > 0:
            try:
                ended = tracer.follow()
            finally:
                progress.done()
            click.echo(f"node {place.node} of {place.count}: {ended}; the trace is on node 0", err=True)
            sys.exit(ended != "complete")
        from trace_tools.mistakes import mistakes
        from trace_tools.publishing.site import get_ready, render_folder

        if options["draft"]:  # its processes are being made meanwhile
            get_ready()
        elif tracer.torch:
            examine_first(options["device"], options["lecture"], out)
        recover_first(out)
        try:
            traced = tracer.run()
        finally:
            progress.done()
    started = time.monotonic()
    try:
        pages = render_folder(out, lecture=options["lecture"])
    except TraceToolsError as error:
        again = f"`render {traced.path}` makes the pages once that is mended"
        raise UsageError(f"{error}; the trace is in {traced.path}: {again}") from None
    seconds = [*traced.seconds, ("pages", time.monotonic() - started)]
    click.echo(f"{traced.path}\n{pages}")
    click.echo(where_time_went(traced.trace, seconds), err=True)
    for violation in violations(traced.trace):
        click.echo(f"can't be right: {violation}", err=True)
    unknown = (
        "one run only"
        if options["draft"]
        else "one pass only"
        if traced.trace.run.passes == 1
        else "no statement takes long enough"
    )
    click.echo(quiet(traced.trace) or f"{unknown}: nothing is known of how much times vary here", err=True)
    if traced.trace.machine.device != "cpu" and (line := worth_telling(traced.trace, traced.path)):
        click.echo(line, err=True)
    told = problems(traced.trace)
    for mistake in mistakes(options["lecture"], tracer.source):  # what did not keep it from running
        if not any(line.startswith(f"{traced.trace.run.lecture}:{mistake.line}:") for line in told):
            click.echo(f"check: {mistake}", err=True)
    report(traced.trace)


def _begun(options: Mapping[str, Any]) -> AbstractContextManager[ForkServer | None]:
    """Begin to import torch for a draft that needs it, while the rest of the tools is imported here."""
    if options["draft"] and options["ranks"] is None and options["module"] is None:
        from trace_tools.imports import imported, is_installed
        from trace_tools.statements import read_source
        from trace_tools.tracing.processes import FORKS, ForkServer, environment

        with suppress(TraceToolsError, OSError):  # which the tracer will meet again, and tell of
            lecture = options["lecture"]
            uses = imported(read_source(lecture), lecture.resolve().parent)
            if FORKS and "torch" in uses and is_installed("torch"):
                return ForkServer(environment(), torch=True)
    return nullcontext()


def _file_of(module: str) -> Path:
    """Return the file of a module, from here. Raises UsageError where that is no name of one."""
    parts = module.removesuffix(".py").split(".")
    if not all(part.isidentifier() for part in parts):
        raise UsageError(f"-m {module}: expected the name of a module, as in `-m course.lecture_01`")
    return Path(*parts).with_suffix(".py")


def report(trace: Trace) -> None:
    """Print what went wrong in a trace, and exit with 1 if anything did."""
    found = problems(trace)
    for line in found:
        click.echo(line, err=True)
    if found:
        sys.exit(1)


class Progress:
    """Shows where each process is: one changing line on a terminal, a line per process in a log.

    A process without progress says at which line; in a log once a minute.
    """

    def __init__(self) -> None:
        self.told: dict[str, float] = {}  # of each process a log knows: when it was told that it makes no progress

    def done(self) -> None:
        """Leave the terminal's line empty."""
        if sys.stderr.isatty():
            self._say("\r\x1b[K")

    def show(self, process: str, place: str, stalled: str = "") -> None:
        where = ", ".join(filter(None, (place, stalled)))
        if sys.stderr.isatty():
            self._say(f"\r\x1b[K{process}: {where}")
        elif process not in self.told:
            self.told[process] = -math.inf
            self._say(f"{process}\n")
        elif stalled and time.monotonic() > self.told[process] + LOGGED_S:
            self.told[process] = time.monotonic()
            self._say(f"{process}: {where}\n")

    def _say(self, text: str) -> None:
        with suppress(OSError):  # nobody reads it: that is no reason to lose a run
            click.echo(text, nl=False, err=True)

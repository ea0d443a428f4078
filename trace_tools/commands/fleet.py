"""Run `fleet machines.yaml LECTURE`: trace a lecture on many machines at once, copy the traces here, render, compare.

Exit codes: 0 all traces are present; 1 a claim failed or the lecture raised on a machine; 2 bad input, or a machine has
no trace: the other traces are present and rendered, and the same command continues with the missing ones; 130 Ctrl-C,
which ends all runs.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trace_tools.analysis.outcome import activity, problems
from trace_tools.commands.check import all_mistakes
from trace_tools.config import ProjectOption, of_project, trace_options
from trace_tools.errors import UsageError
from trace_tools.tracing.options import FLEET, OPTIONS, TraceOptions
from trace_tools.tracing.progress import Progress

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

LOGGED = 1000  # lines of a machine's in a log; no lecture has so many passes


@click.command()
@click.argument("machines", type=click.Path(path_type=Path), default=Path("machines.yaml"), metavar="[MACHINES.yaml]")
@click.argument(
    "lecture", type=click.Path(path_type=Path), default=Path("lecture.py"), is_eager=True, callback=of_project
)
@click.option("-o", "--out", cls=ProjectOption)
@trace_options(*(name for name, option in OPTIONS.items() if FLEET in option.scope))
@click.option("--machine", "names", multiple=True, metavar="NAME", help="Use only this machine; can be repeated.")
@click.option("--again", is_flag=True, help="Trace again even if the trace is up to date.")
def fleet(
    machines: Path,
    lecture: Path,
    out: Path | None,
    names: tuple[str, ...],
    again: bool,
    options: TraceOptions,
) -> None:
    """Trace a lecture on several machines at once.

    MACHINES.yaml lists the machines; README shows one. Each trace is copied to OUT/<name>/trace.yaml, then the pages
    and the comparison are made.

    \b
    Examples:
      trace-tools fleet machines.yaml talk.py
      trace-tools fleet machines.yaml talk.py --machine h200
      trace-tools fleet machines.yaml talk.py --passes 5 --again
    """
    from trace_tools.pages.site import REPORTS, render_folder
    from trace_tools.remote.inventory import Inventory, read
    from trace_tools.remote.run import Fleet
    from trace_tools.tracing.plan import check_lecture

    inventory = read(machines)
    machine_names = [entry.name for entry in inventory.machines]
    for name in names:
        if name not in machine_names:
            raise UsageError(f"--machine {name}: {machines} has no such machine; it has {', '.join(machine_names)}")
    chosen = [entry for entry in inventory.machines if not names or entry.name in names]
    with all_mistakes(lecture, options.main):
        check_lecture(lecture, main=options.main)
    out = out or lecture.parent / "rendered"
    show, inventory_used = _MachineLines(), Inventory(chosen, inventory.files)
    running = Fleet(inventory_used, machines.parent, lecture, out, options, show.update, again=again)
    paths, failed, problem_lines = [], [], []
    try:
        with closing(running.run()) as outcomes:
            for outcome in outcomes:
                if outcome.path is None or outcome.trace is None:
                    failed.append(outcome.folder)
                    show.ended(f"{outcome.folder}: {outcome.why}")
                    continue
                paths.append(outcome.path)
                show.ended(f"{outcome.folder}: {outcome.path}{'' if outcome.fresh else ' (already up to date)'}")
                problem_lines += [f"{outcome.folder}: {line}" for line in problems(outcome.trace)]
    except KeyboardInterrupt:
        done = f"interrupted; {len(paths)} of {len(running)} traces are complete"
        raise KeyboardInterrupt(f"{done}. Run the same command again for the others") from None
    finally:
        show.done()
    if paths:
        index = render_folder(out, lecture)
        if (reports := out / REPORTS / index.name).is_file():
            click.echo(str(reports))
        click.echo(str(index))
    for line in problem_lines:
        click.echo(line, err=True)
    if failed:
        click.echo(f"no trace from {', '.join(failed)}; run the same command again to retry", err=True)
    if failed or problem_lines:
        sys.exit(2 if failed else 1)


class _MachineLines:
    """Shows the progress of each machine: on a terminal one changing line, in a log a line for each process that
    begins.
    """

    def __init__(self) -> None:
        self._at: dict[str, str] = {}
        self._logged: dict[str, set[str]] = defaultdict(set)
        self._lock = threading.Lock()
        self._live: Live | None = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                console=Console(stderr=True, soft_wrap=True),
                get_renderable=self._lines,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )

    def update(self, folder: str, message: Progress) -> None:
        """Show the progress of a machine; called from several threads."""
        process = activity(message.process)
        with self._lock:
            self._at[folder] = ": ".join(filter(None, (process, message.where)))
            logged = self._logged[folder]
            if is_new := process not in logged and len(logged) < LOGGED:
                logged.add(process)
        if self._live is not None:
            self._live.start()
        elif is_new:
            self._print(f"{folder}: {process}")

    def ended(self, line: str) -> None:
        """Print the result of a machine as a permanent line."""
        with self._lock:
            self._at.pop(line.partition(":")[0], None)
        self._print(line)

    def done(self) -> None:
        """Remove the changing lines."""
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()

    def _lines(self) -> Text:
        from rich.text import Text

        with self._lock:
            lines = [f"{folder}: {where}\n" for folder, where in self._at.items()]
        return Text("".join(lines), no_wrap=True, overflow="ellipsis")  # the last is empty: there ^C is echoed

    def _print(self, text: str) -> None:
        with suppress(OSError):  # a closed terminal must not end a run
            if self._live is None:
                click.echo(text, err=True)
            else:
                self._live.console.print(text, markup=False, highlight=False)

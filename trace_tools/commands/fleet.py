"""`fleet machines.yaml LECTURE`: trace a lecture on many machines at once, bring the traces home, render, compare.

Exit codes: 0 all are there; 1 a claim failed or the lecture raised on one; 2 bad input, or a machine has no trace: the
others' are there and are rendered, and the same command goes on with what is missing; 130 Ctrl-C, which ends what runs.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trace_tools.errors import UsageError
from trace_tools.project import ProjectOption, of_project

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

LOGGED = 1000  # lines of a machine's in a log; no lecture has so many passes


@click.command()
@click.argument("machines", type=click.Path(path_type=Path), default=Path("machines.yaml"), metavar="[MACHINES.yaml]")
@click.argument(
    "lecture", type=click.Path(path_type=Path), default=Path("lecture.py"), is_eager=True, callback=of_project
)
@click.option("-o", "--out", cls=ProjectOption, help="Default: rendered, beside the lecture.")
@click.option("--passes", cls=ProjectOption, default=3, show_default=True, help="Fresh processes.")
@click.option("--seed", cls=ProjectOption, default=0, show_default=True, metavar="N")
@click.option("--limit", cls=ProjectOption, default=100, show_default=True, help="Executions kept.")
@click.option("--only", metavar="SECTION", help="Run only this one of the functions that main calls.")
@click.option("--keep-going/--no-keep-going", cls=ProjectOption, help="Record what failed, and go on.")
@click.option("--inspect-all/--no-inspect-all", cls=ProjectOption, help="Inspect what every assignment assigns.")
@click.option("--vocabulary", "vocabularies", cls=ProjectOption, multiple=True, help="Whose words it is written in.")
@click.option("--ranks", type=int, metavar="N", help="On each machine, N processes a pass, as for `trace`.")
@click.option("--machine", "names", multiple=True, metavar="NAME", help="Only this one of the inventory's.")
@click.option("--again", is_flag=True, help="Trace also where the trace is there already.")
@click.option("--force", is_flag=True, help="Replace another lecture's trace.")
@click.pass_context
def fleet(
    ctx: click.Context,
    /,
    machines: Path,
    lecture: Path,
    out: Path | None,
    names: tuple[str, ...],
    again: bool,
    **request: Any,
) -> None:
    """Trace LECTURE on all machines of MACHINES.yaml; write OUT/<name>/trace.yaml, pages, and what differs."""
    from trace_tools.fleet.inventory import Inventory, read
    from trace_tools.fleet.run import Fleet
    from trace_tools.outcome import problems
    from trace_tools.tracing.tracer import check_lecture

    inventory = read(machines)
    known = [entry.name for entry in inventory.machines]
    for name in names:
        if name not in known:
            raise UsageError(f"--machine {name}: {machines} has no such machine; it has {', '.join(known)}")
    chosen = [entry for entry in inventory.machines if not names or entry.name in names]
    check_lecture(lecture)
    out = out or lecture.parent / "rendered"
    request["vocabularies"] = list(request["vocabularies"])
    if request["ranks"] is None:
        del request["ranks"]  # so that what was traced without ranks is there already
    show = _Places()
    running = Fleet(Inventory(chosen, inventory.files), machines.parent, lecture, out, request, show.told, again=again)
    there, failed, wrong = [], [], []
    try:
        with closing(running.run()) as outcomes:
            for outcome in outcomes:
                if outcome.path is None or outcome.trace is None:
                    failed.append(outcome.folder)
                    show.ended(f"{outcome.folder}: {outcome.why}")
                    continue
                there.append(outcome.path)
                show.ended(f"{outcome.folder}: {outcome.path}{'' if outcome.fresh else ' (there already)'}")
                wrong += [f"{outcome.folder}: {line}" for line in problems(outcome.trace)]
    except KeyboardInterrupt:
        done = f"{len(there)} of {len(running)} traces are there"
        raise KeyboardInterrupt(f"interrupted; {done}, and the same command goes on with the others") from None
    finally:
        show.done()
    if there:
        _publish(ctx, out, lecture)
    for line in wrong:
        click.echo(line, err=True)
    if failed:
        click.echo(f"no trace: {', '.join(failed)}; the same command goes on with them", err=True)
    if failed or wrong:
        sys.exit(2 if failed else 1)


def _publish(ctx: click.Context, out: Path, lecture: Path) -> None:
    """Make the pages of all traces that lie there, and what differs between the machines."""
    from trace_tools.commands.compare import compare
    from trace_tools.publishing.site import REPORTS, render_folder

    index = render_folder(out, lecture)
    traces = tuple(sorted(out.glob("*/trace.yaml"), key=lambda path: path.parent.name))
    if len(traces) > 1:
        ctx.invoke(compare, traces=traces, out=out / REPORTS, base=None, form="terminal", every=False)
        if f"{REPORTS}/index" not in index.read_text(encoding="utf-8"):
            render_folder(out, lecture)
    click.echo(str(index))


class _Places:
    """Shows where each machine is: a changing line each on a terminal, in a log a line for each process that begins."""

    def __init__(self) -> None:
        self._at: dict[str, str] = {}
        self._known: dict[str, set[str]] = defaultdict(set)
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

    def told(self, folder: str, where: str) -> None:
        """Take note of where a machine is; threads tell it."""
        process = where.partition(":")[0]
        with self._lock:
            self._at[folder] = where
            known = self._known[folder]
            if is_new := process not in known and len(known) < LOGGED:
                known.add(process)
        if self._live is not None:
            self._live.start()
        elif is_new:
            self._say(f"{folder}: {process}")

    def ended(self, line: str) -> None:
        """Say what came of a machine: a line that stays."""
        with self._lock:
            self._at.pop(line.partition(":")[0], None)
        self._say(line)

    def done(self) -> None:
        """Leave no changing line."""
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()

    def _lines(self) -> Text:
        from rich.text import Text

        with self._lock:
            lines = [f"{folder}: {where}\n" for folder, where in self._at.items()]
        return Text("".join(lines), no_wrap=True, overflow="ellipsis")  # the last is empty: there ^C is echoed

    def _say(self, text: str) -> None:
        with suppress(OSError):  # nobody reads it: that is no reason to lose a run
            if self._live is None:
                click.echo(text, err=True)
            else:
                self._live.console.print(text, markup=False, highlight=False)

"""`diff A B`: what differs between two traces, and whether it matters.

Exit codes: 0 no difference that matters, or none of those named by --fail-on; 1 one; 2 bad usage or bad input;
3 none, but time was asked for and not one could be judged: others were using the machine, or there were fewer than
three processes a side. It is asked for unless --only, --ignore or --fail-on leave it out; of two machines, where times
are ratios, only by --fail-on time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import click
from rich.console import Console, RenderableType

from trace_tools.comparing.difference import ASPECTS, Aspect, Difference
from trace_tools.errors import UsageError
from trace_tools.files import replace as replace_file

WIDTH = 120  # of a terminal report that goes to a file


@click.command("diff", context_settings={"max_content_width": 100})
@click.argument("traces", nargs=-1, metavar="A B")
@click.option(
    "--format",
    "style",
    type=click.Choice(["terminal", "md", "html", "json"]),
    default="terminal",
    help="The fields of json: trace_tools/comparing/reports/difference_json.py.",
)
@click.option("--only", multiple=True, metavar="ASPECT,…", help=f"Compare only these: {', '.join(ASPECTS)}.")
@click.option("--ignore", multiple=True, metavar="WHAT,…", help="Leave out aspects, expressions, functions (*).")
@click.option("--tolerance", multiple=True, metavar="[DTYPE=]REL", help="Wider than torch.testing's.")
@click.option("--fail-on", multiple=True, metavar="ASPECT,…", help="Exit with 1 for these only; 'none' for nothing.")
@click.option("--all", "everything", is_flag=True, help="On the terminal, also what does not matter.")
@click.option("--force", is_flag=True, help="Compare lectures that have nothing to do with each other.")
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to this file.")
@click.option("--textconv", type=click.Path(path_type=Path), metavar="TRACE", help="Print one trace as text, for git.")
@click.option("--setup-git", is_flag=True, help="Make this clone's `git diff` show traces as text.")
@click.pass_context
def diff(ctx: click.Context, /, traces: tuple[str, ...], **options: Any) -> None:
    """Say what differs between trace A and trace B, and whether it matters.

    A and B are trace files, folders with a trace.yaml in them, or REV:path as `git show` takes it; with #rank1 behind
    one of these, what that rank did in a trace of several.
    """
    from trace_tools.comparing.reports import textconv
    from trace_tools.garbage import collector_paused

    if options["textconv"] is not None:
        click.echo(textconv.convert(options["textconv"]), nl=False)
        return
    if options["setup_git"]:
        click.echo(textconv.set_up())
        return
    if len(traces) != 2:
        raise click.UsageError(f"expected two traces, A and B; found {len(traces)}")
    fail_on = read_aspects(options["fail_on"], "--fail-on")
    with collector_paused():  # else a third of the time goes to walking two large traces
        difference = _compared(traces, options, time_asked=fail_on is not None and "time" in fail_on)
        write_report(difference, options["style"], options["out"], everything=options["everything"])
    ctx.exit(exit_code(difference, fail_on))


def _compared(traces: tuple[str, ...], options: dict[str, Any], *, time_asked: bool) -> Difference:
    from trace_tools.comparing.judging.between import Choices, difference_between
    from trace_tools.comparing.judging.tolerance import Tolerances
    from trace_tools.comparing.revisions import open_side

    ignored = _split(options["ignore"])
    only = read_aspects(options["only"], "--only") or frozenset(ASPECTS)
    choices = Choices(
        aspects=only - frozenset(ignored),
        ignored=tuple(word for word in ignored if word not in ASPECTS),
        tolerances=Tolerances.parse(options["tolerance"]),
        force=options["force"],
        time_asked=time_asked,
    )
    if not choices.aspects:
        raise UsageError("nothing is left to compare: --ignore leaves out all that --only names")
    if options["out"] is not None:
        for trace in traces:
            if Path(trace).exists() and options["out"].resolve() in (Path(trace).resolve(), Path(trace, "trace.yaml")):
                raise UsageError(f"{options['out']}: is one of the traces; the report would replace it")
    a, b = (open_side(trace) for trace in traces)
    return difference_between(a, b, choices)


def exit_code(difference: Difference, fail_on: frozenset[Aspect] | None) -> int:
    """Return 1 for a difference that was asked about, else 3 where time was and could not be judged, else 0.

    Asked about is anything that matters, or, where aspects are named, one of these that does; output named is enough.
    """
    if fail_on is None:
        fails = difference.matters
    else:
        fails = any(
            f.aspect in fail_on and (f.matters or f.aspect == "output") for r in difference.rows for f in r.findings
        )
        fails |= "time" in fail_on and any(time.matters for row in difference.rows for time in row.times)
    if fails:
        return 1
    return 3 if difference.time_not_judged and (fail_on is None or "time" in fail_on) else 0


def _split(texts: Iterable[str]) -> list[str]:
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def read_aspects(texts: Iterable[str], option: str) -> frozenset[Aspect] | None:
    """Read the aspects an option names; None when it was not given."""
    words = _split(texts)
    if not words:
        return None
    if option == "--fail-on" and words == ["none"]:
        return frozenset()
    found: set[Aspect] = set()
    for word in words:
        known = next((aspect for aspect in ASPECTS if aspect == word), None)
        if known is None:
            raise UsageError(f"{option} {word[:40]}: expected some of {', '.join(ASPECTS)}")
        found.add(known)
    return frozenset(found)


def write_report(
    difference: Difference,
    style: str,
    out: Path | None,
    *,
    everything: bool = False,
    before: Sequence[str] = (),
    **more: Any,
) -> None:
    """Write the report to a file or to stdout, `before` in front of it; JSON has `more` fields instead."""
    from trace_tools.comparing.reports.difference_json import difference_json
    from trace_tools.comparing.reports.difference_report import report_of
    from trace_tools.comparing.reports.html import html
    from trace_tools.comparing.reports.markdown import markdown
    from trace_tools.comparing.reports.report import Phrase
    from trace_tools.comparing.reports.terminal import terminal

    if style == "json":
        text = difference_json(difference, **more)
    else:
        report = report_of(difference, style, everything=everything)  # type: ignore[arg-type]
        report = replace(report, parts=[*map(Phrase, before), *report.parts])
        if style == "terminal":
            if out is None:
                show(Console(highlight=False), terminal(report))
                return
            file = StringIO()
            Console(file=file, width=WIDTH, highlight=False).print(terminal(report))
            text = file.getvalue()
        else:
            text = html(report) if style == "html" else markdown(report, comment=True)
    if out is None:
        click.echo(text, nl=False)
    else:
        replace_file(out, text)


def show(console: Console, report: RenderableType) -> None:
    """Print a report on the terminal; one that nobody reads on is the command's error, not the console's exit code."""
    with console.capture() as text:
        console.print(report)
    click.echo(text.get(), nl=False)

"""Run `diff A B`: show the differences between two traces, and whether they matter.

Exit codes: 0 no difference that matters, or no such difference among the aspects of --fail-on; 1 a difference that
matters; 2 bad usage or bad input; 3 no such difference, but times were requested and could not be judged, because the
machine was busy or a side had fewer than three processes. Times are requested unless --only, --ignore or --fail-on
excludes them; between two machines, whose times are ratios, only --fail-on time requests them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import click
from rich.console import Console, RenderableType

from trace_tools.commands.traces import open_side, path_of, what_is_there
from trace_tools.diff.difference import ASPECTS, Aspect, Difference
from trace_tools.errors import UsageError
from trace_tools.util.files import replace as replace_file

FORMAT = "Format of the report (default: terminal)."
FAIL_ON = "Exit with 1 only if these aspects differ; `none` for never."
WIDTH = 120  # width of a terminal report that goes to a file


@click.command("diff", context_settings={"max_content_width": 100})
@click.argument("traces", nargs=-1, metavar="A B")
@click.option(
    "--format",
    "style",
    type=click.Choice(["terminal", "md", "html", "json"]),
    default="terminal",
    help=FORMAT,
)
@click.option("--only", multiple=True, metavar="ASPECT,…", help=f"Compare only these aspects: {', '.join(ASPECTS)}.")
@click.option(
    "--ignore",
    multiple=True,
    metavar="WHAT,…",
    help="Ignore these aspects, expressions or functions (with * as in a shell).",
)
@click.option(
    "--tolerance", multiple=True, metavar="[DTYPE=]REL", help="Allow this relative error (default: as torch.testing)."
)
@click.option("--fail-on", multiple=True, metavar="ASPECT,…", help=FAIL_ON)
@click.option("--all", "everything", is_flag=True, help="On the terminal, also show differences that do not matter.")
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to this file.")
@click.pass_context
def diff(ctx: click.Context, /, traces: tuple[str, ...], **options: Any) -> None:
    """Show what differs between two traces and whether it matters.

    A and B are trace files, folders with a trace.yaml, names of such folders in rendered/, or REV:path as in
    `git show`.

    \b
    Examples:
      trace-tools diff cpu nvidia-h200
      trace-tools diff HEAD~1:rendered/cpu/trace.yaml rendered/cpu/trace.yaml
      trace-tools diff cpu nvidia-h200 --only values --tolerance bfloat16=0.05
      trace-tools diff cpu nvidia-h200 --ignore "loss*" --fail-on claims
      trace-tools diff cpu nvidia-h200 --format md -o report.md
    """
    from trace_tools.util.interpreter import collector_paused

    if len(traces) != 2:
        raise click.UsageError(f"expected two traces, A and B; found {len(traces)}: {what_is_there()}")
    fail_on = read_aspects(options["fail_on"], "--fail-on")
    with collector_paused():  # else a third of the time goes to walking two large traces
        difference = _compared(traces, options, time_asked=fail_on is not None and "time" in fail_on)
        write_report(difference, options["style"], options["out"], everything=options["everything"])
    ctx.exit(exit_code(difference, fail_on))


def _compared(traces: tuple[str, ...], options: dict[str, Any], *, time_asked: bool) -> Difference:
    from trace_tools.diff.judge.between import Choices, difference_between
    from trace_tools.diff.judge.values import Tolerances

    ignored = _split(options["ignore"])
    only = read_aspects(options["only"], "--only") or frozenset(ASPECTS)
    choices = Choices(
        aspects=only - frozenset(ignored),
        ignored=tuple(word for word in ignored if word not in ASPECTS),
        tolerances=Tolerances.parse(options["tolerance"]),
        time_asked=time_asked,
    )
    if not choices.aspects:
        raise UsageError("--ignore excludes every aspect that --only selects; expected at least one to compare")
    traces = tuple(map(_named, traces))
    if options["out"] is not None:
        for trace in traces:
            if Path(trace).exists() and options["out"].resolve() in (Path(trace).resolve(), Path(trace, "trace.yaml")):
                raise UsageError(f"{options['out']} is one of the two traces; write the report to another file with -o")
    a, b = (open_side(trace) for trace in traces)
    return difference_between(a, b, choices)


def _named(trace: str) -> str:
    """Return a side as `open_side` takes it, with a folder's name replaced by its path."""
    if Path(trace).exists():
        return trace
    if ":" in trace:  # REV:path
        return trace
    return str(path_of(trace))


def exit_code(difference: Difference, fail_on: frozenset[Aspect] | None) -> int:
    """Return 1 for a relevant difference, else 3 if times were requested and could not be judged, else 0.

    Relevant is any difference that matters, or only those of the named aspects; output counts only if it is named.
    """
    if fail_on is None:
        fails = difference.matters
    else:
        fails = any(
            f.aspect in fail_on and (f.matters or f.aspect == "output") for r in difference.rows for f in r.findings
        )
    if fails:
        return 1
    return 3 if difference.time_not_judged and (fail_on is None or "time" in fail_on) else 0


def _split(texts: Iterable[str]) -> list[str]:
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def read_aspects(texts: Iterable[str], option: str) -> frozenset[Aspect] | None:
    """Return the aspects that an option names; None if it was not given."""
    words = _split(texts)
    if not words:
        return None
    if option == "--fail-on" and words == ["none"]:
        return frozenset()
    for word in words:
        if word not in ASPECTS:
            raise UsageError(f"{option} {word[:40]}: expected some of {', '.join(ASPECTS)}")
    return frozenset(aspect for aspect in ASPECTS if aspect in words)


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
    from trace_tools.diff.report.difference_json import difference_json
    from trace_tools.diff.report.difference_report import report_of
    from trace_tools.diff.report.report import Phrase, html, markdown, terminal

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
    """Print a report on the terminal; a closed pipe is the command's error, not the console's exit code."""
    with console.capture() as text:
        console.print(report)
    click.echo(text.get(), nl=False)

"""Run `diff A B [C …]`: show the differences between two traces, or of several from the first side by side.

Exit codes: 0 no difference that matters, or no such difference among the aspects of --fail-on; 1 a difference that
matters; 2 bad usage or bad input; 3 no such difference, but times were requested and could not be judged, because the
machine was busy or a side had fewer than three processes. Times are requested unless --only, --ignore or --fail-on
excludes them; between two machines, where times are ratios, only --fail-on time requests them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from trace_tools.commands.arguments import PATH, open_side, path_of, reference_and_latest, what_is_there
from trace_tools.diff.difference import ASPECTS, Aspect, Difference, Side
from trace_tools.errors import UsageError
from trace_tools.util.files import replace_file

if TYPE_CHECKING:
    from trace_tools.diff.judge.between import Choices
    from trace_tools.presentation.report import Report

FORMATS = click.Choice(["terminal", "md", "html", "json", "csv"])
FORMAT = "Format of the report (default: terminal); json is for two traces, csv has every measurement."
IGNORE = "Ignore these aspects, expressions or functions (with * as in a shell)."
TOLERANCE = "Allow this relative error (default: as torch.testing)."
FAIL_ON = "Exit with 1 only if these aspects differ; `none` for never."
WIDTH = 120  # width of a terminal report that goes to a file


@click.command()
@click.argument("traces", nargs=-1, metavar="[A B [C …]]")
@click.option("--format", "style", type=FORMATS, default="terminal", help=FORMAT)
@click.option("--only", multiple=True, metavar="ASPECT,…", help=f"Compare only these aspects: {', '.join(ASPECTS)}.")
@click.option("--ignore", multiple=True, metavar="WHAT,…", help=IGNORE)
@click.option("--tolerance", multiple=True, metavar="[DTYPE=]REL", help=TOLERANCE)
@click.option("--fail-on", multiple=True, metavar="ASPECT,…", help=FAIL_ON)
@click.option("--all", "everything", is_flag=True, help="In text, show everything, not only what matters.")
@click.option("-o", "--out", type=PATH, help="Write to this file, or all reports to this folder.")
@click.pass_context
def diff(ctx: click.Context, /, traces: tuple[str, ...], **options: Any) -> None:
    """Show what differs between two traces and whether it matters.

    Of more traces, show how each differs from the first, and the measurements of all side by side. Traces are trace
    files, folders with a trace.yaml, names of such folders in rendered/, or REV:path as in `git show`. Without any, the
    reference, which is the first trace in rendered/ that git tracks, is compared with the latest trace made here.

    \b
    Examples:
      trace-tools diff
      trace-tools diff cpu nvidia-h200
      trace-tools diff HEAD~1:rendered/cpu/trace.yaml rendered/cpu/trace.yaml
      trace-tools diff cpu nvidia-h200 --only values --tolerance bfloat16=0.05
      trace-tools diff cpu nvidia-h200 --ignore "loss*" --fail-on claims
      trace-tools diff cpu nvidia-h200 --format md -o report.md
      trace-tools diff rendered/*/trace.yaml -o rendered/diff
    """
    from trace_tools.util.interpreter import collector_paused

    style, out, everything = options["style"], options["out"], options["everything"]
    traces = traces or reference_and_latest()
    if len(traces) < 2:
        raise click.UsageError(f"expected two traces or more; found {len(traces)}: {what_is_there()}")
    folder = out is not None and (out.is_dir() or not out.suffix)
    several = len(traces) > 2 or folder or style == "csv"
    if several and style == "json":
        raise UsageError("--format json is for two traces; csv has the measurements of several")
    fail_on = _aspects(options["fail_on"], "--fail-on")
    choices = _choices(options, time_asked=fail_on is not None and "time" in fail_on)
    traces = tuple(name if Path(name).exists() or ":" in name else str(path_of(name)) for name in traces)
    for trace in traces if out is not None else ():
        if Path(trace).exists() and out.resolve() in (Path(trace).resolve(), Path(trace, "trace.yaml")):
            raise UsageError(f"{out} is one of the traces; write the report to another file with -o")
    first, *others = (open_side(trace) for trace in traces)
    with collector_paused():  # else a third of the time goes to walking two large traces
        if several:
            differences = _write_comparison([first, *others], choices, options, folder=folder)
        else:
            from trace_tools.diff.judge.between import difference_between
            from trace_tools.diff.report.difference_report import difference_json, report_of

            differences = [difference := difference_between(first, others[0], choices)]
            as_json = style == "json"
            report = difference_json(difference) if as_json else report_of(difference, style, everything=everything)
            _write(report, out, style)
    codes = [exit_code(difference, fail_on) for difference in differences]
    ctx.exit(1 if 1 in codes else max(codes, default=0))


def _choices(options: dict[str, Any], *, time_asked: bool) -> Choices:
    from trace_tools.diff.judge.between import Choices
    from trace_tools.diff.judge.values import Tolerances

    ignored = _split(options["ignore"])
    aspects = (_aspects(options["only"], "--only") or frozenset(ASPECTS)) - frozenset(ignored)
    if not aspects:
        raise UsageError("--ignore excludes every aspect that --only selects; expected at least one to compare")
    names = tuple(word for word in ignored if word not in ASPECTS)
    return Choices(aspects, names, Tolerances.parse(options["tolerance"]), time_asked=time_asked)


def exit_code(difference: Difference, fail_on: frozenset[Aspect] | None) -> int:
    """Return the exit code for any difference that matters, or only for the named aspects; output must be named."""
    findings = (finding for row in difference.rows for finding in row.findings)
    if fail_on is None:
        fails = difference.matters
    else:
        fails = any(f.aspect in fail_on and (f.matters or f.aspect == "output") for f in findings)
    if fails:
        return 1
    return 3 if difference.time_not_judged and (fail_on is None or "time" in fail_on) else 0


def _split(texts: Iterable[str]) -> list[str]:
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def _aspects(texts: Iterable[str], option: str) -> frozenset[Aspect] | None:
    """Return the aspects that an option names, if it was given."""
    words = _split(texts)
    if option == "--fail-on" and words == ["none"]:
        return frozenset()
    for word in words:
        if word not in ASPECTS:
            raise UsageError(f"{option} {word[:40]}: expected some of {', '.join(ASPECTS)}")
    return frozenset(aspect for aspect in ASPECTS if aspect in words) if words else None


def _write_comparison(
    sides: Sequence[Side], choices: Choices, options: dict[str, Any], *, folder: bool
) -> Sequence[Difference]:
    """Write the comparison of several traces, and return the differences of each from the first."""
    from trace_tools.diff.compare import compare
    from trace_tools.diff.report.comparison_report import csv_text, report_of, write_reports

    style, out = options["style"], options["out"]
    comparison = compare(sides, choices)
    if folder:
        write_reports(out, comparison, "../index.html" if (out.parent / "index.html").is_file() else None)
        click.echo(str(out / "index.html"))
    elif style == "csv":
        _write(csv_text(comparison), out)
    else:
        width = Console().width if out is None else WIDTH
        _write(report_of(comparison, style, width=width, everything=options["everything"]), out, style)
    return comparison.differences


def _write(report: Report | str, out: Path | None, style: str = "") -> None:
    """Write a report or a text to a file or to stdout; a closed pipe is the command's error, not the console's."""
    from trace_tools.presentation.report import html, markdown, terminal

    if isinstance(report, str):
        text = report
    elif style == "terminal":
        console = Console(highlight=False) if out is None else Console(file=StringIO(), width=WIDTH, highlight=False)
        with console.capture() as captured:
            console.print(terminal(report))
        text = captured.get()
    else:
        text = html(report) if style == "html" else markdown(report)
    if out is None:
        click.echo(text, nl=False)
    else:
        replace_file(out, text)

"""Run `compare TRACE.yaml…`: show traces of many machines side by side, on the terminal or as files.

python -m trace_tools compare rendered/*/trace.yaml                     a summary on the terminal
python -m trace_tools compare rendered/*/trace.yaml -o rendered/diff    index.html, index.md, compare.csv, and
                                                                        each machine against the base, step by step
python -m trace_tools compare A.yaml B.yaml --base A --format csv       on stdout
python -m trace_tools compare A.yaml --floor "NVIDIA H100 80GB HBM3"    the limits of a machine without a trace
"""

from __future__ import annotations

from pathlib import Path

import click

from trace_tools.commands.diff import FORMAT
from trace_tools.commands.traces import TracePath


@click.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=TracePath())
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Write HTML, Markdown, CSV and all diffs to this folder."
)
@click.option("--base", metavar="MACHINE", help="Compare with this machine (default: the first).")
@click.option(
    "--floor",
    "floors",
    metavar="MACHINE",
    multiple=True,
    help="Also show the least time that this machine's datasheet allows; can be repeated.",
)
@click.option("--format", "form", type=click.Choice(["terminal", "md", "html", "csv"]), default="terminal", help=FORMAT)
@click.option("--all", "every", is_flag=True, help="On the terminal, show every row, not only the largest changes.")
def compare(
    traces: tuple[Path, ...], out: Path | None, base: str | None, floors: tuple[str, ...], form: str, every: bool
) -> None:
    """Show the traces of two or more machines side by side.

    With --floor, one trace is enough.

    \b
    Examples:
      trace-tools compare rendered/*/trace.yaml
      trace-tools compare rendered/*/trace.yaml -o rendered/diff
      trace-tools compare rendered/*/trace.yaml --base cpu --format csv
      trace-tools compare rendered/cpu/trace.yaml --floor "NVIDIA H100 80GB HBM3"
    """
    from rich.console import Console

    from trace_tools.analysis.floors import ceiling_named
    from trace_tools.commands.diff import show
    from trace_tools.diff.compare import compare as compared
    from trace_tools.diff.difference import Side
    from trace_tools.diff.report.comparison_report import csv_text, report_of
    from trace_tools.diff.report.folder import write_reports
    from trace_tools.diff.report.report import html, markdown, terminal
    from trace_tools.trace.trace_file import load

    ceilings = [ceiling_named(name) for name in dict.fromkeys(floors)]
    comparison = compared([Side(str(path), load(path).trace) for path in traces], base, ceilings)
    if out is not None:
        in_a_site = (out.parent / "index.html").is_file()
        write_reports(out, comparison, "../index.html" if in_a_site else None)
        click.echo(str(out / "index.html"))
    elif form == "terminal":
        console = Console()
        show(console, terminal(report_of(comparison, "terminal", width=console.width, everything=every)))
    elif form == "csv":
        click.echo(csv_text(comparison), nl=False)
    else:
        text = html(report_of(comparison, "html")) if form == "html" else markdown(report_of(comparison, "md"))
        click.echo(text, nl=False)

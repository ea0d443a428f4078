"""`compare TRACE.yaml…`: traces of many machines side by side, on the terminal or as files.

python -m trace_tools compare rendered/*/trace.yaml                     a summary on the terminal
python -m trace_tools compare rendered/*/trace.yaml -o rendered/diff    index.html, index.md, compare.csv, and
                                                                        each machine against the base, step by step
python -m trace_tools compare A.yaml B.yaml --base A --format csv       on stdout
python -m trace_tools compare A.yaml --floor "NVIDIA H100 80GB HBM3"    what a machine could do that one doesn't have
"""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for HTML, Markdown, CSV, each diff.")
@click.option("--base", metavar="MACHINE", help="Ratios are to this one (its folder's name). Default: the first.")
@click.option(
    "--floor",
    "floors",
    metavar="MACHINE",
    multiple=True,
    help="Beside times, the least that this machine's datasheet allows, as its driver names it; as often as you like.",
)
@click.option("--format", "form", type=click.Choice(["terminal", "md", "html", "csv"]), default="terminal")
@click.option("--all", "every", is_flag=True, help="On the terminal, every line instead of the largest.")
def compare(
    traces: tuple[Path, ...], out: Path | None, base: str | None, floors: tuple[str, ...], form: str, every: bool
) -> None:
    """Set the traces of two or more machines side by side; with --floor, one is enough."""
    from rich.console import Console

    from trace_tools.commands.diff import show
    from trace_tools.comparing.compare import compare as compared
    from trace_tools.comparing.difference import Side
    from trace_tools.comparing.reports.comparison_report import csv_text, report_of
    from trace_tools.comparing.reports.folder import write_reports
    from trace_tools.comparing.reports.html import html
    from trace_tools.comparing.reports.markdown import markdown
    from trace_tools.comparing.reports.terminal import terminal
    from trace_tools.file_format.trace_file import load
    from trace_tools.floors import ceiling_named

    ceilings = [ceiling_named(name) for name in dict.fromkeys(floors)]
    loaded = [(str(path), load(path)) for path in traces]
    comparison = compared([Side(path, found.trace, found.notes) for path, found in loaded], base, ceilings)
    if out is not None:
        write_reports(out, comparison, _home(out))
        click.echo(str(out / "index.html"))
    elif form == "terminal":
        console = Console()
        show(console, terminal(report_of(comparison, "terminal", width=console.width, everything=every)))
    elif form == "csv":
        click.echo(csv_text(comparison), nl=False)
    else:
        text = html(report_of(comparison, "html")) if form == "html" else markdown(report_of(comparison, "md"))
        click.echo(text, nl=False)


def _home(out: Path) -> str | None:
    """Return the index of the site that a folder of reports lies in, seen from there; None outside of one."""
    return "../index.html" if (out.parent / "index.html").is_file() else None

"""The `compare` command: traces of many machines side by side, on the terminal or as files.

    python -m trace_tools compare rendered/*/trace.yaml                     a summary on the terminal
    python -m trace_tools compare rendered/*/trace.yaml -o rendered/compare index.html, index.md, compare.csv
    python -m trace_tools compare A.yaml B.yaml --base A --format csv       on stdout

The command line adds it: `main.add_command(compare)`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

CSV = "compare.csv"


@click.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for HTML, Markdown and CSV.")
@click.option("--base", metavar="MACHINE", help="Ratios are to this one (its folder's name). Default: the first.")
@click.option("--format", "form", type=click.Choice(["terminal", "md", "html", "csv"]), default="terminal")
@click.option("--all", "every", is_flag=True, help="On the terminal, every line instead of the largest.")
def compare(traces: tuple[Path, ...], out: Path | None, base: str | None, form: str, every: bool) -> None:
    """Set the traces of two or more machines side by side."""
    from rich.console import Console

    from trace_tools.comparing.compare import compare as compared
    from trace_tools.comparing.compare import labelled
    from trace_tools.comparing.compare_html import comparison_page
    from trace_tools.comparing.compare_markdown import comparison_markdown
    from trace_tools.comparing.compare_terminal import print_comparison
    from trace_tools.comparing.compare_text import csv_text
    from trace_tools.file_format.trace_file import load

    loaded = [(str(path), load(path)) for path in traces]
    comparison = compared(labelled([(path, found.trace, found.notes) for path, found in loaded]), base)
    if out is not None:
        text, figures = comparison_markdown(comparison, CSV)
        home = _home(out)
        pages = {"index.md": text, "index.html": comparison_page(comparison, CSV, home), CSV: csv_text(comparison)}
        write_files(out, {name: page.encode("utf-8") for name, page in pages.items()} | figures)
        click.echo(str(out / "index.html"))
    elif form == "terminal":
        print_comparison(comparison, Console(), every=every)
    elif form == "md":
        click.echo(comparison_markdown(comparison)[0], nl=False)
    else:
        click.echo(comparison_page(comparison) if form == "html" else csv_text(comparison), nl=False)


def _home(out: Path) -> str | None:
    """Return the index of the site that a folder of reports lies in, seen from there; None outside of one."""
    return "../index.html" if (out.parent / "index.html").is_file() else None


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, each in one rename. Raises UsageError where that can't be done."""
    from trace_tools.errors import UsageError

    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(f".{path.name}.new")
            fresh.write_bytes(content)
            os.replace(fresh, path)
    except OSError as error:
        raise UsageError(f"{folder}: can't be written: {error.strerror or error}") from None

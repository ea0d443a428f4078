"""The `compare` command: traces of many machines side by side, on the terminal or as files.

    python -m trace_tools compare rendered/*/trace.yaml                     a summary on the terminal
    python -m trace_tools compare rendered/*/trace.yaml -o rendered/diff    index.html, index.md, compare.csv, and
                                                                            each machine against the base, step by step
    python -m trace_tools compare A.yaml B.yaml --base A --format csv       on stdout

The command line adds it: `main.add_command(compare)`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from trace_tools.comparing.compare import Comparison

CSV = "compare.csv"
MANIFEST = ".pages"  # what was written here before
PAIR = re.compile(r"\w[\w.-]*-to-[\w.-]+\.(?:html|md)")


@click.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for HTML, Markdown, CSV, each diff.")
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
        write_files(out, report_files(comparison, _home(out)))
        click.echo(str(out / "index.html"))
    elif form == "terminal":
        print_comparison(comparison, Console(), every=every)
    elif form == "md":
        click.echo(comparison_markdown(comparison)[0], nl=False)
    else:
        click.echo(comparison_page(comparison) if form == "html" else csv_text(comparison), nl=False)


def report_files(comparison: Comparison, home: str | None) -> dict[str, bytes]:
    """Return the files of a folder of reports by name: the machines side by side, and each against the base."""
    from trace_tools.comparing.compare_html import comparison_page
    from trace_tools.comparing.compare_markdown import comparison_markdown
    from trace_tools.comparing.compare_text import csv_text
    from trace_tools.comparing.pairs import Beside, pair_reports

    pairs = pair_reports(comparison, home)
    beside = Beside(CSV, pairs, home)
    text, figures = comparison_markdown(comparison, beside)
    pages = {"index.md": text, "index.html": comparison_page(comparison, beside), CSV: csv_text(comparison)}
    own = {name: page.encode("utf-8") for name, page in pages.items()}
    return {**own, **figures, **{name: page for pair in pairs for name, page in pair.files.items()}}


def _home(out: Path) -> str | None:
    """Return the index of the site that a folder of reports lies in, seen from there; None outside of one."""
    return "../index.html" if (out.parent / "index.html").is_file() else None


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make a folder hold these reports, each written in one rename; those of machines that are gone are removed.

    Raises UsageError where that can't be done.
    """
    from trace_tools.errors import UsageError

    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(f".{path.name}.new")
            fresh.write_bytes(content)
            os.replace(fresh, path)
        before = folder / MANIFEST
        made = before.read_text(encoding="utf-8", errors="replace").split() if before.is_file() else []
        for name in made:
            if PAIR.fullmatch(name) and name not in files:
                (folder / name).unlink(missing_ok=True)
        before.write_text("".join(f"{name}\n" for name in sorted(files)), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder}: can't be written: {error.strerror or error}") from None

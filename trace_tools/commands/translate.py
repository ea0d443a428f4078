"""Run `translate LECTURE.py --to LANGUAGE`: write or update the catalogue of a lecture's words."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from trace_tools.errors import TraceFileError, UsageError


@click.command()
@click.argument("lecture", type=click.Path(path_type=Path))
@click.option(
    "--to", "languages", multiple=True, metavar="LANGUAGE", help="Language, such as de or zh_CN; can be repeated."
)
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A trace that shows which other strings readers see (default: rendered/*/trace.yaml beside the lecture).",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a message has no translation.")
def translate(lecture: Path, languages: tuple[str, ...], traces: tuple[Path, ...], *, check: bool) -> None:
    """Write or update the catalogue that translates a lecture.

    It is LECTURE.LANGUAGE.po beside the lecture, in gettext's format, which many editors support. `render` then also
    makes the pages in that language, from the same traces. Text without a translation stays in the lecture's own
    language. Without --to, all catalogues beside the lecture are updated.

    \b
    Examples:
      trace-tools translate talk.py --to de
      trace-tools translate talk.py --check
    """
    from trace_tools.source.catalogue import (
        catalogue_of,
        catalogues,
        messages_of,
        progress_of,
        shown_in,
        updated,
        write,
    )
    from trace_tools.source.statements import read_source
    from trace_tools.trace.trace_file import load

    source = read_source(lecture)
    paths = [catalogue_of(lecture, language) for language in languages] or [*catalogues(lecture).values()]
    if not paths:
        raise UsageError(f"{lecture}: has no catalogue yet; expected --to LANGUAGE, such as --to de")
    shown: set[str] = set()
    for path in traces or sorted(lecture.parent.glob("rendered/*/trace.yaml")):
        try:
            trace = load(path).trace
        except TraceFileError:
            if traces:
                raise
            continue
        if trace.run.lecture == lecture.name or traces:
            shown |= shown_in(trace)
    messages = messages_of(source, shown)
    incomplete = False
    for path in paths:
        if check and not path.exists():
            raise UsageError(f"{path}: no such catalogue")
        catalogue = updated(path, messages, lecture.name, path.name.split(".")[-2])
        if not check:
            write(catalogue, path)
        click.echo(f"{path}: {len(messages):,} messages")
        for part in progress_of(catalogue):
            open_counts = [f"{part.fuzzy} fuzzy"] * bool(part.fuzzy) + [f"{part.missing} missing"] * bool(part.missing)
            name = part.section or "outside the sections"
            click.echo(f"  {name}: {part.translated} translated{''.join(f', {count}' for count in open_counts)}")
            incomplete = incomplete or bool(open_counts)
    sys.exit(1 if check and incomplete else 0)

"""Run `import FILE`: make a trace from edtrace's JSON, or a lecture from a notebook or a script in cells."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

import click

from trace_tools.errors import TraceFileError, UsageError


@click.command("import")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder for the trace, or file for the lecture.")
def import_(path: Path, out: Path | None) -> None:
    """Make a lecture from a notebook or a script in cells.

    FILE is a notebook (.ipynb), or a Python script (.py) in percent cells or for Sphinx-Gallery. It can also be the
    JSON that edtrace writes, which becomes a trace.

    \b
    Examples:
      trace-tools import homework.ipynb
      trace-tools import lecture_01.json
    """
    if path.suffix == ".json":
        _import_trace(path, out or Path("rendered"))
    elif path.suffix in (".ipynb", ".py"):
        _import_cells(path, out)
    else:
        raise UsageError(f"{path}: expected a notebook (.ipynb), a script in cells (.py) or a trace by edtrace (.json)")


def _import_trace(path: Path, out: Path) -> None:
    from trace_tools.edtrace.import_json import SLUG, imported
    from trace_tools.trace.trace_file import load_head, write

    trace = imported(path)
    written = out / SLUG / "trace.yaml"
    if written.exists():
        try:
            other = load_head(written).run.lecture
        except TraceFileError:
            other = "something else"
        if other != trace.run.lecture:
            raise UsageError(f"{written}: is a trace of {other} and was not changed; choose another folder with -o")
    written.parent.mkdir(parents=True, exist_ok=True)
    write(trace, written)
    click.echo(f"{written}: trace-tools render {shlex.quote(str(written))} makes its pages")


def _import_cells(path: Path, out: Path | None) -> None:
    from trace_tools.notebooks.import_cells import lecture_of_cells
    from trace_tools.source.lint import why_no_name

    lecture = lecture_of_cells(path)
    stem = "".join(c if c.isalnum() else "_" for c in path.stem)
    # A file next to the lecture must not shadow a module that the lecture imports.
    nodes = [*ast.walk(ast.parse(lecture.text))]
    imported = {alias.name.partition(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module.partition(".")[0] for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    is_taken = path.suffix == ".py" or stem in imported or why_no_name(Path(stem)) is not None
    written = out or path.with_name(f"{stem}_lecture.py" if is_taken else f"{stem}.py")
    files = {written.parent / name: content for name, content in lecture.files.items()}
    for file_path, content in files.items():
        if file_path.exists() and file_path.read_bytes() != content:
            raise UsageError(f"{file_path}: another file with this name already exists; choose another folder with -o")
    try:
        with written.open("x", encoding="utf-8") as file:
            file.write(lecture.text)
    except FileExistsError:
        raise UsageError(f"{written}: exists already and was not changed; choose another file with -o") from None
    for file_path, content in files.items():
        file_path.parent.mkdir(exist_ok=True)
        file_path.write_bytes(content)
    for warning in lecture.warnings:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{written}: trace-tools trace {shlex.quote(str(written))} runs it and makes its pages")

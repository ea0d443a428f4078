"""Read the cells of a notebook, a script in percent cells, or a Sphinx-Gallery script.

    read_cells(Path("notes.ipynb"))      [SourceCell("cell 1", "prose", "# Notes"), …]

A Sphinx-Gallery script is a module docstring followed by code and blocks of comments that begin with `# %%` or with a
line of at least 20 `#`. Its prose is reStructuredText. All of PyTorch's tutorials are such scripts.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trace_tools.errors import UsageError
from trace_tools.notebooks.notebook import needed
from trace_tools.notebooks.restructured_text import Converter
from trace_tools.source.statements import parse_source, read_text
from trace_tools.util import formats

_BLOCK = re.compile(r"#{20,}.*|# ?%%.*")
_MARKED_AS_PROSE = re.compile(r"(?m)^# ?%%.*\[(?:markdown|md)\]")
_CONFIGURATION = re.compile(r"(?m)^[ \t]*#[ \t]*sphinx_gallery_\w+(?:[ \t]*=.*)?[ \t]*\n?")


@dataclass(frozen=True, slots=True)
class SourceCell:
    """One cell; `where` names it in messages, "cell 3" or "line 40"."""

    where: str
    kind: Literal["prose", "code", "raw"]
    text: str
    tags: frozenset[str] = frozenset()
    attachments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by name, by type: base64
    shows_value: bool | None = None  # the notebook stores the value of its last line; None: it was not run


def read_cells(path: Path) -> list[SourceCell]:
    """Return the cells of a file. Raises UsageError for a file without cells, LectureError for invalid Python."""
    if path.suffix != ".py":
        return [*_of_notebook(path)]
    text = read_text(path)
    if not _MARKED_AS_PROSE.search(text) and (gallery := _of_gallery(text, path)) is not None:
        return gallery
    if not re.search(r"(?m)^# ?%%", text):
        raise UsageError(f"{path}: has no cells; expected lines that begin with `# %%`")
    cells = []
    for number, cell in enumerate(needed("jupytext").reads(text, fmt="py:percent").cells, 1):
        kind: Any = {"markdown": "prose", "code": "code"}.get(cell.cell_type, "raw")
        title = str(cell.metadata.get("title", "")).strip()
        if title:  # the text after `# %%`
            cells.append(SourceCell(f"cell {number}", "prose", f"## {title}"))
        cells.append(SourceCell(f"cell {number}", kind, cell.source, tags=frozenset(cell.metadata.get("tags", []))))
    return cells


def _of_notebook(path: Path) -> Iterator[SourceCell]:
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: can't be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not a notebook: {error}") from None
    nbformat = needed("nbformat")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # authors are not responsible for cells without an id
            notebook = nbformat.reads(content, as_version=4)
            nbformat.validate(notebook)
    except Exception as error:  # nbformat and its schema raise many errors for invalid notebooks
        reason = formats.one_line(str(error) or type(error).__name__, 200)
        raise UsageError(f"{path}: is not a notebook: {reason}") from None
    metadata = notebook.metadata
    language = metadata.get("kernelspec", {}).get("language") or metadata.get("language_info", {}).get("name")
    if language and not re.fullmatch(r"i?python\d*", language, re.IGNORECASE):
        raise UsageError(f"{path}: this notebook is in {language}; only Python can become a lecture")
    was_run = any(cell.get("execution_count") for cell in notebook.cells)
    for number, cell in enumerate(notebook.cells, 1):
        kind: Any = {"markdown": "prose", "code": "code"}.get(cell.cell_type, "raw")
        shows = any(output.get("output_type") == "execute_result" for output in cell.get("outputs", []))
        yield SourceCell(
            f"cell {number}",
            kind,
            cell.source.replace("\r\n", "\n"),
            tags=frozenset(cell.metadata.get("tags", [])),
            attachments=cell.get("attachments", {}),
            shows_value=shows if was_run and kind == "code" else None,
        )


def _of_gallery(text: str, path: Path) -> list[SourceCell] | None:
    """Return the cells of a Sphinx-Gallery script; None for other scripts."""
    if not re.search(r"(?m)^[ru]?(\"\"\"|'''|\"|')", text, re.IGNORECASE):
        return None
    source = parse_source(text, str(path))
    doc = ast.get_docstring(source.tree)
    if doc is None:
        return None
    lines = source.text.split("\n")
    inside = {
        number
        for node in source.tree.body
        for number in range(
            min(int(part.lineno) for part in (node, *getattr(node, "decorator_list", ()))),
            (node.end_lineno or node.lineno) + 1,
        )
    }
    heads = [n for n, line in enumerate(lines, 1) if n not in inside and _BLOCK.fullmatch(line.rstrip())]
    titled = re.search(r"(?m)^\S.*\n([!-/:-@\[-`{-~])\1{2,}\s*$", doc)
    if titled is None and not any(lines[n - 1].startswith("#" * 20) for n in heads):
        return None

    # Divide the lines after the docstring into blocks of code and of prose.
    blocks: list[tuple[int, Literal["prose", "code"], str]] = [(1, "prose", doc)]
    at = (source.tree.body[0].end_lineno or 1) + 1
    waiting = [head for head in heads if head >= at]
    for head in [*waiting, len(lines) + 1]:
        if head < at:
            continue  # a line of # inside the block that the previous one began
        blocks.append((at, "code", "\n".join(lines[at - 1 : head - 1])))
        at = head + 1
        while at <= len(lines) and lines[at - 1].startswith("#") and at not in waiting:
            at += 1
        comment = "\n".join(line[1:] for line in lines[head : at - 1])
        title = re.sub(r"^# ?%%", "", lines[head - 1]).strip() if head <= len(lines) else ""
        title = "" if title.startswith("#") else title
        blocks.append((head, "prose", "\n\n".join(part for part in (title, textwrap.dedent(comment)) if part)))
    converter = Converter(content for _, kind, content in blocks if kind == "prose")
    cells = []
    for line, kind, content in blocks:
        content = _CONFIGURATION.sub("", content) if kind == "code" else content
        if content.strip():
            text = converter.markdown(content) if kind == "prose" else content.strip("\n")
            cells.append(SourceCell(f"line {line}", kind, text))
    return cells

r"""Convert the tables of reStructuredText to Markdown: grids, simple tables, and list tables.

table_at(["== ==", "a  b", "== ==", "1  2", "== =="], 0, InlineConverter([]))
# ("| a | b |\n| --- | --- |\n| 1 | 2 |", 5)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from trace_tools.notebooks.magics import fenced
from trace_tools.notebooks.restructured_inline import InlineConverter


def table_at(lines: list[str], at: int, inline: InlineConverter) -> tuple[str, int] | None:
    """Return the table that begins at a line and the index of the line after it, or None if there is no table."""
    if re.match(r"\+[-=+]+\+$", lines[at]):
        end = next((n for n in range(at, len(lines)) if lines[n][:1] not in ("+", "|")), len(lines))
        return _grid(lines[at:end], inline), end
    if re.match(r"=+(?: +=+)+ *$", lines[at]):
        rules = [n for n in range(at, len(lines)) if re.match(r"=+(?: +=+)* *$", lines[n])]
        blank = next((n for n in rules[1:] if n + 1 == len(lines) or not lines[n + 1].strip()), None)
        if blank is not None:
            return _simple(lines[at : blank + 1], inline), blank + 1
    return None


def _grid(lines: list[str], inline: InlineConverter) -> str:
    columns = [match.start() for match in re.finditer(r"\+", lines[0])]
    rows: list[list[str]] = [[]]
    for line in lines[1:]:
        if line.startswith("+"):
            if not re.fullmatch(r"\+(?:[-=]+\+)+", line):
                return fenced("\n".join(lines))  # cells that span others
            rows.append([])
        elif any(line[column : column + 1] != "|" for column in columns):
            return fenced("\n".join(lines))
        else:
            cells = [line[a + 1 : b].strip() for a, b in pairwise(columns)]
            rows[-1] = [
                f"{above} {cell}".strip() for above, cell in zip(rows[-1] or [""] * len(cells), cells, strict=True)
            ]
    return _rows([row for row in rows if row], inline)


def _simple(lines: list[str], inline: InlineConverter) -> str:
    spans = [match.span() for match in re.finditer(r"=+", lines[0])]
    spans[-1] = (spans[-1][0], 10_000)
    rows: list[list[str]] = []
    for line in lines[1:-1]:
        if re.match(r"[=-]+(?: +[=-]+)* *$", line) or not line.strip():
            continue
        cells = [line[a:b].strip() for a, b in spans]
        if rows and not cells[0]:
            rows[-1] = [f"{above} {cell}".strip() for above, cell in zip(rows[-1], cells, strict=True)]
        else:
            rows.append(cells)
    has_head = any(re.match(r"=+(?: +=+)* *$", line) for line in lines[1:-1])
    return _rows(rows if has_head else [[""] * len(spans), *rows], inline)


def list_table(title: str, lines: list[str], inline: InlineConverter) -> str:
    """Return the table of a `list-table` directive: lists of cells in a list of rows."""
    rows: list[list[str]] = []
    for line in lines:
        if match := re.match(r"\* +- ?(.*)", line):
            rows.append([match[1]])
        elif match := re.match(r" +- ?(.*)", line):
            rows[-1].append(match[1])
        elif line.strip() and rows:
            rows[-1][-1] += " " + line.strip()
    table = _rows(rows, inline)
    return f"**{inline.markdown(title)}**\n\n{table}" if title and table else table


def _rows(rows: Sequence[Sequence[str]], inline: InlineConverter) -> str:
    width = max((len(row) for row in rows), default=0)
    written = [[inline.markdown(cell).replace("|", "\\|") for cell in row] + [""] * (width - len(row)) for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in written]
    return "\n".join([*lines[:1], "|" + " --- |" * width, *lines[1:]]) if lines else ""

"""Rows of Markdown → a table of a code host, whose cells nothing in them can leave."""

from __future__ import annotations

import re
from collections.abc import Sequence


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; "" when it has no rows. Cells are Markdown already."""
    if not rows:
        return ""
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(_in_cell(cell) for cell in row) + " |" for row in rows)])


def _in_cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\|", text.replace("\n", " "))

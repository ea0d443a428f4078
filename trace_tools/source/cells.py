r"""Divide a script into sections and prose, by the cells that jupytext writes for a notebook.

    # %% [markdown]
    # ## Data
    # Ten numbers.
    # %%
    x = list(range(10))
    # %% Their sum
    sum(x)

    division = divided(text, ast.parse(text), "Ten numbers")
    [(cell.title, cell.lineno) for cell in division.cells]      # [("Data", 1), ("Their sum", 6)]
    division.prose                                              # [Prose(1, 3, "Ten numbers.")]

A section begins at a cell with a title and at prose with a heading. Headings count if they have the highest level that
occurs twice, or a higher one. Most notebooks have one title, and then sections. Without titles and headings, each cell
is a section; a script without cells is one section.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

# jupytext puts a space before a title; `# %%time` is a magic of Jupyter that it has commented out
_MARKER = re.compile(
    r"#\s*%%+(?:\s+(?P<title>.*?))?\s*(?P<prose>\[(?:markdown|md|raw)\])?\s*(?:[\w.-]+=.*|\{.*\})?", re.ASCII
)
_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$", re.MULTILINE)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)  # comments of code in it are no headings


class Cell(ast.stmt):
    """A section of a script, as a statement that holds the section's statements."""

    _fields = ("title",)

    def __init__(self, title: str, first: int) -> None:
        super().__init__(lineno=first, col_offset=0, end_lineno=first, end_col_offset=0)
        self.title = title
        self.summary = ""  # the rest of the script's docstring, for the first section
        self.is_heading = False  # whether it is the title of the whole script, too
        self.end = first  # last line
        self.name = ""  # of its frame, unlike that of any function of the script
        self.body: list[ast.stmt] = []


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown, from its first to its last line."""

    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class Division:
    """The parts of a script."""

    cells: list[Cell] = field(default_factory=list)
    prose: list[Prose] = field(default_factory=list)
    aside: set[int] = field(default_factory=set)  # lines of markers, of prose, and of jupytext's header


def divided(text: str, tree: ast.Module, title: str, taken: Iterable[str] = ()) -> Division:
    """Divide a script; a first section without a title gets `title`, and `taken` are the names of functions.

    The docstring and imports from `__future__` belong to no section, because they must stay first.
    """
    division = Division()
    lines = text.removesuffix("\n").split("\n")
    items = _items(lines, tree, division)
    headings = {id(item): _headings(item) for item in items if isinstance(item, Prose)}
    levels = Counter(level for found in headings.values() for level, _ in found)
    lowest = min((level for level, count in levels.items() if count > 1), default=max(levels, default=0))
    titled = bool(levels) or any(isinstance(item, Cell) and item.title for item in items)
    cells = division.cells
    begun: Cell | None = None  # by a marker; it becomes a section at its first statement
    waiting: Prose | None = None  # before such a marker
    for item in items:
        if isinstance(item, Prose):
            heading = next((one for one in headings[id(item)] if one[0] <= lowest), None)
            first, _, rest = item.text.partition("\n")
            if heading is None:
                waiting = waiting or item
            else:
                cells.append(Cell(heading[1], item.first))
                cells[-1].is_heading = len(cells) == 1 and (heading[0] == 1 or levels.total() == 1)
                begun = waiting = None
                if first.lstrip("# ").startswith(heading[1]):  # pages show it as the title
                    item = Prose(item.first, item.last, rest.strip())
            division.prose.append(item)
        elif isinstance(item, Cell):
            is_open = bool(cells) and not cells[-1].body  # by a heading
            if (item.title or not titled) and not is_open:
                before = begun or waiting  # an empty cell, or prose without a heading
                item.lineno = _first_line(before) if before is not None else item.lineno
                begun = item
            waiting = None
        else:
            if begun is not None or not cells:
                cells.append(begun or Cell("", _first_line(waiting or item)))
                begun = waiting = None
            cells[-1].body.append(item)
    if waiting is not None and not cells:
        cells.append(Cell("", waiting.first))
    names = Counter(taken)
    for number, cell in enumerate(cells):
        cell.end = cells[number + 1].lineno - 1 if number + 1 < len(cells) else len(lines)
        cell.title = cell.title or (f"Cell {number + 1}" if number else title)
        names[cell.title] += 1
        cell.name = cell.title if names[cell.title] == 1 else f"{cell.title} {names[cell.title]}"
    return division


def _items(lines: list[str], tree: ast.Module, division: Division) -> list[Cell | Prose | ast.stmt]:
    """Return the cells that are marked, the prose, and the statements, in order; note the lines that are aside."""
    begins: dict[int, list[ast.stmt]] = {}
    code: set[int] = set()
    for node in tree.body:
        first = _first_line(node)
        begins.setdefault(first, []).append(node)
        code.update(range(first, (node.end_lineno or first) + 1))
    items: list[Cell | Prose | ast.stmt] = []
    first_ones = tree.body[: preamble_length(tree.body)]
    start: int | None = None  # line of the marker of prose, while it lasts
    for number, line in enumerate([*lines, "# %%"], 1):  # the last one ends prose
        marker = _MARKER.fullmatch(line.rstrip()) if number not in code else None
        if start is not None and (number in code or marker is not None):
            written = [re.sub(r"^#\s?", "", one) for one in lines[start : number - 1]]
            if prose := "\n".join(written).strip():
                items.append(Prose(start, number - 1, prose))
                start = None
        for node in begins.get(number, ()):
            match node:
                case ast.Expr(ast.Constant(str(prose))) if start is not None:
                    last = node.end_lineno or number
                    items.append(Prose(start, last, inspect.cleandoc(prose)))
                    division.aside.update(range(start, last + 1))
                case _ if node not in first_ones:
                    items.append(node)
            start = None
        if number > len(lines):
            break
        if marker is not None:
            start = number if marker["prose"] else None
            if not marker["prose"]:
                items.append(Cell(marker["title"] or "", number))
        if marker is not None or start is not None:
            division.aside.add(number)
    if lines[0].rstrip() == "# ---" and "# ---" in lines[1:]:
        division.aside.update(range(1, lines.index("# ---", 1) + 2))
    return items


def preamble_length(body: Sequence[ast.stmt]) -> int:
    """Return the number of statements that must stay first, which are the docstring and the __future__ imports."""
    length = 0
    for node in body:
        is_docstring = length == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not (is_docstring or is_future):
            break
        length += 1
    return length


def _first_line(part: Prose | ast.stmt) -> int:
    if isinstance(part, Prose):
        return part.first
    decorators: list[ast.expr] = getattr(part, "decorator_list", [])
    return min([part.lineno, *(one.lineno for one in decorators)])


def _headings(prose: Prose) -> list[tuple[int, str]]:
    return [(len(marks), title) for marks, title in _HEADING.findall(_FENCED.sub("", prose.text))]

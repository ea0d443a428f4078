"""Find the cells that draw with matplotlib: a notebook shows the open figures at a cell's end and closes them.

Figures.of(pieces)      the names of pyplot, and the functions of the notebook that draw
show("figure", "plot")  the loop that replaces `plt.show()` and ends cells that draw without it
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trace_tools.notebooks.cell_code import Piece

OPEN = "open_figures"
_PYPLOT = "matplotlib.pyplot"
_METHODS = frozenset({"bar", "boxplot", "hist", "imshow", "plot", "scatter"})  # of pandas and of axes
# Functions of pyplot that make no figure.
_SETTINGS = frozenset({"close", "get_cmap", "ioff", "ion", "rc", "rcParams", "set_cmap", "style", "switch_backend"})


@dataclass(frozen=True, slots=True)
class Figures:
    """How a notebook draws."""

    pyplot: frozenset[str]  # the notebook's names for matplotlib.pyplot
    drawing: frozenset[str]  # these, seaborn's, and the functions that use them

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> Figures:
        """Return how the pieces of a notebook draw."""
        imported = {name: module for piece in pieces for name, module in _imported(piece)}
        pyplot = {name for name, module in imported.items() if module == _PYPLOT}
        drawing = pyplot | {name for name, module in imported.items() if module.split(".")[0] == "seaborn"}
        while True:
            more = {p.definition.name for p in pieces if p.definition is not None and p.used & drawing} - drawing
            if not more:
                return cls(frozenset(pyplot), frozenset(drawing) if pyplot else frozenset())
            drawing |= more

    def drawn(self, piece: Piece) -> bool:
        """Whether figures may be open after a piece."""
        if not self.pyplot or piece.definition is not None:
            return False
        for node in (part for one in piece.nodes for part in ast.walk(one)):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
                return True
            names = ast.unparse(node.func).split(".")
            if names[0] in self.drawing and not (names[0] in self.pyplot and names[1:2] and names[1] in _SETTINGS):
                return True
        return False


def _imported(piece: Piece) -> Iterator[tuple[str, str]]:
    for node in (part for one in piece.nodes for part in ast.walk(one)):
        if isinstance(node, ast.Import):
            yield from ((alias.asname, alias.name) for alias in node.names if alias.asname)
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def without_show(text: str, pyplot: frozenset[str], shown: str) -> str:
    """Return code that runs `shown` in place of pyplot's `show()`, which has no effect without a window."""
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "show"))) if name in pyplot:
                line = lines[node.lineno - 1]
                after = line.encode()[node.end_col_offset or 0 :].decode()
                is_alone = not line.encode()[: node.col_offset].strip() and after.lstrip()[:1] in ("", "#")
                if node.lineno == node.end_lineno and is_alone:
                    indent = " " * node.col_offset
                    lines[node.lineno - 1] = "\n".join(indent + one for one in shown.split("\n")) + after
    return "\n".join(lines)


def show(variable: str, plot: str) -> str:
    """Return the statement that shows the open figures on the page."""
    return f"for {variable} in {OPEN}():\n    {plot}({variable})"


def helper(pyplot: str) -> str:
    """Return the function that gives a lecture its open figures."""
    return f'''def {OPEN}():
    """Return the open figures and close them, as a notebook does at the end of a cell."""
    figures = [{pyplot}.figure(number) for number in {pyplot}.get_fignums()]
    {pyplot}.close("all")
    return figures
'''

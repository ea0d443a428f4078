"""What may be written at the top of a lecture."""

from __future__ import annotations

from trace_tools.notebooks.cell_code import pieces
from trace_tools.notebooks.hoisting import hoisted


def moved(text: str) -> list[str]:
    return [piece.text.split("\n")[0] for piece in hoisted([*pieces(text, "n.ipynb", "cell 1")])]


def test_imports_move_only_while_nothing_else_has_come() -> None:
    assert moved("import os\nimport sys\nsys.path.insert(0, 'lib')\nimport mine") == ["import os", "import sys"]
    assert moved("import os\ndef f(): pass\nimport sys") == ["import os", "def f(): pass", "import sys"]
    assert moved("x = 1\nimport os\nfrom math import *") == []


def test_definitions_move_only_where_their_creation_depends_on_nothing() -> None:
    start = "import torch\nx = 1\n"
    for stays in (
        "def f(a=x): pass", "def f(a=g()): pass", "def f(a=torch.d): pass", "@torch.jit.script\ndef f(): pass",
        "class A:\n    y = x", "class A(x): pass", "class A(metaclass=B): pass", "class A:\n    print(1)",
        "def f(): pass\ndel f", "print(f)\ndef f(): pass", "def len(a): pass", "def main(): pass",
        "torch.nn = 3\nclass A(torch.nn): pass",
    ):  # fmt: skip
        assert moved(start + stays) == ["import torch"], stays
    for moves in (
        "def f(a=1, *b: int, c=[], **d) -> torch.Tensor: return x",
        "class A(torch.nn.Module):\n    def f(self): return x",
        "class A:\n    'doc'\n    n: int = 3\n    @property\n    def f(self): pass", "async def f(): pass",
    ):  # fmt: skip
        assert moved(start + moves) == ["import torch", moves.split("\n")[0]], moves

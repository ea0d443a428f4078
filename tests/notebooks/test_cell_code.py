"""Tests of how a cell is split into pieces, and of code that must change or move when a cell becomes a function."""

from __future__ import annotations

import ast

from trace_tools.notebooks.cell_code import Figures, hoisted, in_function, pieces, show, without_show


def test_pieces_keep_every_line_and_list_their_names() -> None:
    text = "# above\nimport os; x = 1\n\ndef f(a):\n    global g\n    g = a + h\n\nx  # last\n# behind"
    cell_pieces = [*pieces(text, "n.ipynb", "cell 1")]
    assert "\n".join(piece.text for piece in cell_pieces).replace("\n", "") == text.replace("\n", "")
    assert [(sorted(piece.bound), sorted(piece.used)) for piece in cell_pieces] == [
        (["os", "x"], []), (["f", "g"], ["h"]), ([], ["x"]),
    ]  # fmt: skip
    assert [piece.shown for piece in cell_pieces] == [None, None, "x"]
    assert [piece.shown for piece in pieces("x;", "n.ipynb", "cell 1")] == [None]


def test_rewritten_code_compiles_with_global_names() -> None:
    for text in (
        "x: int = 3",
        "x: (int) = (3)",
        "x: int; y = 4",
        "x: list[\n int] = [3,\n 4]  # why",
        "global x\nx = 3",
        "if 1:\n    from math import *",
        "exec('x = 1',)\ny = eval('x')",
        "x = locals(), vars(), dir()",
        "é: 'ü' = 'ß'",
    ):
        rewritten = in_function(text)
        body = "\n".join(f"    {line}" for line in rewritten.split("\n"))
        compile(f"def f():\n    global x, y, é\n{body}", "lecture", "exec")
        assert ast.dump(ast.parse(in_function(rewritten))) == ast.dump(ast.parse(rewritten))


# --- Code that moves to the top of a lecture.


def moved_lines(text: str) -> list[str]:
    return [piece.text.split("\n")[0] for piece in hoisted([*pieces(text, "n.ipynb", "cell 1")])]


def test_imports_after_executed_code_stay_in_place() -> None:
    assert moved_lines("import os\nimport sys\nsys.path.insert(0, 'lib')\nimport mine") == ["import os", "import sys"]
    assert moved_lines("import os\ndef f(): pass\nimport sys") == ["import os", "def f(): pass", "import sys"]
    assert moved_lines("x = 1\nimport os\nfrom math import *") == []


def test_only_definitions_independent_of_state_move() -> None:
    start = "import torch\nx = 1\n"
    for stays in (
        "def f(a=x): pass", "def f(a=g()): pass", "def f(a=torch.d): pass", "@torch.jit.script\ndef f(): pass",
        "class A:\n    y = x", "class A(x): pass", "class A(metaclass=B): pass", "class A:\n    print(1)",
        "def f(): pass\ndel f", "print(f)\ndef f(): pass", "def len(a): pass", "def main(): pass",
        "torch.nn = 3\nclass A(torch.nn): pass",
    ):  # fmt: skip
        assert moved_lines(start + stays) == ["import torch"], stays
    for moves in (
        "def f(a=1, *b: int, c=[], **d) -> torch.Tensor: return x",
        "class A(torch.nn.Module):\n    def f(self): return x",
        "class A:\n    'doc'\n    n: int = 3\n    @property\n    def f(self): pass", "async def f(): pass",
    ):  # fmt: skip
        assert moved_lines(start + moves) == ["import torch", moves.split("\n")[0]], moves


# --- Cells that draw, and the replacement of pyplot's `show()`.


def test_drawing_statements_are_recognized_through_function_calls() -> None:
    text = (
        "import matplotlib.pyplot as plt\nimport seaborn as sns\ndef inner(): plt.plot([1])\ndef outer(): inner()\n"
        "outer()\nsns.lineplot([1])\nframe.plot()\nplt.rcParams.update({})\nplt.style.use('x')\nprint(1)\nplt.plot([1])"
    )
    cell_pieces = [*pieces(text, "n.ipynb", "cell 1")]
    figures = Figures.of(cell_pieces)
    drawn = [piece.text for piece in cell_pieces if figures.drawn(piece)]
    assert drawn == ["outer()", "sns.lineplot([1])", "frame.plot()", "plt.plot([1])"]
    assert not any(map(Figures.of([*pieces("frame.plot()", "n.ipynb", "cell 1")]).drawn, cell_pieces))


def test_only_a_standalone_show_call_is_replaced() -> None:
    loop = show("figure", "plot")
    rewritten = without_show("def f():\n    plt.show()  # now\nplt.show(block=False)", frozenset({"plt"}), loop)
    assert ast.dump(ast.parse(rewritten)) == ast.dump(
        ast.parse(
            "def f():\n    for figure in open_figures():\n        plot(figure)\n"
            "for figure in open_figures():\n    plot(figure)"
        )
    )
    for text in ("if x: plt.show()", "a = 1; plt.show()", "plt.show(); a = 1", "other.show()", "x = plt.show()"):
        assert without_show(text, frozenset({"plt"}), loop) == text

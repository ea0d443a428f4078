"""Pieces of a cell, and what a function can't hold."""

from __future__ import annotations

import ast

from trace_tools.notebooks.cell_code import Figures, hoisted, in_function, pieces, show, without_show


def test_pieces_keep_every_line_and_know_their_names() -> None:
    text = "# above\nimport os; x = 1\n\ndef f(a):\n    global g\n    g = a + h\n\nx  # last\n# behind"
    found = [*pieces(text, "n.ipynb", "cell 1")]
    assert "\n".join(piece.text for piece in found).replace("\n", "") == text.replace("\n", "")
    assert [(sorted(piece.bound), sorted(piece.used)) for piece in found] == [
        (["os", "x"], []), (["f", "g"], ["h"]), ([], ["x"]),
    ]  # fmt: skip
    assert [piece.shown for piece in found] == [None, None, "x"]
    assert [piece.shown for piece in pieces("x;", "n.ipynb", "cell 1")] == [None]


def test_what_is_rewritten_compiles_where_all_names_are_global() -> None:
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
        written = in_function(text)
        body = "\n".join(f"    {line}" for line in written.split("\n"))
        compile(f"def f():\n    global x, y, é\n{body}", "lecture", "exec")
        assert ast.dump(ast.parse(in_function(written))) == ast.dump(ast.parse(written))


# --- What may be written at the top of a lecture.


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


# --- Which cells draw, and what stands for pyplot's `show()`.


def test_what_draws_is_known_through_functions() -> None:
    text = (
        "import matplotlib.pyplot as plt\nimport seaborn as sns\ndef inner(): plt.plot([1])\ndef outer(): inner()\n"
        "outer()\nsns.lineplot([1])\nframe.plot()\nplt.rcParams.update({})\nplt.style.use('x')\nprint(1)\nplt.plot([1])"
    )
    found = [*pieces(text, "n.ipynb", "cell 1")]
    figures = Figures.of(found)
    drawn = [piece.text for piece in found if figures.drawn(piece)]
    assert drawn == ["outer()", "sns.lineplot([1])", "frame.plot()", "plt.plot([1])"]
    assert not any(map(Figures.of([*pieces("frame.plot()", "n.ipynb", "cell 1")]).drawn, found))


def test_only_a_show_on_a_line_of_its_own_is_replaced() -> None:
    loop = show("figure", "plot")
    written = without_show("def f():\n    plt.show()  # now\nplt.show(block=False)", frozenset({"plt"}), loop)
    assert ast.dump(ast.parse(written)) == ast.dump(
        ast.parse(
            "def f():\n    for figure in open_figures():\n        plot(figure)\n"
            "for figure in open_figures():\n    plot(figure)"
        )
    )
    for text in ("if x: plt.show()", "a = 1; plt.show()", "plt.show(); a = 1", "other.show()", "x = plt.show()"):
        assert without_show(text, frozenset({"plt"}), loop) == text

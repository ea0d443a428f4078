"""Pieces of a cell, and what a function can't hold."""

from __future__ import annotations

import ast

from trace_tools.notebooks.cell_code import in_function, pieces


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

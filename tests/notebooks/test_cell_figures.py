"""Which cells draw, and what stands for pyplot's `show()`."""

from __future__ import annotations

import ast

from trace_tools.notebooks.cell_code import pieces
from trace_tools.notebooks.cell_figures import Figures, show, without_show


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

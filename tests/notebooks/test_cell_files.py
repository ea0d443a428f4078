"""Sphinx-Gallery scripts and percent scripts are read as cells."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from trace_tools.notebooks.cell_files import read_cells
from trace_tools.notebooks.import_cells import lecture_of_cells
from trace_tools.source.statements import parse_source, sections

TUTORIAL = '''# -*- coding: utf-8 -*-
"""
`Basics <intro.html>`_ || **This**

A line is fitted
================
**Author**: `A. Teacher <https://example.org>`__

.. note::
    With :math:`x^2` and ``code``.
"""
import math  # sphinx_gallery is no configuration here
# sphinx_gallery_thumbnail_number = 2

kept = """
######################################################################
# in a string
"""

######################################################################
# Computing
# ---------
# See `this page`_.

# a comment of the code, behind a blank line
def area(r):
    ##################################################################
    # %%
    # in a function
    return math.pi * r * r

# %%
# Deeper
# ~~~~~~
# .. code-block:: sh
#
#    ls

print(area(2), len(kept))
######################################################################
# The end
# -------
#
# .. _this page: https://example.org/page

if __name__ == "__main__":
    print("done")
'''


def test_gallery_script_becomes_a_lecture_with_the_same_output(tmp_path: Path) -> None:
    path = tmp_path / "line_tutorial.py"
    path.write_text(TUTORIAL)
    text = lecture_of_cells(path).text
    assert sections(parse_source(text, "l.py")) == ["a_line_is_fitted", "computing", "the_end"]
    outputs = []
    for code in (TUTORIAL, text):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(code, {"__name__": "__main__"})
        outputs.append(output.getvalue())
    assert outputs[0] == outputs[1]
    for fragment in (
        "[A. Teacher](https://example.org)", "> With $x^2$ and `code`.", "[this page](https://example.org/page)",
        "### Deeper", "```sh\nls\n```", "# a comment of the code", "    # in a function",
    ):  # fmt: skip
        assert fragment in text, fragment
    assert "thumbnail" not in text


def test_cells_report_their_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "line_tutorial.py"
    path.write_text(TUTORIAL)
    lines = TUTORIAL.split("\n")
    for cell in read_cells(path)[1:]:
        line_number = int(cell.where.removeprefix("line "))
        assert cell.text.split("\n")[-1].strip("# `")[:4] in "\n".join(lines[line_number - 1 :])


def test_percent_script_with_docstring_is_no_gallery_script(tmp_path: Path) -> None:
    jupytext = pytest.importorskip("jupytext", reason="reads percent scripts")
    path = tmp_path / "notes.py"
    path.write_text('"""Only a docstring."""\n# %% Load it\nx = 1\n# %% [markdown]\n# **said**\n')
    assert [(cell.kind, cell.text) for cell in read_cells(path)][-3:] == [
        ("prose", "## Load it"), ("code", "x = 1"), ("prose", "**said**"),
    ]  # fmt: skip
    assert jupytext

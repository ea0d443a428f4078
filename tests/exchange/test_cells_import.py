"""Notebooks and percent scripts as lectures, which plain Python runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trace_tools.directives import parse_directives
from trace_tools.errors import LectureError, TraceToolsError
from trace_tools.exchange.cells_import import lecture_of_cells
from trace_tools.statements import parse_source, sections

PYTHON = ".".join(map(str, sys.version_info[:2]))

jupytext = pytest.importorskip("jupytext", reason="reads percent scripts")

NOTES = '''# %% [markdown]
# # My notes
# An opening.

# %%
# %matplotlib inline
import math
N = 3

# %% [markdown]
# ## First part
# with \\ and "quotes"

# %%
def area(r):
    return math.pi * r * r * N

label = """
not indented
"""
x = area(2)  # a comment
print(x > 0); print(label)

# %% [markdown]
# ## Second part

# %%
x += 1
y = [x, N]
y[0]
'''


def saved(folder: Path, text: str) -> Path:
    path = folder / "notes.py"
    path.write_text(text)
    return path


def test_a_script_becomes_a_lecture_that_does_the_same(tmp_path: Path) -> None:
    text = lecture_of_cells(saved(tmp_path, NOTES))
    source = parse_source(text, "lecture.py")
    assert sections(source) == ["my_notes", "first_part", "second_part"]
    assert "text('with \\\\ and \"quotes\"')" in text and '    text("An opening.")' in text.replace("'", '"')
    [inspected] = [one for one in parse_directives(source) if one.name == "inspect"]
    assert [one.source for one in inspected.inspected] == ["y[0]"]
    assert text.index("import math") < text.index("def area(r):") < text.index("def main():")
    ran, same = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for code in (text, NOTES)
    )
    assert ran == same and "not indented" in ran


def test_a_notebook_gives_the_lecture_that_its_script_gives(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="writes notebooks")
    script = saved(tmp_path, NOTES)
    (tmp_path / "notes.ipynb").write_text(nbformat.writes(jupytext.read(script)))
    assert lecture_of_cells(tmp_path / "notes.ipynb") == lecture_of_cells(script)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "{}: has no cells; expected lines that begin with `# %%`"),
        ("# %%\n", "{}: holds no cell with anything in it"),
        ("# %%\nx = 1\n# %%\nx = (\n", f"{{}}: cell 2:1: not valid Python {PYTHON}: '(' was never closed"),
    ],
)
def test_what_is_none_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = saved(tmp_path, text)
    with pytest.raises(TraceToolsError) as raised:
        lecture_of_cells(path)
    assert str(raised.value) == said.format(path)


def test_a_file_that_is_no_notebook_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "notes.ipynb"
    for content in ("{", "[]", '{"cells": [{}]}'):
        path.write_text(content)
        with pytest.raises(TraceToolsError) as raised:
            lecture_of_cells(path)
        assert str(raised.value).startswith(f"{path}: is no notebook: ") and "\n" not in str(raised.value)
    assert not isinstance(raised.value, LectureError)


def test_what_only_ipython_understands_becomes_a_comment_and_nothing_else(tmp_path: Path) -> None:
    cell = (
        "!ls -l 'a\nnames = !ls\nmath?\n?math\n%timeit f(\nfor k in (1,):\n    %time k\n"
        'print(\n    "%d"\n    % 3\n)\nx = "why?"  # why?\n'
    )
    path = tmp_path / "notes.ipynb"
    nbformat = pytest.importorskip("nbformat", reason="writes notebooks")
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)]), path)
    text = lecture_of_cells(path)
    for line in ("# !ls -l 'a", "# names = !ls", "# math?", "# ?math", "# %timeit f(", "    pass  # %time k"):
        assert f"    {line}\n" in text
    assert '        "%d"\n        % 3\n' in text and 'x = "why?"  # why?' in text

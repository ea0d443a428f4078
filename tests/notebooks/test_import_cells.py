"""Notebooks and percent scripts become lectures that plain Python runs."""

from __future__ import annotations

import ast
import asyncio
import base64
import contextlib
import inspect
import io
import subprocess
import sys
import types
from pathlib import Path

import pytest

from trace_tools.errors import LectureError, TraceToolsError, UsageError
from trace_tools.lecture.vocabulary import listening
from trace_tools.notebooks.import_cells import ImportedLecture, lecture_of_cells
from trace_tools.source.directives import parse_directives
from trace_tools.source.statements import parse_source, sections
from trace_tools.trace.model import Narrative

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


def test_script_becomes_an_equivalent_lecture(tmp_path: Path) -> None:
    text = lecture_of_cells(saved(tmp_path, NOTES)).text
    source = parse_source(text, "lecture.py")
    assert sections(source) == ["my_notes", "first_part", "second_part"]
    assert "text('with \\\\ and \"quotes\"')" in text and '    text("An opening.")' in text.replace("'", '"')
    [directive] = [directive for directive in parse_directives(source) if directive.name == "inspect"]
    assert [expression.source for expression in directive.inspected] == ["y[0]"]
    assert text.index("import math") < text.index("def area(r):") < text.index("def main():")
    lecture_output, script_output = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for code in (text, NOTES)
    )
    assert lecture_output == script_output and "not indented" in lecture_output


def test_notebook_and_script_give_the_same_lecture(tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="writes notebooks")
    script = saved(tmp_path, NOTES)
    (tmp_path / "notes.ipynb").write_text(nbformat.writes(jupytext.read(script)))
    assert lecture_of_cells(tmp_path / "notes.ipynb") == lecture_of_cells(script)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "{}: has no cells; expected lines that begin with `# %%`"),
        ("# %%\n", "{}: the notebook has no non-empty cell"),
        ("# %%\nx = 1\n# %%\nx = (\n", f"{{}}: cell 2:1: not valid Python {PYTHON}: '(' was never closed"),
    ],
)
def test_files_without_valid_cells_are_one_line_errors(text: str, message: str, tmp_path: Path) -> None:
    path = saved(tmp_path, text)
    with pytest.raises(TraceToolsError) as raised:
        lecture_of_cells(path)
    assert str(raised.value) == message.format(path)


def test_invalid_notebook_is_a_one_line_error(tmp_path: Path) -> None:
    path = tmp_path / "notes.ipynb"
    for content in ("{", "[]", '{"cells": [{}]}'):
        path.write_text(content)
        with pytest.raises(TraceToolsError) as raised:
            lecture_of_cells(path)
        assert str(raised.value).startswith(f"{path}: is not a notebook: ") and "\n" not in str(raised.value)
    assert not isinstance(raised.value, LectureError)


def in_one_namespace(cells: list[str]) -> tuple[dict[str, object], str]:
    """Run cells as a kernel does: in one namespace, on one event loop."""
    names: dict[str, object] = {"__name__": "__main__"}
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.closing(asyncio.new_event_loop()) as loop:
        for cell in cells:
            code = compile(cell, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            if code.co_flags & inspect.CO_COROUTINE:
                loop.run_until_complete(types.FunctionType(code, names)())
            else:
                exec(code, names)
    return names, output.getvalue()


def as_lecture(cells: list[str], folder: Path, *, headings: bool) -> tuple[dict[str, object], str]:
    nbformat = pytest.importorskip("nbformat", reason="writes notebooks")
    notebook = nbformat.v4.new_notebook()
    for number, cell in enumerate(cells):
        notebook.cells += [nbformat.v4.new_markdown_cell(f"## Part {number}")] if headings else []
        notebook.cells.append(nbformat.v4.new_code_cell(cell))
    nbformat.write(notebook, folder / "notes.ipynb")
    text = lecture_of_cells(folder / "notes.ipynb").text
    assert not [*parse_mistakes(text)], text
    names: dict[str, object] = {"__name__": "__main__"}
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(text, "lecture.py", "exec", dont_inherit=True), names)
    return names, output.getvalue()


def parse_mistakes(text: str) -> list[LectureError]:
    mistakes: list[LectureError] = []
    parse_directives(parse_source(text, "lecture.py"), mistakes)
    return mistakes


CASES = {
    "global in a function": ["c = 0\ndef bump():\n    global c\n    c += 1", "bump(); bump()", "print(c)"],
    "captures of match": ["match {'a': [1, 2], 'b': 3}:\n    case {'a': [x, *xs], **rest}: pass", "print(x, xs, rest)"],
    "walrus": ["[y := i for i in range(4)]", "print(y)"],
    "comprehension": ["x = 10\nys = [x for x in range(3)]", "print(x, ys)"],
    "class scope": ["x = 3\nclass C:\n    x = x\n    y = [x for _ in range(2)]", "print(C.x, C.y)"],
    "del": ["a = 1", "del a\ntry:\n    a\nexcept NameError as e:\n    print('gone')", "print('e' in globals())"],
    "star": ["x = 1", "from math import *\nprint(floor(2.5))", "print(ceil(x))"],
    "annotated": ["x: int = 3; y = 4", "z: (\n    int) = (\n 5)\nq: str", "w: 'list' = [1,\n 2]  # y", "print(x, z)"],
    "global statement": ["global g\ng = 3", "if g:\n    global h\n    h = 5", "print(g, h)"],
    "built-in name": ["print(sum([1, 2]))", "sum = sum([1, 2])", "def max(*a): return 'mine'", "print(sum, max(1, 2))"],
    "imported name": ["from math import sin", "sin = sin(0)", "print(sin)"],
    "import that depends": [
        "import sys\nsys.modules['made'] = type(sys)('made')\nsys.modules['made'].V = 5",
        "from made import V",
        "print(V)",
    ],
    "default that depends": ["k = 1", "k = 2\ndef f(a=k): return a", "k = 3\nprint(f())"],
    "base that depends": [
        "import types\nkept = types.SimpleNamespace",
        "types.SimpleNamespace = dict",
        "class K(types.SimpleNamespace): pass",
        "print(K.__mro__)\ntypes.SimpleNamespace = kept",
    ],
    "class that registers": [
        "log = []\nclass B:\n    def __init_subclass__(cls): log.append(cls.__name__)",
        "log.append('x')",
        "class S(B): pass",
        "print(log)",
    ],
    "decorator": ["seen = []\ndef reg(f): seen.append(2); return 2", "seen += [1]", "@reg\ndef f(): pass", "print(f)"],
    "defined twice": ["def f(): return 1", "a = f()", "def f(): return 2", "print(a, f())"],
    "closure": ["n = 3\ndef o():\n    def i(): return n\n    return i\nf = o()", "n = 4\nprint(f())"],
    "exec and eval": ["a = 1\nexec('b = a + 1')", "print(eval('a + b'))", "locals()['z'] = 3\nprint(z, 'a' in dir())"],
    "main": ["def main(a=1): print(a)", "if __name__ == '__main__':\n    main()\n    s = '''\n    k\n'''", "print(s)"],
    "main with else": ["if __name__ == '__main__': print(1)\nelse: print(2)"],
    "words of the lecture": ["text = 'abc'\nprint(text)", "part_0 = part_1 = plot = 3", "print(part_0, part_1, plot)"],
    "await": [
        "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 3",
        "await asyncio.sleep(0)\nt = asyncio.create_task(f())",
        "async def g():\n    yield 1\nprint(await t, [x async for x in g()])",
    ],
    "strings": ["s = '''\n  in\n'''\nf = f'''\n{s}\n x'''", "print(repr(s), repr(f))", "x = 1 + \\\n    2\nprint(x)"],
    "one line": ["import os; x = 1; y = 2", "x; y", "z = '''\na''' ; w = 3", "print(w, x, y, z)"],
    "future": ["from __future__ import annotations\nx = 1", "print(x)"],
    "foreign comments": ["#@title Setup {}\nx = 3 #@param {type: 'integer'}", "# @torch.compile\nprint(x)  # @ x"],
    "unicode": ["é = 3; ß: int = 4", "print('ü', é + ß)"],
    "comments alone": ["# only this", "x = 1\n# behind", "\n\n# before\nprint(x)"],
}  # fmt: skip


def test_lecture_computes_the_same_as_its_cells(tmp_path: Path) -> None:
    for case, cells in CASES.items():
        expected_names, expected_output = in_one_namespace(cells)
        for headings in (True, False):
            names, printed = as_lecture(cells, tmp_path, headings=headings)
            assert printed == expected_output, case
            values = {
                name: value for name, value in expected_names.items() if isinstance(value, (int, str, list, tuple))
            }
            assert {name: names.get(name) for name in values} == values, case


def test_syntax_errors_name_their_cell(tmp_path: Path) -> None:
    for cell in ("return 3", "x = yield", "nonlocal x", "break", "x = ("):
        with pytest.raises(LectureError, match=r"notes\.ipynb: cell 2:1: "):
            as_lecture([cell], tmp_path, headings=True)


def notebook_of(folder: Path, *cells: object, **metadata: object) -> ImportedLecture:
    nbformat = pytest.importorskip("nbformat", reason="writes notebooks")
    nbformat.write(nbformat.v4.new_notebook(cells=[*cells], metadata=metadata), folder / "notes.ipynb")
    return lecture_of_cells(folder / "notes.ipynb")


def test_embedded_images_become_files(tmp_path: Path) -> None:
    new = pytest.importorskip("nbformat", reason="writes notebooks").v4
    image, other = b"\x89PNG 1", b"\x89PNG 2"
    encoded = base64.b64encode(image).decode()
    (tmp_path / "beside.png").write_bytes(image)
    lecture = notebook_of(
        tmp_path,
        new.new_markdown_cell("![a](attachment:a%20b.png)", attachments={"a b.png": {"image/png": encoded}}),
        new.new_markdown_cell(
            "<img src='attachment:a%20b.png' alt='second'>",
            attachments={"a b.png": {"image/png": base64.b64encode(other).decode()}},
        ),
        new.new_markdown_cell(f"![](data:image/png;base64,{encoded}) ![](beside.png) ![](attachment:none.png)"),
        new.new_markdown_cell("![](https://example.org/x.png)"),
    )
    assert sorted(lecture.files.values()) == [image, image, other]
    assert all(f"]({path})" in lecture.text for path in lecture.files)
    assert "](beside.png)" in lecture.text and "](https://example.org/x.png)" in lecture.text
    [warning] = lecture.warnings
    assert "cell 3" in warning and "none.png" in warning


def test_headings_anywhere_in_a_cell_start_sections(tmp_path: Path) -> None:
    new = pytest.importorskip("nbformat", reason="writes notebooks").v4
    prose = "above\n\n# The title\n\nsaid\n\n## One [link](x)\n\n```\n# no heading\n```\n\n### Deeper\n\nTwo\n---\nsaid"
    lecture = notebook_of(tmp_path, new.new_markdown_cell(prose), new.new_code_cell("x = 1"))
    source = parse_source(lecture.text, "lecture.py")
    assert sections(source) == ["the_title", "one_link", "two"]
    assert ast.get_docstring(source.tree) == "The title" and "### Deeper" in lecture.text


def inspected(lecture: ImportedLecture) -> list[str]:
    """Return all expressions that the lecture inspects."""
    directives = parse_directives(parse_source(lecture.text, "l.py"))
    return [expression.source for directive in directives for expression in directive.inspected]


def test_displayed_cell_values_are_inspected(tmp_path: Path) -> None:
    new = pytest.importorskip("nbformat", reason="writes notebooks").v4
    shown = new.new_output("execute_result", data={"text/plain": "3"})
    not_run = notebook_of(
        tmp_path, *map(new.new_code_cell, ("result = 1", "result + 1", "result;", "print(3)", "result  # it"))
    )
    assert inspected(not_run) == ["result_", "result"]
    run = notebook_of(
        tmp_path,
        new.new_code_cell("x = [3]", execution_count=1),
        new.new_code_cell("x.pop()", execution_count=2, outputs=[shown]),
        new.new_code_cell("x", execution_count=3),
    )
    assert inspected(run) == ["result"]
    assert run.text.count("x.pop()") == 1
    cells = ("known = [print]", "known[0]", "missing", "Out[3]", "len")
    unknown = notebook_of(tmp_path, *map(new.new_code_cell, cells))
    assert inspected(unknown) == [
        "known[0]",
        "result",  # for `missing`, because `check` refuses an inspected name that nothing binds
        "result",
        "len",
    ]


def test_cell_tags_kernels_and_ipython_names(tmp_path: Path) -> None:
    new = pytest.importorskip("nbformat", reason="writes notebooks").v4

    def tagged(text: str, tag: str) -> object:
        return new.new_code_cell(text, metadata={"tags": [tag]})

    lecture = notebook_of(
        tmp_path,
        tagged("x = 2\n1 / 0\nx = 3", "raises-exception"),
        tagged("x = 4", "skip-execution"),
        tagged("y = x", "remove-input"),
        new.new_code_cell("display(y)"),
        new.new_raw_cell("raw **text**"),
        new.new_code_cell("shell = get_ipython() if y == 5 else _1 if y == 6 else None"),
    )
    names: dict[str, object] = {"__name__": "__main__"}
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(lecture.text, names)
    assert names["y"] == 2 and output.getvalue() == "ZeroDivisionError: division by zero\n2\n"
    named = [warning.split("notes.ipynb: ")[1].split(":")[0] for warning in lecture.warnings]
    assert sorted(named) == ["cell 2", "cell 3", "cell 6", "cell 6"]
    for kernel in (
        {"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}},
        {"language_info": {"name": "julia"}},
    ):
        with pytest.raises(UsageError, match=r"notes\.ipynb: .*(R|julia); only Python"):
            notebook_of(tmp_path, new.new_code_cell("x <- 1"), **kernel)


def test_figures_are_shown_as_in_a_notebook(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    new = pytest.importorskip("nbformat", reason="writes notebooks").v4
    cells = (
        "import matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt",
        "plt.plot([1, 2])",
        "def draw():\n    plt.figure()\n    plt.plot([3])\n    plt.show()",
        "draw()",
        "plt.figure(); plt.plot([1])\nplt.figure(); plt.plot([2])\nplt.show()",
        "open_now = plt.get_fignums()",
    )
    lecture = notebook_of(tmp_path, *map(new.new_code_cell, cells))
    names: dict[str, object] = {"__name__": "__main__"}
    narratives: list[Narrative] = []
    with listening(narratives.append):
        exec(lecture.text, names)
    assert [[series.y for series in plot.series or []] for plot in narratives] == [[[1, 2]], [[3]], [[1]], [[2]]]
    assert names["open_now"] == []

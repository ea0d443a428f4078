"""IPython's syntax in notebooks: the imported lecture is compared with a kernel that runs the same notebook."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import require
from trace_tools.notebooks.import_cells import lecture_of_cells
from trace_tools.notebooks.magics import lines_inside_strings, plain_python, string_literal

CELLS = [
    "%%time\nrows = [n for n in range(10)]\ntotal = sum(rows)",
    "%time x = total + 1",
    "y = %time x * 2",
    "for k in (1, 2):\n    %time z = k",
    "%%capture out\n%%time\na = 3\nprint('hidden')",
    "%prun -q d = 6",
    "g = 1\n%timeit -n1 -r1 g + 1",
    "%%timeit -n1 -r1 k = 5\ng = 7",
    "!echo a \\\n  b\nw = 1",
    "if w:\n    !echo in\n    v = 4",
    "?len\nlen?\nu = '''\n%time u = 5\n!ls\nwhy?'''",
    "%%writefile made_here.py\nV = 42\nS = '''\n  x\\n'''",
    "import made_here\nfrom_file = made_here.V, made_here.S",
    "%env MADE_HERE=3 4\nh = %env MADE_HERE",
    "%%bash\ntrue",
    "%%html\n<b>x</b>",
    "percent = ('%d'\n % 3, 'a = %d' % 3)",
    "\n    indented = 1\n    %time indented += 1",
    "get_ipython().run_line_magic('time', 'line = 1')",
    "get_ipython().run_cell_magic('time', '', 'cell = 2\\n')",
]
PRINT_VARIABLES = "import json; print('@' + json.dumps({k: repr(v) for k, v in %s.items() if not k.startswith('_') and k not in ('In', 'Out') and type(v) in (int, str, list, tuple)}))"  # noqa: E501


@pytest.mark.slow
def test_lecture_computes_the_same_values_as_a_kernel(tmp_path: Path) -> None:
    nbformat, nbclient = (pytest.importorskip(name) for name in ("nbformat", "nbclient"))
    pytest.importorskip("ipykernel")
    require("sh", "bash")
    new = nbformat.v4
    notebook = new.new_notebook(cells=[new.new_code_cell(cell) for cell in CELLS])
    nbformat.write(notebook, tmp_path / "notes.ipynb")
    notebook.cells.append(new.new_code_cell(PRINT_VARIABLES % "globals()"))
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}, timeout=60).execute()
    expected = json.loads(notebook.cells[-1].outputs[0].text.partition("@")[2])
    (tmp_path / "made_here.py").unlink()
    lecture = lecture_of_cells(tmp_path / "notes.ipynb")
    (tmp_path / "imported.py").write_text(lecture.text, encoding="utf-8")
    print_variables = PRINT_VARIABLES % "vars(imported)"
    code = f"import sys; sys.path.append({str(Path.cwd())!r}); import imported; imported.main(); {print_variables}"
    completed = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(completed.stdout.rpartition("@")[2]) == expected
    cells = {int(warning.split("cell ")[1].split(":")[0]) for warning in lecture.warnings}
    assert cells == {
        number
        for number, cell in enumerate(CELLS, 1)
        if any(map(cell.__contains__, ("%%capture out", "!echo", "%%bash", "%%html")))
    }
    assert "!echo a \\" in lecture.text and "# b" in lecture.text


def test_lossy_magics_warn_and_keep_their_code() -> None:
    for text in ("x = !ls", "%run other.py", "%%sql\nSELECT 1", "%load file", "!!ls", "%%timeit\nx = (", "%pylab"):
        plain = plain_python(text)
        assert plain.warnings and text.split("\n")[-1] in plain.code + plain.prose
    for text in ("%matplotlib inline", "%load_ext autoreload", "%autoreload 2", "math?", "?math", "%pip install x"):
        plain = plain_python(text)
        assert not plain.warnings and plain.code == f"# {text}"
    plain = plain_python("%%unknown option\nx = 1")
    assert "x = 1" in plain.code.split("\n") and plain.warnings


def test_string_literals_evaluate_to_their_text() -> None:
    for text in (
        "",
        "a",
        'say "x"',
        "a\nb",
        "\\alpha\n$x$",
        "ends\n\\",
        'quote"\n"',
        '"""\n',
        "'''\n\"\"\"",
        "\x00\n",
        "tab\t\n",
    ):
        assert eval(string_literal(text)) == text
    assert lines_inside_strings('x = """\na\n"""\ny = (1,\n2)\nf = f"""\n{x}\n"""') == {1, 2, 6, 7}

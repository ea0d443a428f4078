"""Exported notebooks are valid, contain the recorded outputs, and run in a real kernel."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.diff.planted import with_steps
from tests.notebooks.theirs import traced_by_us
from tests.traces import example_trace
from trace_tools.errors import UsageError
from trace_tools.notebooks.notebook import cells_of, needed, notebook, percent
from trace_tools.source.statements import parse_source
from trace_tools.trace.model import Image, Link, Text, Trace

LECTURE = '''"""A talk"""

from trace_tools import table, text


def main():
    begin()
    go_on()


def begin():
    """How it begins"""
    text("Prose with $x$.")
    x = [1, 2]  # @inspect x
    print("printed", len(x))


def doubled(n):
    text(f"doubling {n}")
    return 2 * n


def go_on():
    y = doubled(len("ab"))  # @inspect y
    assert y == 4
    table([[y, 1]], ["a", "b"])
'''


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Trace:
    lecture = tmp_path_factory.mktemp("talk") / "talk.py"
    lecture.write_text(LECTURE)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = environment["PYTHONPATH"]
    try:
        return traced_by_us(lecture, environment)
    finally:
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


def outputs(cell: Any) -> list[str]:
    return [out.get("text") or out["data"].get("text/markdown") or out["data"]["text/plain"] for out in cell.outputs]


def test_notebook_is_valid_and_has_recorded_outputs(trace: Trace) -> None:
    nbformat = pytest.importorskip("nbformat", reason="reads and validates notebooks")
    exported = nbformat.reads(notebook(trace), as_version=4)
    nbformat.validate(exported)
    code = [cell for cell in exported.cells if cell.cell_type == "code"]
    assert outputs(code[0]) == [], "a function's output belongs to the cell with the call, not with the definition"
    assert outputs(code[1]) == ["printed 2\n", "x = [1, 2]"]
    assert outputs(code[2])[0] == "doubling 2" and outputs(code[2])[-1] == "y = 4\n✓ y == 4"
    assert "| a | b |" in outputs(code[2])[1]
    assert [cell.execution_count for cell in code] == [1, 2, 3]
    assert notebook(trace) == notebook(trace)


def test_kernel_runs_all_cells_in_order(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="reads notebooks")
    nbclient = pytest.importorskip("nbclient", reason="executes notebooks")
    pytest.importorskip("ipykernel", reason="the kernel that runs them")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path])))
    exported = nbformat.reads(notebook(trace), as_version=4)
    for cell in exported.cells:
        cell.pop("outputs", None) if cell.cell_type != "code" else cell.update(outputs=[])
    executed = nbclient.NotebookClient(exported, timeout=120, kernel_name="python3").execute()
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    printed = [output.text for cell in code for output in cell.outputs if "text" in output]
    assert printed == ["printed 2\n"]


def test_percent_script_has_the_cells_of_the_notebook(trace: Trace) -> None:
    jupytext = pytest.importorskip("jupytext", reason="reads percent scripts")
    cells = [(cell.cell_type, cell.source) for cell in jupytext.reads(percent(trace), fmt="py:percent").cells]
    assert cells == [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(notebook(trace))["cells"]]


def test_every_kind_of_narrative_is_an_output() -> None:
    nbformat = pytest.importorskip("nbformat", reason="validates notebooks")
    exported = nbformat.reads(notebook(example_trace()), as_version=4)
    nbformat.validate(exported)
    kinds = {kind for cell in exported.cells for output in cell.get("outputs", []) for kind in output.get("data", {})}
    assert kinds == {"text/markdown", "text/plain", "image/svg+xml"}


def test_narrative_pieces_of_a_line_are_one_output() -> None:
    nbformat = pytest.importorskip("nbformat", reason="reads notebooks")
    pieces = [
        Text(text="- GPT-3 ", flows=True),
        Link(url="https://example.org", title="A paper", label="Brown+ 2020", flows=True),
        Text(text=" and ", flows=True),
        Link(label="bisect", target="bisect", title="lecture.py, line 3", flows=True),
    ]
    trace = with_steps(example_trace(), lambda step: replace(step, narrative=pieces if step.id == 1 else None))
    exported = nbformat.reads(notebook(trace), as_version=4)
    texts = [text for cell in exported.cells if cell.cell_type == "code" for text in outputs(cell) if "GPT-3" in text]
    assert texts == ['- GPT-3 [Brown+ 2020](<https://example.org> "A paper.") and `bisect`']


def test_image_paths_become_urls() -> None:
    nbformat = pytest.importorskip("nbformat", reason="reads notebooks")
    images = [Image(url=url, title="it") for url in ("a b/ü.png", "data:image/png;base64,iVBO+/=")]
    trace = with_steps(example_trace(), lambda step: replace(step, narrative=images if step.id == 1 else None))
    texts = [text for cell in nbformat.reads(notebook(trace), 4).cells if "outputs" in cell for text in outputs(cell)]
    assert "![it](a%20b/%C3%BC.png)\n" in texts and "![it](data:image/png;base64,iVBO+/=)\n" in texts


def test_missing_package_or_source_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"no_such_module.* pip install 'trace-tools\[export\]'$"):
        needed("no_such_module")
    pytest.importorskip("nbformat", reason="asked for first")
    with pytest.raises(UsageError, match="no source"):
        notebook(example_trace(sources=[], steps=[]))


# --- A lecture as cells: sections that become cells, and functions that stay functions.


LECTURE_WITH_SECTIONS = '''"""A title.

More of it.
"""
from trace_tools import note, text

N = 2


def main():
    text("before")
    first()
    second()
    print(helper(N))


def helper(n):
    return n + 1


def first():
    """The first one"""
    text("Some **prose**.")
    note("slowly")
    # why
    x = """
    kept as it is
"""
    for i in range(N):  # @inspect i
        text(f"turn {i}")


def second():
    y = 1


if __name__ == "__main__":
    main()
'''


def cells(source: str) -> list[tuple[str, str]]:
    return [("prose" if cell.prose else "code", cell.text) for cell in cells_of(parse_source(source, "talk.py"))]


def test_sections_called_by_main_become_cells() -> None:
    assert cells(LECTURE_WITH_SECTIONS) == [
        ("prose", "# A title\n\nMore of it."),
        ("code", "from trace_tools import note, text\nN = 2\n\ndef helper(n):\n    return n + 1"),
        ("prose", "before"),
        ("prose", "## The first one\n\nSome **prose**.\n\n*Note for the presenter:* slowly"),
        ("code", '# why\nx = """\n    kept as it is\n"""\nfor i in range(N):  # @inspect i\n    text(f"turn {i}")'),
        ("prose", "## Second"),
        ("code", "y = 1\nprint(helper(N))"),
    ]


@pytest.mark.parametrize(
    "body",
    ["return 1", "yield 1", "global N\n    N = 3", "N = 3", "main = 3", "a()"],
    ids=["returns", "yields", "global", "hides a name", "hides main", "calls itself"],
)
def test_section_that_cannot_be_inlined_stays_a_function(body: str) -> None:
    source = f"N = 2\n\ndef main():\n    a()\n\ndef a():\n    {body}\n"
    assert cells(source)[-1][0] == "code"
    assert f"def a():\n    {body}" in cells(source)[1][1] and cells(source)[-1][1].endswith("a()")


def test_main_with_return_is_called() -> None:
    assert cells("def main():\n    return 1\n")[1:] == [("code", "def main():\n    return 1\nmain()")]


def test_cells_list_their_statements() -> None:
    source = parse_source(LECTURE_WITH_SECTIONS, "talk.py")
    [loop] = [cell for cell in cells_of(source) if "for i" in cell.text]
    assert [source.statements[number].line for number in loop.statements] == [26, 29, 30]

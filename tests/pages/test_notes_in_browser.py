"""Notes beside code in a real browser: all of their text can be read, and small matrices are open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, ask, show
from tests.pages.recording import Recording, matrix
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Tensor, Value

CODE = [f"x{n} = {n}" for n in range(6)]
CUT = """[...document.querySelectorAll('.beside')].filter(box => {
    const last = Math.max(...[...box.querySelectorAll(':scope > .o')].map(one => one.getBoundingClientRect().bottom));
    return last > box.getBoundingClientRect().bottom + 1 }).length"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Render lines with a short note, several notes, a long note with a time, a matrix, and a frame."""
    column = Value("Series", tensor=Tensor("float64", [3], "cpu", elements=[0.5, 1.25, 2.0]))
    frame = Value("DataFrame", length=2, entries=[(Value("str", name), column) for name in ("height", "width")])
    long = Value("Config", entries=[(Value("str", f"field_{n}"), Value("int", n)) for n in range(6)])
    recording = Recording("def main():\n    f()\n\ndef f():\n" + "".join(f"    {line}\n" for line in CODE))
    f = recording.call(recording.frame("main"), "f()", "f")
    notes: list[list[tuple[str, Value]]] = [
        [("x0", Value("int", 0))],
        [(f"name_{n}", Value("int", n)) for n in range(9)],
        [("x2", long)],
        [("x3", matrix(2, 3))],
        [("x4", frame)],
        [],
    ]
    for line, values in zip(CODE, notes, strict=True):
        recording.step(f, line, values=values, host_ns=[5_000_000] if line.startswith("x2") else [1_000])
    out = tmp_path_factory.mktemp("notes")
    render_site([SiteTrace(recording.trace(), "cpu")], out)
    return out / "cpu" / "00-f.html"


def test_a_matrix_and_a_frame_show_their_elements(browser: Any, page: Path) -> None:
    show(browser, page, WIDE)
    cells = "[...one.rows].map(row => [...row.cells].map(cell => cell.textContent))"
    rows = f"[...document.querySelectorAll('.grid')].filter(one => one.checkVisibility()).map(one => {cells})"
    assert ask(browser, rows) == [
        [["0.", "1.", "2."], ["3.", "4.", "5."]],
        [
            ["", "height", "width"],
            ["", "f64", "f64"],
            *([str(n), x, x] for n, x in enumerate(["0.50", "1.25", "2.00"])),
        ],
    ]


@pytest.mark.parametrize("medium", ["no scripts", "print", "narrow", "wide"])
def test_all_notes_can_be_read_in_any_medium(browser: Any, page: Path, medium: str) -> None:
    if medium == "no scripts":
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, page, NARROW if medium == "narrow" else WIDE)
        if medium == "print":
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert ask(browser, CUT) == 0
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

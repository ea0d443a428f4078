"""Notes beside code in a real browser: they do not move lines apart, and all of their text can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, ask, show, until
from tests.pages.recording import Recording, matrix
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Meters, Tensor, Value

CODE = [f"x{n} = {n}" for n in range(6)]
HIGHER = """[...document.querySelectorAll('.listing > .row')].map(row =>
    row.getBoundingClientRect().height - row.querySelector('.code > code').getBoundingClientRect().height)"""
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


def test_folded_notes_do_not_move_lines_apart(browser: Any, page: Path) -> None:
    show(browser, page, WIDE)
    until(lambda: bool(ask(browser, "document.querySelectorAll('.beside.tall > .unfold').length")))
    assert max(ask(browser, HIGHER)) < 12
    buttons = ask(browser, "[...document.querySelectorAll('.unfold')].filter(one => one.checkVisibility())")
    assert len(buttons) == ask(browser, CUT) == 3  # several notes, a long one, and the frame's dtypes
    for button in buttons:
        button.click()
        assert button.get_attribute("aria-expanded") == "true"
    assert ask(browser, CUT) == 0 and max(ask(browser, HIGHER)) > 20
    for button in buttons:
        button.click()
    assert max(ask(browser, HIGHER)) < 12


def test_a_matrix_and_a_frame_open_to_their_elements(browser: Any, page: Path) -> None:
    show(browser, page, WIDE)
    cells = "[...one.rows].map(row => [...row.cells].map(cell => cell.textContent))"
    rows = f"[...document.querySelectorAll('.grid')].filter(one => one.checkVisibility()).map(one => {cells})"
    assert ask(browser, rows) == []
    for summary in browser.find_elements("css selector", "details.grids > summary"):
        summary.click()
    assert ask(browser, rows) == [
        [["0.", "1.", "2."], ["3.", "4.", "5."]],
        [
            ["", "height", "width"],
            ["", "f64", "f64"],
            *([str(n), x, x] for n, x in enumerate(["0.50", "1.25", "2.00"])),
        ],
    ]
    facts = "[...document.querySelectorAll('.grids > .rest')].map(one => one.textContent.includes(arguments[0]))"
    until(lambda: any(ask(browser, facts, "float32")))  # the section's script adds the rest


@pytest.mark.parametrize("medium", ["no scripts", "print", "narrow"])
def test_all_notes_can_be_read_in_any_medium(browser: Any, page: Path, medium: str) -> None:
    if medium == "no scripts":
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, page, NARROW if medium == "narrow" else WIDE)
        if medium == "print":
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        if medium == "narrow":
            until(lambda: bool(ask(browser, "document.querySelectorAll('.beside.tall > .unfold').length")))
            for button in ask(
                browser, "[...document.querySelectorAll('.unfold')].filter(one => one.checkVisibility())"
            ):
                button.click()
        assert ask(browser, CUT) == 0
        if medium != "narrow":
            assert not ask(browser, "[...document.querySelectorAll('.unfold')].some(one => one.checkVisibility())")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_long_time_leaves_room_for_the_value(browser: Any, tmp_path: Path) -> None:
    """Most readers see only the first line of a folded note."""
    recording = Recording("def main():\n    f()\n\ndef f():\n    for n in range(9):\n        loss = step(n)\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    loss = Value("tensor", tensor=Tensor("float32", [], "cpu", elements=[4.095]))
    loss_facts: dict[str, Any] = {"values": [("loss", loss)], "annotated": True, "meters": Meters(flops=123_456)}
    for n in range(9):
        recording.step(f, "loss", host_ns=[11_250_000 * (n + 1)], **loss_facts)
    render_site([SiteTrace(recording.trace(), "cpu")], tmp_path)
    show(browser, tmp_path / "cpu" / "00-f.html", WIDE)
    until(lambda: bool(ask(browser, "document.querySelectorAll('.beside.tall').length")))
    assert ask(browser, "document.querySelector('.beside.tall .o.time').textContent.length") > 30
    assert ask(browser, "document.querySelector('.beside.tall .o.first').getClientRects()[0].height") < 30

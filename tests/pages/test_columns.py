from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.messages import says
from tests.pages.browsing import NARROW, ask, show, until
from tests.pages.recording import Recording, matrix
from trace_tools.analysis.floors import ceiling_named
from trace_tools.export.html_file import one_file
from trace_tools.pages.columns import (
    Column,
    ColumnCell,
    ColumnEntry,
    columns_block,
    differing_lines,
    floors_block,
    timed_lines,
)
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.overview import document_notices
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Machine, Meters, Peak, Trace, Work


def entry(text: str | None, *, differs: bool = False) -> ColumnEntry:
    return ColumnEntry("value", "x", "", text, "", differs)


def unpacked(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def column(lines: int, *, every: int = 10) -> Column:
    cells = {f"L{n}": ColumnCell((entry(f"{n * 7919 % 10007} {n}", differs=n % every == 0),)) for n in range(lines)}
    return Column("there", cells)


def test_a_block_holds_every_cell_and_the_same_twice() -> None:
    block = columns_block(
        [Column("there", {"L1": ColumnCell((entry(None),)), "L2": ColumnCell((entry("3", differs=True),))})]
    )
    assert block.complete and block == columns_block(block.columns)
    same, other = unpacked(block.text)["columns"][0]
    assert same == ["L1", [[0, "", "x", None, "", 0]]] and other == ["L2", [[0, "", "x", "3", "", 1]]]


def test_beyond_the_budget_only_what_differs_is_kept_and_that_is_said() -> None:
    whole = columns_block([column(2_000)], budget=10**6)
    block = columns_block([column(2_000)], budget=len(whole.text) // 2)
    assert whole.complete and not block.complete and len(block.text) <= len(whole.text) // 2
    assert [anchor for anchor, _ in unpacked(block.text)["columns"][0]] == [f"L{n}" for n in range(0, 2_000, 10)]
    assert block.columns[0].differing == 200


def test_a_budget_that_holds_nothing_is_kept_too() -> None:
    assert len(columns_block([column(2_000, every=1)], budget=500).text) <= 500
    assert columns_block([]).columns == ()


def test_lines_that_differ_are_told_in_words() -> None:
    twelve = ColumnCell((ColumnEntry("time", "", "2", "4 ms", "2× slower", True), entry("same")), line=12)
    assert list(differing_lines(Column("there", {"call-3-L12": twelve, "L13": ColumnCell((), line=13)}))) == [
        (12, "2: 4 ms (2× slower)")
    ]


LECTURE = """\
def main():
    train()


def train():
    y = x @ x  # @inspect y
    for i in range(2):
        z = y + 1  # @inspect z
    w = y.to(torch.bfloat16) @ y  # @inspect w
    nowhere = meta @ meta  # @inspect nowhere
"""
H100, T4 = ceiling_named("NVIDIA H100 80GB HBM3"), ceiling_named("Tesla T4")


def recorded() -> Trace:
    """On an H100 (67 TFLOP/s in float32, 3.35 TB/s): 1 µs; 1 µs and 10 µs; 1 µs in bfloat16, which a T4 has not."""
    made = Recording(LECTURE)
    train = made.call(made.frame("main"), "train()", "train")

    def step(code: str, *work: Work, flops: int = 1) -> None:
        meters = Meters(flops, 1, 1, peak_bytes=2 * 10**10, operators=[("aten.mm", 1)], work=list(work) or None)
        made.step(train, code, annotated=True, host_ns=[10**6] * 3, values=[("y", matrix(2, 2))], meters=meters)

    step("y = ", ("aten.mm", "float32", 67 * 10**6, 0))
    for moved in (3_350_000, 33_500_000):
        step("z = ", ("aten.add", "float32", 1, moved))
    step("w = ", ("aten.mm", "bfloat16", 989_500_000, 0))
    step("nowhere = ", flops=10**9)
    return made.trace(machine=Machine("A processor", "cpu", "cpu", peaks=[Peak("memory", 1e10, "measured")]))


def test_each_line_with_a_time_has_its_floor_on_each_machine() -> None:
    document = make_document(recorded())
    found = unpacked(floors_block(timed_lines(document.sections[0]), document, [H100, T4]))
    assert found["anchors"] == ["L6", "L8", "L9", "L10"]
    (name, about, on_h100), (_, small, on_t4) = found["machines"]
    assert name == "H100 80GB HBM3"
    assert on_h100 == [
        "at least 1 µs, float32",
        "at least 1 µs, memory, to 10 µs, memory",
        "at least 1 µs, bfloat16",
        None,  # it was computed nowhere
    ]
    assert on_t4[2] == "no bfloat16 peak of Tesla T4 is known" and on_t4[3] is None
    assert "3.35 TB/s" in about and "measured" in about
    assert "20 GB" in about and "of 80 GB" in about
    assert "No: 20 GB" in small and "more than 16 GB" in small


def test_a_trace_that_says_nothing_of_operators_has_no_switch_and_says_why() -> None:
    made = Recording(LECTURE)
    train = made.call(made.frame("main"), "train()", "train")
    made.step(train, "y = ", annotated=True, host_ns=[10**6], meters=Meters(9, operators=[("aten.mm", 1)]))
    document = make_document(made.trace())
    assert floors_block(timed_lines(document.sections[0]), document, [H100]) == ""
    [notice] = [notice.text for notice in document_notices(document)]
    assert document.notices == () and says(notice, "no lower bounds", "operator", "trace it again")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("floors")
    render_site([SiteTrace(recorded(), "cpu")], out)
    return out / "cpu" / "00-train.html"


CHOOSE = """
    const choice = document.querySelector('#floors select');
    choice.value = arguments[0];
    choice.dispatchEvent(new Event('change'));
"""
FLOORS = "[...document.querySelectorAll('#text .floor')].map(it => it.innerText)"


def test_a_reader_chooses_a_machine_and_the_choice_is_kept(browser: Any, page: Path) -> None:
    show(browser, page)
    until(lambda: ask(browser, "document.querySelectorAll('#floors option').length") > 10)
    assert ask(browser, FLOORS) == []
    browser.execute_script(CHOOSE, "H100 80GB HBM3")
    assert ask(browser, FLOORS)[0] == "on H100 80GB HBM3: at least 1 µs, float32"
    assert ask(browser, "getComputedStyle(document.querySelector('.floor')).borderLeftStyle") == "dashed"
    assert "not measured" in ask(browser, "document.getElementById('floors').textContent")
    assert browser.current_url.endswith("?bounds=H100+80GB+HBM3")
    browser.execute_script("sessionStorage.clear()")
    browser.refresh()
    until(lambda: len(ask(browser, FLOORS)) == 3)
    browser.execute_script(CHOOSE, "")
    assert ask(browser, FLOORS) == []


def test_on_a_phone_a_floor_has_a_line_of_its_own(browser: Any, page: Path) -> None:
    show(browser, page, NARROW)
    until(lambda: ask(browser, "document.querySelectorAll('#floors option').length") > 10)
    browser.execute_script(CHOOSE, "Tesla T4")
    widths = ask(browser, "[...document.querySelectorAll('.floor')].map(it => it.offsetWidth)")
    assert widths and min(widths) > 250
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    browser.execute_script(CHOOSE, "")


def test_the_lecture_as_one_file_has_the_switch_for_all_sections(browser: Any, tmp_path: Path) -> None:
    """With nothing beside it, on a phone, too; its anchors are behind the names of their sections."""
    page = tmp_path / "whole.html"
    page.write_text(one_file(SiteTrace(recorded(), "cpu")), encoding="utf-8")
    show(browser, page, NARROW)
    until(lambda: ask(browser, "document.querySelectorAll('#floors option').length") > 10)
    browser.execute_script(CHOOSE, "H100 80GB HBM3")
    said = ["at least 1 µs, float32", "at least 1 µs, memory, to 10 µs, memory", "at least 1 µs, bfloat16"]
    assert ask(browser, FLOORS) == [f"on H100 80GB HBM3: {text}" for text in said]
    rows = ask(browser, "[...document.querySelectorAll('.floor')].map(it => it.closest('[id]').id)")
    assert [row.rpartition("--")[2] for row in rows] == ["L6", "L8", "L9"]
    assert ask(browser, "getComputedStyle(document.querySelector('.floor')).borderLeftStyle") == "dashed"
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    browser.execute_script(CHOOSE, "")


def test_a_file_without_floors_has_no_switch() -> None:
    made = Recording(LECTURE)
    made.step(made.call(made.frame("main"), "train()", "train"), "y = ", annotated=True, host_ns=[10**6])
    assert 'id="floors"' not in one_file(SiteTrace(made.trace(), "cpu"))

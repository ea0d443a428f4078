from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, ask, show, until
from tests.pages.recording import Recording, matrix
from trace_tools.machines.peaks import known_machines
from trace_tools.pages.columns import floors_block, results_block, timed_lines
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.html import one_file
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Machine, Meters, Peak, Trace, Value, Work


def unpacked(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def results(lecture: str, *calls: str) -> list[list[Any]]:
    """Return the lines of a section that calls `f` after other functions, whose frames come first."""
    recording = Recording(lecture)
    main = recording.frame("main")
    for name in calls:
        frame = recording.call(main, f"{name}()", name)
    for number in (1, 2):
        inner = recording.call(frame, "g(", "g", arguments=[("n", Value("int", number))])
        recording.step(inner, "y = n", host_ns=[10**6, 3 * 10**6, 2 * 10**6], values=[("y", Value("int", number))])
    lines: list[list[Any]] = unpacked(results_block(make_document(recording.trace()).sections[-1]))
    return lines


CALLS = """\
def main():
    other()
    f()


def other():
    pass


def f():
    g(1)
    g(2)


def g(n):
    y = n  # @inspect y
"""


def test_lines_have_keys_that_do_not_depend_on_other_sections() -> None:
    """An anchor has the number of a call in the whole trace; a key has the turn of a line on its page."""
    alone, after_another = results(CALLS, "f"), results(CALLS, "other", "f")
    assert [line[1] for line in alone] != [line[1] for line in after_another]
    assert [(key, *more) for key, _, *more in alone] == [(key, *more) for key, _, *more in after_another]
    first, second = [line for line in alone if any(name == "y" for _, _, name, _ in line[3])]
    assert (first[0].partition(":")[0], first[0][-2:], second[0][-2:]) == (second[0].partition(":")[0], ":1", ":2")
    assert first[2] == 2 * 10**6  # the median
    assert [note for note in first[3] if note[0] == "value"] == [["value", "", "y", "1"]]


def test_lines_keep_their_keys_when_others_are_edited() -> None:
    before = results(CALLS, "f")
    moved = results("import math\n\n" + CALLS, "f")
    assert [line[0] for line in before] == [line[0] for line in moved]
    edited = results(CALLS.replace("y = n ", "y = n + 0 "), "f")
    changed = [line for line, other in zip(before, edited, strict=True) if line[0] != other[0]]
    assert [[name for _, _, name, _ in line[3] if name] for line in changed] == [["y"], ["y"]]


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
H100, T4 = (
    machine for name in ("NVIDIA H100 80GB HBM3", "Tesla T4") for machine in known_machines() if name in machine.names
)


def recorded_trace() -> Trace:
    """Return a trace whose lines need at least 1 µs; 1 µs and 10 µs; 1 µs in bfloat16 on an H100.

    An H100 has 67 TFLOP/s in float32 and 3.35 TB/s. A T4 has no bfloat16.
    """
    recording = Recording(LECTURE)
    train = recording.call(recording.frame("main"), "train()", "train")

    def step(code: str, *work: Work, flops: int = 1) -> None:
        meters = Meters(flops, 1, 1, peak_bytes=2 * 10**10, operators=[("aten.mm", 1)], work=list(work) or None)
        recording.step(train, code, annotated=True, host_ns=[10**6] * 3, values=[("y", matrix(2, 2))], meters=meters)

    step("y = ", ("aten.mm", "float32", 67 * 10**6, 0))
    for moved in (3_350_000, 33_500_000):
        step("z = ", ("aten.add", "float32", 1, moved))
    step("w = ", ("aten.mm", "bfloat16", 989_500_000, 0))
    step("nowhere = ", flops=10**9)
    return recording.trace(machine=Machine("A processor", "cpu", "cpu", peaks=[Peak("memory", 1e10, "measured")]))


def test_timed_lines_have_a_lower_bound_per_machine() -> None:
    document = make_document(recorded_trace())
    bounds = unpacked(floors_block(timed_lines(document.sections[0]), [H100, T4]))
    assert bounds["anchors"] == ["L6", "L8", "L9", "L10"]
    (name, h100_facts, on_h100), (_, _, on_t4) = bounds["machines"]
    assert name == "H100 80GB HBM3"
    assert on_h100 == [
        "at least 1 µs, float32",
        "at least 1 µs, memory, to 10 µs, memory",
        "at least 1 µs, bfloat16",
        None,  # tensors on the meta device are not computed
    ]
    assert on_t4[2] == "no bfloat16 peak of Tesla T4 is known" and on_t4[3] is None
    assert "3.35 TB/s" in h100_facts and "not measured" in h100_facts


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("floors")
    render_site([SiteTrace(recorded_trace(), "cpu")], out)
    return out / "cpu" / "00-train.html"


CHOOSE = """
    const choice = document.querySelector('#floors select');
    choice.value = arguments[0];
    choice.dispatchEvent(new Event('change'));
"""
FLOORS = "[...document.querySelectorAll('#text .floor')].map(it => it.innerText)"


def test_the_address_keeps_the_machine_chosen_for_bounds(browser: Any, page: Path) -> None:
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


def test_bounds_have_their_own_line_on_phones(browser: Any, page: Path) -> None:
    show(browser, page, NARROW)
    until(lambda: ask(browser, "document.querySelectorAll('#floors option').length") > 10)
    browser.execute_script(CHOOSE, "Tesla T4")
    widths = ask(browser, "[...document.querySelectorAll('.floor')].map(it => it.offsetWidth)")
    assert widths and min(widths) > 250
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    browser.execute_script(CHOOSE, "")


def test_a_single_file_has_bounds_for_all_sections(browser: Any, tmp_path: Path) -> None:
    """The file works without others, also on a phone; its anchors have their section's name as prefix."""
    page = tmp_path / "whole.html"
    page.write_text(one_file(recorded_trace()), encoding="utf-8")
    show(browser, page, NARROW)
    until(lambda: ask(browser, "document.querySelectorAll('#floors option').length") > 10)
    browser.execute_script(CHOOSE, "H100 80GB HBM3")
    bounds = ["at least 1 µs, float32", "at least 1 µs, memory, to 10 µs, memory", "at least 1 µs, bfloat16"]
    assert ask(browser, FLOORS) == [f"on H100 80GB HBM3: {text}" for text in bounds]
    rows = ask(browser, "[...document.querySelectorAll('.floor')].map(it => it.closest('[id]').id)")
    assert [row.rpartition("--")[2] for row in rows] == ["L6", "L8", "L9"]
    assert ask(browser, "getComputedStyle(document.querySelector('.floor')).borderLeftStyle") == "dashed"
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    browser.execute_script(CHOOSE, "")


def test_a_single_file_without_bounds_has_no_switch() -> None:
    recording = Recording(LECTURE)
    recording.step(recording.call(recording.frame("main"), "train()", "train"), "y = ", annotated=True, host_ns=[10**6])
    assert 'id="floors"' not in one_file(recording.trace())

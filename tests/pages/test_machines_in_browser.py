"""Other machines on a page: columns with marked differences, the position that is kept, and lower bounds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.diff.plain_tracing import traced
from tests.diff.planted import CPU, LECTURE, at, made, tensor, with_steps
from tests.pages.browsing import NARROW, WIDE, ask, boxes, play, press, resize, show, until
from tests.pages.test_columns import bounded
from tests.pretend_gpu import pretend_gpu
from trace_tools.pages.html import one_file
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Machine, Trace, Value

EDITED = LECTURE.replace("    x = 1\n", "    x = 2 - 1\n")
EVIL = "<img src=x onerror=window.pwned=1>"
ONE, GPU, EDITED_AT, HOSTILE = range(4)  # the boxes of the other machines


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Render a machine; one where y has another value; a GPU; one that ran another text; one with a hostile name."""
    out = tmp_path_factory.mktemp("machines")
    slow = with_steps(made(0), at(6, host_ns=[10**8] * 3))

    def named(trace: Trace, name: str) -> Trace:
        return replace(trace, machine=replace(trace.machine, name=name))

    other = with_steps(named(made(1), "one"), at(6, values=[("y", tensor(shape=[4], strides=[1]))]))
    hostile = replace(made(1), machine=Machine(EVIL, "evil", "cuda"))
    hostile = with_steps(hostile, at(6, values=[("y", Value("str", EVIL)), (EVIL, Value("str", "</template>"))]))
    traces = {"cpu": slow, "one": other, "pretend-gpu": pretend_gpu(slow)}
    traces |= {"edited": named(traced(EDITED, machine=CPU), "edited"), "evil": hostile}  # no values were traced in it
    render_site([SiteTrace(trace, name) for name, trace in traces.items()], out)
    render_site([SiteTrace(bounded(), "cpu")], out / "bounds")
    (out / "whole.html").write_text(one_file(bounded()), encoding="utf-8")
    return out


def choose(browser: Any, *indices: int) -> None:
    """Tick the boxes of exactly these other machines."""
    browser.execute_script(
        "document.querySelectorAll('#machines input').forEach((box, n) => {"
        "if (box.checked !== arguments[0].includes(n)) box.click(); })",
        list(indices),
    )
    until(lambda: ask(browser, "document.querySelectorAll('#L6 > .other').length") == len({*indices} - {EDITED_AT}))


@pytest.fixture
def page(browser: Any, machines: Path) -> Path:
    path = machines / "cpu" / "00-first.html"
    play(browser, path)
    until(lambda: ask(browser, "document.getElementById('machines') !== null"))
    choose(browser)
    return path


DIFFERING = "[...document.querySelectorAll('.row.differs')]"


def test_lines_that_differ_are_marked_and_times_are_ratios(browser: Any, page: Path) -> None:
    assert ask(browser, "document.querySelectorAll('.other').length") == 0
    choose(browser, ONE, GPU)
    assert ask(browser, f"{DIFFERING}.map(row => row.id)") == ["L6"]
    cells = ask(browser, "[...document.querySelectorAll('#L6 > .other')].map(cell => cell.innerText)")
    assert "≠ y f32[4] = [1., 2., 3., 4.]" in cells[0] and "=" in cells[1] and "≠" not in cells[1]
    assert ask(browser, "document.getElementById('differing').innerText").strip("↑↓\n") == "1 line differs"
    columns = boxes(browser, "#L6 > *")
    assert all(abs(box["top"] - columns[0]["top"]) < 1 for box in columns)
    assert [box["left"] for box in columns] == sorted({box["left"] for box in columns})
    choose(browser, GPU)
    assert ask(browser, f"{DIFFERING}.length") == 0
    [shown] = ask(browser, "[...document.querySelectorAll('#L6 > .other > .time')].map(it => it.innerText)")
    factor = shown.removesuffix("× faster").split()[-1].replace(",", "")
    assert float(factor) == pytest.approx(100e6 / 6_000, rel=0.05)  # the launch; 32 bytes and 8 FLOPs add nothing
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requested = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    others = [page.parents[1] / folder / "00-first.js" for folder in ("one", "pretend-gpu")]
    own = [page, page.with_suffix(".js"), page.with_name("section.js"), page.parents[1] / "machines.js"]
    assert [url for url in requested if not url.startswith("data:")] == [path.as_uri() for path in (*own, *others)]
    choose(browser, EDITED_AT)  # only edited lines have no counterpart
    until(lambda: ask(browser, f"{DIFFERING}.length") > 0)
    assert ask(browser, f"{DIFFERING}.map(row => row.innerText.includes('no result there'))") == [True]
    assert "x = 1" in ask(browser, f"{DIFFERING}[0].innerText")
    choose(browser, HOSTILE)
    assert EVIL in ask(browser, "document.querySelector('#L6 > .other').innerText")
    assert ask(browser, "document.querySelectorAll('main img').length") == 0
    assert ask(browser, "window.pwned") is None and browser.get_log("browser") == []


def test_columns_are_below_lines_when_narrow_and_stay_on_the_next_page(browser: Any, page: Path) -> None:
    resize(browser, NARROW)
    choose(browser, ONE, GPU)
    narrow = [box for box in boxes(browser, "#L6 > *") if box["height"]]
    assert [box["top"] for box in narrow] == sorted({box["top"] for box in narrow})
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    choose(browser, ONE)
    browser.get((page.parent / "01-second.html").as_uri())
    checked = "[...document.querySelectorAll('#machines input')].map(box => box.checked)"
    until(lambda: ask(browser, checked) == [True, False, False, False])


def test_another_machine_opens_at_the_same_step_or_line(browser: Any, page: Path) -> None:
    press(browser, "jj")
    browser.execute_script("document.querySelectorAll('.seg a')[1].click()")
    until(lambda: ask(browser, "location.href").endswith("one/00-first.html#step-2"))
    until(lambda: "step 2" in ask(browser, "document.getElementById('step-now').textContent"))
    show(browser, page, (900, 200))
    browser.execute_script(
        "document.documentElement.style.scrollBehavior = 'auto'; document.getElementById('L6').scrollIntoView()"
    )
    browser.execute_script("document.querySelectorAll('.seg a')[1].click()")
    until(lambda: "one/" in browser.current_url and ask(browser, "location.hash") in ("#L5", "#L6"))


CHOOSE = """
    const choice = document.querySelector('#floors select');
    choice.value = arguments[0];
    choice.dispatchEvent(new Event('change'));
"""
FLOORS = "[...document.querySelectorAll('.floor')].map(it => it.innerText)"
BOUNDS = ["at least 1 µs, float32", "at least 1 µs, memory, to 10 µs, memory", "at least 1 µs, bfloat16"]


@pytest.mark.parametrize("file", ["bounds/cpu/00-f.html", "whole.html"])
@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_lines_have_lower_bounds_of_a_chosen_machine(
    browser: Any, machines: Path, file: str, size: tuple[int, int]
) -> None:
    """The single file works without others; its anchors have their section's number as prefix."""
    show(browser, machines / file, size)
    until(lambda: ask(browser, "document.querySelectorAll('#floors option').length") > 10)
    assert ask(browser, FLOORS) == []
    browser.execute_script(CHOOSE, "H100 80GB HBM3")
    assert ask(browser, FLOORS) == [f"on H100 80GB HBM3: {text}" for text in BOUNDS]
    rows = ask(browser, "[...document.querySelectorAll('.floor')].map(it => it.closest('[id]').id)")
    assert [row.rpartition("--")[2] for row in rows] == ["L5", "L7", "L8"]
    assert ask(browser, "getComputedStyle(document.querySelector('.floor')).borderLeftStyle") == "dashed"
    assert "not measured" in ask(browser, "document.getElementById('floors').textContent")
    assert size == WIDE or min(box["width"] for box in boxes(browser, ".floor")) > 250
    assert ask(browser, "document.documentElement.scrollWidth") <= size[0]
    if file != "whole.html":
        assert browser.current_url.endswith("?bounds=H100+80GB+HBM3")
        browser.execute_script("sessionStorage.clear()")
        browser.refresh()
        until(lambda: len(ask(browser, FLOORS)) == 3)
    browser.execute_script(CHOOSE, "")
    assert ask(browser, FLOORS) == []
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]

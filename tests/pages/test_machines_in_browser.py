"""Several machines on one page in a real browser: their columns, marked differences, and the position that is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.diff.plain_tracing import traced
from tests.diff.planted import CPU, LECTURE, at, made, tensor, with_steps
from tests.pages.browsing import NARROW, ask, press, show, until
from tests.pretend_gpu import pretend_gpu
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Machine, Trace, Value

EDITED = LECTURE.replace("    x = 1\n", "    x = 2 - 1\n")


def named(trace: Trace, name: str) -> Trace:
    return replace(trace, machine=replace(trace.machine, name=name))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Render four machines: on the second, y has another value; the third is a GPU; the fourth ran another text."""
    out = tmp_path_factory.mktemp("machines")
    other = with_steps(named(made(1), "one"), at(6, values=[("y", tensor(shape=[4], strides=[1]))]))
    edited = named(traced(EDITED, machine=CPU), "edited")
    traces = {"cpu": slow(made(0)), "one": other, "pretend-gpu": pretend_gpu(slow(made(0))), "edited": edited}
    render_site([SiteTrace(trace, name) for name, trace in traces.items()], out)
    return out


def slow(trace: Trace) -> Trace:
    """Return the trace with a line that took 100 ms."""
    return with_steps(trace, at(6, host_ns=[10**8] * 3))


EDITED_AT = 2  # its trace has no values


def choose(browser: Any, *indices: int) -> None:
    """Tick the boxes of exactly these other machines."""
    browser.execute_script(
        "document.querySelectorAll('#machines input').forEach((box, n) => {"
        "if (box.checked !== arguments[0].includes(n)) box.click(); })",
        list(indices),
    )
    until(lambda: ask(browser, "document.querySelectorAll('#L6 > .other').length") == len({*indices} - {EDITED_AT}))


@pytest.fixture
def page(browser: Any, site: Path) -> Path:
    path = site / "cpu" / "00-first.html"
    show(browser, path)
    browser.execute_async_script(
        "const done = arguments[0]; (function wait() {"
        "document.getElementById('machines') ? done() : setTimeout(wait, 10) })()"
    )
    choose(browser)
    return path


def test_only_lines_that_differ_are_marked(browser: Any, page: Path) -> None:
    assert ask(browser, "document.querySelectorAll('.other').length") == 0
    choose(browser, 0, 1)
    assert ask(browser, "[...document.querySelectorAll('.row.differs')].map(row => row.id)") == ["L6"]
    cells = ask(browser, "[...document.querySelectorAll('#L6 > .other')].map(cell => cell.innerText)")
    assert "≠ y f32[4] = [1., 2., 3., 4.]" in cells[0] and "=" in cells[1] and "≠" not in cells[1]
    assert ask(browser, "document.getElementById('differing').innerText").strip("↑↓\n") == "1 line differs"
    choose(browser, 1)
    assert ask(browser, "document.querySelectorAll('.row.differs').length") == 0


def test_times_are_compared_as_ratios(browser: Any, page: Path) -> None:
    choose(browser, 1)
    [shown] = ask(browser, "[...document.querySelectorAll('#L6 > .other > .time')].map(it => it.innerText)")
    factor = shown.removesuffix("× faster").split()[-1].replace(",", "")
    assert float(factor) == pytest.approx(100e6 / 6_000, rel=0.05)  # the launch; 32 bytes and 8 FLOPs add nothing


def test_only_edited_lines_have_no_counterpart(browser: Any, page: Path) -> None:
    choose(browser, EDITED_AT)
    until(lambda: ask(browser, "document.querySelectorAll('.row.differs').length") > 0)
    missing = "[...document.querySelectorAll('.row.differs')].map(row => row.innerText.includes('no result there'))"
    assert ask(browser, missing) == [True]
    assert "x = 1" in ask(browser, "document.querySelector('.row.differs').innerText")


def test_columns_are_beside_lines_or_below_when_narrow(browser: Any, page: Path) -> None:
    choose(browser, 0, 1)
    boxes = "[...document.getElementById('L6').children].map(c => c.getBoundingClientRect().toJSON())"
    wide = ask(browser, boxes)
    assert all(abs(box["top"] - wide[0]["top"]) < 1 for box in wide)
    assert [box["left"] for box in wide] == sorted({box["left"] for box in wide})
    show(browser, page, NARROW)
    browser.execute_async_script("setTimeout(arguments[0], 300)")
    choose(browser, 0, 1)
    narrow = [box for box in ask(browser, boxes) if box["height"]]
    assert [box["top"] for box in narrow] == sorted({box["top"] for box in narrow})
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]


def test_pages_load_only_the_files_of_chosen_machines(browser: Any, page: Path) -> None:
    choose(browser, 0, 1)
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requested = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    others = [page.parents[1] / folder / "00-first.js" for folder in ("one", "pretend-gpu")]
    own = [page, page.with_suffix(".js"), page.with_name("section.js"), page.parents[1] / "machines.js"]
    assert {url for url in requested if not url.startswith("data:")} == {path.as_uri() for path in (*own, *others)}
    assert browser.get_log("browser") == []


def test_the_next_page_keeps_the_chosen_machines(browser: Any, page: Path) -> None:
    choose(browser, 0)
    browser.get((page.parent / "01-second.html").as_uri())
    browser.execute_async_script("setTimeout(arguments[0], 300)")
    assert ask(browser, "[...document.querySelectorAll('#machines input')].map(box => box.checked)") == [
        True,
        False,
        False,
    ]


def test_another_machine_opens_at_the_same_step(browser: Any, page: Path) -> None:
    press(browser, "jj")
    browser.execute_script("document.querySelectorAll('.seg a')[1].click()")
    browser.execute_async_script("setTimeout(arguments[0], 500)")
    assert ask(browser, "location.href").endswith("one/00-first.html#step-2")
    assert "step 2" in ask(browser, "document.getElementById('step-now').textContent")


def test_another_machine_opens_at_the_same_line(browser: Any, page: Path) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 900, "height": 200, "deviceScaleFactor": 1, "mobile": False}
    )
    browser.execute_script(
        "document.documentElement.style.scrollBehavior = 'auto'; document.getElementById('L6').scrollIntoView()"
    )
    browser.execute_script("document.querySelectorAll('.seg a')[1].click()")
    browser.execute_async_script("setTimeout(arguments[0], 500)")
    assert ask(browser, "location.hash") in ("#L5", "#L6")


def test_html_in_names_and_values_is_escaped(browser: Any, tmp_path: Path) -> None:
    evil = "<img src=x onerror=window.pwned=1>"
    hostile = replace(made(1), machine=Machine(evil, "evil", "cuda"))
    hostile = with_steps(hostile, at(6, values=[("y", Value("str", evil)), (evil, Value("str", "</template>"))]))
    render_site([SiteTrace(made(0), "cpu"), SiteTrace(hostile, "evil")], tmp_path)
    show(browser, tmp_path / "cpu" / "00-first.html")
    browser.execute_async_script("setTimeout(arguments[0], 300)")
    choose(browser, 0)
    assert evil in ask(browser, "document.querySelector('#L6 > .other').innerText")
    assert ask(browser, "document.querySelectorAll('main img').length") == 0
    assert ask(browser, "window.pwned") is None and browser.get_log("browser") == []


@pytest.mark.slow
def test_the_bar_shows_the_current_one_of_ten_machines(browser: Any, tmp_path: Path) -> None:
    names = [f"a-machine-with-a-name-{n}" for n in range(10)]
    traces = [replace(made(0), machine=replace(made(0).machine, slug=name)) for name in names]
    render_site([SiteTrace(trace, name) for trace, name in zip(traces, names, strict=True)], tmp_path)
    for size in ((1280, 900), NARROW):
        show(browser, tmp_path / names[8] / "00-first.html", size)
        current_is_visible = (
            "(() => { const a = document.querySelector('.seg [aria-current]'), box = a.parentElement;"
            "const [inner, outer] = [a, box].map(e => e.getBoundingClientRect());"
            "return inner.left >= outer.left - 1 && inner.left < outer.right; })()"
        )
        assert ask(browser, current_is_visible)
        assert ask(browser, "document.documentElement.scrollWidth") <= size[0]
    browser.execute_script("document.querySelector('.seg a').focus()")
    assert (
        ask(browser, "document.querySelector('.seg').scrollLeft") == 0
    )  # the first machine can be reached by keyboard

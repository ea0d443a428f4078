"""The player as a reader uses it, in a real browser: keys, panel, address and modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, ask, boxes, play, press, resize, show, until
from tests.pages.hostile import hostile_trace
from tests.pages.lectures import lecture
from tests.pages.played import played
from tests.pages.recording import matrix, of_section
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Claim, Trace, Value

LEFT, UP, RIGHT, DOWN, ESCAPE, HOME, END = "\ue012", "\ue013", "\ue014", "\ue015", "\ue00c", "\ue011", "\ue010"
SHIFT, NULL = "\ue008", "\ue000"


def resumed() -> Trace:
    """Return a trace in which a loop resumes a generator, in the frame of its first call, before a hidden line."""
    recording, f = of_section(
        "for i in g():\n    a = i\nassert a  # @hide\ny = 2", "def g():\n    yield 1\n    yield 2\n"
    )
    g = recording.call(f, "for i", "g")
    for frame, code in ((g, "yield 1"), (f, "a = i"), (f, "for i"), (g, "yield 2"), (f, "a = i")):
        recording.step(frame, code)
    recording.step(f, "assert a", claim=Claim("a", True, [("a", Value("int", 2))]))
    recording.step(f, "y = 2")
    return recording.trace()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("player")
    traces = {"played": played().trace(), "lecture": lecture().trace(), "hostile": hostile_trace()}
    render_site([SiteTrace(trace, name) for name, trace in (traces | {"resumed": resumed()}).items()], out)
    return out


@pytest.fixture
def page(browser: Any, site: Path) -> Path:
    """Open the page of the lecture to step through, without modes of another test."""
    path = site / "played" / "00-f.html"
    show(browser, path)
    browser.execute_script("sessionStorage.clear()")
    play(browser, path)
    return path


def step_number(browser: Any) -> int:
    return int(ask(browser, "document.getElementById('step-done').value"))


def visited(browser: Any, keys: str) -> list[int]:
    """Press keys one after another; return the step after each."""
    steps = []
    for key in keys:
        press(browser, key)
        steps.append(step_number(browser))
    return steps


def current_code(browser: Any) -> str:
    return str(ask(browser, "document.querySelector('.current code').textContent"))


def panel_is_hidden(browser: Any) -> bool:
    return bool(ask(browser, "document.getElementById('panel').hidden"))


def variables(browser: Any) -> dict[str, tuple[str, str]]:
    """Return the innermost call's variables in the panel: name → (class of the row, text)."""
    script = "[...document.querySelector('#panel section').querySelectorAll('.vars > tbody > tr')]"
    rows = ask(browser, f"{script}.map(row => [row.children[0].innerText, row.className, row.children[1].innerText])")
    return {name: (mark, text) for name, mark, text in rows}


def test_keys_step_into_over_back_and_out(browser: Any, page: Path) -> None:
    assert panel_is_hidden(browser)
    #                                          1  2  3  4 (calls) 5 6 (inside) 7 (out) 4 (over the call) 3  2
    assert visited(browser, "lljjllukhk") == [1, 2, 3, 4, 5, 6, 7, 4, 3, 2]
    press(browser, RIGHT + DOWN + RIGHT)
    assert (step_number(browser), current_code(browser)) == (5, "    double = 2 * n")
    for keys, step in (
        (LEFT + UP, 3),
        (DOWN + SHIFT + RIGHT + NULL, 7),  # over the call
        (SHIFT + LEFT + NULL, 4),
        (END, 13),
        ("jlu", 13),
        (HOME + "hk", 1),
    ):
        press(browser, keys)
        assert step_number(browser) == step
    assert ask(browser, "document.querySelectorAll('.current').length") == 1


def test_generators_are_stepped_over_and_hidden_lines_are_in_the_panel(browser: Any, site: Path) -> None:
    play(browser, site / "resumed" / "00-f.html")
    assert visited(browser, "jjjjjjkkkkk") == [1, 3, 4, 6, 7, 8, 7, 6, 4, 3, 1]
    press(browser, END + "k")
    shown = ask(browser, "panel.querySelector('.at').innerText")
    assert current_code(browser).strip() == "a = i" and "line 7" in shown and "assert a" in shown


def test_the_down_arrow_scrolls_before_stepping_starts(browser: Any, page: Path) -> None:
    play(browser, page, size=(1280, 300))
    press(browser, DOWN * 3)
    assert panel_is_hidden(browser) and step_number(browser) == 0
    until(lambda: ask(browser, "scrollY > 0"))


def test_buttons_clicks_and_addresses_move_the_player(browser: Any, page: Path) -> None:
    for button in ("step-on", "step-on", "step-back"):
        browser.find_element("id", button).click()
    assert (step_number(browser), browser.find_element("id", "step-now").text) == (1, "step 1 / 13")
    browser.find_element("css selector", ".current ~ .row .code code").click()
    assert (step_number(browser), current_code(browser)) == (2, "y = view(x)")
    for _ in range(2):  # this call executed the line once
        browser.find_element("css selector", "#call-2-L22 .code code").click()
        assert step_number(browser) == 5
    until(lambda: ask(browser, "location.hash === '#step-5'"))
    play(browser, page, at="#step-6")
    until(lambda: step_number(browser) == 6)
    assert current_code(browser) == "    return double"
    press(browser, "h")
    browser.execute_script("location.hash = '#L12'")
    until(lambda: step_number(browser) == 4)
    line = ask(browser, "document.querySelector('.row.current').id")
    play(browser, page, at=f"#{line}")
    assert panel_is_hidden(browser)  # a line's address does not open the panel
    press(browser, "l")
    assert step_number(browser) == 4
    link = "[...document.querySelectorAll('.seg a')][0]"
    browser.execute_script(f"{link}.addEventListener('click', e => e.preventDefault()); {link}.click()")
    assert ask(browser, f"{link}.hash") == "#step-4"  # another machine opens at this step


def test_the_panel_shows_variables_changes_and_aliased_writes(browser: Any, page: Path) -> None:
    press(browser, "ll")
    rows = variables(browser)
    assert rows["x"][0] == "" and rows["y"][0] == "new" and "storage A" in rows["x"][1] and "storage A" in rows["y"][1]
    press(browser, "l")
    rows = variables(browser)
    assert rows["y"][0] == "written" and "9." in rows["y"][1]
    assert rows["x"][0] == "alias" and "written through another name" in rows["x"][1]
    press(browser, "l")
    assert variables(browser)["total"] == ("new", "2\nnew")
    press(browser, "l")
    assert variables(browser) == {"n": ("new", "1\nnew"), "double": ("new", "2\nnew")}
    stack = ask(browser, "[...document.querySelectorAll('#panel section:not([hidden]) h3')].map(h => h.innerText)")
    assert stack == ["g call 1 of 2", "f at line 12"]
    outer = ask(browser, "document.querySelectorAll('#panel section')[1].innerText")
    assert "total" not in outer and "x" in outer  # the call has not returned
    live = "document.querySelector('[aria-live=polite]').textContent"
    until(lambda: ask(browser, live) == "Step 5 of 13, line 22, g. n: 1. double: 2.")
    assert ask(browser, "document.querySelector('[aria-current=step]').classList.contains('current')")
    press(browser, "ll")
    assert list(variables(browser)) == ["y"]  # @clear total x
    press(browser, "k")
    assert variables(browser)["total"][0] == "new"


def test_a_slider_moves_between_the_executions_of_a_line(browser: Any, site: Path) -> None:
    play(browser, site / "lecture" / "00-first.html")
    total = "[...document.querySelectorAll('.row')].find(r => r.innerText.includes('total = i * n'))"
    browser.execute_script(f"{total}.querySelector('code').click()")
    slider = browser.find_element("css selector", "#panel section:not([hidden]) input")
    assert (slider.get_attribute("value"), slider.get_attribute("max")) == ("1", "3")
    assert variables(browser)["total"][1].startswith("0")
    slider.send_keys(RIGHT)
    slider.send_keys(RIGHT)
    assert slider.get_attribute("value") == "3" and variables(browser)["total"] == ("changed", "6\nchanged")
    assert "execution 3 of 3" in browser.find_element("id", "panel").text
    assert ask(browser, "document.activeElement.type") == "range"
    number_before = step_number(browser)
    slider.send_keys("h")  # letters still step
    assert step_number(browser) == number_before - 1


@pytest.mark.slow
@pytest.mark.parametrize("size", [WIDE, (1000, 800), NARROW, (640, 400)])
def test_the_panel_never_covers_the_text(browser: Any, page: Path, size: tuple[int, int]) -> None:
    play(browser, page, size=size)
    for step in range(13):
        press(browser, "l")
        panel, text, line, bar, buttons = boxes(browser, "#panel, main, .current, .bar, #step-on", ordered=True)
        separate = panel["right"] <= text["left"] + 1 or panel["top"] >= text["bottom"] - 1
        assert separate, (step, panel, text)
        text_bottom = min(text["bottom"], size[1])
        assert bar["bottom"] - 1 <= line["top"] and line["bottom"] <= text_bottom + 1, (step, line)  # it is visible
        assert buttons["top"] >= 0 and buttons["right"] <= size[0]  # also reachable at 200% zoom
    assert ask(browser, "document.documentElement.scrollWidth") <= size[0]
    if size == WIDE:
        resize(browser, (390, 500))

        def is_visible() -> bool:
            line, text = boxes(browser, ".current, main", ordered=True)
            return line["top"] >= text["top"] and line["bottom"] <= text["bottom"] + 1

        until(is_visible)


def test_large_type_reveals_the_page_step_by_step(browser: Any, page: Path) -> None:
    visible = "[...document.querySelectorAll('main .row, main [id^=said-]')].filter(e => e.checkVisibility()).length"
    covered, bar = "document.querySelectorAll('.later').length", browser.find_element("css selector", ".bar")
    press(browser, "p")
    assert (
        ask(browser, covered) > 10 and not bar.is_displayed() and not browser.find_element("id", "panel").is_displayed()
    )
    counts, places = [ask(browser, visible)], dict[str, int]()
    for key in range(12):
        press(browser, RIGHT)
        counts.append(ask(browser, visible))
        assert ask(browser, "document.querySelector('.current').checkVisibility()")
        place = ask(browser, "document.querySelector('.current').id")
        assert places.setdefault(place, key) == key or next(reversed(places)) == place  # a loop's lines come once
    assert counts == sorted(counts) and counts[-1] > counts[0] + 5 and ask(browser, covered) == 0
    press(browser, HOME)
    assert ask(browser, covered) > 10
    press(browser, ESCAPE)
    assert ask(browser, covered) == 0 and bar.is_displayed()


def test_the_dialog_of_keys(browser: Any, page: Path) -> None:
    browser.find_element("id", "step-help").click()
    assert "out of this call" in browser.find_element("id", "keys").text
    press(browser, "l")  # the dialog receives the keys
    assert step_number(browser) == 0
    browser.find_element("id", "mode-letters").send_keys(ESCAPE)
    assert not ask(browser, "document.getElementById('keys').open")
    assert ask(browser, "document.activeElement.id") == "step-help"
    press(browser, "?")
    browser.find_element("id", "keys-close").click()
    assert not ask(browser, "document.getElementById('keys').open")


def test_the_panel_stands_where_the_contents_stood(browser: Any, page: Path) -> None:
    contents = browser.find_element("css selector", ".contents")
    assert contents.is_displayed()
    press(browser, "l")
    assert browser.find_element("id", "panel").is_displayed() and not contents.is_displayed()
    press(browser, ESCAPE)
    assert contents.is_displayed()
    press(browser, "E")
    assert browser.find_element("id", "panel").is_displayed() and step_number(browser) == 1


def test_stepping_through_a_hostile_trace_runs_no_code(browser: Any, site: Path) -> None:
    play(browser, site / "hostile" / "00-evil.html")
    press(browser, "llll")
    assert step_number(browser) == ask(browser, "document.getElementById('step-done').max")
    assert "<script>" in browser.find_element("id", "panel").text  # as text
    assert ask(browser, "window.pwned") is None and browser.get_log("browser") == []


# Each press is one key event, timed until its layout is done.
PRESSES = """
return [...Array(1000)].map(() => {
  const begun = performance.now();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: arguments[0], bubbles: true, cancelable: true }));
  document.body.getBoundingClientRect();
  return performance.now() - begun;
}).sort((a, b) => a - b)[500];
"""


@pytest.mark.slow
def test_each_key_press_steps_within_a_frame(browser: Any, tmp_path: Path) -> None:
    recording, f = of_section("for i in range(n):\n    w = update(w)")
    for _ in range(5_000):
        recording.step(f, "for i")
        recording.step(f, "w = update", values=[("w", matrix(2, 3))], host_ns=[1_000] * 3)
    render_site([SiteTrace(recording.trace(), "cpu")], tmp_path)
    play(browser, tmp_path / "cpu" / "00-f.html")
    elements = ask(browser, "document.querySelectorAll('*').length")
    browser.set_script_timeout(120)
    forward = browser.execute_script(PRESSES, "l")
    assert step_number(browser) == 1_000
    press(browser, END)
    back = browser.execute_script(PRESSES, "h")
    assert step_number(browser) == 10_000 - 1_000
    assert ask(browser, "document.querySelectorAll('*').length") < elements + 200 < 3_000  # only what is visible
    assert min(forward, back) <= 16  # milliseconds; the machine may be busy in one direction

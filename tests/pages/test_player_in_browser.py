"""The player as a reader uses it, in a real browser: keys, panel, address and modes."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, ask, press, show
from tests.pages.hostile import hostile_trace
from tests.pages.played import training
from tests.pages.recording import Recording
from tests.pages.test_compose import lecture
from tests.pages.test_player import played
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Claim, Note, Value

LEFT, UP, RIGHT, DOWN, ESCAPE, HOME, END = "\ue012", "\ue013", "\ue014", "\ue015", "\ue00c", "\ue011", "\ue010"
SHIFT, NULL = "\ue008", "\ue000"
STEPS = 10_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("player")
    with_note = lecture()
    first = next(event.frame for event in with_note.events if getattr(event, "function", "") == "first")
    with_note.step(first, "secret", narrative=[Note(text="Say it slowly.")])
    traces = {"played": played().trace(), "lecture": with_note.trace()}
    traces["hostile"] = hostile_trace()
    render_site([SiteTrace(trace, name) for name, trace in traces.items()], out)
    return out


def play(browser: Any, page: Path, at: str = "", **options: Any) -> None:
    """Open a page and wait until its player has read its steps."""
    show(browser, page, at=at, **options)
    browser.execute_script("sessionStorage.clear()")
    browser.implicitly_wait(5)
    browser.find_element("css selector", "#player:not([hidden])")
    browser.implicitly_wait(0)


def step_number(browser: Any) -> int:
    return int(ask(browser, "document.getElementById('step-done').value"))


def current_code(browser: Any) -> str:
    return str(ask(browser, "document.querySelector('.current code').textContent"))


def variables(browser: Any) -> dict[str, tuple[str, str]]:
    """Return the innermost call's variables in the panel: name → (class of the row, text)."""
    script = "[...document.querySelector('#panel section').querySelectorAll('.vars > tbody > tr')]"
    rows = ask(browser, f"{script}.map(row => [row.children[0].innerText, row.className, row.children[1].innerText])")
    return {name: (mark, text) for name, mark, text in rows}


def wait(browser: Any, script: str) -> None:
    """Wait until a JavaScript expression is true."""
    browser.set_script_timeout(5)
    browser.execute_async_script(
        f"const done = arguments[0], look = () => ({script}) ? done() : setTimeout(look, 20); look();"
    )


def test_keys_step_into_over_back_and_out(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
    assert ask(browser, "document.getElementById('panel').hidden")
    visited = []
    for key in ["l", "l", "j", "j", "l", "l", "u", "k", "h", "k"]:
        press(browser, key)
        visited.append(step_number(browser))
    #                  1  2  3  4 (calls) 5 6 (inside) 7 (out) 4 (over the call) 3  2
    assert visited == [1, 2, 3, 4, 5, 6, 7, 4, 3, 2]
    press(browser, RIGHT + DOWN + RIGHT)
    assert (step_number(browser), current_code(browser)) == (5, "    double = 2 * n")
    press(browser, LEFT + UP)
    assert step_number(browser) == 3
    press(browser, DOWN + SHIFT + RIGHT + NULL)
    assert step_number(browser) == 7  # steps over the call
    press(browser, SHIFT + LEFT + NULL)
    assert step_number(browser) == 4
    press(browser, END)
    assert step_number(browser) == 13
    press(browser, "jlu")
    assert step_number(browser) == 13
    press(browser, HOME + "hk")
    assert step_number(browser) == 1
    assert ask(browser, "document.querySelectorAll('.current').length") == 1


def test_a_resumed_generator_can_be_stepped_over(browser: Any, tmp_path: Path) -> None:
    loop = "    for i in g():\n        a = i\n"
    recording = Recording(f"def main():\n    f()\n\ndef f():\n{loop}\ndef g():\n    yield 1\n    yield 2\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    g = recording.call(f, "for i", "g")
    recording.step(g, "yield 1")
    recording.step(f, "a = i")
    recording.step(f, "for i")
    recording.step(g, "yield 2")  # in the frame that the first iteration opened
    recording.step(f, "a = i")
    render_site([SiteTrace(recording.trace(), "cpu")], tmp_path)
    play(browser, tmp_path / "cpu" / "00-f.html")
    visited = []
    for key in "jjjjkkk":
        press(browser, key)
        visited.append(step_number(browser))
    assert visited == [1, 3, 4, 6, 4, 3, 1]


def test_the_down_arrow_scrolls_before_stepping_starts(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html", size=(1280, 300))
    press(browser, DOWN * 3)
    assert ask(browser, "document.getElementById('panel').hidden") and step_number(browser) == 0
    wait(browser, "scrollY > 0")


def test_buttons_and_clicks_on_lines_move_the_player(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
    browser.find_element("id", "step-on").click()
    browser.find_element("id", "step-on").click()
    browser.find_element("id", "step-back").click()
    assert (step_number(browser), browser.find_element("id", "step-now").text) == (1, "step 1 / 13")
    browser.find_element("css selector", ".current ~ .row .code code").click()
    assert (step_number(browser), current_code(browser)) == (2, "y = view(x)")
    browser.find_element("css selector", "#call-2-L22 .code code").click()
    assert step_number(browser) == 5
    browser.find_element("css selector", "#call-2-L22 .code code").click()
    assert step_number(browser) == 5  # this call executed the line once


def test_the_address_stores_and_restores_the_step(browser: Any, site: Path) -> None:
    page = site / "played" / "00-f.html"
    play(browser, page)
    press(browser, "llll")
    wait(browser, "location.hash === '#step-4'")
    play(browser, page, at="#step-6")
    wait(browser, "document.getElementById('step-done').value === 6")
    assert current_code(browser) == "    return double"
    press(browser, "h")
    browser.execute_script("location.hash = '#L12'")
    wait(browser, "document.getElementById('step-done').value === 4")
    line = ask(browser, "document.querySelector('.row.current').id")
    play(browser, page, at=f"#{line}")
    assert ask(browser, "document.getElementById('panel').hidden")  # a line's address does not open the panel
    press(browser, "l")
    assert step_number(browser) == 4


def test_the_panel_shows_variables_changes_and_aliased_writes(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
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
def test_the_panel_never_covers_the_text(browser: Any, site: Path, size: tuple[int, int]) -> None:
    play(browser, site / "played" / "00-f.html", size=size)
    for step in range(13):
        press(browser, "l")
        panel, text, line, bar = (
            ask(browser, f"document.querySelector('{selector}').getBoundingClientRect().toJSON()")
            for selector in ("#panel", "main", ".current", ".bar")
        )
        separate = panel["right"] <= text["left"] + 1 or panel["top"] >= text["bottom"] - 1
        assert separate, (step, panel, text)
        text_bottom = min(text["bottom"], size[1])
        assert bar["bottom"] - 1 <= line["top"] and line["bottom"] <= text_bottom + 1, (step, line)  # it is visible
        panel_text = ask(browser, "document.getElementById('panel').innerText")
        assert re.match(r"line \d+", panel_text) and (
            "Called by" in panel_text or "The section's own function" in panel_text
        ), panel_text
        buttons = ask(browser, "document.getElementById('step-on').getBoundingClientRect().toJSON()")
        assert buttons["top"] >= 0 and buttons["right"] <= size[0]  # also reachable at 200% zoom
    assert ask(browser, "document.documentElement.scrollWidth") <= size[0]


def test_the_current_line_stays_visible_in_a_narrowed_window(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html", size=(1280, 500))
    press(browser, "l" + END)
    narrow = {"width": 390, "height": 500, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    box = "document.querySelector('{}').getBoundingClientRect()"
    current, text = box.format(".current"), box.format("main")
    visible = f"{current}.top >= {text}.top && {current}.bottom <= {text}.bottom + 1"
    deadline = time.monotonic() + 5
    while not ask(browser, visible):
        assert time.monotonic() < deadline, "the current line is not visible"


@pytest.mark.slow
def test_animate_mode_reveals_the_page_step_by_step(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
    visible = "[...document.querySelectorAll('main .row, main [id^=said-]')].filter(e => e.checkVisibility()).length"
    covered = "document.querySelectorAll('.later').length"
    press(browser, "A")
    assert ask(browser, covered) == 0  # nothing is covered before the first step
    counts = []
    while step_number(browser) < 13:
        press(browser, "l")
        counts.append((step_number(browser), ask(browser, visible)))
    assert counts[0][1] < counts[3][1] < counts[-1][1] and ask(browser, covered) == 0
    assert [count for _, count in counts] == sorted(count for _, count in counts)
    animated = [count for step, count in counts if step == 11]
    assert len(animated) == 2 and animated[1] == animated[0] + 1  # @animate shows its outputs one at a time
    press(browser, HOME)
    assert ask(browser, covered) > 10
    press(browser, ESCAPE)
    assert ask(browser, covered) == 0
    press(browser, "A")


def test_animate_stays_on_in_the_next_section(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
    press(browser, "A")
    browser.get((site / "lecture" / "00-first.html").as_uri())
    wait(browser, "document.getElementById('mode-animate').checked")
    press(browser, "A")


def test_the_help_dialog_lists_keys_and_returns_the_focus(browser: Any, site: Path) -> None:
    for _ in range(2):  # the second load has no modes of another test
        play(browser, site / "played" / "00-f.html")
    button = browser.find_element("id", "step-help")
    button.click()
    assert "out of this call" in browser.find_element("id", "keys").text
    press(browser, "l")  # the dialog receives the keys
    assert step_number(browser) == 0
    browser.find_element("id", "mode-animate").click()
    assert ask(browser, "sessionStorage.getItem('animate')") == "on"
    browser.find_element("id", "mode-animate").send_keys(ESCAPE)
    assert not ask(browser, "document.getElementById('keys').open")
    assert ask(browser, "document.activeElement.id") == "step-help"
    press(browser, "?")
    browser.find_element("id", "keys-close").click()
    assert not ask(browser, "document.getElementById('keys').open")
    press(browser, "A")


def test_screen_readers_announce_the_step_after_a_pause(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
    press(browser, "lllll")
    live = "document.querySelector('[aria-live=polite]').textContent"
    wait(browser, f"{live}.startsWith('Step 5 of 13, line 22, g.')")
    assert ask(browser, live) == "Step 5 of 13, line 22, g. n: 1. double: 2."
    assert ask(browser, "document.querySelector('[aria-current=step]').classList.contains('current')")


def test_contents_are_below_the_panel_and_visible_after_escape(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
    assert browser.find_element("css selector", ".contents").is_displayed()
    press(browser, "l")
    last = "[...document.querySelectorAll('#panel > :is(.at, section:not([hidden]))')].at(-1).getBoundingClientRect()"
    assert ask(browser, f"document.querySelector('#panel > .contents').getBoundingClientRect().top >= {last}.bottom")
    press(browser, ESCAPE)
    assert browser.find_element("css selector", ".contents").is_displayed()
    press(browser, "E")
    assert browser.find_element("id", "panel").is_displayed() and step_number(browser) == 1


def test_the_machine_switcher_keeps_the_step(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
    press(browser, "lll")
    link = "[...document.querySelectorAll('.seg a')][0]"
    browser.execute_script(f"{link}.addEventListener('click', e => e.preventDefault()); {link}.click()")
    assert ask(browser, f"{link}.hash") == "#step-3"


def test_pages_are_readable_without_javascript(browser: Any, site: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, site / "played" / "00-f.html")
        for selector in ("#player", "#panel", "#step-done", "dialog"):
            assert not browser.find_element("css selector", selector).is_displayed()
        assert "total = g(1)" in browser.find_element("css selector", "main").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_stepping_through_a_hostile_trace_runs_no_code(browser: Any, site: Path) -> None:
    play(browser, site / "hostile" / "00-evil.html")
    press(browser, "llll" + "QsAN")
    assert step_number(browser) == ask(browser, "document.getElementById('step-done').max")
    assert "<script>" in browser.find_element("id", "panel").text  # as text
    assert ask(browser, "window.pwned") is None and browser.get_log("browser") == []
    press(browser, "QAN")
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert all(url.startswith(("file:", "data:")) for url in urls)


# Each press is one key event, timed until its layout is done.
PRESSES = """
const times = [], body = document.body;
for (let press = 0; press < 1000; press++) {
  const begun = performance.now();
  body.dispatchEvent(new KeyboardEvent("keydown", { key: arguments[0], bubbles: true, cancelable: true }));
  body.getBoundingClientRect();
  times.push(performance.now() - begun);
}
return times.sort((a, b) => a - b);
"""


@pytest.mark.slow
def test_each_key_press_steps_within_a_frame(browser: Any, tmp_path: Path) -> None:
    render_site([SiteTrace(training(STEPS), "training")], tmp_path)
    play(browser, tmp_path / "training" / "00-train.html")
    elements = ask(browser, "document.querySelectorAll('*').length")
    assert elements < 3_000
    browser.set_script_timeout(120)  # the machine may be busy; the assertion below uses the faster direction
    forward = browser.execute_script(PRESSES, "l")
    assert step_number(browser) == 1_000
    press(browser, END)
    back = browser.execute_script(PRESSES, "h")
    assert step_number(browser) == ask(browser, "document.getElementById('step-done').max") - 1_000
    assert ask(browser, "document.querySelectorAll('*').length") < elements + 200  # the DOM holds visible values only
    assert min(times[950] for times in (forward, back)) <= 16  # milliseconds, p95
    wait(browser, "/^#step-/.test(location.hash)")
    assert browser.get_log("browser") == []


def test_hidden_steps_are_shown_at_the_previous_line(browser: Any, tmp_path: Path) -> None:
    code = 'def main():\n    f()\n\n\ndef f():\n    part()\n\n\ndef part():\n    """A part"""\n'
    recording = Recording(f"{code}    x = 1\n    assert x  # @hide\n    y = 2\n")
    part = recording.call(recording.call(recording.frame("main"), "f()", "f"), "part()", "part")
    recording.step(part, "x = 1")
    recording.step(part, "assert x", claim=Claim("x", True, [("x", Value("int", 1))]))
    recording.step(part, "y = 2")
    render_site([SiteTrace(recording.trace(), "cpu")], tmp_path)
    play(browser, tmp_path / "cpu" / "00-f.html")
    lines = []
    for _ in range(4):
        press(browser, "l")
        lines.append(
            ask(browser, "[document.querySelector('.current').innerText.trim(), panel.querySelector('.at').innerText]")
        )
    assert [line for line, _ in lines][1:] == ["x = 1", "x = 1", "y = 2"]
    assert "line 12" in lines[2][1] and "assert x" in lines[2][1]  # the panel shows the hidden line

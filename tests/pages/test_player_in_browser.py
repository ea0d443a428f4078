"""The player as a reader uses it: keys, panel, address and modes, in a real browser."""

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
    spoken = lecture()
    first = next(event.frame for event in spoken.events if getattr(event, "function", "") == "first")
    spoken.step(first, "secret", narrative=[Note(text="Say it slowly.")])
    traces = {"played": played().trace(), "lecture": spoken.trace()}
    traces["hostile"] = hostile_trace()
    render_site([SiteTrace(trace, name) for name, trace in traces.items()], out)
    return out


def play(browser: Any, page: Path, at: str = "", **how: Any) -> None:
    """Open a page and wait until its player has read its steps."""
    show(browser, page, at=at, **how)
    browser.execute_script("sessionStorage.clear()")
    browser.implicitly_wait(5)
    browser.find_element("css selector", "#player:not([hidden])")
    browser.implicitly_wait(0)


def now(browser: Any) -> int:
    return int(ask(browser, "document.getElementById('step-done').value"))


def current(browser: Any) -> str:
    return str(ask(browser, "document.querySelector('.current code').textContent"))


def variables(browser: Any) -> dict[str, tuple[str, str]]:
    """Return what the panel says of the innermost call: name → (how the row is marked, text)."""
    script = "[...document.querySelector('#panel section').querySelectorAll('.vars > tbody > tr')]"
    rows = ask(browser, f"{script}.map(row => [row.children[0].innerText, row.className, row.children[1].innerText])")
    return {name: (mark, text) for name, mark, text in rows}


def wait(browser: Any, script: str) -> None:
    """Wait until something is so in the page."""
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
        visited.append(now(browser))
    #                  1  2  3  4 (calls) 5 6 (inside) 7 (out) 4 (over the call) 3  2
    assert visited == [1, 2, 3, 4, 5, 6, 7, 4, 3, 2]
    press(browser, RIGHT + DOWN + RIGHT)
    assert (now(browser), current(browser)) == (5, "    double = 2 * n")
    press(browser, LEFT + UP)
    assert now(browser) == 3
    press(browser, DOWN + SHIFT + RIGHT + NULL)
    assert now(browser) == 7  # over
    press(browser, SHIFT + LEFT + NULL)
    assert now(browser) == 4
    press(browser, END)
    assert now(browser) == 13
    press(browser, "jlu")
    assert now(browser) == 13
    press(browser, HOME + "hk")
    assert now(browser) == 1
    assert ask(browser, "document.querySelectorAll('.current').length") == 1


def test_a_generator_that_goes_on_is_stepped_over_too(browser: Any, tmp_path: Path) -> None:
    loop = "    for i in g():\n        a = i\n"
    made = Recording(f"def main():\n    f()\n\ndef f():\n{loop}\ndef g():\n    yield 1\n    yield 2\n")
    f = made.call(made.frame("main"), "f()", "f")
    g = made.call(f, "for i", "g")
    made.step(g, "yield 1")
    made.step(f, "a = i")
    made.step(f, "for i")
    made.step(g, "yield 2")  # in the frame that the first evaluation opened
    made.step(f, "a = i")
    render_site([SiteTrace(made.trace(), "cpu")], tmp_path)
    play(browser, tmp_path / "cpu" / "00-f.html")
    visited = []
    for key in "jjjjkkk":
        press(browser, key)
        visited.append(now(browser))
    assert visited == [1, 3, 4, 6, 4, 3, 1]


def test_a_page_that_is_read_scrolls(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html", size=(1280, 300))
    press(browser, DOWN * 3)
    assert ask(browser, "document.getElementById('panel').hidden") and now(browser) == 0
    wait(browser, "scrollY > 0")


def test_the_buttons_and_a_click_on_a_line_step_too(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
    browser.find_element("id", "step-on").click()
    browser.find_element("id", "step-on").click()
    browser.find_element("id", "step-back").click()
    assert (now(browser), browser.find_element("id", "step-now").text) == (1, "step 1 / 13")
    browser.find_element("css selector", ".current ~ .row .code code").click()
    assert (now(browser), current(browser)) == (2, "y = view(x)")
    browser.find_element("css selector", "#call-2-L22 .code code").click()
    assert now(browser) == 5
    browser.find_element("css selector", "#call-2-L22 .code code").click()
    assert now(browser) == 5  # this call executed it once


def test_the_address_holds_the_step_and_opens_there(browser: Any, site: Path) -> None:
    page = site / "played" / "00-f.html"
    play(browser, page)
    press(browser, "llll")
    wait(browser, "location.hash === '#step-4'")
    play(browser, page, at="#step-6")
    wait(browser, "document.getElementById('step-done').value === 6")
    assert current(browser) == "    return double"
    press(browser, "h")
    browser.execute_script("location.hash = '#L12'")
    wait(browser, "document.getElementById('step-done').value === 4")
    line = ask(browser, "document.querySelector('.row.current').id")
    play(browser, page, at=f"#{line}")
    assert ask(browser, "document.getElementById('panel').hidden")  # an address of a line is for reading
    press(browser, "l")
    assert now(browser) == 4


def test_the_panel_tells_what_is_known_what_changed_and_what_a_write_reached(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
    press(browser, "ll")
    told = variables(browser)
    assert told["x"][0] == "" and told["y"][0] == "new" and "storage A" in told["x"][1] and "storage A" in told["y"][1]
    press(browser, "l")
    told = variables(browser)
    assert told["y"][0] == "written" and "9." in told["y"][1]
    assert told["x"][0] == "alias" and "written through another name" in told["x"][1]
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
    at = now(browser)
    slider.send_keys("h")  # letters still step
    assert now(browser) == at - 1


@pytest.mark.slow
@pytest.mark.parametrize("size", [WIDE, (1000, 800), NARROW, (640, 400)])
def test_the_panel_stands_beside_the_text_and_never_over_it(browser: Any, site: Path, size: tuple[int, int]) -> None:
    play(browser, site / "played" / "00-f.html", size=size)
    for step in range(13):
        press(browser, "l")
        panel, text, at, bar = (
            ask(browser, f"document.querySelector('{selector}').getBoundingClientRect().toJSON()")
            for selector in ("#panel", "main", ".current", ".bar")
        )
        apart = panel["right"] <= text["left"] + 1 or panel["top"] >= text["bottom"] - 1
        assert apart, (step, panel, text)
        floor = min(text["bottom"], size[1])
        assert bar["bottom"] - 1 <= at["top"] and at["bottom"] <= floor + 1, (step, at)  # the line is in sight
        said = ask(browser, "document.getElementById('panel').innerText")
        assert re.match(r"line \d+", said) and ("Called by" in said or "The section's own function" in said), said
        buttons = ask(browser, "document.getElementById('step-on').getBoundingClientRect().toJSON()")
        assert buttons["top"] >= 0 and buttons["right"] <= size[0]  # reachable at 200% zoom, too
    assert ask(browser, "document.documentElement.scrollWidth") <= size[0]


def test_the_line_stays_in_sight_when_the_window_becomes_narrow(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html", size=(1280, 500))
    press(browser, "l" + END)
    narrow = {"width": 390, "height": 500, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    box = "document.querySelector('{}').getBoundingClientRect()"
    current, text = box.format(".current"), box.format("main")
    seen = f"{current}.top >= {text}.top && {current}.bottom <= {text}.bottom + 1"
    until = time.monotonic() + 5
    while not ask(browser, seen):
        assert time.monotonic() < until, "the current line is out of sight"


def test_animate_reveals_the_page_as_it_goes(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
    seen = "[...document.querySelectorAll('main .row, main [id^=said-]')].filter(e => e.checkVisibility()).length"
    covered = "document.querySelectorAll('.later').length"
    press(browser, "A")
    assert ask(browser, covered) == 0  # nothing is covered before the first step
    counts = []
    while now(browser) < 13:
        press(browser, "l")
        counts.append((now(browser), ask(browser, seen)))
    assert counts[0][1] < counts[3][1] < counts[-1][1] and ask(browser, covered) == 0
    assert [count for _, count in counts] == sorted(count for _, count in counts)
    said = [count for step, count in counts if step == 11]
    assert len(said) == 2 and said[1] == said[0] + 1  # @animate: its outputs one at a time
    press(browser, HOME)
    assert ask(browser, covered) > 10
    press(browser, ESCAPE)
    assert ask(browser, covered) == 0
    press(browser, "A")


def test_notes_are_shown_to_the_presenter(browser: Any, site: Path) -> None:
    play(browser, site / "lecture" / "00-first.html")
    assert not browser.find_element("css selector", ".note .prose").is_displayed()
    press(browser, "N")
    assert browser.find_element("css selector", ".note .prose").is_displayed()
    press(browser, "N")
    assert not browser.find_element("css selector", ".note .prose").is_displayed()


def test_modes_stay_on_in_the_next_section(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
    press(browser, "N")
    browser.get((site / "lecture" / "00-first.html").as_uri())
    wait(browser, "document.querySelector('.note').open")
    press(browser, "N")


def test_the_keys_are_explained_and_the_dialog_gives_the_focus_back(browser: Any, site: Path) -> None:
    for _ in range(2):  # once more, without what another test left on
        play(browser, site / "played" / "00-f.html")
    button = browser.find_element("id", "step-help")
    button.click()
    assert "out of this call" in browser.find_element("id", "keys").text
    press(browser, "l")  # the dialog has the keys
    assert now(browser) == 0
    browser.find_element("id", "mode-animate").click()
    assert ask(browser, "sessionStorage.getItem('modes')") == "animate"
    browser.find_element("id", "mode-animate").send_keys(ESCAPE)
    assert not ask(browser, "document.getElementById('keys').open")
    assert ask(browser, "document.activeElement.id") == "step-help"
    press(browser, "?")
    browser.find_element("id", "keys-close").click()
    assert not ask(browser, "document.getElementById('keys').open")
    press(browser, "A")


def test_a_step_is_read_aloud_once_the_keys_rest(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
    press(browser, "lllll")
    live = "document.querySelector('[aria-live=polite]').textContent"
    wait(browser, f"{live}.startsWith('Step 5 of 13, line 22, g.')")
    assert ask(browser, live) == "Step 5 of 13, line 22, g. n: 1. double: 2."
    assert ask(browser, "document.querySelector('[aria-current=step]').classList.contains('current')")


def test_the_contents_stay_below_the_panel_and_escape_gives_them_back(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
    assert browser.find_element("css selector", ".contents").is_displayed()
    press(browser, "l")
    last = "[...document.querySelectorAll('#panel > :is(.at, section:not([hidden]))')].at(-1).getBoundingClientRect()"
    assert ask(browser, f"document.querySelector('#panel > .contents').getBoundingClientRect().top >= {last}.bottom")
    press(browser, ESCAPE)
    assert browser.find_element("css selector", ".contents").is_displayed()
    press(browser, "E")
    assert browser.find_element("id", "panel").is_displayed() and now(browser) == 1


def test_the_machine_switcher_keeps_the_step(browser: Any, site: Path) -> None:
    play(browser, site / "played" / "00-f.html")
    press(browser, "lll")
    link = "[...document.querySelectorAll('.seg a')][0]"
    browser.execute_script(f"{link}.addEventListener('click', e => e.preventDefault()); {link}.click()")
    assert ask(browser, f"{link}.hash") == "#step-3"


def test_without_javascript_the_page_reads_as_ever(browser: Any, site: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, site / "played" / "00-f.html")
        for selector in ("#player", "#panel", "#step-done", "dialog"):
            assert not browser.find_element("css selector", selector).is_displayed()
        assert "total = g(1)" in browser.find_element("css selector", "main").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_nothing_from_a_trace_runs_when_it_is_stepped_through(browser: Any, site: Path) -> None:
    play(browser, site / "hostile" / "00-evil.html")
    press(browser, "llll" + "QsAN")
    assert now(browser) == ask(browser, "document.getElementById('step-done').max")
    assert "<script>" in browser.find_element("id", "panel").text  # as text
    assert ask(browser, "window.pwned") is None and browser.get_log("browser") == []
    press(browser, "QAN")
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert all(url.startswith(("file:", "data:")) for url in asked)


# Each press is a key event of its own, timed until its layout is done.
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
def test_a_thousand_presses_are_a_thousand_steps_within_a_frame_each(browser: Any, tmp_path: Path) -> None:
    render_site([SiteTrace(training(STEPS), "training")], tmp_path)
    play(browser, tmp_path / "training" / "00-train.html")
    elements = ask(browser, "document.querySelectorAll('*').length")
    assert elements < 3_000
    browser.set_script_timeout(120)  # what a frame has to do is judged below, at the quickest; the machine may be busy
    forward = browser.execute_script(PRESSES, "l")
    assert now(browser) == 1_000
    press(browser, END)
    back = browser.execute_script(PRESSES, "h")
    assert now(browser) == ask(browser, "document.getElementById('step-done').max") - 1_000
    assert ask(browser, "document.querySelectorAll('*').length") < elements + 200  # the DOM holds visible values only
    assert min(times[950] for times in (forward, back)) <= 16  # milliseconds, p95
    wait(browser, "/^#step-/.test(location.hash)")
    assert browser.get_log("browser") == []


def test_what_is_hidden_is_stepped_through_at_the_line_before_it(browser: Any, tmp_path: Path) -> None:
    code = 'def main():\n    f()\n\n\ndef f():\n    part()\n\n\ndef part():\n    """A part"""\n'
    made = Recording(f"{code}    x = 1\n    assert x  # @hide\n    y = 2\n")
    part = made.call(made.call(made.frame("main"), "f()", "f"), "part()", "part")
    made.step(part, "x = 1")
    made.step(part, "assert x", claim=Claim("x", True, [("x", Value("int", 1))]))
    made.step(part, "y = 2")
    render_site([SiteTrace(made.trace(), "cpu")], tmp_path)
    play(browser, tmp_path / "cpu" / "00-f.html")
    seen = []
    for _ in range(4):
        press(browser, "l")
        seen.append(
            ask(browser, "[document.querySelector('.current').innerText.trim(), panel.querySelector('.at').innerText]")
        )
    assert [at for at, _ in seen][1:] == ["x = 1", "x = 1", "y = 2"]
    assert "line 12" in seen[2][1] and "assert x" in seen[2][1]  # the panel tells what the page does not show

"""Figures that answer back, as a reader uses them: keyboard, mouse, touch, the address, print, and without a script."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, ask, drag, forget, press, show, until
from tests.pages.explored import GPUS, explored_lecture, holding, training
from trace_tools.pages import explorations
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Result

RIGHT, LEFT, END, ESCAPE, CONTROL = "\ue014", "\ue012", "\ue010", "\ue00c", "\ue009"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("explored")
    render_site([SiteTrace(explored_lecture(), "here", None)], out)
    return out / "here" / "00-f.html"


@pytest.fixture
def opened(browser: Any, page: Path) -> Any:
    show(browser, page)
    browser.execute_script("sessionStorage.clear()")
    forget(browser)
    return browser


def says(browser: Any, figure: int = 0) -> str:
    return str(ask(browser, f"document.querySelectorAll('.explore .answer')[{figure}].innerText"))


def days(parameters: float = 70e9, gpus: float = 1024, mfu: float = 0.5, peak: float = 1e15) -> str:
    return explorations.shown(Result("days", "days", training(parameters, gpus, mfu, peak)["days"], "days"), False)


def field(browser: Any, label: str, figure: int = 0, kind: str = "text") -> Any:
    box = browser.find_elements("css selector", ".explore")[figure]
    for control in box.find_elements("css selector", ".control"):
        if control.find_element("css selector", "label").get_attribute("textContent") == label:
            return control.find_element("css selector", "select" if kind == "select" else f"input[type={kind}]")
    raise AssertionError(label)


def type_in(browser: Any, label: str, text: str, figure: int = 0) -> Any:
    found = field(browser, label, figure)
    found.send_keys(f"{CONTROL}a{CONTROL}", text)
    return found


def test_at_first_it_says_what_the_lecture_does(opened: Any) -> None:
    assert says(opened) == f"It takes {days()} on 1024 H100s, which is quick."
    assert days() == "9.494 days" and says(opened, 1) == "88% of the memory."
    assert [entry for entry in opened.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_it_answers_on_the_first_page_too(browser: Any, tmp_path: Path) -> None:
    render_site([SiteTrace(explored_lecture(), "here", None)], tmp_path)
    show(browser, tmp_path / "index.html")
    assert says(browser) == f"It takes {days()} on 1024 H100s, which is quick."
    type_in(browser, "MFU", "0.25")
    assert says(browser).startswith(f"It takes {days(mfu=0.25)} on ")
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.parametrize(
    ("label", "typed", "changed"),
    [
        ("parameters", "700B", {"parameters": 700e9}),
        ("parameters", "8,000,000,000", {"parameters": 8e9}),
        ("parameters", "1.5e9", {"parameters": 1.5e9}),
        ("MFU", "40 %", {"mfu": 0.4}),
        ("GPUs", "2,048", {"gpus": 2048}),
    ],
)
def test_what_is_typed_counts(opened: Any, label: str, typed: str, changed: dict[str, float]) -> None:
    type_in(opened, label, typed)
    assert says(opened).startswith(f"It takes {days(**changed)} on ")
    table = ask(opened, "document.querySelector('.explore .found').innerText")
    assert days(**changed).removesuffix(" days") in table and " days" not in table  # each unit once


def test_the_curves_are_named_at_their_ends(opened: Any) -> None:
    words = ask(
        opened, "[...document.querySelector('.explore svg').querySelectorAll('text')].map(it => it.textContent)"
    )
    assert {"H100", "A100 <b>"} <= {*words}


@pytest.mark.parametrize(("label", "typed"), [("GPUs", "1.5"), ("GPUs", "0"), ("MFU", "2"), ("MFU", "many")])
def test_what_can_not_be_is_said(opened: Any, label: str, typed: str) -> None:
    found = type_in(opened, label, typed)
    assert found.get_attribute("aria-invalid") == "true"
    described = ask(opened, "document.getElementById(arguments[0]).innerText", found.get_attribute("aria-describedby"))
    assert " to " in described and says(opened).startswith("It takes ")
    type_in(opened, label, "1")
    assert found.get_attribute("aria-invalid") == "false"


def test_arrow_keys_move_a_slider_and_the_point_and_not_the_page(opened: Any) -> None:
    opened.implicitly_wait(5)
    opened.find_element("css selector", "#player:not([hidden])")
    opened.implicitly_wait(0)
    slider = field(opened, "GPUs", kind="range")
    for _ in range(3):
        slider.send_keys(LEFT)
    fewer = float(
        ask(opened, "parsed(document.getElementById(arguments[0]).value)", field(opened, "GPUs").get_attribute("id"))
    )
    assert fewer < 1024 and says(opened).startswith(f"It takes {days(gpus=fewer)} on ")
    point = opened.find_element("css selector", ".explore .point")
    point.send_keys(RIGHT)
    mfu = float(point.get_attribute("aria-valuenow"))
    assert 0.5 < mfu < 0.55 and says(opened).startswith(f"It takes {days(gpus=fewer, mfu=mfu)} on ")
    point.send_keys(END)
    assert point.get_attribute("aria-valuenow") == "1" and "1: " in point.get_attribute("aria-valuetext")
    assert ask(opened, "document.activeElement.className") == "point"
    assert ask(opened, "document.getElementById('panel').hidden")


def test_a_slider_of_whole_numbers_gets_on_from_small_ones(opened: Any) -> None:
    type_in(opened, "GPUs", "1")
    slider = field(opened, "GPUs", kind="range")
    seen = []
    for _ in range(4):
        slider.send_keys(RIGHT)
        seen.append(field(opened, "GPUs").get_attribute("value"))
    assert seen == ["2", "3", "4", "5"]


def test_the_point_is_dragged_by_a_mouse(opened: Any) -> None:
    point = opened.find_element("css selector", ".explore .point")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", point)
    before = float(point.get_attribute("aria-valuenow"))
    drag(opened, point, 100, 30)
    after = float(point.get_attribute("aria-valuenow"))
    assert before < after < 1 and says(opened).startswith(f"It takes {days(mfu=after)} on ")


def test_the_point_is_dragged_by_a_finger_and_the_page_is_not_turned(browser: Any, page: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        show(browser, page, NARROW)
        point = browser.find_element("css selector", ".explore .point")
        browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", point)
        box = ask(browser, "arguments[0].getBoundingClientRect().toJSON()", point)
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for kind, points in [("touchStart", [0]), ("touchMove", [-20]), ("touchMove", [-60]), ("touchEnd", [])]:
            touches = [{"x": x + by, "y": y} for by in points]
            browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches})
        after = float(point.get_attribute("aria-valuenow"))
        assert 0.05 < after < 0.45 and says(browser).startswith(f"It takes {days(mfu=after)} on ")
        assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    finally:
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_an_address_brings_a_reader_back(opened: Any, page: Path) -> None:
    length = ask(opened, "history.length")
    type_in(opened, "parameters", "123456789")
    field(opened, "GPU", kind="select").send_keys("A")
    text = says(opened)
    assert days(123456789, peak=312e12) in text and "A100 <b>s" in text
    until(lambda: "A100" in ask(opened, "location.hash"))
    address = ask(opened, "location.hash")
    assert ask(opened, "history.length") == length
    show(opened, page, at=address)
    assert says(opened) == text and says(opened, 1) == "88% of the memory."
    until(lambda: abs(ask(opened, "document.querySelector('.explore').getBoundingClientRect().top")) < 100)
    opened.find_element("css selector", ".explore .buttons button:last-of-type").click()
    assert says(opened) == f"It takes {days()} on 1024 H100s, which is quick."
    until(lambda: ask(opened, "location.hash") == "#training?")


def test_a_readers_own_machine_is_in_the_address(opened: Any, page: Path) -> None:
    select = field(opened, "GPU", figure=1, kind="select")
    select.send_keys("custom")
    type_in(opened, "memory", "128 GB", figure=1)
    expected = explorations.shown(Result("", "", holding(7, 8, 0, 128e9)["share"], "%"), True)
    assert says(opened, 1) == f"{expected} of the memory."
    until(lambda: "memory=128000000000" in ask(opened, "location.hash"))
    show(opened, page, at=ask(opened, "location.hash"))
    assert says(opened, 1) == f"{expected} of the memory." and says(opened).endswith("which is quick.")
    assert field(opened, "memory", figure=1).get_attribute("value") == "128 G"


@pytest.mark.parametrize(
    "at",
    ["#training?gpus=0&mfu=x&GPU=none&parameters=", "#training?gpus=1e999&__proto__=1", "#training?%", "#none?a=1"],
)
def test_what_an_address_has_that_can_not_be_is_passed_over(browser: Any, page: Path, at: str) -> None:
    show(browser, page, at=at)
    assert says(browser) == f"It takes {days()} on 1024 H100s, which is quick."


def test_anchors_of_the_page_still_lead_to_their_places(opened: Any) -> None:
    opened.execute_script("location.hash = '#after'")
    until(lambda: abs(ask(opened, "document.getElementById('after').getBoundingClientRect().top")) < 900)
    assert says(opened).endswith("which is quick.")


def test_too_much_is_said_beside_its_bar(opened: Any) -> None:
    type_in(opened, "billions", "70", figure=1)
    bars = opened.find_elements("css selector", ".explore .stage svg")[1]
    assert bars.get_attribute("aria-label") == "none: 700 GB; all: 87.5 GB. The limit is 80 GB"
    assert opened.execute_script("return arguments[0].querySelectorAll('text.over').length", bars) == 2


def test_without_a_script_there_is_the_table_and_no_dead_control(browser: Any, page: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, page)
        assert browser.find_elements("css selector", ".explore :is(input, select, button)") == []
        text = browser.find_element("css selector", ".explore").text
        assert days() in text and "Given" in text and "7e10" in text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_what_is_set_is_printed(opened: Any) -> None:
    type_in(opened, "GPUs", "2048")
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    text = opened.find_element("css selector", ".explore").text
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert days(gpus=2048) in text and "Given" in text and "2048" in text and "Reset to" not in text


def test_the_lecture_hall_stays_where_it_is_while_numbers_are_set(browser: Any, page: Path) -> None:
    show(browser, page, at="#hall-1")
    until(lambda: bool(ask(browser, "document.getElementById('hall') !== null")))
    while not ask(browser, "document.querySelector('.explore.now') !== null"):
        press(browser, RIGHT)
    point = browser.find_element("css selector", ".explore.now .point")
    point.send_keys(RIGHT, RIGHT)
    type_in(browser, "GPUs", "512")
    assert days(gpus=512, mfu=float(point.get_attribute("aria-valuenow"))) in says(browser)
    time.sleep(0.5)  # longer than it takes to write an address
    assert ask(browser, "location.hash").startswith("#hall")
    browser.execute_script("document.activeElement.blur()")
    press(browser, RIGHT)
    assert not ask(browser, "document.querySelectorAll('.explore')[0].classList.contains('now')")
    press(browser, ESCAPE)


@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out(browser: Any, page: Path, size: tuple[int, int], scheme: str) -> None:
    show(browser, page, size, scheme)
    assert ask(browser, "document.documentElement.scrollWidth") <= size[0]
    assert len(GPUS) == 2 and ask(browser, "document.querySelectorAll('.explore path.other').length") == 1

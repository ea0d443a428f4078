"""Calculators (calls of `explore`) by keyboard, mouse, touch and address, on paper, and without scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, ask, drag, forget, show, until
from tests.pages.explored import GPUS, explored_lecture, holding, training
from trace_tools.pages import explorations
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.explorations import Result

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


def answer(browser: Any, figure: int = 0) -> str:
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
    control = field(browser, label, figure)
    control.send_keys(f"{CONTROL}a{CONTROL}", text)
    return control


def test_a_calculator_starts_with_the_lectures_inputs(opened: Any) -> None:
    assert answer(opened) == f"It takes {days()} on 1024 H100s, which is quick."
    assert days() == "9.494 days" and answer(opened, 1) == "88% of the memory."
    assert [entry for entry in opened.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_a_calculator_works_on_the_first_page(browser: Any, tmp_path: Path) -> None:
    render_site([SiteTrace(explored_lecture(), "here", None)], tmp_path)
    show(browser, tmp_path / "index.html")
    assert answer(browser) == f"It takes {days()} on 1024 H100s, which is quick."
    type_in(browser, "MFU", "0.25")
    assert answer(browser).startswith(f"It takes {days(mfu=0.25)} on ")
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
def test_typed_inputs_change_the_answer(opened: Any, label: str, typed: str, changed: dict[str, float]) -> None:
    type_in(opened, label, typed)
    assert answer(opened).startswith(f"It takes {days(**changed)} on ")
    table = ask(opened, "document.querySelector('.explore .found').innerText")
    assert days(**changed).removesuffix(" days") in table and " days" not in table  # units are not repeated


def test_curves_are_labelled(opened: Any) -> None:
    labels = ask(
        opened, "[...document.querySelector('.explore svg').querySelectorAll('text')].map(it => it.textContent)"
    )
    assert {"H100", "A100 <b>"} <= {*labels}


@pytest.mark.parametrize(("label", "typed"), [("GPUs", "1.5"), ("GPUs", "0"), ("MFU", "2"), ("MFU", "many")])
def test_invalid_inputs_are_reported(opened: Any, label: str, typed: str) -> None:
    control = type_in(opened, label, typed)
    assert control.get_attribute("aria-invalid") == "true"
    description = ask(
        opened, "document.getElementById(arguments[0]).innerText", control.get_attribute("aria-describedby")
    )
    assert " to " in description and answer(opened).startswith("It takes ")
    type_in(opened, label, "1")
    assert control.get_attribute("aria-invalid") == "false"


def test_arrow_keys_move_the_slider_or_the_point(opened: Any) -> None:
    opened.implicitly_wait(5)
    opened.find_element("css selector", "#player:not([hidden])")
    opened.implicitly_wait(0)
    slider = field(opened, "GPUs", kind="range")
    for _ in range(3):
        slider.send_keys(LEFT)
    fewer = float(
        ask(
            opened,
            "page.parsed(document.getElementById(arguments[0]).value)",
            field(opened, "GPUs").get_attribute("id"),
        )
    )
    assert fewer < 1024 and answer(opened).startswith(f"It takes {days(gpus=fewer)} on ")
    point = opened.find_element("css selector", ".explore .point")
    point.send_keys(RIGHT)
    mfu = float(point.get_attribute("aria-valuenow"))
    assert 0.5 < mfu < 0.55 and answer(opened).startswith(f"It takes {days(gpus=fewer, mfu=mfu)} on ")
    point.send_keys(END)
    assert point.get_attribute("aria-valuenow") == "1" and "1: " in point.get_attribute("aria-valuetext")
    assert ask(opened, "document.activeElement.className") == "point"
    assert ask(opened, "document.getElementById('panel').hidden")


def test_a_slider_of_whole_numbers_advances_by_one(opened: Any) -> None:
    type_in(opened, "GPUs", "1")
    slider = field(opened, "GPUs", kind="range")
    values = []
    for _ in range(4):
        slider.send_keys(RIGHT)
        values.append(field(opened, "GPUs").get_attribute("value"))
    assert values == ["2", "3", "4", "5"]


def test_the_mouse_drags_the_point(opened: Any) -> None:
    point = opened.find_element("css selector", ".explore .point")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", point)
    before = float(point.get_attribute("aria-valuenow"))
    drag(opened, point, 100, 30)
    after = float(point.get_attribute("aria-valuenow"))
    assert before < after < 1 and answer(opened).startswith(f"It takes {days(mfu=after)} on ")


def test_a_finger_drags_the_point(browser: Any, page: Path) -> None:
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
        assert 0.05 < after < 0.45 and answer(browser).startswith(f"It takes {days(mfu=after)} on ")
        assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    finally:
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_an_address_restores_the_inputs(opened: Any, page: Path) -> None:
    length = ask(opened, "history.length")
    type_in(opened, "parameters", "123456789")
    field(opened, "GPU", kind="select").send_keys("A")
    text = answer(opened)
    assert days(123456789, peak=312e12) in text and "A100 <b>s" in text
    until(lambda: "A100" in ask(opened, "location.hash"))
    address = ask(opened, "location.hash")
    assert ask(opened, "history.length") == length
    show(opened, page, at=address)
    assert answer(opened) == text and answer(opened, 1) == "88% of the memory."
    until(lambda: abs(ask(opened, "document.querySelector('.explore').getBoundingClientRect().top")) < 100)
    opened.find_element("css selector", ".explore .buttons button:last-of-type").click()
    assert answer(opened) == f"It takes {days()} on 1024 H100s, which is quick."
    until(lambda: ask(opened, "location.hash") == "#training?")


def test_a_custom_machine_is_in_the_address(opened: Any, page: Path) -> None:
    select = field(opened, "GPU", figure=1, kind="select")
    select.send_keys("custom")
    type_in(opened, "memory", "128 GB", figure=1)
    expected = explorations.shown(Result("", "", holding(7, 8, 0, 128e9)["share"], "%"), True)
    assert answer(opened, 1) == f"{expected} of the memory."
    until(lambda: "memory=128000000000" in ask(opened, "location.hash"))
    show(opened, page, at=ask(opened, "location.hash"))
    assert answer(opened, 1) == f"{expected} of the memory." and answer(opened).endswith("which is quick.")
    assert field(opened, "memory", figure=1).get_attribute("value") == "128 G"


@pytest.mark.parametrize(
    "at",
    ["#training?gpus=0&mfu=x&GPU=none&parameters=", "#training?gpus=1e999&__proto__=1", "#training?%", "#none?a=1"],
)
def test_invalid_inputs_in_an_address_are_ignored(browser: Any, page: Path, at: str) -> None:
    show(browser, page, at=at)
    assert answer(browser) == f"It takes {days()} on 1024 H100s, which is quick."


def test_other_anchors_of_the_page_still_work(opened: Any) -> None:
    opened.execute_script("location.hash = '#after'")
    until(lambda: abs(ask(opened, "document.getElementById('after').getBoundingClientRect().top")) < 900)
    assert answer(opened).endswith("which is quick.")


def test_bars_above_the_limit_are_labelled(opened: Any) -> None:
    type_in(opened, "billions", "70", figure=1)
    bars = opened.find_elements("css selector", ".explore .stage svg")[1]
    assert bars.get_attribute("aria-label") == "none: 700 GB; all: 87.5 GB. The limit is 80 GB"
    assert opened.execute_script("return arguments[0].querySelectorAll('text.over').length", bars) == 2


def test_without_scripts_there_is_a_table_without_controls(browser: Any, page: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, page)
        assert browser.find_elements("css selector", ".explore :is(input, select, button)") == []
        text = browser.find_element("css selector", ".explore").text
        assert days() in text and "Given" in text and "7e10" in text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_print_shows_the_current_inputs(opened: Any) -> None:
    type_in(opened, "GPUs", "2048")
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    text = opened.find_element("css selector", ".explore").text
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert days(gpus=2048) in text and "Given" in text and "2048" in text and "Reset to" not in text


@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_calculators_fit_the_width_of_the_page(browser: Any, page: Path, size: tuple[int, int], scheme: str) -> None:
    show(browser, page, size, scheme)
    assert ask(browser, "document.documentElement.scrollWidth") <= size[0]
    assert len(GPUS) == 2 and ask(browser, "document.querySelectorAll('.explore path.other').length") == 1

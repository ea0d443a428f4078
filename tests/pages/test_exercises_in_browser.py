"""Questions and calculators (calls of `explore`) by keyboard, mouse, touch and address, on paper, without scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import WIDE, ask, drag, forget, on_paper, play, press, show, until, without_scripts
from tests.pages.explored import explored_lecture, holding, training
from tests.pages.recording import of_section
from trace_tools.pages import explorations
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.explorations import Result
from trace_tools.trace.model import Answer, Ask, Claim, Text, Trace, Value

RIGHT, LEFT, END, CONTROL = "\ue014", "\ue012", "\ue010", "\ue009"


def asked() -> Trace:
    """Return a trace with a question, a sentence and a line of code below it, and more questions."""
    answers = {
        "How many bytes?": Answer(
            4_000_000, "B", 0.01, hint="Four *each*.", why="A million of $4$.", slips=[(1_000_000, "Elements <b>.")]
        ),
        "Which dtype?": Answer("float32", choices=["float64", "float32"], slips=[("float64", "That is *NumPy's*.")]),
        "How long?": Answer(1.5, "s", 0.1, samples=[1.0, 2.0]),
        "Which line?": Answer("`torch.ones(3)`"),
        "How many times longer?": Answer(40.0, within=0.03),
    }
    first, *others = [Ask(text=question, answer=answer) for question, answer in answers.items()]
    recording, f = of_section("from trace_tools import ask\nask('?', 1)\nx = 4\nask('!', 2)")
    recording.step(f, "ask('?'", narrative=[first, Text(text="It is 4,000,000.")])
    x = Value("int", 4_000_000)
    recording.step(f, "x = 4", values=[("x", x)], claim=Claim("x == y", True, [("x", x), ("y", x)]))
    recording.step(f, "ask('!'", narrative=others)
    return recording.trace()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("asked")
    render_site([SiteTrace(explored_lecture(), "explored"), SiteTrace(asked(), "asked")], out)
    return out


@pytest.fixture
def page(browser: Any, pages: Path) -> Iterator[Path]:
    """Open the page with the questions, in a browser that has stored nothing, and clear it afterwards."""
    path = pages / "asked" / "00-f.html"
    show(browser, path)
    forget(browser)
    show(browser, path)
    yield path
    browser.execute_script("sessionStorage.clear()")
    forget(browser)


RIGHT_ANSWER, OTHER_UNIT, SMALLER = "✓ Right.", "Give it in {}.", "✗ No, the answer is smaller."
NO_NUMBER = "Not a number. Write, for example, 5.6e11, 560 GB, 3/4 or 12%."
SPELLED = [  # the answer, its unit, and right spellings of it
    (4e6, "B", ("4e6", "4 MB", "4,000,000", "4 000 000", "4·10⁶", "2 * 2e6", "4 million", "3.98e6 B", "4 megabytes")),
    (4e6, "B", ("4000 kB", "4 mb", "32 Mbit", "4 M", "≈ 4MB", "4'000'000", "4.000.000", "2^2 MB", "3.9 to 4.1 MB")),
    (40, "billion parameters", ("40", "40B", "40 BILLION", "40e9", "40G", "40 B parameters", "40 Gparams", "40 bn")),
    (2.25, "GiB", ("2.25", "2304 MiB", "2.42 GB", "2.416e9", "2 1/4", "2¼", "2+1/4")),
    (6, "", ("6D", "S=6D", "S = 6 D", "6 times", "6x", "6×", "6,0", "2x3", "x6", "a factor of 6", "6-fold")),
    (6, "", ("8 - 2", "2+2*2", "index 6", "6 times longer", "6 FLOPs per byte", "600%", "+500%", "500% more", "6:1")),
    (180, "days", ("180d", "180 Days.", "~ 180", "4320 hrs", "0.493 years", "5.91 months", "180 ± 9", "roughly 180")),
    (60, "TB", ("60 terabytes", "60000 GB", "6e13")),
    (0.5, "", ("50%", "5/10", ".5", "50 percent", "half", "0.5 of the peak")),
    (3.35, "TB/s", ("3350 GB/s", "3.35 terabytes per second", "3.35 TBps")),
    (1.5, "s", ("1500 ms",)),
    (5000, "Hz", ("5 kHz", "5000", "5000 hz")),
]
JUDGED = [
    *((right, unit, typed, RIGHT_ANSWER) for right, unit, spellings in SPELLED for typed in spellings),
    (1.5, "s", "1 min", SMALLER),
    (13.6, "min", "817", SMALLER),  # not seconds
    (180, "days", "-180", "✗ No, the answer is positive."),
    (180, "days", "60 GB", OTHER_UNIT.format("days")),
    (6, "", "6 GB", "Give a number, without a unit."),
    (0.4, "", "40", "Write a share as 12% or 0.12."),
    (40, "billion parameters", "40 GB", OTHER_UNIT.format("billion parameters")),
    (4e6, "B", "3.8e6x", OTHER_UNIT.format("B")),
    *((4e6, "B", typed, NO_NUMBER) for typed in ("many", "log(4)", "-")),
    (4e6, "B", "1e6", "✗ Elements."),
    (4e6, "B", "4e9", SMALLER),
    (4e6, "B", "3.8e6", "✗ Close, but not close enough: within 1% is right."),
]


def test_quantities_are_compared(browser: Any, page: Path) -> None:
    about = "{right: [right, right], within: 0.01, unit, slips: [[1e6, 'Elements.']]}"
    verdict = f"([right, unit, typed]) => page.judged(typed, 'How many FLOPs per byte?', {about})[1]"
    verdicts = ask(browser, f"arguments[0].map({verdict})", JUDGED)
    assert [(case, said) for case, said in zip(JUDGED, verdicts, strict=True) if said != case[3]] == []


def test_choices_are_judged_and_right_answers_remembered(browser: Any, page: Path) -> None:
    _, choice, _, text, _ = browser.find_elements("css selector", ".ask")
    for button in ("button", ".solution button"):  # readers judge a text themselves
        browser.execute_script("arguments[0].querySelector(arguments[1]).click()", text, button)
    assert "right" in text.get_attribute("class")
    for button, verdict in zip(
        choice.find_elements("css selector", "input[type=radio]"), ("✗ That is NumPy's.", "✓ Right."), strict=True
    ):
        button.click()
        assert choice.find_element("css selector", ".verdict").text == verdict

    def verdicts() -> list[str]:
        """Open the page again and return the verdicts, which a script adds after the page is loaded."""
        show(browser, page)
        until(lambda: ask(browser, "document.querySelector('.ask .verdict') !== null"))
        return [box.text for box in browser.find_elements("css selector", ".ask .verdict")[:3]]

    until(lambda: any(verdicts()))  # a new browser needs a moment to store the answer
    assert verdicts() == ["", "✓ Answered earlier.", ""]


# whether the number in the sentence below the first question can be read
SEEN = "document.querySelector('[data-follows] .prose .mask').getBoundingClientRect().width > 40"


def test_values_that_follow_from_an_answer_are_masked(browser: Any, page: Path) -> None:
    """The sentence and the code below a question stay; a right answer, a mask, or asking for the answer shows all."""
    masks = "[...document.querySelectorAll('[data-follows] .mask')].map(mask => mask.textContent)"
    assert not ask(browser, SEEN) and ask(browser, masks) == ["4,000,000", "4,000,000"]
    assert ask(browser, "document.querySelector('[data-follows] .code').innerText").strip() == "x = 4"
    field = browser.find_element("css selector", ".ask input")
    for typed, seen in (("5", False), ("~4 MB", True)):
        field.clear()
        field.send_keys(typed, "\n")
        assert ask(browser, SEEN) is seen is not field.is_displayed()
    kept = "document.querySelector('.ask input').value == '~4 MB'"
    until(lambda: show(browser, page) or ask(browser, kept))  # the answer is stored a moment later
    assert ask(browser, SEEN)
    title = ask(browser, "document.querySelector('.bar .home').textContent")
    (key,) = (key for key in ask(browser, "Object.keys(localStorage)") if "answer" in key)
    assert key.startswith(f"{title} f answer ")  # the key names the lecture and the section
    for press_it in (".mask", ".ask .answering button:last-child"):
        forget(browser)
        show(browser, page)
        assert not ask(browser, SEEN)
        browser.find_element("css selector", press_it).click()
        for _ in range(2):
            assert ask(browser, SEEN)
            show(browser, page)
    with without_scripts(browser):
        show(browser, page)
        assert ask(browser, SEEN) and not browser.find_element("css selector", ".switch").is_displayed()


def test_one_switch_shows_all_and_hides_what_was_not_answered(browser: Any, page: Path) -> None:
    """Stepping shows no masked value before."""
    stepped = "document.getElementById('panel').innerText"
    until(lambda: press(browser, "l") or "x" in ask(browser, stepped).split())
    assert "?" in ask(browser, stepped) and "4,000,000" not in ask(browser, stepped)
    press(browser, "e")
    browser.find_element("css selector", ".mask").send_keys("\n")
    assert ask(browser, SEEN)
    for seen in (True, False):
        browser.find_element("id", "questions-first").click()
        assert ask(browser, SEEN) is seen
        show(browser, page)
        assert ask(browser, SEEN) is seen


def test_large_type_shows_a_question_before_what_follows(browser: Any, page: Path) -> None:
    play(browser, page)
    press(browser, "p")
    shown = "[...document.querySelectorAll('.ask.current, .row:has(.v)')].map(piece => piece.checkVisibility())"
    assert ask(browser, shown) == [True, False]
    press(browser, RIGHT)
    assert ask(browser, shown) == [True]


def test_print_ends_with_answers_and_omits_readers_input(browser: Any, page: Path) -> None:
    def printed() -> str:
        with on_paper(browser):
            return str(ask(browser, "document.querySelector('main').innerText"))

    fresh = printed()
    order = [fresh.index(text) for text in ("It is 4,000,000.", "Which line?", "Answers", "4\xa0MB")]
    assert order == sorted(order)
    assert fresh.count("4\xa0MB") == 1 and "Four each." in fresh and "Check" not in fresh
    browser.find_element("css selector", ".ask input").send_keys("4 MB", "\n")
    assert printed() == fresh


# --- calculators ---

QUICK = "which is quick."


@pytest.fixture
def calculators(browser: Any, pages: Path) -> Path:
    """Open the page with calculators, in a browser that has stored nothing."""
    path = pages / "explored" / "00-f.html"
    play(browser, path)
    browser.execute_script("sessionStorage.clear()")
    forget(browser)
    return path


def answer(browser: Any, figure: int = 0) -> str:
    return str(ask(browser, f"document.querySelectorAll('.explore .answer')[{figure}].innerText"))


def days(parameters: float = 70e9, gpus: float = 1024, mfu: float = 0.5, peak: float = 1e15) -> str:
    rounded = float(f"{training(parameters, gpus, mfu, peak)['days']:.2g}")  # a sentence has two digits
    return explorations.shown(Result("days", "days", rounded, "days"), False)


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


def point_of(browser: Any) -> Any:
    point = browser.find_element("css selector", ".explore .point")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", point)
    return point


def test_typed_inputs_change_the_answer(browser: Any, pages: Path, calculators: Path) -> None:
    assert days() == "9.5 days" and answer(browser) == f"It takes {days()} on 1024 H100s, {QUICK}"
    assert answer(browser, 1) == "88% of the memory."
    for label, typed, changed in (
        ("parameters", "700B", {"parameters": 700e9}),
        ("parameters", "8,000,000,000", {"parameters": 8e9}),
        ("parameters", "1.5e9", {"parameters": 1.5e9}),
        ("parameters", "70B", {}),
        ("MFU", "40 %", {"mfu": 0.4}),
        ("MFU", "0.5", {}),
        ("GPUs", "2,048", {"gpus": 2048}),
    ):
        type_in(browser, label, typed)
        assert answer(browser).startswith(f"It takes {days(**changed)} on "), typed
    with on_paper(browser):
        text = browser.find_element("css selector", ".explore").text
    assert days(gpus=2048) in text and "2048" in text and "Given" not in text and "Reset to" not in text
    for label, typed in (("GPUs", "1.5"), ("GPUs", "0"), ("MFU", "2"), ("MFU", "many")):
        control = type_in(browser, label, typed)
        assert control.get_attribute("aria-invalid") == "true"
        described = "document.getElementById(arguments[0]).innerText"
        assert " to " in ask(browser, described, control.get_attribute("aria-describedby"))
        assert answer(browser).startswith("It takes ")
        type_in(browser, label, "1")
        assert control.get_attribute("aria-invalid") == "false"
    texts = "[...document.querySelectorAll('.explore svg text')].map(it => it.textContent)"
    assert {"H100", "A100 <b>"} <= {*ask(browser, texts)}  # curves are labelled
    type_in(browser, "billions", "70", figure=1)
    bars = browser.find_elements("css selector", ".explore .stage svg")[1]
    assert bars.get_attribute("aria-label") == "none: 700 GB; all: 87.5 GB. The limit is 80 GB"
    assert ask(browser, "arguments[0].querySelectorAll('text.over').length", bars) == 2
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    show(browser, pages / "index.html")  # a calculator also works on the first page
    type_in(browser, "MFU", "0.25")
    assert answer(browser).startswith(f"It takes {days(mfu=0.25)} on ")


def test_keys_and_mouse_move_the_slider_or_the_point(browser: Any, calculators: Path) -> None:
    slider = field(browser, "GPUs", kind="range")
    slider.send_keys(LEFT * 3)
    fewer = float(ask(browser, "page.parsed(arguments[0].value)", field(browser, "GPUs")))
    assert fewer < 1024 and answer(browser).startswith(f"It takes {days(gpus=fewer)} on ")
    point = point_of(browser)
    point.send_keys(RIGHT)
    mfu = float(point.get_attribute("aria-valuenow"))
    assert 0.5 < mfu < 0.55 and answer(browser).startswith(f"It takes {days(gpus=fewer, mfu=mfu)} on ")
    drag(browser, point, 50, 30)
    after = float(point.get_attribute("aria-valuenow"))
    assert mfu < after < 1 and answer(browser).startswith(f"It takes {days(gpus=fewer, mfu=after)} on ")
    point.send_keys(END)
    assert point.get_attribute("aria-valuenow") == "1" and "1: " in point.get_attribute("aria-valuetext")
    assert ask(browser, "document.activeElement.className") == "point"
    assert ask(browser, "document.getElementById('panel').hidden")
    type_in(browser, "GPUs", "1")
    values = []
    for _ in range(4):  # a slider of whole numbers advances by one
        slider.send_keys(RIGHT)
        values.append(field(browser, "GPUs").get_attribute("value"))
    assert values == ["2", "3", "4", "5"]


TOUCH = """const [target, from, to] = arguments;
for (const [kind, clientX] of [["touchstart", from], ["touchend", to]]) {
  const at = new Touch({ identifier: 1, target, clientX, clientY: 99 });
  target.dispatchEvent(new TouchEvent(kind, { bubbles: true, touches: [at], changedTouches: [at] }));
}"""


def test_a_touch_of_a_drawing_moves_no_step(browser: Any, calculators: Path) -> None:
    """Before it the text is tapped."""
    press(browser, "l")
    browser.execute_script(TOUCH, browser.find_element("css selector", "h1"), 5, 5)
    browser.execute_script(TOUCH, point_of(browser), 200, 300)
    assert "the first step" not in ask(browser, "document.getElementById('step-status').textContent")


def test_an_address_restores_the_inputs(browser: Any, calculators: Path) -> None:
    length = ask(browser, "history.length")
    type_in(browser, "parameters", "123456789")
    field(browser, "GPU", kind="select").send_keys("A")
    text = answer(browser)
    assert days(123456789, peak=312e12) in text and "A100 <b>s" in text
    until(lambda: "A100" in ask(browser, "location.hash"))
    assert ask(browser, "history.length") == length
    show(browser, calculators, at=ask(browser, "location.hash"))
    assert answer(browser) == text and answer(browser, 1) == "88% of the memory."
    until(lambda: abs(ask(browser, "document.querySelector('.explore').getBoundingClientRect().top")) < 100)
    browser.find_element("css selector", ".explore .buttons button:last-of-type").click()
    assert answer(browser) == f"It takes {days()} on 1024 H100s, {QUICK}"
    until(lambda: ask(browser, "location.hash") == "#training?")
    field(browser, "GPU", figure=1, kind="select").send_keys("custom")
    type_in(browser, "memory", "128 GB", figure=1)
    expected = explorations.shown(Result("", "", holding(7, 8, 0, 128e9)["share"], "%"), True)
    assert answer(browser, 1) == f"{expected} of the memory."
    until(lambda: "memory=128000000000" in ask(browser, "location.hash"))
    show(browser, calculators, WIDE, at=ask(browser, "location.hash"))
    assert answer(browser, 1) == f"{expected} of the memory." and answer(browser).endswith(QUICK)
    assert field(browser, "memory", figure=1).get_attribute("value") == "128 G"
    for invalid in ("#training?gpus=0&mfu=x&GPU=none&parameters=", "#training?gpus=1e999&__proto__=1", "#training?%"):
        show(browser, calculators, at=invalid)
        assert answer(browser) == f"It takes {days()} on 1024 H100s, {QUICK}"
    browser.execute_script("location.hash = '#after'")  # other anchors of the page still work
    until(lambda: abs(ask(browser, "document.getElementById('after').getBoundingClientRect().top")) < 900)
    assert answer(browser).endswith(QUICK)

"""Questions on HTML and Markdown pages; a real browser judges the answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import ask, forget, show, until
from tests.pages.recording import Recording
from trace_tools.pages.document import Narration
from trace_tools.pages.exercises import Exercise, written
from trace_tools.pages.narration import as_html
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Answer, Ask, Text, Trace, Value

BYTES = Answer(4_000_000, "B", 0.01, hint="Four *each*.", why="A million of $4$.", slips=[(1_000_000, "Elements <b>.")])
CHOICE = Answer("float32", choices=["float64", "float32"], slips=[("float64", "That is *NumPy's*.")])
TIME = Answer(1.5, "s", 0.1, samples=[1.0, 2.0])
TEXT = Answer("`torch.ones(3)`")
RATIO = Answer(40.0, within=0.03)
QUESTIONS = [
    ("How many bytes?", BYTES),
    ("Which dtype?", CHOICE),
    ("How long?", TIME),
    ("Which line?", TEXT),
]


def trace() -> Trace:
    """Return a trace with a question, a sentence and a line of code below it, and more questions."""
    recording = Recording(
        "from trace_tools import ask\ndef main():\n    f()\ndef f():\n    ask('?', 1)\n    x = 4\n    ask('!', 2)\n"
    )
    first, *others = [
        Ask(text=question, answer=answer) for question, answer in (*QUESTIONS, ("How many times longer?", RATIO))
    ]
    f = recording.call(recording.frame("main"), "f()", "f")
    recording.step(f, "ask('?'", narrative=[first, Text(text="It is 4,000,000.")])
    recording.step(f, "x = 4", values=[("x", Value("int", 4_000_000))])
    recording.step(f, "ask('!'", narrative=others)
    return recording.trace()


@pytest.mark.parametrize(("question", "answer"), QUESTIONS)
def test_an_answer_is_folded_below_its_question(question: str, answer: Answer) -> None:
    html = as_html(Narration(Ask(text=question, answer=answer), 3), lambda path: None)
    assert html.index("<summary>Answer</summary>") > html.index(question) and "<b>" not in html
    assert ("<summary>Hint</summary>" in html) is (answer.hint is not None)


def test_markdown_pages_have_answers_at_the_end(page: Path) -> None:
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    questions, answers = text.split("## Answers")
    assert "**Question 1.** How many bytes?" in questions and "4 MB" not in questions and "Four" not in questions
    assert "**Answer 1.** **4 MB** (right within 1%)\n\nA million of $4$." in answers
    assert "*Hint.* Four *each*." in answers and "**Answer 4.** **`torch.ones(3)`**" in answers


def test_answers_state_their_tolerance_and_samples() -> None:
    def markdown(answer: Answer) -> str:
        return Exercise(Ask(text="?", answer=answer)).answer_markdown(1)

    assert "**4 MB** (right within 1%)" in markdown(BYTES) and "- 1 MB: Elements" in markdown(BYTES)
    assert "**1.5 s** (1 s to 2 s in 2 runs; right within 10%)" in markdown(TIME)


def test_the_identity_of_a_question_ignores_its_numbers() -> None:
    texts = ("Of 3 runs?", "Of 41 runs?", "Of it?")
    question, renumbered, different = (Exercise(Ask(text=text, answer=BYTES)).identity for text in texts)
    assert question == renumbered != different


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("asked")
    render_site([SiteTrace(trace(), "here", None)], out)
    return out / "here" / "00-f.html"


RIGHT, OTHER_UNIT, NONE = "✓ Right.", "Give it in {}.", "Not a number. Write, for example, 5.6e11, 560 GB, 3/4 or 12%."
SMALLER = "✗ No, the answer is smaller."
SPELLED = [  # the answer, its unit, and right spellings of it
    (4e6, "B", ("4e6", "4 MB", "4,000,000", "4 000 000", "4·10⁶", "2 * 2e6", "4 million", "3.98e6 B", "4 megabytes")),
    (4e6, "B", ("4000 kB", "4 mb", "32 Mbit", "4 M", "≈ 4MB")),
    (40, "billion parameters", ("40", "40B", "40 billion", "40e9", "40G", "40 B parameters")),
    (2.25, "GiB", ("2.25", "2304 MiB", "2.42 GB", "2.416e9")),
    (6, "", ("6D", "S=6D", "S = 6 D", "6 times", "6x", "6×", "6,0", "2x3")),
    (180, "days", ("180d", "180 days", "~ 180", "4320 h", "0.493 years")),
    (60, "TB", ("60 terabytes", "60000 GB", "6e13")),
    (0.3, "", ("30%", "3/10", ".3")),
    (3.35, "TB/s", ("3350 GB/s", "3.35 terabytes per second")),
    (1.5, "s", ("1500 ms",)),
]
JUDGED = [
    *((right, unit, typed, RIGHT) for right, unit, spellings in SPELLED for typed in spellings),
    (1.5, "s", "1 min", SMALLER),
    (180, "days", "-180", "✗ No, the answer is positive."),
    (180, "days", "60 GB", OTHER_UNIT.format("days")),
    (6, "", "6 GB", "Give a number, without a unit."),
    (4e6, "B", "3.8e6x", OTHER_UNIT.format("B")),
    (4e6, "B", "many", NONE),
    (4e6, "B", "1e6", "✗ Elements."),
    (4e6, "B", "4e9", SMALLER),
    (4e6, "B", "3.8e6", "✗ Close, but not close enough: within 1% is right."),
]


def test_quantities_are_compared(browser: Any, page: Path) -> None:
    show(browser, page)
    about = "{right: [right, right], within: 0.01, unit, slips: [[1e6, 'Elements.']]}"
    verdict = f"([right, unit, typed]) => page.judged(typed, 'How many, in units of D?', {about})[1]"
    assert [*zip(JUDGED, ask(browser, f"arguments[0].map({verdict})", JUDGED), strict=True)] == [
        (j, j[3]) for j in JUDGED
    ]


def test_choices_are_judged_and_right_answers_remembered(browser: Any, page: Path) -> None:
    forget(browser)
    show(browser, page)
    box = browser.find_elements("css selector", ".ask")[1]
    wrong, right = box.find_elements("css selector", "input[type=radio]")
    wrong.click()
    assert box.find_element("css selector", ".verdict").text == "✗ That is NumPy's."
    right.click()
    assert box.find_element("css selector", ".verdict").text == "✓ Right."

    def verdicts() -> list[str]:
        """Open the page again and return the verdicts, which a script adds after the page is loaded."""
        show(browser, page)
        until(lambda: bool(ask(browser, "document.querySelector('.ask .verdict') !== null")))
        boxes = browser.find_elements("css selector", ".ask")[:3]
        return [box.find_element("css selector", ".verdict").text for box in boxes]

    until(lambda: any(verdicts()))  # a new browser needs a moment to store the answer
    assert verdicts() == ["", "✓ Answered earlier.", ""]


def test_readers_judge_text_answers_themselves(browser: Any, page: Path) -> None:
    show(browser, page)
    box = browser.find_elements("css selector", ".ask")[3]
    box.find_element("css selector", "button").click()
    box.find_element("css selector", ".solution button").click()
    assert "right" in box.get_attribute("class")


# whether the number in the sentence below the first question can be read
SEEN = "document.querySelector('[data-follows] .prose .mask').getBoundingClientRect().width > 40"


@pytest.fixture
def cleared(browser: Any, page: Path) -> Iterator[None]:
    """Clear what the browser stored, before and after the test."""
    show(browser, page)
    forget(browser)
    yield
    forget(browser)


@pytest.mark.usefixtures("cleared")
def test_values_that_follow_from_an_answer_are_masked(browser: Any, page: Path) -> None:
    """The sentence and the code below a question stay; a right answer, a mask, or asking for the answer shows all."""
    masks = "[...document.querySelectorAll('[data-follows] .mask')].map(mask => mask.textContent)"
    show(browser, page)
    assert not ask(browser, SEEN) and ask(browser, masks) == ["4,000,000", "4,000,000"]
    assert ask(browser, "document.querySelector('[data-follows] .code').innerText").strip() == "x = 4"
    field = browser.find_element("css selector", ".ask input")
    field.send_keys("5", "\n")
    assert not ask(browser, SEEN)
    field.clear()
    field.send_keys("~4 MB", "\n")
    assert ask(browser, SEEN) and not field.is_displayed()
    show(browser, page)
    until(lambda: bool(ask(browser, "document.querySelector('.ask input').value == '~4 MB'")))
    assert ask(browser, SEEN)
    title = ask(browser, "document.querySelector('.bar .home').textContent")
    (key,) = (key for key in ask(browser, "Object.keys(localStorage)") if "answer" in key)
    assert key.startswith(f"{title} f answer ")  # the key names the lecture and the section
    for press_it in (".mask", ".ask .answering button:last-child"):
        forget(browser)
        show(browser, page)
        assert not ask(browser, SEEN)
        browser.find_element("css selector", press_it).click()
        assert ask(browser, SEEN)
        show(browser, page)
        assert ask(browser, SEEN)


@pytest.mark.usefixtures("cleared")
def test_one_switch_shows_all_and_hides_what_was_not_answered(browser: Any, page: Path) -> None:
    show(browser, page)
    switch = browser.find_element("id", "questions-first")
    browser.find_element("css selector", ".mask").send_keys("\n")
    assert ask(browser, SEEN)
    for seen in (True, False):
        switch = browser.find_element("id", "questions-first")
        switch.click()
        assert ask(browser, SEEN) is seen
        show(browser, page)
        assert ask(browser, SEEN) is seen


def test_without_scripts_nothing_is_masked(browser: Any, page: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, page)
        assert ask(browser, SEEN) and not browser.find_element("css selector", ".switch").is_displayed()
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.usefixtures("cleared")
def test_print_ends_with_answers_and_omits_readers_input(browser: Any, page: Path) -> None:
    def printed() -> str:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        text = str(ask(browser, "document.querySelector('main').innerText"))
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        return text

    show(browser, page)
    fresh = printed()
    assert fresh.index("It is 4,000,000.") < fresh.index("Which line?") < fresh.index("Answers") < fresh.index("4 MB")
    assert fresh.count("4 MB") == 1 and "Four each." in fresh and "Check" not in fresh
    browser.find_element("css selector", ".ask input").send_keys("4 MB", "\n")
    assert printed() == fresh


def test_seconds_are_also_written_in_a_readable_unit() -> None:
    answers = [(43_200.0, "43,200 s (12 h)"), (1.5, "1.5 s"), (0.0053, "0.0053 s (5.3 ms)")]
    for value, text in answers:
        assert written(Answer(value, "s", within=0.01), value) == text

"""Questions on both pages, and their answers judged in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import ask, forget, press, show, until
from tests.pages.recording import Recording
from trace_tools.pages.document import Narration
from trace_tools.pages.exercises import identity, written
from trace_tools.pages.narration import as_html, as_markdown
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Answer, Ask, Text, Trace

BYTES = Answer(4_000_000, "B", 0.01, hint="Four *each*.", why="A million of $4$.", slips=[(1_000_000, "Elements <b>.")])
CHOICE = Answer("float32", choices=["float64", "float32"], slips=[("float64", "That is *NumPy's*.")])
TIME = Answer(1.5, "s", 0.1, samples=[1.0, 2.0])
TEXT = Answer("`torch.ones(3)`")
QUESTIONS = [("How many bytes?", BYTES), ("Which dtype?", CHOICE), ("How long?", TIME), ("Which line?", TEXT)]


def trace() -> Trace:
    made = Recording("from trace_tools import ask\ndef main():\n    f()\ndef f():\n    ask('?', 1)\n")
    said = [Ask(text=question, answer=answer) for question, answer in QUESTIONS]
    said.insert(1, Text(text="It is four million."))
    made.step(made.call(made.frame("main"), "f()", "f"), "ask(", narrative=said)
    return made.trace()


@pytest.mark.parametrize(("question", "answer"), QUESTIONS)
def test_the_answer_stands_folded_on_both_pages(question: str, answer: Answer) -> None:
    said = Narration(Ask(text=question, answer=answer), 3)
    page, text = as_html(said, lambda path: None), as_markdown(said, lambda path: None, lambda name, svg: name)
    for shown in (page, text):
        assert question in shown and "<summary>Answer</summary>" in shown and "<b>" not in shown
        assert ("<summary>Hint</summary>" in shown) is (answer.hint is not None)
    assert page.index("<summary>Answer") > page.index(question)


def test_what_counts_as_right_is_said() -> None:
    def told(answer: Answer) -> str:
        return as_markdown(Narration(Ask(text="?", answer=answer), 1), lambda path: None, lambda n, s: n)

    assert "**4 MB** (right within 1%)" in told(BYTES) and "- 1 MB: Elements" in told(BYTES)
    assert "**1.5 s** (1 s to 2 s in 2 runs; right within 10%)" in told(TIME)


def test_a_question_is_remembered_while_its_numbers_vary() -> None:
    one, other, another = (Ask(text=text, answer=BYTES) for text in ("Of 3 runs?", "Of 41 runs?", "Of it?"))
    assert identity(one) == identity(other) != identity(another)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("asked")
    render_site([SiteTrace(trace(), "here", None)], out)
    return out / "here" / "00-f.html"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "typed", "state", "says"),
    [
        (0, "4e6", "right", "✓ Right."),
        (0, "4 MB", "right", "✓ Right."),
        (0, "4,000,000", "right", "✓ Right."),
        (0, "4·10⁶", "right", "✓ Right."),
        (0, "3.98e6 B", "right", "✓ Right."),
        (0, "2 * 2e6", "right", "✓ Right."),
        (0, "4 million", "right", "✓ Right."),
        (0, "1e6", "wrong", "✗ Elements <b>."),
        (0, "4e9", "wrong", "✗ No, the answer is smaller."),
        (0, "3.8e6", "wrong", "✗ Close. Right is within 1%."),
        (0, "~4 MB", "right", "✓ Right."),
        (0, "4e6 times", "right", "✓ Right."),
        (0, "about 4e6x", "right", "✓ Right."),
        (0, "many", "", "Not a number. Write, for example, 5.6e11, 560 GB, 3/4, 40× or 12%."),
        (2, "1,5", "right", "✓ Right."),
        (2, "2.1 s", "right", "✓ Right."),
        (2, "900 ms", "right", "✓ Right."),
        (2, "3/2", "right", "✓ Right."),
        (2, "1 min", "wrong", "✗ No, the answer is smaller."),
    ],
)
def test_a_number_is_judged(browser: Any, page: Path, question: int, typed: str, state: str, says: str) -> None:
    show(browser, page)
    forget(browser)
    show(browser, page)
    box = browser.find_elements("css selector", ".ask")[question]
    box.find_element("css selector", "input").send_keys(typed, "\n")
    assert box.find_element("css selector", ".verdict").text == says
    assert [name for name in ("right", "wrong") if name in box.get_attribute("class").split()] == [state] * bool(state)
    assert ask(browser, "arguments[0].querySelector('.solution').open", box) is (state == "right")
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_a_choice_is_judged_and_what_was_right_is_remembered(browser: Any, page: Path) -> None:
    forget(browser)
    show(browser, page)
    box = browser.find_elements("css selector", ".ask")[1]
    wrong, right = box.find_elements("css selector", "input[type=radio]")
    wrong.click()
    assert box.find_element("css selector", ".verdict").text == "✗ That is NumPy's."
    right.click()
    assert box.find_element("css selector", ".verdict").text == "✓ Right."

    def said() -> list[str]:
        """Open the page again; return what stands at its questions, by a script that comes after the page."""
        show(browser, page)
        until(lambda: bool(ask(browser, "document.querySelector('.ask .verdict') !== null")))
        boxes = browser.find_elements("css selector", ".ask")[:3]
        return [box.find_element("css selector", ".verdict").text for box in boxes]

    until(lambda: any(said()))  # a browser that has just begun takes a moment to store
    assert said() == ["", "✓ Answered earlier.", ""]


def test_a_text_is_compared_by_the_reader(browser: Any, page: Path) -> None:
    show(browser, page)
    box = browser.find_elements("css selector", ".ask")[3]
    box.find_element("css selector", ".solution summary").click()
    box.find_element("css selector", "button").click()
    assert "right" in box.get_attribute("class")


def test_what_follows_a_question_is_folded_until_it_is_answered_or_shown(browser: Any, page: Path) -> None:
    told = "document.querySelector('details.next .prose p').checkVisibility()"
    fold = "document.querySelector('details.next')"

    def opened() -> None:
        show(browser, page)
        until(lambda: bool(ask(browser, "document.querySelector('.ask input') !== null")))

    opened()
    forget(browser)
    opened()
    assert not ask(browser, told)
    field = browser.find_element("css selector", ".ask input")
    field.send_keys("5", "\n")
    assert not ask(browser, told)
    field.clear()
    field.send_keys("4 MB", "\n")
    assert ask(browser, told)
    until(lambda: (opened(), ask(browser, told))[1])  # it was answered before
    assert browser.find_element("css selector", ".ask input").get_property("value") == "4000000"
    forget(browser)
    opened()
    browser.execute_script(f"{fold}.open = true")  # as a link or the player opens it: for now
    opened()
    assert not ask(browser, told)
    press(browser, "o")
    assert ask(browser, told)
    until(lambda: (opened(), ask(browser, told))[1])  # the reader's own key is remembered
    browser.find_element("css selector", ".thinking").click()
    assert ask(browser, fold) is None
    until(lambda: (opened(), ask(browser, fold) is None)[1])
    browser.find_element("css selector", ".thinking").click()
    assert ask(browser, fold) is not None
    forget(browser)


def test_on_paper_the_answers_are_at_the_end(browser: Any, page: Path) -> None:
    show(browser, page)
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    answers = ask(browser, "[...document.querySelectorAll('main > .answers li')].map(it => it.innerText.split(' ')[0])")
    assert len(answers) == len(QUESTIONS) and answers[1] == "float32"
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert ask(browser, "document.querySelector('.answers')") is None


def test_seconds_are_told_as_asked_for_and_as_people_say_them() -> None:
    answers = [(43_200.0, "43,200 s (12 h)"), (1.5, "1.5 s"), (0.0053, "0.0053 s (5.3 ms)")]
    for value, text in answers:
        assert written(Answer(value, unit="s"), value) == text

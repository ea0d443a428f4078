"""Questions on HTML and Markdown pages; a real browser judges the answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import ask, forget, press, show, until
from tests.pages.recording import Recording
from trace_tools.pages.document import Narration
from trace_tools.pages.exercises import Exercise, written
from trace_tools.pages.narration import as_html
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Answer, Ask, Text, Trace

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
    recording.step(f, "ask('?'", narrative=[first, Text(text="It is four million.")])
    recording.step(f, "x = 4")
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "typed", "state", "verdict"),
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
        (0, "3.8e6", "wrong", "✗ Close, but not close enough: within 1% is right."),
        (0, "3.8e6x", "", "Not a number. Write, for example, 5.6e11, 560 GB, 3/4 or 12%."),
        (0, "many", "", "Not a number. Write, for example, 5.6e11, 560 GB, 3/4 or 12%."),
        *((4, typed, "right", "✓ Right.") for typed in ("40x", "~40", "≈ 40", "40 times", "40×", "40,0", "2x20", "41")),
        (4, "40 GB", "", "Not a number. Write, for example, 5.6e11, 560 GB, 3/4 or 12%."),
        (2, "2.1 s", "right", "✓ Right."),
        (2, "900 ms", "right", "✓ Right."),
        (2, "3/2", "right", "✓ Right."),
        (2, "1 min", "wrong", "✗ No, the answer is smaller."),
    ],
)
def test_typed_numbers_are_judged(
    browser: Any, page: Path, question: int, typed: str, state: str, verdict: str
) -> None:
    show(browser, page)
    forget(browser)
    show(browser, page)
    box = browser.find_elements("css selector", ".ask")[question]
    field = box.find_element("css selector", "input")
    field.clear()
    field.send_keys(typed, "\n")
    assert box.find_element("css selector", ".verdict").text == verdict
    assert [name for name in ("right", "wrong") if name in box.get_attribute("class").split()] == [state] * bool(state)
    assert ask(browser, "arguments[0].querySelector('.solution').open", box) is (state == "right")
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


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
    box.find_element("css selector", ".solution summary").click()
    box.find_element("css selector", "button").click()
    assert "right" in box.get_attribute("class")


SEEN = "document.querySelector('.waits > .prose').checkVisibility()"


@pytest.fixture
def cleared(browser: Any, page: Path) -> Iterator[None]:
    """Clear what the browser stored, before and after the test."""
    show(browser, page)
    forget(browser)
    yield
    browser.execute_script("sessionStorage.clear()")
    forget(browser)


def ready(browser: Any, page: Path, at: str = "") -> None:
    """Open a page and wait for its player."""
    show(browser, page, at=at)
    until(lambda: bool(ask(browser, "!document.getElementById('player').hidden")))


@pytest.mark.slow
@pytest.mark.usefixtures("cleared")
def test_text_after_a_question_is_folded_until_answered(browser: Any, page: Path) -> None:
    show(browser, page)
    assert not ask(browser, SEEN)
    line = browser.find_element("css selector", ".waits > summary")
    assert line.text == "Folded until you answer: text and code. Show me"
    field = browser.find_element("css selector", ".ask input")
    field.send_keys("5", "\n")
    assert not ask(browser, SEEN)
    field.clear()
    field.send_keys("~4 MB", "\n")
    assert ask(browser, SEEN) and not line.is_displayed()
    show(browser, page)
    until(lambda: bool(ask(browser, "document.querySelector('.ask input').value == '~4 MB'")))
    assert ask(browser, SEEN)
    title = ask(browser, "document.querySelector('.bar .home').textContent")
    (key,) = (key for key in ask(browser, "Object.keys(localStorage)") if "answer" in key)
    assert key.startswith(f"{title} f answer ")  # the key names the lecture and the section

    forget(browser)
    for selector in (".waits > summary", ".ask > .solution > summary"):  # ways to skip the question
        show(browser, page)
        assert not ask(browser, SEEN)
        browser.find_element("css selector", selector).click()
        assert ask(browser, SEEN)
        show(browser, page)
        assert ask(browser, SEEN)
        browser.find_element("css selector", ".waits > summary").click()
        show(browser, page)


@pytest.mark.slow
@pytest.mark.usefixtures("cleared")
def test_readers_turn_folding_off_and_on(browser: Any, page: Path) -> None:
    boxes = "[...document.querySelectorAll('.think input, #mode-think')].map(box => box.checked)"
    ready(browser, page)
    browser.find_element("css selector", ".ask .think input").click()
    for _ in range(2):
        assert ask(browser, SEEN) and ask(browser, boxes) == [False] * 2
        ready(browser, page)
    press(browser, "q")
    for _ in range(2):
        assert not ask(browser, SEEN) and ask(browser, boxes) == [True] * 2
        ready(browser, page)
    press(browser, "o")
    assert ask(browser, SEEN)


@pytest.mark.slow
@pytest.mark.usefixtures("cleared")
@pytest.mark.parametrize("way", ["a link", "an address", "a step", "paper"])
def test_links_steps_and_print_unfold_text_temporarily(browser: Any, page: Path, way: str) -> None:
    target = "document.querySelector('.waits > .prose').id"
    ready(browser, page)
    assert not ask(browser, SEEN)
    if way == "a link":
        browser.execute_script(f"location.hash = {target}")
    elif way == "an address":
        show(browser, page, at=f"#{ask(browser, target)}")
    elif way == "a step":
        press(browser, "llll")
    else:
        script = "[['beforeprint', 'afterprint'].map(name => (dispatchEvent(new Event(name)), SEEN))]"
        (opened,) = ask(browser, script.replace("SEEN", SEEN))
        assert opened == [True, False]
    if way != "paper":
        until(lambda: bool(ask(browser, SEEN)))
    show(browser, page)
    assert not ask(browser, SEEN)
    assert not [key for key in ask(browser, "Object.keys(localStorage)") if "passed" in key or "answer" in key]


def test_without_scripts_nothing_is_folded(browser: Any, page: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(browser, page)
        assert ask(browser, SEEN) and not browser.find_element("css selector", ".waits > summary").is_displayed()
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
    assert (
        fresh.index("It is four million.") < fresh.index("Which line?") < fresh.index("Answers") < fresh.index("4 MB")
    )
    assert fresh.count("4 MB") == 1 and "Four each." in fresh and "Check" not in fresh and "Folded" not in fresh
    browser.find_element("css selector", ".ask input").send_keys("4 MB", "\n")
    assert printed() == fresh


def test_seconds_are_also_written_in_a_readable_unit() -> None:
    answers = [(43_200.0, "43,200 s (12 h)"), (1.5, "1.5 s"), (0.0053, "0.0053 s (5.3 ms)")]
    for value, text in answers:
        assert written(Answer(value, unit="s"), value) == text

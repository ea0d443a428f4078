"""Questions; `test_exercises_in_browser.py` answers them."""

from __future__ import annotations

import re

from markupsafe import Markup

from tests.cases_in_one import each
from trace_tools.pages.document import Narration
from trace_tools.pages.exercises import Exercise, masked, written
from trace_tools.pages.narration import as_html
from trace_tools.trace.model import Answer, Ask

BYTES = Answer(4_000_000, "B", 0.01, slips=[(1_000_000, "Elements <b>.")])
ANSWERS = [
    (BYTES, "**4 MB** (right within 1%)\n\n- 1 MB: Elements \\<b>."),
    (Answer(1.5, "s", 0.1, samples=[1.0, 2.0]), "**1.5 s** (1 s to 2 s in 2 runs; right within 10%)"),
    (Answer("`torch.ones(3)`"), "**`torch.ones(3)`**"),
    (Answer("float32", choices=["float64", "float32"]), "**float32**"),
]


@each(("answer", "expected"), ANSWERS)
def test_answers_state_their_tolerance_and_samples(answer: Answer, expected: str) -> None:
    question = Ask(text="How many?", answer=answer)
    assert Exercise(question).answer_markdown(1).strip() == f"**Answer 1.** {expected}"
    html = as_html(Narration(question, 3), lambda path: None)
    assert html.index("<summary>Answer</summary>") > html.index("How many?")
    assert "<b>" not in html and "Hint" not in html


def test_the_identity_of_a_question_ignores_its_numbers() -> None:
    texts = ("Of 3 runs?", "Of 41 runs?", "Of it?")
    question, renumbered, different = (Exercise(Ask(text=text, answer=BYTES)).identity for text in texts)
    assert question == renumbered != different


@each(("value", "text"), [(43_200.0, "43,200 s (12 h)"), (1.5, "1.5 s"), (0.0053, "0.0053 s (5.3 ms)")])
def test_seconds_are_also_written_in_a_readable_unit(value: float, text: str) -> None:
    assert written(Answer(value, "s", within=0.01), value) == text


VALUE, NUMBER, ASSERT = ' = <b class="v">{}</b>', '<span class="m">{}</span>', '<span class="k">assert</span> n == '
MASKED = [  # the HTML below a question, and what is masked there if its answer is 12.75 or "half"
    (VALUE.format(8) + '<pre tabindex="0">9</pre><svg>7</svg>', "8 9 7"),
    (f'<div class="code"><code>n = {NUMBER.format(12.75)}</div>12.75, 12.8; 12, 13.0, 3', "12.75 12.8"),
    ("12, a half", "half"),
    (VALUE.format("[16]") + '<div class="o time">16.2 ms</div>', "[16]"),
    (VALUE.format("8,840,000") + "8.84 million, 8.8, 9.1", "8,840,000 8.84"),
    (
        VALUE.format("[16]") + f'<div class="code"><code>{ASSERT}x[{NUMBER}] == {NUMBER}'.format(16, 16) + " 16",
        "[16] 16",
    ),
]


@each(("html", "expected"), MASKED)
def test_what_follows_from_an_answer_is_masked(html: str, expected: str) -> None:
    answers = Answer(12.75, within=0), Answer("half", choices=["half"])
    marked = [masked(Markup(html), Exercise(Ask(text="Of 3 and 40?", answer=answer))) for answer in answers]
    found = [re.findall(r'class="[^"]*mask"[^>]*>(?:<svg>)?([^<]*)', one) for one in marked]
    assert max(" ".join(one) for one in found) == expected

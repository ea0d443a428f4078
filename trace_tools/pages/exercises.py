r"""The questions of a page with their answers; in a browser, `questions.js` checks the reader's answer.

Exercise(ask)            what `narratives.html.j2` and the Markdown below write
divided(blocks)          the blocks after a question
masked(html, exercise)   these with marks on what follows from the answer, which `questions.js` masks until it is given

On paper and on Markdown pages, the answers are at the end of the section.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from trace_tools.pages.document import Block, Call, Narration, narratives
from trace_tools.presentation import prose
from trace_tools.presentation.markdown_text import inline_markdown, joined, to_markdown
from trace_tools.trace.model import Answer, Ask
from trace_tools.util import formats

_NUMBER = r"(?<![\w.,])\d[\d,]*(?<!,)(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])"
_HIDDEN = {
    '<b class="v">': '<b class="v mask">',
    "<pre ": '<pre class="mask" ',
    '<table class="grid">': '<table class="grid mask">',
}
# of a page: code that is no assert, formulas, drawings and links; then any tag
_KEPT = (
    r'(?P<code><div class="code"><code>(?!<span class="k">assert).*?</div>|<svg.*?</svg>|<math.*?</math>|<a .*?</a>)'
    r'|(?P<tag><b class="v">.*?</b>|<pre .*?</pre>|<table class="grid">.*?</table>|<[^>]*>|&[^;\s]*;)'
)


@dataclass(frozen=True, slots=True)
class Exercise:
    """A question with its answer, in the form that both formats write."""

    ask: Ask

    @property
    def answer(self) -> Answer:
        """The computed answer."""
        return self.ask.answer

    @property
    def value(self) -> str:
        """The answer in Markdown."""
        return written(self.answer, self.answer.value)

    @property
    def range(self) -> tuple[float, float] | None:
        """The interval of correct answers; None for a text."""
        value = self.answer.value
        if isinstance(value, str):
            return None
        values = [value, *(sample for sample in self.answer.samples or () if isinstance(sample, (int, float)))]
        return min(values), max(values)

    @property
    def also(self) -> str:
        """The note on other accepted answers, after the answer."""
        answer, interval, parts = self.answer, self.range, []
        if interval is not None and interval[0] != interval[1]:
            low, high = (written(answer, end) for end in interval)
            parts.append(f"{low} to {high} in {len(answer.samples or ())} runs")
        elif answer.samples:
            same = sum(sample == answer.value for sample in answer.samples)
            parts.append(f"in {same} of {len(answer.samples)} runs")
        if answer.within:
            parts.append(f"right within {formats.number(100 * answer.within).removesuffix('.0')}%")
        return f" ({'; '.join(parts)})" if parts else ""

    @property
    def identity(self) -> str:
        """The key under which a browser remembers it: the same on every machine, whatever its numbers."""
        words = "".join(letter for letter in self.ask.text if not letter.isdigit())
        return hashlib.sha256(words.encode()).hexdigest()[:12]

    @property
    def data(self) -> Markup:
        """What `questions.js` needs, for an attribute in single quotes, in which JSON's double quotes stay."""
        judged = {
            "kind": "choice" if self.answer.choices else "text" if self.range is None else "number",
            "right": self.range or self.answer.value,
            "within": self.answer.within,
            "unit": self.answer.unit,
            "slips": [(wrong, prose.inline_html(sentence)) for wrong, sentence in self.answer.slips or ()],
        }
        data = json.dumps({name: value for name, value in judged.items() if value is not None}, separators=(",", ":"))
        return Markup(str(escape(data)).replace("&#34;", '"'))

    def question_markdown(self, question: str, number: int) -> str:
        """Return the question and its choices, without the answer."""
        choices = "\n".join(f"- {inline_markdown(choice)}" for choice in self.answer.choices or ())
        return joined([f"**Question {number}.** {question}", choices])

    def answer_markdown(self, number: int) -> str:
        """Return the answer, its explanation and the hint, for the end of a section."""
        wrong = (
            (inline_markdown(written(self.answer, value)), inline_markdown(why))
            for value, why in self.answer.slips or ()
        )
        return joined(
            [
                f"**Answer {number}.** **{inline_markdown(self.value)}**{self.also}",
                to_markdown(self.answer.why or ""),
                "\n".join(f"- {value}: {why}" for value, why in wrong),
                f"*Hint.* {to_markdown(self.answer.hint)}" if self.answer.hint else "",
            ]
        )


def asked(blocks: Sequence[Block]) -> list[Exercise]:
    """Return the questions that a page shows, in order."""
    return [Exercise(it) for it in narratives(blocks) if isinstance(it, Ask)]


def divided(blocks: Sequence[Block]) -> list[tuple[Exercise | None, list[Block]]]:
    """Divide blocks into (question, blocks): the blocks after a question, up to the next question or heading, with it;
    other blocks without.
    """
    groups: list[tuple[Exercise | None, list[Block]]] = [(None, [])]
    for block in blocks:
        narrative = block.narrative if isinstance(block, Narration) else None
        headed = isinstance(block, Narration) and block.headings
        if isinstance(narrative, Ask) or headed or (isinstance(block, Call) and block.shown == "part"):
            groups.append((None, []))
        groups[-1][1].append(block)
        if isinstance(narrative, Ask):
            groups.append((Exercise(narrative), []))
    return [(question, inner) for question, inner in groups if inner]


def masked(html: Markup, exercise: Exercise) -> Markup:
    """Mark what follows from an answer in the HTML below its question: values of lines, printed output, and the
    answer's own numbers and words, also in asserts, but not in other code.
    """
    right = {value for value, _ in _numbers(exercise.value)} | set(exercise.range or ())
    given = {value for value, _ in _numbers(exercise.ask.text)}

    def mark(match: re.Match[str]) -> str:
        if match["code"] or match["tag"]:
            for plain, hidden in _HIDDEN.items():
                if match[0].startswith(plain):
                    return hidden + match[0].removeprefix(plain)
            return match[0]
        same = any(abs(value - one) <= half for value, half in _numbers(match[0]) for one in right - given)
        return f'<span class="mask">{match[0]}</span>' if match["words"] or same else match[0]

    words = re.escape(str(escape(prose.readable_text(exercise.value)))) if exercise.answer.choices else "(?!)"
    return Markup(re.sub(rf"{_KEPT}|(?P<words>{words})|{_NUMBER}", mark, html, flags=re.DOTALL))


def _numbers(text: str) -> list[tuple[float, float]]:
    """Return the numbers of a text, each with half a unit of its last digit."""
    found = []
    for match in re.finditer(_NUMBER, text):
        digits, _, power = match[0].replace(",", "").partition("e")
        half = 0.5 * 10 ** (int(power or 0) - len(digits.partition(".")[2]))
        value = float(match[0].replace(",", ""))
        found.append((value, min(half, 0.02 * value)))
    return found


def written(answer: Answer, value: float | str) -> str:
    """Format an answer, a number with its unit; seconds also as a duration."""
    if isinstance(value, str):
        return value
    if answer.unit == "s" and not (text := formats.duration(value * 1e9)).endswith(" s"):
        return f"{formats.number(value).removesuffix('.0')} s ({text})"
    return formats.quantity(value, answer.unit) if answer.unit else formats.number(value, 4).removesuffix(".0")

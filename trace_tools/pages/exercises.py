r"""The questions of a page with their answers; in a browser, `questions.js` checks the reader's answer.

Exercise(ask)            what `narratives.html.j2` and the Markdown below write
divided(blocks)          the blocks after a question
masked(html, exercise)   these with marks on what follows from the answer, which `questions.js` masks until it is given

On paper and on Markdown pages, the answers are at the end of the section.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from trace_tools.pages.document import Block, Call, Narration, narratives
from trace_tools.presentation import prose
from trace_tools.presentation.markdown_text import inline_markdown, joined, to_markdown
from trace_tools.trace.model import Answer, Ask
from trace_tools.util import formats

_NUMBER = r"(?<![\w.,])\d[\d,_]*(?<!,)(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)"
# In the HTML below a question: what a run computed; what stays, but of an assert only its left side and subscripts.
_COMPUTED = r'<b class="v">.*?</b>|<pre .*?</pre>|<table class="grid">.*?</table>|<svg.*?</svg>'
_KEPT = (
    r'<div class="code"><code>(?:(?:<span>)?<span class="k">assert.*?(?:==|&[lg]t;|</div>)|.*?</div>)|&[^;\s]*;'
    r'|\w\[<span class="m">.*?\]|<math.*?</math>|<table class="facts".*?</table>|<a .*?</a>'
    r'|<\w+ class="o time".*?</(?:summary|div)>|<[^>]*>'
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
        answer, slips = self.answer, self.answer.slips or ()
        value = f"**Answer {number}.** **{inline_markdown(self.value)}**{self.also}"
        wrong = [f"- {inline_markdown(written(answer, slip))}: {inline_markdown(why)}" for slip, why in slips]
        hint = f"*Hint.* {to_markdown(answer.hint)}" if answer.hint else ""
        return joined([value, to_markdown(answer.why or ""), "\n".join(wrong), hint])


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
    """Mark what follows from an answer in the HTML below its question: values of lines, printed output, charts, and
    their numbers and the answer's own, also in asserts, but not in other code.
    """
    given = _numbers(exercise.ask.text)
    right = [*_numbers(exercise.value), *((value, 0.0) for value in exercise.range or ())]
    right = [one for one in right if not _is_among(one, given)]
    values = _numbers(" ".join(re.findall(r' = <b class="v">(.*?)</b>', html)))

    def mark(match: re.Match[str]) -> str:
        if match[0].startswith("<svg"):
            return f'<div class="mask">{match[0]}</div>'
        if match["computed"]:
            return re.sub(r'^(<\w+)(?: class="(\w+)")?', r'\1 class="\2 mask"', match[0])
        (number,) = _numbers(match["number"] or "0")
        precise = html.startswith('"m">', match.start() - 4) or len(match[0]) > 3  # or in an assert
        same = match["number"] and (_is_among(number, right) or (precise and _is_among(number, values, prefixed=True)))
        return f'<span class="mask">{match[0]}</span>' if match["words"] or same else match[0]

    words = re.escape(str(escape(prose.readable_text(exercise.value)))) if exercise.answer.choices else "(?!)"
    pattern = rf"(?P<computed>{_COMPUTED})|{_KEPT}|(?P<words>{words})|(?P<number>{_NUMBER})"
    return Markup(re.sub(pattern, mark, html, flags=re.DOTALL))


def _numbers(text: str) -> list[tuple[float, float]]:
    """Return the numbers of a text, each with half a unit of its last digit, or of its third if it has more."""
    found = []
    for number in re.findall(_NUMBER, re.sub(r"[,_](?=\d{3})", "", text)):
        digits, _, power = number.partition("e")
        value, half = float(number), 0.5 * 10 ** (int(power or 0) - len(digits.partition(".")[2]))
        found.append((value, 1.0001 * min(max(half, 0.001 * value), 0.05 * value)))
    return found


def _is_among(number: tuple[float, float], others: list[tuple[float, float]], *, prefixed: bool = False) -> bool:
    """Return whether a number is equal to another one, as far as both are written; `prefixed`: or 1000 times it, …"""
    for value, half in others:
        scale = 1000.0 ** round(math.log(number[0] / value, 1000)) if prefixed and value and number[0] else 1.0
        if abs(value * scale - number[0]) <= max(half * scale, number[1]):
            return True
    return False


def written(answer: Answer, value: float | str) -> str:
    """Format an answer, a number with its unit; seconds also as a duration."""
    if isinstance(value, str):
        return value
    if answer.unit == "s" and not (text := formats.duration(value * 1e9)).endswith(" s"):
        return f"{formats.number(value).removesuffix('.0')} s ({text})"
    return formats.quantity(value, answer.unit) if answer.unit else formats.number(value, 4).removesuffix(".0")

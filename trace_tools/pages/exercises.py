r"""The questions of a page with their answers; in a browser, `questions.js` checks the reader's answer.

Exercise(ask)            what `narratives.html.j2` and the Markdown below write
divided(blocks)          the blocks after a question, which `questions.js` folds until it is answered

On paper and on Markdown pages, the answers are at the end of the section.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from trace_tools.pages.document import Block, Call, Narration, narratives
from trace_tools.presentation import prose
from trace_tools.presentation.markdown_text import inline_markdown, joined, to_markdown
from trace_tools.trace.model import Answer, Ask
from trace_tools.util import formats

CHOICES_SHOWN = 12  # most choices, and most slips, that are shown
_COUNTED = {
    "code": ("code", "code"),
    "text": ("text", "text"),
    "table": ("a table", "{n} tables"),
    "figure": ("a figure", "{n} figures"),
    "reference": ("a reference", "{n} references"),
}
_KINDS = {"text": "text", "table": "table", "link": "reference", "note": ""}  # other narratives are figures


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
    def choices(self) -> list[str]:
        """The choices, as many as are shown."""
        return (self.answer.choices or [])[:CHOICES_SHOWN]

    @property
    def slips(self) -> list[tuple[int | float | str, str]]:
        """The known wrong answers with their causes, as many as are shown."""
        return (self.answer.slips or [])[:CHOICES_SHOWN]

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
            "slips": [(wrong, prose.inline_html(sentence)) for wrong, sentence in self.slips],
        }
        data = json.dumps({name: value for name, value in judged.items() if value is not None}, separators=(",", ":"))
        return Markup(str(escape(data)).replace("&#34;", '"'))

    def question_markdown(self, question: str, number: int) -> str:
        """Return the question and its choices, without the answer."""
        return joined(
            [f"**Question {number}.** {question}", "\n".join(f"- {inline_markdown(c)}" for c in self.choices)]
        )

    def answer_markdown(self, number: int) -> str:
        """Return the answer, its explanation and the hint, for the end of a section."""
        wrong = ((inline_markdown(written(self.answer, value)), inline_markdown(why)) for value, why in self.slips)
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


def divided(blocks: Sequence[Block]) -> list[tuple[str, list[Block]]]:
    """Divide blocks into (words, blocks). For the blocks after a question, up to the next question or heading, the
    words name their contents; for other blocks they are "".
    """
    groups: list[tuple[str, list[Block]]] = [("", [])]
    follows = False
    for block in blocks:
        narrative = block.narrative if isinstance(block, Narration) else None
        ends = isinstance(narrative, Ask) or (isinstance(block, Narration) and block.headings)
        if ends or (isinstance(block, Call) and block.shown == "part"):
            if follows and groups[-1][1]:
                groups.append(("", []))
            follows = False
        elif follows and not groups[-1][0]:
            groups.append(("waits", []))
        groups[-1][1].append(block)
        follows = follows or isinstance(narrative, Ask)
    return [(words and _contents(inner), inner) for words, inner in groups if inner]


def _contents(blocks: Sequence[Block]) -> str:
    """Name the contents of some blocks, in order: "code, text and 2 tables"; "" if they contain only references or
    presenter's notes, which give no answer.
    """
    kinds: dict[str, int] = {}
    for block in blocks:
        kind = _KINDS.get(block.narrative.kind, "figure") if isinstance(block, Narration) else "code"
        if kind and not (isinstance(block, Call) and block.shown == "named"):
            kinds[kind] = kinds.get(kind, 0) + 1
    if not {*kinds} - {"reference"}:
        return ""
    words = [_COUNTED[kind][count > 1].format(n=count) for kind, count in kinds.items()]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def written(answer: Answer, value: float | str) -> str:
    """Format an answer, a number with its unit; seconds also as a duration."""
    if isinstance(value, str):
        return value
    if answer.unit == "s" and not (text := formats.duration(value * 1e9)).endswith(" s"):
        return f"{formats.number(value).removesuffix('.0')} s ({text})"
    return formats.quantity(value, answer.unit) if answer.unit else formats.number(value, 4).removesuffix(".0")

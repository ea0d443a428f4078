"""A question to the reader, with its answer folded away; in a browser it can be answered, and `exercises.js` judges.

as_html(narration)        Markup('<div class="ask" id="said-3" …>…</div>')
as_markdown(narration)    'How many bytes …?\\n\\n<details><summary>Answer</summary>…'
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from markupsafe import Markup, escape

from trace_tools import formats
from trace_tools.rendering import prose
from trace_tools.rendering.document import Narration
from trace_tools.rendering.markdown_text import folded, inline_markdown, joined, to_markdown
from trace_tools.schema import Answer

MOST = 12  # choices, and slips, that are shown


def as_html(said: Narration, question: Markup) -> Markup:
    """Return the question, what can be answered, a hint and the answer; without a script the last two unfold."""
    told = said.narrative.answer
    if told is None:
        return question
    choices = Markup("").join(
        Markup('<li data-choice="{}">{}</li>').format(choice, Markup(prose.inline_html(choice)))
        for choice in (told.choices or ())[:MOST]
    )
    hint = Markup('<details class="hint"><summary>Hint</summary>{}</details>')
    solution = Markup('<details class="solution"><summary>Answer</summary><p><strong>{}</strong>{}</p>{}</details>')
    slips = [(known, str(prose.inline_html(sentence))) for known, sentence in (told.slips or ())[:MOST]]
    right = _range(told)
    judged = {
        "kind": "choice" if told.choices else "text" if right is None else "number",
        "right": told.value if right is None else right,
        "within": told.within,
        "unit": told.unit,
        "slips": slips,
    }
    return Markup('<div class="ask" id="said-{}" data-asked="{}" data-answer=\'{}\'>{}{}{}{}</div>\n').format(
        said.number,
        identity(said),
        _quoted(
            json.dumps({name: known for name, known in judged.items() if known is not None}, separators=(",", ":"))
        ),
        question,
        Markup('<ul class="choices">{}</ul>').format(choices) if choices else "",
        hint.format(Markup(prose.to_html(told.hint))) if told.hint else "",
        solution.format(
            Markup(prose.inline_html(told.value)) if isinstance(told.value, str) else written(told, told.value),
            _also(told),
            Markup(prose.to_html(told.why)) if told.why else "",
        ),
    )


def as_markdown(said: Narration, question: str) -> str:
    """Return the same as Markdown, its hint and its answer folded."""
    told = said.narrative.answer
    if told is None:
        return question
    value = inline_markdown(told.value) if isinstance(told.value, str) else written(told, told.value)
    slips = [
        f"- {inline_markdown(known) if isinstance(known, str) else written(told, known)}: {inline_markdown(sentence)}"
        for known, sentence in (told.slips or ())[:MOST]
    ]
    answer = [f"**{value}**{_also(told)}", to_markdown(told.why) if told.why else "", "\n".join(slips)]
    return joined(
        [
            f"**Question.** {question}",
            "\n".join(f"- {inline_markdown(choice)}" for choice in (told.choices or ())[:MOST]),
            joined(folded("Hint", [to_markdown(told.hint)])) if told.hint else "",
            joined(folded("Answer", [part for part in answer if part])),
        ]
    )


def identity(said: Narration) -> str:
    """Return what a browser remembers a question by: the same on every machine, and while its numbers vary."""
    words = "".join(letter for letter in said.narrative.text or "" if not letter.isdigit())
    return hashlib.sha256(words.encode()).hexdigest()[:12]


def written(told: Answer, value: float) -> str:
    """Write an answer that is a number, with its unit; seconds as such, and as people say them."""
    if told.unit == "s" and not (text := formats.duration(value * 1e9)).endswith(" s"):
        return f"{formats.number(value).removesuffix('.0')} s ({text})"
    return formats.quantity(value, told.unit) if told.unit else formats.number(value, 4)


def _range(told: Answer) -> tuple[float, float] | None:
    """Return between which numbers an answer is right; None for a text."""
    found = _numbers(told)
    return (min(found), max(found)) if found else None


def _numbers(told: Answer) -> Sequence[float]:
    if isinstance(told.value, str):
        return ()
    return [told.value, *(sample for sample in told.samples or () if isinstance(sample, (int, float)))]


def _quoted(text: str) -> Markup:
    """Return text for an attribute in single quotes: JSON's double ones, of which it is full, stay as they are."""
    return Markup(str(escape(text)).replace("&#34;", '"'))


def _also(told: Answer) -> str:
    """Say what else counts as right."""
    parts = []
    if (found := _range(told)) is not None and found[0] != found[1]:
        parts.append(f"{written(told, found[0])} to {written(told, found[1])} in {len(told.samples or ())} runs")
    elif told.samples:
        same = sum(sample == told.value for sample in told.samples)
        parts.append(f"in {same} of {len(told.samples)} runs")
    if told.within:
        parts.append(f"right within {formats.number(100 * told.within).removesuffix('.0')}%")
    return f" ({'; '.join(parts)})" if parts else ""

r"""Show a question with its answer folded; in a browser, `exercises.js` checks the reader's answer.

as_html(it, 3, question)      Markup('<div class="ask" id="said-3" …>…</div>')
as_markdown(it, question)     'How many bytes …?\n\n<details><summary>Answer</summary>…'
"""

from __future__ import annotations

import hashlib
import json

from markupsafe import Markup, escape

from trace_tools.presentation import prose
from trace_tools.presentation.markdown_text import folded, inline_markdown, joined, to_markdown
from trace_tools.trace.model import Answer, Ask
from trace_tools.util import formats

MOST = 12  # most choices, and most slips, that are shown


def as_html(it: Ask, number: int, question: Markup) -> Markup:
    """Return the question with fields for an answer, a hint and the solution; without JavaScript the last two
    unfold. `number` is its narration's on the page.
    """
    told = it.answer
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
        number,
        identity(it),
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


def as_markdown(it: Ask, question: str) -> str:
    """Return the same as Markdown, with its hint and answer folded."""
    told = it.answer
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


def identity(it: Ask) -> str:
    """Return the key under which a browser remembers a question: the same on every machine, and if numbers vary."""
    words = "".join(letter for letter in it.text if not letter.isdigit())
    return hashlib.sha256(words.encode()).hexdigest()[:12]


def written(told: Answer, value: float) -> str:
    """Format a numeric answer with its unit; seconds also as a duration."""
    if told.unit == "s" and not (text := formats.duration(value * 1e9)).endswith(" s"):
        return f"{formats.number(value).removesuffix('.0')} s ({text})"
    return formats.quantity(value, told.unit) if told.unit else formats.number(value, 4)


def _range(told: Answer) -> tuple[float, float] | None:
    """Return the interval of correct answers; None for a text."""
    if isinstance(told.value, str):
        return None
    found = [told.value, *(sample for sample in told.samples or () if isinstance(sample, (int, float)))]
    return min(found), max(found)


def _quoted(text: str) -> Markup:
    """Quote text for an attribute in single quotes, so that JSON's double quotes need no escapes."""
    return Markup(str(escape(text)).replace("&#34;", '"'))


def _also(told: Answer) -> str:
    """Return the note on other accepted answers."""
    parts = []
    if (found := _range(told)) is not None and found[0] != found[1]:
        parts.append(f"{written(told, found[0])} to {written(told, found[1])} in {len(told.samples or ())} runs")
    elif told.samples:
        same = sum(sample == told.value for sample in told.samples)
        parts.append(f"in {same} of {len(told.samples)} runs")
    if told.within:
        parts.append(f"right within {formats.number(100 * told.within).removesuffix('.0')}%")
    return f" ({'; '.join(parts)})" if parts else ""

r"""Show a question with its answer folded; in a browser, `answering.js` checks the reader's answer.

as_html(it, 3, question)      Markup('<div class="ask" id="said-3" …>…</div>')
as_markdown(it, question)     'How many bytes …?\n\n<details><summary>Answer</summary>…'
divided(blocks)               the blocks after a question, which `exercises.js` folds until it is answered

On paper and on Markdown pages, the answers are at the end of the section.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from markupsafe import Markup, escape

from trace_tools.pages.document import Block, Call, Narration, narratives
from trace_tools.presentation import prose
from trace_tools.presentation.markdown_text import folded, inline_markdown, joined, to_markdown
from trace_tools.trace.model import Answer, Ask
from trace_tools.util import formats

MOST = 12  # most choices, and most slips, that are shown
_COUNTED = {
    "code": ("code", "code"),
    "text": ("text", "text"),
    "table": ("a table", "{n} tables"),
    "figure": ("a figure", "{n} figures"),
    "reference": ("a reference", "{n} references"),
}
_KINDS = {"text": "text", "table": "table", "link": "reference", "note": ""}  # other narratives are figures


def as_html(it: Ask, number: int, question: Markup) -> Markup:
    """Return the question with fields for an answer, a hint and the solution; without JavaScript the last two unfold.
    `number` is the number of its narration on the page.
    """
    answer = it.answer
    choices = Markup("").join(
        Markup('<li data-choice="{}">{}</li>').format(choice, Markup(prose.inline_html(choice)))
        for choice in (answer.choices or ())[:MOST]
    )
    hint = Markup('<details class="hint"><summary>{}</summary>{}</details>')
    solution = Markup('<details class="solution"><summary>{}</summary>{}</details>')
    slips = [(wrong, str(prose.inline_html(sentence))) for wrong, sentence in (answer.slips or ())[:MOST]]
    right = _range(answer)
    judged = {
        "kind": "choice" if answer.choices else "text" if right is None else "number",
        "right": answer.value if right is None else right,
        "within": answer.within,
        "unit": answer.unit,
        "slips": slips,
    }
    data = json.dumps({name: value for name, value in judged.items() if value is not None}, separators=(",", ":"))
    return Markup('<div class="ask" id="said-{}" data-asked="{}" data-answer=\'{}\'>{}{}{}{}</div>\n').format(
        number,
        identity(it.text),
        Markup(str(escape(data)).replace("&#34;", '"')),  # in single quotes, so JSON's double quotes need no escapes
        question,
        Markup('<ul class="choices">{}</ul>').format(choices) if choices else "",
        hint.format("Hint", Markup(prose.to_html(answer.hint))) if answer.hint else "",
        solution.format("Answer", _solution_html(answer)),
    )


def answer_html(it: Ask) -> Markup:
    """Return the answer, its explanation and the hint, for the end of a printed section."""
    answer = it.answer
    hint = "Hint."
    return _solution_html(answer) + Markup(prose.to_html(f"*{hint}* {answer.hint}") if answer.hint else "")


def _solution_html(answer: Answer) -> Markup:
    return Markup("<p><strong>{}</strong>{}</p>{}").format(
        Markup(prose.inline_html(answer.value)) if isinstance(answer.value, str) else written(answer, answer.value),
        _also(answer),
        Markup(prose.to_html(answer.why)) if answer.why else "",
    )


def as_markdown(it: Ask, question: str) -> str:
    """Return the same as Markdown, with its hint and answer folded."""
    hint = joined(folded("Hint", [to_markdown(it.answer.hint)])) if it.answer.hint else ""
    return joined(
        [
            question_markdown(it, question, "Question."),
            hint,
            joined(folded("Answer", _solution_markdown(it.answer))),
        ]
    )


def question_markdown(it: Ask, question: str, label: str) -> str:
    """Return the question and its choices as Markdown, without the answer."""
    choices = "\n".join(f"- {inline_markdown(choice)}" for choice in (it.answer.choices or ())[:MOST])
    return joined([f"**{label}** {question}", choices])


def answer_markdown(it: Ask, number: int) -> str:
    """Return the answer, its explanation and the hint as Markdown, for the end of a section."""
    first, *why = _solution_markdown(it.answer)
    label, answer = "Hint.", f"Answer {number}."
    hint = f"*{label}* {to_markdown(it.answer.hint)}" if it.answer.hint else ""
    return joined([f"**{answer}** {first}", *why, hint])


def _solution_markdown(answer: Answer) -> list[str]:
    value = inline_markdown(answer.value) if isinstance(answer.value, str) else written(answer, answer.value)
    slips = [
        f"- {inline_markdown(wrong) if isinstance(wrong, str) else written(answer, wrong)}: {inline_markdown(sentence)}"
        for wrong, sentence in (answer.slips or ())[:MOST]
    ]
    parts = [f"**{value}**{_also(answer)}", to_markdown(answer.why) if answer.why else "", "\n".join(slips)]
    return [part for part in parts if part]


def asked(blocks: Sequence[Block]) -> list[Ask]:
    """Return the questions that a page shows, in order."""
    return [it for it in narratives(blocks) if isinstance(it, Ask)]


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


def identity(question: str) -> str:
    """Return the key under which a browser remembers a question: the same on every machine, whatever its numbers."""
    words = "".join(letter for letter in question if not letter.isdigit())
    return hashlib.sha256(words.encode()).hexdigest()[:12]


def written(answer: Answer, value: float) -> str:
    """Format a numeric answer with its unit; seconds also as a duration."""
    if answer.unit == "s" and not (text := formats.duration(value * 1e9)).endswith(" s"):
        return f"{formats.number(value).removesuffix('.0')} s ({text})"
    return formats.quantity(value, answer.unit) if answer.unit else formats.number(value, 4).removesuffix(".0")


def _range(answer: Answer) -> tuple[float, float] | None:
    """Return the interval of correct answers; None for a text."""
    if isinstance(answer.value, str):
        return None
    values = [answer.value, *(sample for sample in answer.samples or () if isinstance(sample, (int, float)))]
    return min(values), max(values)


def _also(answer: Answer) -> str:
    """Return the note on other accepted answers."""
    parts = []
    if (interval := _range(answer)) is not None and interval[0] != interval[1]:
        parts.append(
            f"{written(answer, interval[0])} to {written(answer, interval[1])} in {len(answer.samples or ())} runs"
        )
    elif answer.samples:
        same = sum(sample == answer.value for sample in answer.samples)
        parts.append(f"in {same} of {len(answer.samples)} runs")
    if answer.within:
        parts.append("right within {percent}%".format(percent=formats.number(100 * answer.within).removesuffix(".0")))
    return f" ({'; '.join(parts)})" if parts else ""

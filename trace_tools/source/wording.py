"""Replace the words of recorded narrative, and keep its numbers.

    change = Change.of(message, message.worded("Im Ganzen {x:.1f} GB"), {"x:.1f": ["3.0"]})
    in_other_words(Text(text="3.0 GB in all", filled=…), [change])      Text(text="Im Ganzen 3.0 GB", …)

A change is a message with the recorded values of its placeholders, in the trace's words and in other words. It applies
where a string of the narrative is this message, or contains it (`"a " + b`). Numbers that varied between runs move with
their placeholders.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from trace_tools.source.messages import Message, Piece, Slot, rendered
from trace_tools.trace.model import Ask, Explore, Narrative, Note, Plot, Text, Varied
from trace_tools.trace.structure import from_plain, to_plain

# What is not prose: names that code refers to, addresses, drawings, formulas.
_NOT_PROSE = frozenset({
    "kind", "filled", "varied", "url", "svg", "formula", "name", "parameters", "stack", "limit", "curve", "across",
    "scale", "x_scale", "y_scale", "unit", "style", "target", "samples", "choice",
})  # fmt: skip
_PROSE_OF: Mapping[type[Narrative], set[str]] = {
    Plot: {"name"},  # labels of curves
    Ask: {"unit"},  # "days"
    Explore: {"unit"},
}
DRAWINGS = ("svg", "narrow")  # fields with a drawing
DRAWN = re.compile(r">([^<>]*[^<>\s][^<>]*)<")  # a label in a drawing
PART = 8  # characters of a message that is looked for inside a longer string


@dataclass(frozen=True, slots=True)
class Change:
    """A message as the trace has it, and in other words: each piece with its text."""

    was: Sequence[tuple[Piece, str]]
    now: Sequence[tuple[Piece, str]]

    @classmethod
    def of(
        cls,
        was: Message,
        now: Message,
        values: Mapping[str, Sequence[str]],
        words: Callable[[str], str | None] = lambda value: None,
    ) -> Change:
        """Return the change of one message to another; `words` gives other words for whole values of placeholders.

        Raises KeyError for a placeholder without a value.
        """
        worded = {slot: [words(value) or value for value in of_slot] for slot, of_slot in values.items()}
        return cls(rendered(was.pieces, values), rendered(now.pieces, worded))

    @property
    def old(self) -> str:
        """The words of the trace."""
        return "".join(text for _, text in self.was)

    @property
    def new(self) -> str:
        """The other words."""
        return "".join(text for _, text in self.now)


def in_other_words(
    narrative: Narrative, changes: Sequence[Change], words: Callable[[str], str | None] | None = None
) -> Narrative:
    """Return a narrative with these changes of its words; `words` gives other words for a string that is shown in full.

    In a drawing the labels that are such strings change.
    """
    changes = [change for change in changes if change.old and change.old != change.new]
    if not changes and words is None:
        return narrative
    kept_as_is = _NOT_PROSE - _PROSE_OF.get(type(narrative), set())
    by_text = {change.old: change for change in reversed(changes)}
    parts = sorted((one for one in changes if len(one.old) >= PART), key=lambda one: -len(one.old))

    def changed(text: str, varied: Sequence[Varied] = ()) -> tuple[str, list[Varied]]:
        if text in by_text:
            return by_text[text].new, _moved(varied, by_text[text], 0)
        if words is not None and (translation := words(text)) is not None:
            return translation, []
        kept = list(varied)
        at = 0
        while at < len(text):
            change = next((one for one in parts if text.startswith(one.old, at)), None)
            if change is not None:
                kept = _moved(kept, change, at)
                text = text[:at] + change.new + text[at + len(change.old) :]
            at += len(change.new) if change is not None else 1
        return text, kept

    def drawn(svg: str) -> str:
        def label(match: re.Match[str]) -> str:
            return f">{html.escape(changed(html.unescape(match[1]))[0], quote=False)}<"

        return DRAWN.sub(label, svg)

    def walked(plain: Any) -> Any:
        if isinstance(plain, str):
            return changed(plain)[0]
        if isinstance(plain, (list, tuple)):
            return [walked(part) for part in plain]
        if isinstance(plain, dict):
            return {
                name: drawn(part) if name in DRAWINGS and part else part if name in kept_as_is else walked(part)
                for name, part in plain.items()
            }
        return plain

    other: Narrative = from_plain(cast("Any", Narrative), walked(to_plain(narrative)), "narrative")
    if isinstance(other, Text | Note | Ask) and other.varied:
        other = replace(other, varied=changed(narrative.text or "", other.varied)[1] or None)  # type: ignore[union-attr]
    return other


def _moved(varied: Sequence[Varied], change: Change, at: int) -> list[Varied]:
    """Return the numbers of a text at their positions after a change of the words at `at`.

    A number inside the changed words is kept if a placeholder has written it.
    """
    end, longer = at + len(change.old), len(change.new) - len(change.old)
    positions = _positions(change.now, at)
    moved: list[Varied] = []
    for one in varied:
        start, stop = one.start or 0, one.end or 0
        if stop <= at:
            moved.append(one)
        elif start >= end:
            moved.append(replace(one, start=start + longer, end=stop + longer))
        else:
            for key, (begin, text) in _positions(change.was, at).items():
                if begin <= start and stop <= begin + len(text) and key in positions and positions[key][1] == text:
                    shift = positions[key][0] - begin
                    moved.append(replace(one, start=start + shift, end=stop + shift))
    return sorted(moved, key=lambda one: one.start or 0)


def _positions(parts: Sequence[tuple[Piece, str]], at: int) -> dict[tuple[str, int], tuple[int, str]]:
    """Return the position and text of each placeholder, by its source and its count so far."""
    positions: dict[tuple[str, int], tuple[int, str]] = {}
    for piece, text in parts:
        if isinstance(piece, Slot):
            count = sum(source == piece.source for source, _ in positions)
            positions[piece.source, count] = (at, text)
        at += len(text)
    return positions

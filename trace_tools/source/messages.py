r"""Read the messages of a lecture: the literals and f-strings of its narrative calls, with their placeholders.

    node = ast.parse('text(f"{x:.1f} GB" " in all")').body[0]
    [string] = strings_in(node)
    message = message_of(string, 'text(f"{x:.1f} GB" " in all")')
    message.text                                   "{x:.1f} GB in all"
    message.worded("in all {x:.1f} GB").pieces     ("in all ", Slot("x:.1f"), " GB")
    rendered(message.pieces, {"x:.1f": ["3.0"]})   [(Slot("x:.1f"), "3.0"), (" GB in all", " GB in all")]

Adjacent literals and f-strings are one message, as they are one string in Python. The text of a placeholder is its
source, so that messages are equal under all Python versions. A trace records the formatted values of the placeholders
(`NarrativeKind.filled`), and `rendered` makes any wording with the same placeholders from them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trace_tools.source.statements import calls_on_a_line

String = ast.Constant | ast.JoinedStr

# the arguments with prose, by kind of narrative; `decide` makes a text
_PROSE: Mapping[str, frozenset[int | str | None]] = {
    "text": frozenset({0, "above", "below", "undecided"}),
    "note": frozenset({0}),
    "ask": frozenset({0, "question", "hint", "why", "slips"}),
    "table": frozenset({1, "columns", "title"}),
    "plot": frozenset({"title", "x_label", "y_label"}),
    "image": frozenset({1, "alt"}),
    "explore": frozenset({"title"}),
}

_WORD = re.compile(r"[^\W\d_]{2}")
_NO_WORDS = re.compile(r"```.*?```|`[^`]+`|\$\$.+?\$\$|\$[^$\n]+\$", re.DOTALL)
_QUOTE = re.compile(r"([a-zA-Z]*)(\"\"\"|'''|\"|')")


@dataclass(frozen=True, slots=True)
class Slot:
    """A placeholder in a message, as its source: `peak / 1e12:.1f`."""

    source: str


Piece = str | Slot


@dataclass(frozen=True, slots=True)
class Message:
    """One string of a lecture. Braces of an f-string's literal parts are doubled in `text`, as in its source."""

    text: str
    pieces: tuple[Piece, ...]
    line: int
    is_formatted: bool  # an f-string

    @property
    def slots(self) -> list[str]:
        """The sources of the placeholders, in order."""
        return [piece.source for piece in self.pieces if isinstance(piece, Slot)]

    def worded(self, wording: str) -> Message:
        """Return the message in other words. Raises ValueError for a brace that is not closed."""
        return replace(self, text=wording, pieces=tuple(pieces_of(wording)) if self.is_formatted else (wording,))


def strings_in(node: ast.AST) -> Iterator[String]:
    """Yield the string constants and f-strings in a node, also inside placeholders, in order of the source."""
    if isinstance(node, ast.JoinedStr):
        yield node
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield from strings_in(part.value)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            yield from strings_in(key) if key is not None else ()
            yield from strings_in(value)
    elif not isinstance(node, ast.stmt) or isinstance(node, (ast.Expr, ast.Return, ast.Assign, ast.AnnAssign)):
        for child in ast.iter_child_nodes(node):
            yield from strings_in(child)


def prose_in(node: ast.stmt, kind: str) -> Iterator[tuple[int, String]]:
    """Yield the prose of a narrative statement, each string with its position among the statement's strings.

    This is prose that can be reworded: the strings that the arguments consist of, not those inside calls, placeholders,
    conditions and keys.
    """
    positions = {id(string): index for index, string in enumerate(strings_in(node))}

    def strings(part: ast.expr) -> Iterator[String]:
        match part:
            case ast.Constant(str()) | ast.JoinedStr():
                yield part
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                yield from (*strings(left), *strings(right))
            case ast.IfExp(body=body, orelse=orelse):
                yield from (*strings(body), *strings(orelse))
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                for element in elements:
                    yield from strings(element)
            case ast.Dict(values=elements):
                for element in elements:
                    yield from strings(element)

    for call in calls_on_a_line(node):
        arguments = [*enumerate(call.args), *((keyword.arg, keyword.value) for keyword in call.keywords)]
        for name, argument in arguments:
            if name in _PROSE.get(kind, ()):
                yield from ((positions[id(string)], string) for string in strings(argument))


def has_words(string: String) -> bool:
    """Return whether a string has two letters in a row, outside of its placeholders, code and formulas."""
    parts = string.values if isinstance(string, ast.JoinedStr) else [string]
    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "0" for part in parts)
    return _WORD.search(_NO_WORDS.sub("", text)) is not None


def message_of(string: String, source: str) -> Message:
    """Return the message of a string in a source text."""
    if isinstance(string, ast.Constant):
        return Message(str(string.value), (str(string.value),), string.lineno, is_formatted=False)
    slots = iter(_slots(ast.get_source_segment(source, string) or ""))
    parts = [
        str(part.value)
        if isinstance(part, ast.Constant)
        else Slot(next(slots, None) or ast.unparse(ast.JoinedStr([part]))[3:-2])
        for part in string.values
    ]
    text = "".join(
        f"{{{part.source}}}" if isinstance(part, Slot) else part.replace("{", "{{").replace("}", "}}") for part in parts
    )
    return Message(text, tuple(parts), string.lineno, is_formatted=True)


def filled_slots(message: Message, values: Sequence[str]) -> dict[str, list[str]]:
    """Return the recorded values by placeholder; a placeholder that occurs twice has two."""
    by_slot: dict[str, list[str]] = {}
    for slot, value in zip(message.slots, values, strict=False):
        by_slot.setdefault(slot, []).append(value)
    return by_slot


def rendered(pieces: Sequence[Piece], values: Mapping[str, Sequence[str]]) -> list[tuple[Piece, str]]:
    """Return each piece with its text. A placeholder's n-th occurrence has its n-th value, or its last one.

    Raises KeyError for a placeholder without a value.
    """
    counts: dict[str, int] = {}
    shown: list[tuple[Piece, str]] = []
    for piece in pieces:
        if isinstance(piece, str):
            shown.append((piece, piece))
        else:
            texts = values[piece.source]
            shown.append((piece, texts[min(counts.get(piece.source, 0), len(texts) - 1)]))
            counts[piece.source] = counts.get(piece.source, 0) + 1
    return shown


def pieces_of(wording: str) -> Iterator[Piece]:
    """Split a text in the form of an f-string's source, without its escapes, into literals and placeholders."""
    literal, at = "", 0
    while at < len(wording):
        if wording[at : at + 2] in ("{{", "}}"):
            literal, at = literal + wording[at], at + 2
        elif wording[at] == "{":
            end = _end_of_slot(wording, at + 1)
            if literal:
                yield literal
            yield Slot(_spaced(wording[at + 1 : end]))
            literal, at = "", end + 1
        elif wording[at] == "}":
            raise ValueError("a single } in the text of an f-string; expected }}")
        else:
            literal, at = literal + wording[at], at + 1
    if literal:
        yield literal


def _slots(expression: str) -> Iterator[str]:
    """Yield the source of each placeholder of adjacent literals and f-strings."""
    at = 0
    while (quote := _QUOTE.search(expression, at)) is not None:
        comment = expression.find("#", at, quote.start())
        if comment >= 0:
            at = expression.find("\n", comment)
            if at < 0:
                return
            continue
        formatted, at = "f" in quote[1].lower(), quote.end()
        while at < len(expression) and not expression.startswith(quote[2], at):
            if expression[at] == "\\" and expression[at : at + 3] != "\\N{":
                at += 2
            elif expression[at] == "\\":
                at = expression.index("}", at) + 1
            elif formatted and expression[at : at + 2] == "{{":
                at += 2
            elif formatted and expression[at] == "{":
                end = _end_of_slot(expression, at + 1)
                yield _spaced(expression[at + 1 : end])
                at = end + 1
            else:
                at += 1
        at += len(quote[2])


def _end_of_slot(text: str, at: int) -> int:
    """Return the position of the brace that closes a placeholder. Raises ValueError."""
    depth = 0
    while at < len(text):
        quote = _QUOTE.match(text, at)
        if quote is not None and (at == 0 or not (text[at - 1].isalnum() and quote[1])):
            closing = text.find(quote[2], quote.end())
            if closing < 0:
                break
            at = closing + len(quote[2])
            continue
        if text[at] in "([{":
            depth += 1
        elif text[at] == "}" and depth == 0:
            return at
        elif text[at] in ")]}":
            depth -= 1
        at += 1
    raise ValueError(f"found {text[:60]!r}; expected a closing brace")


def _spaced(source: str) -> str:
    return " ".join(source.split())

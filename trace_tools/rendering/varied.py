"""Numbers that differed between timed runs → marked where they stand in a text, with their range in words.

    tokens = marked(parse, "Falls by **9.7**.", [Varied(["9.7", "3.5"], start=11, end=14)])
    # … Token("varied", content="9.7", meta={"number": 0, "of": Varied(…)}) inside the emphasis
    in_words(varied)      "3.5 … 9.7 in 2 warm runs"

A number inside code, math or a link stays as it is; a token "ranges" at the end of its paragraph tells of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from markdown_it.token import Token

from trace_tools import formats
from trace_tools.schema import Scalar, Varied

# Around the n-th number, while the text is parsed: letters to Markdown, and in nobody's prose.
FIRST, CLOSE = 0xF0000, "\U000ffffd"
MOST = 1_024  # numbers of one text
PARSED = 100_000  # characters parsed anew, to find which of them can be marked
_MARKS = re.compile("[\U000f0000-\U000ffffd]")
_MARKED = re.compile("([\U000f0000-\U000f0fff])([^\U000f0000-\U000ffffd]*)\U000ffffd")

Parse = Callable[[str], list[Token]]


def marked(parse: Parse, markdown: str, varied: Sequence[Varied]) -> list[Token]:
    """Return the tokens of a text with those numbers marked, or told of where they stand in something else.

    A mark must not make other Markdown of the text, as one does of "1." at the beginning of a line: where the tokens
    are not those of the plain text, only numbers are marked whose own mark changes nothing, and none where even these
    do together.
    """
    plain = parse(markdown)
    if not varied or _MARKS.search(markdown):
        return plain
    inside: list[Varied] = []  # the text, in order, none of them over another
    for one in sorted(varied, key=lambda v: v.start or 0)[:MOST]:
        after = inside[-1].end or 0 if inside else 0
        if one.start is not None and one.end is not None and after <= one.start < one.end <= len(markdown):
            inside.append(one)
    shape, known = _shape(plain), inside
    tokens = parse(_with_marks(markdown, known))
    if _shape(tokens) != shape:
        asked = inside[: PARSED // len(markdown)]
        known = [one for one in asked if _shape(parse(_with_marks(markdown, [one]))) == shape]
        tokens = parse(_with_marks(markdown, known))
    if _shape(tokens) != shape:
        known, tokens = [], plain
    marked_ones = set(map(id, known))
    rest = [(markdown[one.start : one.end], one) for one in inside if id(one) not in marked_ones]
    return [*_resolved(tokens, known), *_paragraph(rest)]


def _with_marks(markdown: str, varied: Sequence[Varied]) -> str:
    parts, at = [], 0
    for number, one in enumerate(varied):
        parts += [markdown[at : one.start], chr(FIRST + number), markdown[one.start : one.end], CLOSE]
        at = one.end or 0
    return "".join([*parts, markdown[at:]])


def _shape(tokens: Sequence[Token]) -> list[object]:
    """Return what must be the same with and without marks."""
    return [
        (t.type, t.tag, t.nesting, *map(_unmarked, (t.content, t.info, str(t.attrs))), _shape(t.children or []))
        for t in tokens
    ]


def _unmarked(text: str) -> str:
    return _MARKS.sub("", text)


def _resolved(tokens: Sequence[Token], varied: Sequence[Varied]) -> Iterator[Token]:
    """Turn marks into tokens of their own; those that are no plain text into a "ranges" at the end of the block."""
    for token in tokens:
        if token.type != "inline":
            yield token
            yield from _paragraph(_taken_out(token, varied))
            continue
        children: list[Token] = []
        elsewhere: list[tuple[str, Varied]] = []
        links = 0
        for child in token.children or []:
            links += child.nesting if child.type in ("link_open", "link_close") else 0
            in_text = child.type == "text" and not links
            at = 0
            for found in _MARKED.finditer(child.content) if in_text else ():
                number = ord(found[1]) - FIRST
                children.append(Token("text", "", 0, content=child.content[at : found.start()]))
                children.append(Token("varied", "", 0, content=found[2], meta={"number": number, "of": varied[number]}))
                at = found.end()
            child.content = child.content[at:]
            elsewhere += _taken_out(child, varied)
            children.append(child)
        token.content = _unmarked(token.content)
        token.children = children
        if elsewhere:
            token.children.append(Token("ranges", "", 0, meta={"of": elsewhere}))
        yield token


def _taken_out(token: Token, varied: Sequence[Varied]) -> list[tuple[str, Varied]]:
    """Take the marks out of a token and return the numbers they stood around."""
    texts = [token.content, token.info, *(str(value) for value in token.attrs.values())]
    found = {ord(m) - FIRST: "" for text in texts for m in _MARKS.findall(text) if m != CLOSE}
    found |= {ord(m[1]) - FIRST: m[2] for text in texts for m in _MARKED.finditer(text)}
    token.content, token.info = _unmarked(token.content), _unmarked(token.info)
    token.attrs = {k: _unmarked(v) if isinstance(v, str) else v for k, v in token.attrs.items()}
    inner = [one for child in token.children or [] for one in _taken_out(child, varied)]
    own = [(said, varied[number]) for number, said in found.items()]
    return own + [one for one in inner if one not in own]


def _paragraph(numbers: Sequence[tuple[str, Varied]]) -> list[Token]:
    if not numbers:
        return []
    alone = Token("ranges", "", 0, meta={"of": list(numbers), "alone": True})
    inline = Token("inline", "", 0, block=True, children=[alone])
    return [Token("paragraph_open", "p", 1, block=True), inline, Token("paragraph_close", "p", -1, block=True)]


def in_words(varied: Varied) -> str:
    """Say what all timed runs had: "3.5 … 9.7 in 3 warm runs; first runs: 9.2 … 9.9"."""
    text = f"{spread(varied.samples)} in {formats.plural(len(varied.samples), 'warm run')}" if varied.samples else ""
    cold = f"first runs: {spread(varied.cold_samples)}" if varied.cold_samples else ""
    return "; ".join(part for part in (text, cold) if part)


def ranges_in_words(token: Token) -> str:
    """Say what all timed runs had of the numbers that a "ranges" tells of."""
    return "; ".join(f"{said}: {in_words(one)}" for said, one in token.meta["of"])


def in_brackets(varied: Varied) -> str:
    """Say it briefly behind a number: "3.5 … 9.7"; where only first runs differ, what they had."""
    alike = len(set(map(_text, varied.samples))) < 2
    return f"first runs: {spread(varied.cold_samples)}" if alike and varied.cold_samples else spread(varied.samples)


def spread(samples: Sequence[Scalar]) -> str:
    """Write the smallest and the largest of what runs had, each as it was written; what is no number, one by one."""
    texts = list(dict.fromkeys(map(_text, samples)))
    ordered = sorted((number, text) for text in texts if (number := _number(text)) is not None)
    if len(ordered) == len(texts) > 1:
        return f"{ordered[0][1]} … {ordered[-1][1]}"
    return ", ".join(texts[:8]) + (", …" if len(texts) > 8 else "")


def _text(sample: Scalar) -> str:
    if sample is None:
        return "–"
    return formats.one_line(sample, 60) if isinstance(sample, str) else formats.number(sample).removesuffix(".0")


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").replace("−", "-").rstrip(" %×"))
    except ValueError:
        return None

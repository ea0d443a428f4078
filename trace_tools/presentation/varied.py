"""Mark the numbers of a text that differed between timed runs, and describe their range.

    tokens = marked(parse, "Falls by **9.7**.", [Varied(["9.7", "3.5"], start=11, end=14)])
    # … Token("varied", content="9.7", meta={"number": 0, "of": Varied(…)}) inside the emphasis
    in_words(varied)      "3.5 … 9.7 in 2 warm runs"

A number inside code, math or a link is not marked; a token "ranges" at the end of its paragraph describes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from markdown_it.token import Token

from trace_tools.trace.model import Scalar, Varied
from trace_tools.util import formats

# Marks around the n-th number during parsing: letters to Markdown that no prose uses.
FIRST, CLOSE = 0xF0000, "\U000ffffd"
MOST = 1_024  # most numbers in one text
PARSED = 100_000  # characters parsed again to find which numbers can be marked
_MARKS = re.compile("[\U000f0000-\U000ffffd]")
_MARKED = re.compile("([\U000f0000-\U000f0fff])([^\U000f0000-\U000ffffd]*)\U000ffffd")

Parse = Callable[[str], list[Token]]


def marked(parse: Parse, markdown: str, varied: Sequence[Varied]) -> list[Token]:
    """Return the tokens of a text with these numbers marked, or described at the end of the paragraph if they cannot
    be.

    A mark must not change how the text is parsed, as it would for "1." at the beginning of a line. If the marks
    together change the tokens, each is tried alone, and those that change the tokens are dropped. If the rest together
    still change the tokens, no number is marked.
    """
    plain = parse(markdown)
    if not varied or _MARKS.search(markdown):
        return plain
    numbers: list[Varied] = []  # in the text, in order, without overlaps
    for one in sorted(varied, key=lambda v: v.start or 0)[:MOST]:
        after = numbers[-1].end or 0 if numbers else 0
        if one.start is not None and one.end is not None and after <= one.start < one.end <= len(markdown):
            numbers.append(one)
    shape, markable = _shape(plain), numbers
    tokens = parse(_with_marks(markdown, markable))
    if _shape(tokens) != shape:
        tried = numbers[: PARSED // len(markdown)]
        markable = [one for one in tried if _shape(parse(_with_marks(markdown, [one]))) == shape]
        tokens = parse(_with_marks(markdown, markable))
    if _shape(tokens) != shape:
        markable, tokens = [], plain
    marked_ids = set(map(id, markable))
    unmarked = [(markdown[one.start : one.end], one) for one in numbers if id(one) not in marked_ids]
    return [*_resolved(tokens, markable), *_paragraph(unmarked)]


def _with_marks(markdown: str, varied: Sequence[Varied]) -> str:
    parts, at = [], 0
    for number, one in enumerate(varied):
        parts += [markdown[at : one.start], chr(FIRST + number), markdown[one.start : one.end], CLOSE]
        at = one.end or 0
    return "".join([*parts, markdown[at:]])


def _shape(tokens: Sequence[Token]) -> list[object]:
    """Return the parts of tokens that must be equal with and without marks."""
    return [
        (t.type, t.tag, t.nesting, *map(_unmarked, (t.content, t.info, str(t.attrs))), _shape(t.children or []))
        for t in tokens
    ]


def _unmarked(text: str) -> str:
    return _MARKS.sub("", text)


def _resolved(tokens: Sequence[Token], varied: Sequence[Varied]) -> Iterator[Token]:
    """Turn marks into tokens; marks outside plain text become a "ranges" token at the end of the block."""
    for token in tokens:
        if token.type != "inline":
            yield token
            yield from _paragraph(_remove_marks(token, varied))
            continue
        children: list[Token] = []
        elsewhere: list[tuple[str, Varied]] = []
        links = 0
        for child in token.children or []:
            links += child.nesting if child.type in ("link_open", "link_close") else 0
            in_text = child.type == "text" and not links
            at = 0
            for match in _MARKED.finditer(child.content) if in_text else ():
                number = ord(match[1]) - FIRST
                children.append(Token("text", "", 0, content=child.content[at : match.start()]))
                children.append(Token("varied", "", 0, content=match[2], meta={"number": number, "of": varied[number]}))
                at = match.end()
            child.content = child.content[at:]
            elsewhere += _remove_marks(child, varied)
            children.append(child)
        token.content = _unmarked(token.content)
        token.children = children
        if elsewhere:
            token.children.append(Token("ranges", "", 0, meta={"of": elsewhere}))
        yield token


def _remove_marks(token: Token, varied: Sequence[Varied]) -> list[tuple[str, Varied]]:
    """Remove the marks from a token and return the numbers between them."""
    texts = [token.content, token.info, *(str(value) for value in token.attrs.values())]
    marked_texts = {ord(m) - FIRST: "" for text in texts for m in _MARKS.findall(text) if m != CLOSE}
    marked_texts |= {ord(m[1]) - FIRST: m[2] for text in texts for m in _MARKED.finditer(text)}
    token.content, token.info = _unmarked(token.content), _unmarked(token.info)
    token.attrs = {k: _unmarked(v) if isinstance(v, str) else v for k, v in token.attrs.items()}
    inner = [one for child in token.children or [] for one in _remove_marks(child, varied)]
    own = [(shown, varied[number]) for number, shown in marked_texts.items()]
    return own + [one for one in inner if one not in own]


def _paragraph(numbers: Sequence[tuple[str, Varied]]) -> list[Token]:
    if not numbers:
        return []
    alone = Token("ranges", "", 0, meta={"of": list(numbers), "alone": True})
    inline = Token("inline", "", 0, block=True, children=[alone])
    return [Token("paragraph_open", "p", 1, block=True), inline, Token("paragraph_close", "p", -1, block=True)]


def in_words(varied: Varied) -> str:
    """Describe the values of all timed runs: "3.5 … 9.7 in 3 warm runs; first runs: 9.2 … 9.9"."""
    runs = formats.plural(len(varied.samples), "warm run")
    text = f"{spread(varied.samples)} in {runs}" if varied.samples else ""
    cold = f"first runs: {spread(varied.cold_samples)}" if varied.cold_samples else ""
    return "; ".join(part for part in (text, cold) if part)


def ranges_in_words(token: Token) -> str:
    """Describe the values of all timed runs for the numbers of a "ranges" token."""
    return "; ".join(f"{shown}: {in_words(one)}" for shown, one in token.meta["of"])


def in_brackets(varied: Varied) -> str:
    """Return a short range to follow a number: "3.5 … 9.7"; that of the first runs if only these differ."""
    if varied.cold_samples and len(set(map(_text, varied.samples))) < 2:
        return f"first runs: {spread(varied.cold_samples)}"
    return spread(varied.samples)


def spread(samples: Sequence[Scalar]) -> str:
    """Return the smallest and largest value as they were written; values that are not numbers are listed."""
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

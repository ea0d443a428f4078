"""Mark the numbers of a text that differed between timed runs, and describe their range.

    with_ranges(to_html, "Falls by **9.7**.", [Varied(["9.7", "3.5"], start=11, end=14)], "range")
    # <p>Falls by <strong><span class="varied" …>9.7<span role="tooltip" …>3.5 … 9.7 in 2 warm runs</span></span>…

A number inside code, math or a link is not marked; a line below the text describes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape

from trace_tools.trace.model import Scalar, Varied
from trace_tools.util import formats

# Marks around the n-th number: letters to Markdown that no prose uses.
FIRST, CLOSE = 0xF0000, "\U000ffffd"
_MARKS = re.compile("[\U000f0000-\U000ffffd]")
_MARKED = re.compile("([\U000f0000-\U000f0fff])([^\U000f0000-\U000ffffd]*)\U000ffffd")
_UNMARKABLE = re.compile(r"<(a|code|math)\b.*?</\1>|<[^>]*>", re.DOTALL)


def with_ranges(render: Callable[[str], str], markdown: str, varied: Sequence[Varied], prefix: str) -> str:
    """Return the HTML of a text in which numbers show their range; `render` gives that of any Markdown.

    Where marks would change how the text is read, as for the "1." of a list, the line below describes all numbers.
    """
    marked = markdown
    for n, one in reversed([*enumerate(varied)]):
        marked = f"{marked[: one.start]}{chr(FIRST + n)}{markdown[one.start : one.end]}{CLOSE}{marked[one.end :]}"
    plain = render(markdown)
    page = _UNMARKABLE.sub(lambda part: _MARKS.sub("", part[0]), render(marked))
    if _MARKS.sub("", page) != plain:
        page = plain
    below = dict(enumerate(varied))

    def with_own_range(mark: re.Match[str]) -> str:
        n = ord(mark[1]) - FIRST
        return with_range(mark[2], in_words(below.pop(n)), f"{prefix}-{n}") if n in below else mark[2]

    page = _MARKS.sub("", _MARKED.sub(with_own_range, page))
    ranges = "; ".join(f"{markdown[one.start : one.end]}: {in_words(one)}" for one in below.values())
    return page + (f'<p><span class="ranges">{escape(ranges)}</span></p>\n' if ranges else "")


def with_range(shown: str, values: str, identity: str) -> str:
    """Return HTML with a dotted underline; the note with its `values` appears on hover, focus and tap."""
    tip = f'<span role="tooltip" id="{identity}">{escape(values)}</span>'
    return f'<span class="varied" tabindex="0" aria-describedby="{identity}">{shown}{tip}</span>'


def in_words(varied: Varied) -> str:
    """Describe the values of all timed runs: "3.5 … 9.7 in 3 warm runs; first runs: 9.2 … 9.9"."""
    runs = formats.plural(len(varied.samples), "warm run")
    text = f"{spread(varied.samples)} in {runs}" if varied.samples else ""
    cold = f"first runs: {spread(varied.cold_samples)}" if varied.cold_samples else ""
    return "; ".join(part for part in (text, cold) if part)


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
    return formats.one_line(sample, 60) if isinstance(sample, str) else formats.three_digits(sample)


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").replace("−", "-").rstrip(" %×"))
    except ValueError:
        return None

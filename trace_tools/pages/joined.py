"""Join pages in one file: make ids unique, and turn links between pages into links within the file.

    part = with_prefixes('<h2 id="main">…</h2><a href="02-x.html#L5">', "1")
    # <h2 id="1--main">…</h2><a href="02-x.html#L5">
    with_inner_links(part, {"02-x.html": PagePart("02-x", "2")}, ids)
    # <h2 id="1--main">…</h2><a href="#2--L5">

The input was written by our templates and `svg`, so < and > in tags are always escaped.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping, Set
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_TAG = re.compile(r"<([a-zA-Z][\w:-]*)\s[^<>]*>")
# matches whole values, so that text inside them is not taken for an attribute
_ATTRIBUTE = re.compile(r""" ([^\s"'<>/=]+)=("[^"]*"|'[^']*')""")
_IDS = ("id", "for", "headers", "list", "aria-labelledby", "aria-describedby", "aria-controls")
_URL = re.compile(r"url\(#")


class PagePart(NamedTuple):
    """The position of a page in the file: the id of its part, and the prefix of its ids."""

    identity: str
    name: str


def prefixed(name: str, identity: str) -> str:
    """Return an id with the prefix of its part."""
    return f"{name}--{identity}"


def with_prefixes(part: str, name: str) -> str:
    """Return a page's HTML with a prefix on its ids and on all references to them."""

    def renamed(tag: str, attribute: str, value: str) -> str | None:
        if attribute in _IDS:
            return " ".join(prefixed(name, identity) for identity in value.split())
        if attribute == "href" and value.startswith("#"):
            return f"#{prefixed(name, value[1:])}"
        return _URL.sub(f"url(#{name}--", value)

    return _rewritten(part, renamed)


def ids(part: str) -> Iterator[str]:
    """Yield the ids in some HTML."""
    for tag in _TAG.finditer(part):
        for attribute, value in _ATTRIBUTE.findall(tag[0]):
            if attribute == "id":
                yield html.unescape(value[1:-1])


def with_inner_links(part: str, pages: Mapping[str, PagePart], all_ids: Set[str]) -> str:
    """Return HTML with links to the positions of the pages in the file; links without a target are removed.

    `pages` maps former addresses to positions, `all_ids` are the ids of the whole file. Links to the web are unchanged.
    """

    def turned(tag: str, attribute: str, value: str) -> str | None:
        if tag != "a" or attribute != "href":
            return value
        parts = urlsplit(html.unescape(value))
        if parts.scheme or parts.netloc:
            return value
        anchor, page = unquote(parts.fragment), pages.get(parts.path.removeprefix("./"))
        if page is not None:
            anchor = prefixed(page.name, anchor) if anchor else page.identity
            anchor = anchor if anchor in all_ids else page.identity
        elif parts.path:
            return None
        return f"#{html.escape(anchor)}" if anchor in all_ids else None

    return _rewritten(part, turned)


def _rewritten(part: str, change: Callable[[str, str, str], str | None]) -> str:
    """Return HTML with attributes changed by (tag, attribute, value); None removes an attribute."""

    def attribute(tag: str, match: re.Match[str]) -> str:
        name, quote, value = match[1], match[2][0], match[2][1:-1]
        new = change(tag, name, value)
        return "" if new is None else f" {name}={quote}{new}{quote}"

    return _TAG.sub(lambda tag: _ATTRIBUTE.sub(lambda match: attribute(tag[1], match), tag[0]), part)

"""Pages that come to stand in one file → its parts: ids that only one has, links that lead to places in the file.

    part = apart('<h2 id="main">…</h2><a href="02-x.html#L5">', "1")    '<h2 id="1--main">…</h2><a href="02-x.html#L5">'
    led(part, {"02-x.html": Place("02-x", "2")}, ids)                    '<h2 id="1--main">…</h2><a href="#2--L5">'

What is read here was written by templates and `svg`: in their tags < and > stand for themselves nowhere.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Mapping, Set
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_TAG = re.compile(r"<([a-zA-Z][\w:-]*)\s[^<>]*>")
_ATTRIBUTE = re.compile(r""" ([^\s"'<>/=]+)=("[^"]*"|'[^']*')""")  # values are read whole: what looks like one inside
_IDS = ("id", "for", "headers", "list", "aria-labelledby", "aria-describedby", "aria-controls")
_URL = re.compile(r"url\(#")


class Place(NamedTuple):
    """Where a page has come to stand: the id of its part, and the name before the ids in it."""

    identity: str
    name: str


def within(name: str, identity: str) -> str:
    """Return the id that something has in the part of that name."""
    return f"{name}--{identity}"


def apart(part: str, name: str) -> str:
    """Return a page's HTML with its ids, and all that refers to them, behind a name that no other page has."""

    def renamed(tag: str, attribute: str, value: str) -> str | None:
        if attribute in _IDS:
            return " ".join(within(name, identity) for identity in value.split())
        if attribute == "href" and value.startswith("#"):
            return f"#{within(name, value[1:])}"
        return _URL.sub(f"url(#{name}--", value)

    return _rewritten(part, renamed)


def ids(part: str) -> Iterator[str]:
    """Yield the ids in some HTML."""
    for tag in _TAG.finditer(part):
        for attribute, value in _ATTRIBUTE.findall(tag[0]):
            if attribute == "id":
                yield html.unescape(value[1:-1])


def led(part: str, pages: Mapping[str, Place], known: Set[str]) -> str:
    """Return HTML whose links lead to where the pages stand now; what leads nowhere is no link any more.

    `pages` are places by the addresses that they had, `known` the ids of the whole file. Links to the web stay.
    """

    def turned(tag: str, attribute: str, value: str) -> str | None:
        if tag != "a" or attribute != "href":
            return value
        parts = urlsplit(html.unescape(value))
        if parts.scheme or parts.netloc:
            return value
        anchor, page = unquote(parts.fragment), pages.get(parts.path.removeprefix("./"))
        if page is not None:
            anchor = within(page.name, anchor) if anchor else page.identity
            anchor = anchor if anchor in known else page.identity
        elif parts.path:
            return None
        return f"#{html.escape(anchor)}" if anchor in known else None

    return _rewritten(part, turned)


def _rewritten(part: str, change: Callable[[str, str, str], str | None]) -> str:
    """Return HTML with other values of attributes, by (tag, attribute, value); None takes an attribute away."""

    def attribute(tag: str, found: re.Match[str]) -> str:
        name, quote, value = found[1], found[2][0], found[2][1:-1]
        new = change(tag, name, value)
        return "" if new is None else f" {name}={quote}{new}{quote}"

    return _TAG.sub(lambda tag: _ATTRIBUTE.sub(lambda found: attribute(tag[1], found), tag[0]), part)

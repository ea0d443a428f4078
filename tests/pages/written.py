"""The pages of a trace as text, and as a browser would parse them."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from typing import Any

from trace_tools.pages.content.compose import make_document
from trace_tools.pages.html import HtmlWriter, SiteContext
from trace_tools.pages.markdown import MarkdownWriter
from trace_tools.trace.model import Trace

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """A parsed page: its tags, its ids, and its text by tag and class; fails if tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[tuple[str, str]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if tag not in VOID:
            self.open.append((tag, attributes.get("class") or ""))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:  # "<br />"
            assert self.open and self.open[-1][0] == tag, (tag, self.open[-3:])
            self.open.pop()

    def handle_data(self, data: str) -> None:
        for tag, style in self.open:
            self.texts += [(name, data) for name in (tag, *style.split())]

    def text(self, name: str) -> str:
        """Return the text of all elements with this tag or class."""
        return re.sub(r"\s+", " ", "".join(data for label, data in self.texts if label == name)).strip()

    def ids(self) -> list[str]:
        return [attributes["id"] or "" for _, attributes in self.tags if "id" in attributes]


def html_pages(trace: Trace) -> dict[str, str]:
    """Return the HTML pages of a machine by their names."""
    document = make_document(trace)
    writer = HtmlWriter(document, SiteContext(picture=lambda address: None))
    pages = {section.slug: writer.section(section)[0] for section in document.sections}
    return pages | {"index": writer.index(), "setup": writer.setup() or ""}


def html(trace: Trace, number: int = 0) -> str:
    """Return the HTML page of a section."""
    return list(html_pages(trace).values())[number]


def markdown_files(trace: Trace) -> dict[str, str]:
    """Return the Markdown pages of a machine and their figures by their names."""
    document = make_document(trace)
    writer = MarkdownWriter(document, SiteContext(picture=lambda address: None))
    pages = {section.slug: writer.section(section) for section in document.sections} | {"index": writer.index()}
    return pages | {name: content.decode("utf-8", "replace") for name, content in writer.files.items()}


def markdown(trace: Trace, number: int = 0) -> str:
    """Return the Markdown page of a section."""
    return list(markdown_files(trace).values())[number]


def unpacked(text: str) -> Any:
    """Decode data as the scripts of a page do."""
    return json.loads(zlib.decompress(base64.b64decode(text)))

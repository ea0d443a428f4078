"""What holds for every page of every trace: it is well formed, self-contained, and its references have targets."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin

from tests.pages.explored import explored_lecture
from tests.pages.hostile import hostile_trace
from tests.pages.lectures import failing, lecture
from tests.pages.played import played
from tests.pages.recording import Recording, of_section
from tests.pages.whole_lecture import ON_THE_WEB, whole_lecture
from tests.pages.written import Page, html_pages, markdown_files, unpacked
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.html import one_file
from trace_tools.pages.player import step_block
from trace_tools.pages.search import index_script
from trace_tools.pages.site import SiteTrace, site_files
from trace_tools.trace.model import Text, Trace

# Headings like parts of a page, and alike.
NAMES = ("Steps", "Panel", "Search", "Index", "Keys", "Step 1", "Text", "Player", "A", "A", "A 2", "A")


def named() -> Trace:
    recording, f = of_section("g()")
    recording.step(f, "g()", narrative=[Text(text=f"# {name}") for name in NAMES])
    return recording.trace()


TRACES = {
    "plain": lecture().trace(),
    "failing": failing().trace(),
    "played": played().trace(),
    "explored": explored_lecture(),
    "whole": whole_lecture(),
    "one section": of_section("pass")[0].trace(),
    "named": named(),
    "no sections": Recording("def main():\n    pass\n").trace(),
    "hostile": hostile_trace(),
}
every_trace = pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES.keys())
LOADED = r"data:image/|data:video/|data:,|figures/|#"
DEAD = "#no"  # a link that the lecture itself wrote
FILES = r"[\w-]+\.js|\.\./machines\.js"  # next to the page, or the site's list of machines
FORBIDDEN = {"iframe", "object", "embed", "form", "base", "foreignobject", "animate", "set"}


@every_trace
def test_html_pages_are_well_formed_and_run_only_their_own_script(trace: Trace, tmp_path: Path) -> None:
    pages = {name: text for name, text in html_pages(trace).items() if text} | {"one file": one_file(trace)}
    pages["site"] = site_files([SiteTrace(trace, "cpu")], tmp_path)[""]["index.html"].decode()
    for name, text in pages.items():
        page, alone = Page(text), name == "one file"
        ids = Counter(page.ids())
        assert [identity for identity, count in ids.items() if count > 1] == []
        assert [tag for tag, attributes in page.tags if "src" not in attributes].count("script") == 1
        assert (alone or "pwned" not in page.text("script")) and "49" not in page.text("h1")  # 7 * 7 of a template
        assert not re.search("[\u202e\x00\x1b]", text) and len(text) < 2_500_000
        for tag, attributes in page.tags:
            assert tag not in FORBIDDEN
            assert "style" not in attributes and not any(name.startswith("on") for name in attributes), attributes
            labels = f"{attributes.get('aria-labelledby') or ''} {attributes.get('aria-describedby') or ''}".split()
            labels += re.findall(r"url\(#([^)]*)\)", " ".join(filter(None, attributes.values())))
            assert {*labels} <= ids.keys(), attributes
            for address in filter(None, map(attributes.get, ("src", "href", "xlink:href"))):
                if tag == "script":
                    assert re.fullmatch(FILES, address) and not alone, address
                elif tag != "a":
                    assert re.match(LOADED, address) or (address == ON_THE_WEB and not alone), (tag, address)
                elif not address.startswith("#"):
                    files = "" if alone else r"|[\w./-]+(#[\w-]+)?$"
                    assert re.match(rf"https?://|mailto:{files}", address), address
                if address.startswith("#"):
                    assert address[1:] in ids or address in (DEAD, "#0--no", "#1--no"), address
        [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
        for tag in ("script", "style"):
            [content] = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            assert f"{tag}-src &#39;sha256-{digest}&#39;" in policy
        assert policy.startswith("default-src &#39;none&#39;") and "unsafe" not in policy
        assert text.index("Content-Security-Policy") < text.index("<style>")
        assert not alone or ("self" not in policy and "http" not in policy)
        assert alone or re.search("script-src .+ &#39;self.+ style-src", policy)


@every_trace
def test_steps_and_search_entries_lead_to_elements_of_a_page(trace: Trace) -> None:
    document = make_document(trace)
    ids = {name: {*Page(text).ids()} for name, text in html_pages(trace).items()}
    for section in document.sections:
        assert {stop.anchor for stop in section.stepping.stops} <= ids[section.slug]
        assert {f"said-{number}" for number, _ in section.stepping.narrations} <= ids[section.slug]
        data = str(unpacked(step_block(section, document.machine)))
        assert not re.search("[\u202e\x1b]", data) and len(data) < 100_000
    index = unpacked(index_script(document).split('"')[1])
    for _, page, anchor, *_ in index["entries"]:
        assert not anchor or anchor in ids[index["pages"][page][0]], (page, anchor)


def parsed(text: str) -> list[Token]:
    """Parse as a code host that allows HTML; inline tokens follow their block's token."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).use(dollarmath_plugin)
    return [part for token in parser.parse(text) for part in (token, *(token.children or []))]


@every_trace
def test_markdown_pages_have_no_other_html_and_links(trace: Trace) -> None:
    for name, text in markdown_files(trace).items():
        assert not re.search("[\u202e\x00\x1b]", text) and len(text) < 1_500_000
        if name.startswith("figures/"):
            assert "<script" not in text and "onload" not in text
            continue
        for token in parsed(text):
            if token.type.startswith("html"):
                folds = re.sub(r"</?details>|<summary>(<code>[^<>]*</code>|[^<>])*</summary>", "", token.content)
                assert not folds.strip(), token.content
            address = str(token.attrs.get("href", token.attrs.get("src", "")))
            assert re.match(r"(https?:|figures/|[\w-]+\.(md|html|yaml|csv)(#|$)|#no$|\.\./index\.md|$)", address), (
                address
            )

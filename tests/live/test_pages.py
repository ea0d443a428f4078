"""The pages of a site, and the script and policy that `serve` adds to each page."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from pathlib import Path

from tests.live.lectures import LECTURE, trace_of_lecture
from tests.pages.test_html import html
from trace_tools.live.pages import ServedTrace, Site, live_page, plain_page, serve_trace
from trace_tools.trace.model import Image, Text, Trace

PATH = Path("trace.yaml")


def served(trace: Trace, text: str = LECTURE) -> ServedTrace:
    return serve_trace(trace, PATH, text, {})


def retraced() -> Trace:
    """Return a trace with another paragraph in the second section."""
    trace = trace_of_lecture()
    text = Text(text="A new paragraph.")
    return replace(trace, steps=[*trace.steps[:-1], replace(trace.steps[-1], narrative=[text])])


def test_pages_are_rendered_once_and_have_fixed_addresses(tmp_path: Path) -> None:
    site = Site(tmp_path, served(trace_of_lecture()))
    names = ["index.html", "setup.html", "search-index.js", "section.js"]
    names += ["00-first.html", "00-first.js", "01-second.html", "01-second.js"]
    assert [*site.addresses] == [f"cpu/{name}" for name in names]
    page = site.page("cpu/00-first.html")
    assert page is not None and page is site.page("cpu/00-first.html") and b"Paragraph 3 says something" in page
    assert site.page("cpu/../secret.html") is None and site.file("cpu/trace.yaml") == PATH


def test_a_section_traced_alone_replaces_its_page(tmp_path: Path) -> None:
    section = served(retraced())
    section = replace(section, document=replace(section.document, sections=section.document.sections[1:]))
    site = Site(tmp_path, served(trace_of_lecture()), section)
    second, first = site.page("cpu/01-second.html") or b"", site.page("cpu/00-first.html") or b""
    assert b"A new paragraph." in second and b"A new paragraph." not in first and b"Paragraph 3" in first


def test_pages_of_a_failed_trace_are_in_a_separate_folder(tmp_path: Path) -> None:
    site = Site(tmp_path, served(trace_of_lecture()), failed=served(retraced()))
    assert "cpu/partial/01-second.html" in site.addresses and "cpu/01-second.html" in site.addresses


def test_large_images_have_their_own_address(tmp_path: Path) -> None:
    (tmp_path / "large.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200_000))
    trace = trace_of_lecture()
    last = replace(trace.steps[-1], narrative=[Image(url="large.png", title="an image")])
    site = Site(tmp_path, served(replace(trace, steps=[*trace.steps[:-1], last])))
    page = (site.page("cpu/01-second.html") or b"").decode()
    name = page.partition('src="figures/')[2].partition('"')[0]
    picture = site.picture(f"cpu/figures/{name}")
    assert picture is not None and picture.media == "image/png"


# --- a page that reloads itself -------------------------------------------------------------------

RENDERED = html(trace_of_lecture()).encode()


def test_a_live_page_differs_from_the_rendered_page_only_in_script_and_policy() -> None:
    live = live_page(RENDERED).content
    assert b"EventSource" in live and b"EventSource" not in RENDERED
    remaining = re.sub(r'<meta name="live-page"[^>]*>', "", live.decode())
    remaining = re.sub(r'<div id="live".*?</script>(?=</body>)', "", remaining, flags=re.DOTALL)
    assert remaining == re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", RENDERED.decode())


def test_the_policy_allows_only_scripts_and_styles_of_the_page() -> None:
    live = live_page(RENDERED)
    policy = dict(part.split(maxsplit=1) for part in live.policy.split("; "))
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        contents = re.findall(rf"<{tag}>(.*?)</{tag}>", live.content.decode(), re.DOTALL)
        hashes = {
            "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'" for text in contents
        }
        files = {"'self'"} if tag == "script" else set()  # pages load scripts such as the search index
        assert hashes | files == set(policy[directive].split()) and len(hashes) == 2
    assert policy["default-src"] == "'none'" and policy["connect-src"] == "'self'"
    assert not re.search(r"<[^>]* on[a-z]+=", live.content.decode())


def test_different_pages_have_different_digests() -> None:
    assert live_page(RENDERED).digest == live_page(RENDERED).digest != live_page(RENDERED + b" ").digest


def test_plain_pages_escape_their_text() -> None:
    page = plain_page("No <such> page", "It & more")
    assert b"<h1>No &lt;such&gt; page</h1><p>It &amp; more</p>" in page.content and b"EventSource" in page.content

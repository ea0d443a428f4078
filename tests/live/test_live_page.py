from __future__ import annotations

import base64
import hashlib
import re

from tests.live.lectures import traced
from tests.pages.test_html import html
from trace_tools.live.live_page import live_page, plain_page

RENDERED = html(traced()).encode()


def test_a_page_is_the_rendered_one_with_a_script() -> None:
    sent = live_page(RENDERED).content
    assert b"EventSource" in sent and b"EventSource" not in RENDERED
    without = re.sub(r'<meta name="live-page"[^>]*>', "", sent.decode())
    without = re.sub(r'<div id="live".*?</script>(?=</body>)', "", without, flags=re.DOTALL)
    assert without == re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", RENDERED.decode())


def test_the_policy_allows_what_is_on_the_page_and_no_more() -> None:
    live = live_page(RENDERED)
    policy = dict(part.split(maxsplit=1) for part in live.policy.split("; "))
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", live.content.decode(), re.DOTALL)
        hashes = {"'sha256-" + base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() + "'" for one in inside}
        beside = {"'self'"} if tag == "script" else set()  # the index of the search
        assert hashes | beside == set(policy[rule].split()) and len(hashes) == 2
    assert policy["default-src"] == "'none'" and policy["connect-src"] == "'self'"
    assert not re.search(r"<[^>]* on[a-z]+=", live.content.decode())


def test_another_page_has_another_digest() -> None:
    assert live_page(RENDERED).digest == live_page(RENDERED).digest != live_page(RENDERED + b" ").digest


def test_a_plain_page_says_its_words_and_no_tags_of_them() -> None:
    page = plain_page("No <such> page", "It & more")
    assert b"<h1>No &lt;such&gt; page</h1><p>It &amp; more</p>" in page.content and b"EventSource" in page.content

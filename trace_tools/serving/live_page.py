"""A page as it is committed → the same page with the script that reloads it.

    live = live_page(html)
    live.content, live.policy        what is sent, and the security policy to send it with

A page's own policy allows only what is in it, and a second one could only narrow that. So it moves to a header,
where the server adds its own script and style by their hashes, and the connection on which it tells of changes.
"""

from __future__ import annotations

import hashlib
import html
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trace_tools.rendering.page_base import source_hash

STATIC = Path(__file__).parent / "static"
EVENTS = "/-/notices"  # no page's address begins like this
MARK = "live-page"  # name of the <meta> that holds the digest of the page

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
_HIDDEN = '<div id="live" class="live" role="status" hidden></div>'


@dataclass(frozen=True, slots=True)
class LivePage:
    """A page to send; `digest` is another when its content is."""

    content: bytes
    policy: str
    digest: str


def live_page(page: bytes) -> LivePage:
    """Put the script into a page that trace_tools rendered."""
    text = page.decode("utf-8")
    digest = hashlib.sha256(page).hexdigest()[:16]
    found = _POLICY.search(text)
    policy = html.unescape(found[1]) if found else "default-src 'none'; script-src 'none'; style-src 'none'"
    head = f'<meta name="{MARK}" content="{digest}">'
    text = text[: found.start()] + head + text[found.end() :] if found else text
    css, js = _asset("live.css"), _asset("live.js")
    before, _, after = text.rpartition("</body>")
    text = f"{before}{_HIDDEN}<style>{css}</style><script>{js}</script></body>{after}"
    return LivePage(text.encode("utf-8"), _widened(policy, css, js), digest)


def plain_page(title: str, text: str) -> LivePage:
    """Return a page for an address where there is none (yet): it, too, is loaded again when that changes."""
    css = _asset("plain.css")
    policy = f"default-src 'none'; script-src 'none'; style-src '{source_hash(css)}'"
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{html.escape(policy, False)}">'
    head += '<meta name="viewport" content="width=device-width, initial-scale=1">'
    body = f"<main><h1>{html.escape(title)}</h1><p>{html.escape(text)}</p></main>"
    page = f"<!doctype html>\n<html lang='en'><head>{head}<title>{html.escape(title)}</title>"
    return live_page(f"{page}<style>{css}</style></head><body>{body}</body></html>".encode())


def _widened(policy: str, css: str, js: str) -> str:
    policy = policy.replace("script-src 'none'", "script-src").replace("script-src", f"script-src '{source_hash(js)}'")
    policy = policy.replace("style-src", f"style-src '{source_hash(css)}'")
    return f"{policy}; connect-src 'self'"


@cache
def _asset(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")

"""Add to a page the script that reloads it after changes.

    live = live_page(html)
    live.content, live.policy        the page and the content security policy to send

A page's own policy allows only its own content, and a second policy could only restrict it further. So the policy moves
to a header, extended by the hashes of the server's script and style and by the connection for status messages.
"""

from __future__ import annotations

import hashlib
import html
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from trace_tools.presentation.page_shell import source_hash

STATIC = Path(__file__).parent / "static"
EVENTS = "/-/notices"  # no page has an address with this prefix
MARK = "live-page"  # name of the <meta> with the digest of the page

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
_HIDDEN = '<div id="live" class="live" role="status" hidden></div>'


@dataclass(frozen=True, slots=True)
class LivePage:
    """A page to send; `digest` changes with its content."""

    content: bytes
    policy: str
    digest: str


def live_page(page: bytes) -> LivePage:
    """Add the script to a rendered page."""
    text = page.decode("utf-8")
    digest = hashlib.sha256(page).hexdigest()[:16]
    meta = _POLICY.search(text)
    policy = html.unescape(meta[1]) if meta else "default-src 'none'; script-src 'none'; style-src 'none'"
    head = f'<meta name="{MARK}" content="{digest}">'
    text = text[: meta.start()] + head + text[meta.end() :] if meta else text
    css, js = _asset("live.css"), _asset("live.js")
    before, _, after = text.rpartition("</body>")
    text = f"{before}{_HIDDEN}<style>{css}</style><script>{js}</script></body>{after}"
    policy = policy.replace("script-src 'none'", "script-src").replace("script-src", f"script-src '{source_hash(js)}'")
    policy = policy.replace("style-src", f"style-src '{source_hash(css)}'")
    return LivePage(text.encode("utf-8"), f"{policy}; connect-src 'self'", digest)


def plain_page(title: str, text: str) -> LivePage:
    """Return a page for an address that has no page (yet); it is reloaded as well."""
    css = _asset("plain.css")
    policy = f"default-src 'none'; script-src 'none'; style-src '{source_hash(css)}'"
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{html.escape(policy, False)}">'
    head += '<meta name="viewport" content="width=device-width, initial-scale=1">'
    body = f"<main><h1>{html.escape(title)}</h1><p>{html.escape(text)}</p></main>"
    page = f"<!doctype html>\n<html lang='en'><head>{head}<title>{html.escape(title)}</title>"
    return live_page(f"{page}<style>{css}</style></head><body>{body}</body></html>".encode())


@cache
def _asset(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")

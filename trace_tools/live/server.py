"""Serve a folder of pages and a stream of status messages to browsers on this machine.

    server = Server(application(Path(".serve"), lambda: session.status), listening(8000))
    server.start(); …; server.stop()

The server answers GET and HEAD on 127.0.0.1, and only requests with its own host name. A page elsewhere with a name
that resolves to this machine (DNS rebinding) has another host name.
"""

from __future__ import annotations

import asyncio
import html
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from trace_tools.errors import UsageError
from trace_tools.live.session import Status
from trace_tools.presentation.page_shell import source_hash

HOST = "127.0.0.1"
EVENTS = "/-/status"  # no page has an address with this prefix
POLL_S = 0.05  # seconds between a stream's checks for a message
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
STATIC = Path(__file__).parent / "static"


def listening(port: int) -> socket.socket:
    """Return a socket that listens on a port of this machine, 0 for any free one. Raises UsageError if the port is
    taken.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"port {port} of {HOST}: {reason.lower()}; choose another with --port") from None
    return listener


class Server:
    """Serves in a thread of its own, because the main thread receives signals."""

    def __init__(self, app: Starlette, at: socket.socket) -> None:
        self._socket = at
        config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [at]}, name="server", daemon=True)

    @property
    def address(self) -> str:
        """The URL of the server."""
        return f"http://{HOST}:{self._socket.getsockname()[1]}/"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the streams and the server."""
        self._server.should_exit = True
        if self._thread.ident is not None:  # the thread was started
            self._thread.join(3)
        self._socket.close()


def application(folder: Path, status: Callable[[], Status]) -> Starlette:
    """Return an application that serves the files of a folder, with a script in each page for the status."""
    files = StaticFiles(directory=folder, check_dir=False)

    async def page(request: Request) -> Response:
        address = request.path_params["address"]
        if not address:
            return RedirectResponse("/index.html", headers=HEADERS)
        try:
            response = await files.get_response(address, request.scope)
        except HTTPException as error:
            text = "It may appear when the lecture has run." if error.status_code == 404 else error.detail
            return HTMLResponse(_live(f"<!doctype html><p>No such page. {text}</p>"), error.status_code, HEADERS)
        if address.endswith(".html"):
            text = (folder / address).read_text(encoding="utf-8")
            return HTMLResponse(_live(text), headers=HEADERS)
        response.headers.update(HEADERS)
        return response

    async def events(request: Request) -> Response:
        async def stream() -> AsyncIterator[str]:
            sent = None
            while True:  # until the browser leaves, or the server stops
                if (current := status()) is not sent:
                    yield f"data: {json.dumps(asdict(current))}\n\n"
                    sent = current
                await asyncio.sleep(POLL_S)

        return StreamingResponse(stream(), media_type="text/event-stream", headers=HEADERS)

    return Starlette(
        routes=[Route(EVENTS, events), Route("/{address:path}", page)],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"], www_redirect=False)],
    )


def _live(page: str) -> str:
    """Add the script and its style to a page, and allow them in the page's own policy."""
    css, js = _asset("live.css"), _asset("live.js")
    for kind, text in (("script-src", js), ("style-src", css)):
        page = page.replace(f"; {kind} ", f"; {kind} {html.escape(repr(source_hash(text)))} ", 1)
    page = page.replace("; base-uri ", f"; connect-src {html.escape(repr('self'))}; base-uri ", 1)
    before, body, after = page.rpartition("</body>")
    live = f'<div id="live" class="live" role="status" hidden></div><style>{css}</style><script>{js}</script>'
    return f"{before}{live}{body}{after}" if body else page + live


@cache
def _asset(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")

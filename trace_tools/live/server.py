"""Serve pages and a stream of status messages to browsers on this machine.

    server = Server(application(statuses, lambda: site), statuses, listening(8000))
    server.start(); …; server.stop()

The server answers GET and HEAD on 127.0.0.1, and only requests with its own host name. A page elsewhere with a name
that resolves to this machine (DNS rebinding) has another host name.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict

import jinja2
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from trace_tools.errors import TraceToolsError, UsageError
from trace_tools.live.pages import EVENTS, PARTIAL, LivePage, Site, live_page, plain_page
from trace_tools.live.status import StatusBoard

HOST = "127.0.0.1"
HOSTS = [HOST, "localhost"]
POLL_S = 0.05  # seconds between a stream's checks for a message
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


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

    def __init__(self, app: Starlette, statuses: StatusBoard, at: socket.socket) -> None:
        self._statuses = statuses
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
        """End the streams, then the server."""
        self._statuses.close()
        self._server.should_exit = True
        if self._thread.ident is not None:  # the thread was started
            self._thread.join(3)
        self._socket.close()


def application(statuses: StatusBoard, site: Callable[[], Site]) -> Starlette:
    """Return the application; it calls `site` at each request for the current pages."""
    live = _Live(statuses, site)
    return Starlette(
        routes=[
            Route("/", live.first),
            Route(EVENTS, live.notices),
            Route("/{address:path}", live.page),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)],
    )


class _Live:
    """Answers requests."""

    def __init__(self, statuses: StatusBoard, site: Callable[[], Site]) -> None:
        self._statuses = statuses
        self._site = site

    async def first(self, request: Request) -> Response:
        first = next(iter(self._site().addresses), None)
        if first is None:
            return _html(plain_page("No pages yet", "They appear when the lecture has been traced."), 404)
        return RedirectResponse(f"/{first}", headers=HEADERS)

    async def page(self, request: Request) -> Response:
        address = request.path_params["address"]
        site = self._site()
        file, picture = site.file(address), site.picture(address)
        if file is not None:
            return FileResponse(file, media_type="text/plain; charset=utf-8", headers=HEADERS)
        if picture is not None:
            policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
            return Response(picture.content, media_type=picture.media, headers=HEADERS | policy)
        try:
            page = await run_in_threadpool(site.page, address)
        except Exception as error:  # a template can raise anything
            problem = _error_line(error)
            self._statuses.post(problems=(f"{address} can't be rendered: {problem}",), link="")
            return _html(plain_page("This page can't be rendered", problem), 500)
        if page is None and (instead := address.replace(f"/{PARTIAL}/", "/")) in site.addresses:
            return RedirectResponse(f"/{instead}", headers=HEADERS)  # the page exists again
        if page is None:
            return _html(plain_page("No such page", "It may appear after the next save of the lecture."), 404)
        if address.endswith(".js"):
            return Response(page, media_type="text/javascript", headers=HEADERS)
        return _html(live_page(page))

    async def notices(self, request: Request) -> Response:
        return StreamingResponse(self._stream(), media_type="text/event-stream", headers=HEADERS)

    async def _stream(self) -> AsyncIterator[str]:
        sent = None
        while not self._statuses.closed:
            status = self._statuses.latest
            if status is not sent:
                yield f"data: {json.dumps(asdict(status))}\n\n"
                sent = status
            await asyncio.sleep(POLL_S)


def _html(page: LivePage, status: int = 200) -> Response:
    headers = HEADERS | {"Content-Security-Policy": page.policy, "ETag": f'"{page.digest}"'}
    return Response(page.content, status, headers, media_type="text/html")


def _error_line(error: Exception) -> str:
    """Return a line with the error and its position, such as the line of a template."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"{error.filename or error.name}:{error.lineno}: {error.message}"
    inner = next(
        (f"{entry.filename}:{entry.lineno}: " for entry in reversed(frames) if entry.filename.endswith(".j2")), ""
    )
    return f"{inner}{type(error).__name__}: {error}" if not isinstance(error, TraceToolsError) else str(error)

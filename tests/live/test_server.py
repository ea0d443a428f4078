"""The HTTP responses of the server: pages, files and errors, and which hosts and methods it refuses."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from jinja2 import FileSystemLoader

from tests.cases_in_one import each
from tests.live.lectures import LECTURE, trace_of_lecture
from trace_tools.errors import UsageError
from trace_tools.live.pages import Site, live_page, serve_trace
from trace_tools.live.server import Server, application, listening
from trace_tools.live.status import StatusBoard
from trace_tools.pages import html
from trace_tools.presentation import page_shell
from trace_tools.trace.model import Image

LARGE = b"\x89PNG\r\n\x1a\n" + bytes(200_000)


class Client:
    """Sends requests to a running server; holds the statuses and the site that it serves."""

    def __init__(self, statuses: StatusBoard, site: Site, server: Server) -> None:
        self.statuses = statuses
        self.site = site
        self.port = urlsplit(server.address).port or 0

    def request(self, path: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        """Send a request; return the response and its body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        return response, response.read()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "secret.txt").write_text("secret")
    (folder / "large.png").write_bytes(LARGE)
    (folder / "trace.yaml").write_text("schema: 1\n")
    trace = trace_of_lecture()
    picture = Image(url="large.png", title="an image")
    trace.steps[-1] = replace(trace.steps[-1], narrative=[picture])
    statuses = StatusBoard()
    site = Site(folder, serve_trace(trace, folder / "trace.yaml", LECTURE, {}))
    server = Server(application(statuses, lambda: site), statuses, listening(0))
    server.start()
    yield Client(statuses, site, server)
    server.stop()


def test_a_page_is_sent_with_its_policy(client: Client) -> None:
    response, body = client.request("/cpu/00-first.html")
    live = live_page(client.site.page("cpu/00-first.html") or b"")
    assert (response.status, body, response.headers["Content-Security-Policy"]) == (200, live.content, live.policy)


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        ("search-index", b'searchIndex = "'),
        ("section", b'sectionStyle = "'),
        ("00-first", b"const sectionData = {"),
    ],
)
def test_files_that_pages_load_later_are_sent_as_scripts(client: Client, name: str, beginning: bytes) -> None:
    response, body = client.request(f"/cpu/{name}.js")
    assert response.headers["Content-Type"].startswith("text/javascript") and body.startswith(beginning)


def test_root_redirects_to_the_index_and_the_trace_and_images_are_sent(client: Client) -> None:
    response, _ = client.request("/")
    assert (response.status, response.headers["Location"]) == (307, "/cpu/index.html")
    assert client.request("/cpu/trace.yaml")[1] == b"schema: 1\n"
    page = client.request("/cpu/01-second.html")[1].decode()
    [path] = re.findall(r'src="(figures/[^"]+\.png)"', page)
    response, body = client.request(f"/cpu/{path}")
    assert body == LARGE and response.headers["Content-Type"] == "image/png"


@each(
    "path",
    [
        "/secret.txt", "/cpu/secret.txt", "/../secret.txt", "/cpu/../secret.txt", "/cpu/%2e%2e/secret.txt",
        "/..%2fsecret.txt", "//secret.txt", "/cpu/figures/../../secret.txt", "/etc/passwd", "//etc/passwd",
        "/cpu/00-first.html/", "/cpu/00-first.html%00", "/cpu", "/lecture.py", "/static/live.js",
    ],
)  # fmt: skip
def test_other_paths_are_not_found_and_reveal_no_file(client: Client, path: str) -> None:
    response, body = client.request(path)
    assert response.status == 404 and b"No such page" in body and b"secret" not in body


@each("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:80"])
@each("path", ["/", "/cpu/00-first.html", "/-/notices"])
def test_other_host_names_are_refused(client: Client, host: str, path: str) -> None:
    response, body = client.request(path, Host=host)
    assert response.status == 400 and b"Paragraph" not in body


def test_local_host_names_are_accepted(client: Client) -> None:
    for host in (f"localhost:{client.port}", f"127.0.0.1:{client.port}", "localhost"):
        assert client.request("/cpu/00-first.html", Host=host)[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(client: Client, method: str) -> None:
    assert client.request("/cpu/00-first.html", method)[0].status == 405


def test_other_machines_cannot_connect(client: Client) -> None:
    """The server does not listen at this machine's address in the network, unless that is a loopback address."""
    with socket.socket() as connection:
        connection.settimeout(2)
        try:
            connection.connect((socket.gethostbyname(socket.gethostname()), client.port))
        except OSError:
            return
        assert connection.getpeername()[0].startswith("127.")


def test_notices_are_streamed(client: Client) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=5)
    connection.request("GET", "/-/notices")
    response = connection.getresponse()
    assert response.headers["Content-Type"].startswith("text/event-stream")

    def next_notice() -> dict[str, object]:
        lines = iter(response.readline, b"")
        line = next(line for line in lines if line.startswith(b"data: "))
        return json.loads(line.removeprefix(b"data: "))

    before = next_notice()
    client.statuses.post(doing="Tracing", problems=("lecture.py:3: wrong\n</script>",))
    assert next_notice() == {**before, "doing": "Tracing", "problems": ["lecture.py:3: wrong\n</script>"]}
    client.statuses.post(doing="", problems=())  # for the other tests
    connection.close()


def test_an_error_while_rendering_is_sent_and_posted(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "section.html.j2").write_text("{% if %}")
    environment = html._environment().overlay(cache_size=0)
    environment.loader = FileSystemLoader([tmp_path, page_shell.HERE / "templates"])
    monkeypatch.setattr(html, "_environment", lambda: environment)
    site = Site(tmp_path, serve_trace(trace_of_lecture(), tmp_path, LECTURE, {}))
    monkeypatch.setattr(client.site, "page", site.page)
    response, body = client.request("/cpu/01-second.html")
    assert response.status == 500 and b"can&#x27;t be rendered" in body
    assert "section.html.j2:1: Expected an expression" in client.statuses.latest.problems[0]


def test_a_port_in_use_is_an_error() -> None:
    with listening(0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port} of 127.0.0.1: address already in use; .* --port"):
            listening(port)

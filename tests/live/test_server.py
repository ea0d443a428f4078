"""The HTTP responses of the server: pages and files, and which paths, hosts and methods it refuses."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import pytest

from tests.cases_in_one import each
from trace_tools.errors import UsageError
from trace_tools.live.server import Server, application, listening
from trace_tools.live.session import Status


@dataclass
class Client:
    """Sends requests to a running server; holds the status that it streams."""

    port: int
    status: Status

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
    (folder / "pages" / "cpu").mkdir(parents=True)
    (folder / "pages" / "index.html").write_text("<!doctype html><body>the index</body>")
    (folder / "pages" / "cpu" / "section.js").write_text('sectionStyle = "";')
    (folder / "pages" / "cpu" / "trace.yaml").write_text("schema: 1\n")
    client = Client(0, Status())
    server = Server(application(folder / "pages", lambda: client.status), listening(0))
    client.port = urlsplit(server.address).port or 0
    server.start()
    yield client
    server.stop()


def test_pages_get_the_script_and_other_files_are_unchanged(client: Client) -> None:
    response, body = client.request("/")
    assert (response.status, response.headers["Location"]) == (307, "/index.html")
    response, body = client.request("/index.html")
    assert response.status == 200 and body.startswith(b"<!doctype html><body>the index") and b"EventSource" in body
    response, body = client.request("/cpu/section.js")
    assert body == b'sectionStyle = "";' and "javascript" in response.headers["Content-Type"]
    assert client.request("/cpu/trace.yaml")[1] == b"schema: 1\n"


@each(
    "path",
    [
        "/secret.txt", "/../secret.txt", "/cpu/../../secret.txt", "/cpu/%2e%2e/%2e%2e/secret.txt", "/..%2fsecret.txt",
        "//secret.txt", "/etc/passwd", "//etc/passwd", "/cpu/absent.html", "/cpu", "/%00", "/index.html%00",
    ],
)  # fmt: skip
def test_other_paths_are_not_found_and_reveal_no_file(client: Client, path: str) -> None:
    response, body = client.request(path)
    assert response.status == 404 and b"No such page" in body and b"secret" not in body and b"root:" not in body


@each("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:80"])
@each("path", ["/index.html", "/-/status"])
def test_other_host_names_are_refused(client: Client, host: str, path: str) -> None:
    response, body = client.request(path, Host=host)
    assert response.status == 400 and b"the index" not in body


def test_other_methods_and_machines_are_refused(client: Client) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert client.request("/index.html", method)[0].status == 405
    with socket.socket() as listener:
        assert listener.connect_ex(("127.0.0.2", client.port)) != 0  # it listens at 127.0.0.1 alone


def test_the_status_is_streamed(client: Client) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=5)
    connection.request("GET", "/-/status")
    response = connection.getresponse()
    assert response.headers["Content-Type"].startswith("text/event-stream")

    def next_status() -> dict[str, object]:
        lines = iter(response.readline, b"")
        line = next(line for line in lines if line.startswith(b"data: "))
        return dict(json.loads(line.removeprefix(b"data: ")))

    assert next_status() == {"edition": 0, "doing": "", "problems": []}
    client.status = replace(client.status, doing="Running", problems=("lecture.py:3: wrong\n</script>",))
    assert next_status() == {"edition": 0, "doing": "Running", "problems": ["lecture.py:3: wrong\n</script>"]}
    connection.close()


def test_a_port_in_use_is_an_error() -> None:
    with listening(0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UsageError, match=rf"port {port} of 127.0.0.1: address already in use; .* --port"):
            listening(port)

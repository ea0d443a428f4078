"""The HTTP responses of the server: pages and files, and which paths, hosts and methods it refuses."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.cases_in_one import each
from trace_tools.errors import UsageError
from trace_tools.live.server import Server, application, listening
from trace_tools.live.session import Status

STATUS = [Status()]  # the last one is streamed


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "pages" / "cpu").mkdir(parents=True)
    for name, text in {
        "secret.txt": "secret",
        "pages/index.html": "<!doctype html><body>the index</body>",
        "pages/cpu/section.js": 'sectionStyle = "";',
        "pages/cpu/trace.yaml": "schema: 1\n",
    }.items():
        (folder / name).write_text(text)
    server = Server(application(folder / "pages", lambda: STATUS[-1]), listening(0))
    server.start()
    yield urlsplit(server.address).port or 0
    server.stop()


def request(
    port: int, path: str, method: str = "GET", host: str | None = None
) -> tuple[http.client.HTTPResponse, bytes]:
    """Send a request; return the response and its body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.putrequest(method, path, skip_host=host is not None)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    response = connection.getresponse()
    return response, response.read()


def test_pages_get_the_script_and_other_files_are_unchanged(port: int) -> None:
    response, _ = request(port, "/")
    assert (response.status, response.headers["Location"]) == (307, "/index.html")
    response, body = request(port, "/index.html")
    assert response.status == 200 and body.startswith(b"<!doctype html><body>the index") and b"EventSource" in body
    response, body = request(port, "/cpu/section.js")
    assert body == b'sectionStyle = "";' and "javascript" in response.headers["Content-Type"]
    assert request(port, "/cpu/trace.yaml")[1] == b"schema: 1\n"


@each(
    "path",
    [
        "/secret.txt", "/../secret.txt", "/cpu/../../secret.txt", "/cpu/%2e%2e/%2e%2e/secret.txt", "/..%2fsecret.txt",
        "//secret.txt", "/etc/passwd", "//etc/passwd", "/cpu/absent.html", "/cpu", "/%00", "/index.html%00",
    ],
)  # fmt: skip
def test_other_paths_are_not_found_and_reveal_no_file(port: int, path: str) -> None:
    response, body = request(port, path)
    assert response.status == 404 and b"No such page" in body and b"secret" not in body and b"root:" not in body


@each("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:80"])
@each("path", ["/index.html", "/-/status"])
def test_other_host_names_are_refused(port: int, host: str, path: str) -> None:
    response, body = request(port, path, host=host)
    assert response.status == 400 and b"the index" not in body


def test_other_methods_machines_and_ports_in_use_are_refused(port: int) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert request(port, "/index.html", method)[0].status == 405
    with socket.socket() as listener:
        assert listener.connect_ex(("127.0.0.2", port)) != 0  # it listens at 127.0.0.1 alone
    with pytest.raises(UsageError, match=rf"port {port} of 127.0.0.1: address already in use; .* --port"):
        listening(port)


def test_the_status_is_streamed(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", "/-/status")
    response = connection.getresponse()
    assert response.headers["Content-Type"].startswith("text/event-stream")
    problems = ["lecture.py:3: wrong\n</script>"]
    for doing, expected in (("", []), ("Running", problems)):
        STATUS.append(Status(doing=doing, problems=tuple(expected)))
        line = next(line for line in iter(response.readline, b"") if line.startswith(b"data: "))
        assert json.loads(line.removeprefix(b"data: ")) == {"edition": 0, "doing": doing, "problems": expected}
    connection.close()

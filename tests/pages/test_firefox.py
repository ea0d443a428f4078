"""Pages in Firefox: they open, step and log no error. Everything else is tested in Chromium.

The test drives Firefox by WebDriver BiDi, which needs no program but Firefox.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import until
from tests.programs import missing, require


class Firefox:
    """A browser with one window."""

    def __init__(self, address: str) -> None:
        websocket = pytest.importorskip("websocket", reason="websocket-client is not installed")
        self.numbers, self.errors = itertools.count(1), []
        self.socket = websocket.create_connection(f"{address}/session", suppress_origin=True, timeout=60)
        self.send("session.new", capabilities={})
        self.send("session.subscribe", events=["log.entryAdded"])
        self.context = self.send("browsingContext.create", type="tab")["context"]

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (answer := json.loads(self.socket.recv())).get("id") != number:
            if answer.get("method") == "log.entryAdded" and answer["params"]["level"] == "error":
                self.errors.append(answer["params"]["text"])
        assert answer["type"] == "success", answer
        return answer["result"]

    def ask(self, expression: str) -> Any:
        """Return the value of a JavaScript expression: a number, a text or a boolean."""
        target = {"context": self.context}
        answer = self.send("script.evaluate", expression=expression, target=target, awaitPromise=True)
        assert answer["type"] == "success", answer
        return answer["result"]["value"]

    def press(self, key: str) -> None:
        """Type a key, and wait until the page has drawn its effect."""
        actions = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        source = {"type": "key", "id": "keyboard", "actions": actions}
        self.send("input.performActions", context=self.context, actions=[source])
        self.ask("new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(0))))")


@pytest.fixture
def firefox(tmp_path: Path) -> Iterator[Firefox]:
    """Start Firefox with a new profile; skip the test if it is not installed."""
    (binary,) = require("firefox|firefox-esr")
    (tmp_path / "user.js").write_text('user_pref("remote.active-protocols", 1);\n', encoding="utf-8")
    command = [binary, "--headless", "--no-remote", "--profile", str(tmp_path), "--remote-debugging-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = next((match[1] for line in process.stderr if (match := re.search(r"(ws://\S+)", line))), None)
        if address is None:
            missing("Firefox does not start")
        browser = Firefox(address)
        yield browser
        with contextlib.suppress(Exception):  # a browser that has died has no connection
            browser.socket.close()
        process.terminate()


@pytest.mark.slow
def test_pages_open_and_step(firefox: Firefox, site: Path) -> None:
    for page in ("index.html", "golden/index.html", "golden/01-computing.html"):
        address = (site / page).as_uri()
        firefox.send("browsingContext.navigate", context=firefox.context, url=address, wait="complete")
        assert firefox.ask("document.querySelector('h1').innerText.length > 0"), page
    until(lambda: not firefox.ask("document.getElementById('player').hidden"))  # it has read its steps
    visited = []
    for key in "lllh":
        firefox.press(key)
        visited.append(firefox.ask("Number(document.getElementById('step-done').value)"))
    assert visited == [1, 2, 3, 2]
    assert firefox.ask("document.querySelectorAll('.current').length") == 1
    assert firefox.errors == []

"""Firefox for tests of pages, with the methods of selenium's driver that they use.

The tests drive it by WebDriver BiDi, which needs no program but Firefox. A test that needs more than BiDi is skipped.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import Any, NoReturn

import pytest

from tests.programs import require

PREFERENCES = {
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.disable_open_during_load": False,  # pages open the presenter's window by a key
    "remote.active-protocols": 1,  # WebDriver BiDi
    "toolkit.telemetry.enabled": False,
    "ui.useOverlayScrollbars": 1,
}
SHOWN = "arguments[0].checkVisibility({visibilityProperty: true}) && arguments[0].getClientRects().length > 0"
MODIFIERS = ("\ue008", "\ue009", "\ue00a")  # shift, control, alt
TYPED = {"\n": "\ue006", "\b": "\ue003", "\t": "\ue004"}  # characters that stand for keys


class Firefox:
    """A browser with one current window."""

    def __init__(self) -> None:
        self._errors = pytest.importorskip("selenium.common.exceptions", reason="selenium is not installed")
        websocket = pytest.importorskip("websocket", reason="websocket-client is not installed")
        (binary,) = require("firefox|firefox-esr")
        self._numbers = itertools.count(1)
        self._messages: list[dict[str, str]] = []
        self._wait_s, self._script_s = 0.0, 30.0
        self._profile = tempfile.mkdtemp(prefix="firefox-")
        with open(f"{self._profile}/user.js", "w", encoding="utf-8") as preferences:
            preferences.writelines(f'user_pref("{key}", {json.dumps(value)});\n' for key, value in PREFERENCES.items())
        command = [binary, "--headless", "--no-remote", "--profile", self._profile, "--remote-debugging-port", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        address = next((match[1] for line in self._process.stderr if (match := re.search(r"(ws://\S+)", line))), None)
        if address is None:
            pytest.skip("Firefox does not start")
        self._timeout = websocket.WebSocketTimeoutException
        self._socket = websocket.create_connection(f"{address}/session", suppress_origin=True, timeout=60)
        self._send("session.new", capabilities={})
        self._send("session.subscribe", events=["log.entryAdded", "browsingContext.load"])
        (first,) = self.window_handles  # the first window never gets the focus
        self.current_window_handle = str(self._send("browsingContext.create", type="tab")["context"])
        self._send("browsingContext.close", context=first)

    def quit(self) -> None:
        """End the browser and delete its profile."""
        self._socket.close()
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; raise as selenium does if the browser reports an error."""
        number = next(self._numbers)
        self._socket.settimeout(max(60.0, self._script_s))
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            try:
                answer = json.loads(self._socket.recv())
            except self._timeout:
                raise self._errors.TimeoutException(method) from None
            if answer.get("method") == "browsingContext.load":
                self._socket.settimeout(1)  # a script of the previous page does not answer any more
            elif answer.get("method") == "log.entryAdded":
                entry = answer["params"]
                level = "SEVERE" if entry["level"] == "error" else entry["level"].upper()
                self._messages.append({"level": level, "message": str(entry["text"])})
            elif answer.get("id") == number:
                if answer["type"] == "error":
                    raise self._errors.WebDriverException(f"{answer['error']}: {answer['message']}")
                return answer["result"]  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        pytest.skip(f"Firefox without a driver has no {name}")

    # ------------------------------------------------------------------ windows and pages

    @property
    def window_handles(self) -> list[str]:
        """Names of all windows, oldest first."""
        return [window["context"] for window in self._send("browsingContext.getTree", maxDepth=0)["contexts"]]

    @property
    def switch_to(self) -> Firefox:
        """Return this object, which has `window` and `active_element`."""
        return self

    def window(self, handle: str) -> None:
        """Make another window the current one."""
        self.current_window_handle = handle
        self._send("browsingContext.activate", context=handle)

    def close(self) -> None:
        """Close the current window."""
        self._send("browsingContext.close", context=self.current_window_handle)

    def get(self, address: str) -> None:
        """Open a page and wait until it is loaded."""
        self._send("browsingContext.navigate", context=self.current_window_handle, url=address, wait="complete")

    def refresh(self) -> None:
        """Load the page again."""
        self._send("browsingContext.reload", context=self.current_window_handle, wait="complete")

    @property
    def current_url(self) -> str:
        """Address of the page."""
        return str(self.execute_script("return location.href"))

    def resize(self, width: int, height: int) -> None:
        """Give the page this size, in pixels of CSS."""
        size = {"width": width, "height": height}
        self._send("browsingContext.setViewport", context=self.current_window_handle, viewport=size)

    def get_log(self, kind: str) -> list[dict[str, str]]:
        """Return the messages of the console since the last call, and forget them."""
        if kind != "browser":
            pytest.skip(f"Firefox has no log {kind!r}")
        self.execute_script("")  # when it answers, earlier messages have arrived
        messages, self._messages = self._messages, []
        return messages

    def get_screenshot_as_base64(self) -> str:
        """Return a screenshot of the visible part, as PNG."""
        screenshot = self._send("browsingContext.captureScreenshot", context=self.current_window_handle)
        return str(screenshot["data"])

    def execute_cdp_cmd(self, command: str, parameters: dict[str, Any]) -> None:
        """Do what a command of Chromium's own protocol does, if BiDi can."""
        if command == "Emulation.setDeviceMetricsOverride":
            self.resize(parameters["width"], parameters["height"])
        elif command == "Emulation.setTouchEmulationEnabled" and not parameters["enabled"]:
            pass  # touch is never emulated
        else:
            pytest.skip(f"Firefox has no {command}")

    # ------------------------------------------------------------------ scripts

    def set_script_timeout(self, seconds: float) -> None:
        """Limit the time of a script."""
        self._script_s = seconds

    def execute_script(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function and return its value; await it if it is a promise."""
        return self._call(f"function() {{ {script}\n}}", arguments)

    def execute_async_script(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function that passes its value to its last argument, a callback."""
        body = f"const run = function() {{ {script}\n}}"
        promised = "new Promise(done => run.apply(null, [...arguments, done]))"
        with suppress(self._errors.TimeoutException):  # another page was loaded
            return self._call(f"function() {{ {body}; return {promised}; }}", arguments)

    def _call(self, function: str, arguments: tuple[Any, ...]) -> Any:
        answer = self._send(
            "script.callFunction",
            functionDeclaration=function,
            awaitPromise=True,
            arguments=[_encoded(argument) for argument in arguments],
            target={"context": self.current_window_handle},
            userActivation=True,
            serializationOptions={"maxDomDepth": 0},
        )
        if answer["type"] == "exception":
            text = answer["exceptionDetails"]["text"]
            if "about:neterror" in text:
                return None  # Firefox's page for a missing file runs no scripts
            raise self._errors.JavascriptException(text)
        return self._received(answer["result"])

    def _received(self, value: dict[str, Any]) -> Any:
        kind, content = value["type"], value.get("value")
        if kind in ("array", "nodelist", "htmlcollection", "set"):
            return [self._received(item) for item in content or ()]
        if kind in ("object", "map"):
            return {key: self._received(item) for key, item in content or ()}
        if kind == "node":
            return Element(self, value["sharedId"])
        if kind == "number" and isinstance(content, str):
            return float(content.replace("Infinity", "inf").replace("-0", "-0.0"))
        return content

    # ------------------------------------------------------------------ elements

    def implicitly_wait(self, seconds: float) -> None:
        """Set how long `find_element` waits for its element."""
        self._wait_s = seconds

    @property
    def active_element(self) -> Element:
        """The element with the focus."""
        return self.execute_script("return document.activeElement")  # type: ignore[no-any-return]

    def find_elements(self, by: str, value: str, root: Element | None = None) -> list[Element]:
        """Return the elements that match at this moment."""
        selector = f'[id="{value}"]' if by == "id" else value
        return self.execute_script(  # type: ignore[no-any-return]
            "return [...(arguments[1] || document).querySelectorAll(arguments[0])]", selector, root
        )

    def find_element(self, by: str, value: str, root: Element | None = None) -> Element:
        """Wait for a matching element and return the first."""
        end = time.monotonic() + self._wait_s
        while not (elements := self.find_elements(by, value, root)):
            if time.monotonic() > end:
                raise self._errors.NoSuchElementException(value)
            time.sleep(0.02)
        return elements[0]

    def perform(self, kind: str, actions: list[dict[str, Any]]) -> None:
        """Perform actions of a mouse or a keyboard, and wait until the page has drawn their effect."""
        source = {"type": kind, "id": kind, "actions": actions}
        self._send("input.performActions", context=self.current_window_handle, actions=[source])
        with suppress(self._errors.WebDriverException):  # the actions opened another page, or closed this one
            self.execute_script("return new Promise(done => requestAnimationFrame(() => setTimeout(done)))")


class Element:
    """An element of a page, with the methods of selenium's elements that tests use."""

    def __init__(self, browser: Firefox, shared_id: str) -> None:
        self.browser, self.shared_id = browser, shared_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Element) and other.shared_id == self.shared_id

    def __hash__(self) -> int:
        return hash(self.shared_id)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        pytest.skip(f"Firefox without a driver has no {name} of an element")

    def _ask(self, expression: str, *arguments: Any) -> Any:
        return self.browser.execute_script(f"return {expression}", self, *arguments)

    @property
    def text(self) -> str:
        """Its visible text."""
        return str(self._ask("arguments[0].innerText")).strip() if self.is_displayed() else ""

    @property
    def tag_name(self) -> str:
        """Its name in lower case."""
        return str(self._ask("arguments[0].localName"))

    @property
    def size(self) -> dict[str, float]:
        """Its width and height."""
        box = "arguments[0].getBoundingClientRect()"
        return {"width": self._ask(f"{box}.width"), "height": self._ask(f"{box}.height")}

    def is_displayed(self) -> bool:
        """Return whether it is visible."""
        return bool(self._ask(SHOWN))

    def is_selected(self) -> bool:
        """Return whether it is checked or selected."""
        return bool(self._ask("arguments[0].checked || arguments[0].selected"))

    def is_enabled(self) -> bool:
        """Return whether it can be used."""
        return not self._ask("arguments[0].disabled")

    def get_property(self, name: str) -> Any:
        """Return a property."""
        return self._ask("arguments[0][arguments[1]]", name)

    def get_attribute(self, name: str) -> str | None:
        """Return a property, as text, or else an attribute."""
        script = "const [one, name] = arguments, has = typeof one[name] != 'object' && one[name] !== undefined;"
        value = self.browser.execute_script(f"{script} return has ? one[name] : one.getAttribute(name)", self, name)
        return value if value is None or isinstance(value, str) else json.dumps(value)

    def find_element(self, by: str, value: str) -> Element:
        """Return the first matching element inside this one."""
        return self.browser.find_element(by, value, self)

    def find_elements(self, by: str, value: str) -> list[Element]:
        """Return the matching elements inside this one."""
        return self.browser.find_elements(by, value, self)

    def click(self) -> None:
        """Scroll to it and click its middle."""
        self._ask("arguments[0].scrollIntoView({block: 'nearest', behavior: 'instant'})")
        middle = {"type": "element", "element": {"sharedId": self.shared_id}}
        press = [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.browser.perform("pointer", [{"type": "pointerMove", "x": 0, "y": 0, "origin": middle}, *press])

    def drag(self, right: int, down: int) -> None:
        """Press the mouse on the element, move it by some pixels, and release it."""
        middle = {"type": "element", "element": {"sharedId": self.shared_id}}
        actions = [
            {"type": "pointerMove", "x": 0, "y": 0, "origin": middle},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerMove", "x": right, "y": down, "origin": "pointer", "duration": 50},
            {"type": "pointerUp", "button": 0},
        ]
        self.browser.perform("pointer", actions)

    def clear(self) -> None:
        """Empty a field."""
        self._ask("(arguments[0].value = '', arguments[0].dispatchEvent(new Event('input', {bubbles: true})))")

    def send_keys(self, *keys: str) -> None:
        """Focus the element and type; a modifier is held until it is typed again, or to the end."""
        self._ask("document.activeElement == arguments[0] || arguments[0].focus()")
        actions: list[dict[str, Any]] = []
        held: list[str] = []
        for key in "".join(keys):
            value = TYPED.get(key, key)
            if value in held:
                held.remove(value)
                actions.append({"type": "keyUp", "value": value})
                continue
            actions.append({"type": "keyDown", "value": value})
            if value in MODIFIERS:
                held.append(value)
            else:
                actions.append({"type": "keyUp", "value": value})
        self.browser.perform("key", [*actions, *({"type": "keyUp", "value": value} for value in held)])


def _encoded(value: Any) -> dict[str, Any]:
    """Encode a value for BiDi."""
    if isinstance(value, Element):
        return {"sharedId": value.shared_id}
    if value is None:
        return {"type": "null"}
    if isinstance(value, bool):
        return {"type": "boolean", "value": value}
    if isinstance(value, str):
        return {"type": "string", "value": value}
    if isinstance(value, int | float):
        return {"type": "number", "value": value}
    if isinstance(value, list | tuple):
        return {"type": "array", "value": [_encoded(item) for item in value]}
    return {"type": "object", "value": [[key, _encoded(item)] for key, item in value.items()]}

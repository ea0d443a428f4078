"""Open and drive Chromium in tests of pages."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.programs import BROWSER, missing, require

WIDE, NARROW = (1280, 900), (390, 844)


def open_browser() -> Any:
    """Open the installed browser; skip the test if there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    (binary,) = require(BROWSER)
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = shutil.which("chromedriver")
    os.environ.setdefault("SE_OFFLINE", "true")  # never fetch a driver
    try:
        return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver) if driver else None)
    except Exception as error:  # any exception means that the browser cannot start
        missing(f"the browser does not start: {str(error).splitlines()[0]}")


def show(browser: Any, page: Path, size: tuple[int, int] = WIDE, scheme: str = "light", at: str = "") -> None:
    """Open a page in a window of that size; `at` is added to its address."""
    resize(browser, size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    browser.get("about:blank")
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(page.as_uri() + at)
    loaded = "location.href.startsWith(arguments[0]) && document.readyState == 'complete'"
    until(lambda: ask(browser, loaded, page.as_uri()))


def resize(browser: Any, size: tuple[int, int]) -> None:
    """Change the size of the window."""
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def play(browser: Any, page: Path, at: str = "", **options: Any) -> None:
    """Open a page and wait until its player has read its steps."""
    show(browser, page, at=at, **options)
    until(lambda: ask(browser, "!document.getElementById('player').hidden"))


@contextmanager
def without_scripts(browser: Any) -> Iterator[None]:
    """Disable the scripts of pages that are opened meanwhile."""
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@contextmanager
def on_paper(browser: Any) -> Iterator[None]:
    """Show the page as it is printed."""
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def forget(browser: Any) -> None:
    """Clear what pages stored.

    `localStorage.clear` in a page of Chromium would not do: it may run after the next page has stored something.
    """
    browser.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": "file://", "storageTypes": "local_storage"})


def until(condition: Callable[[], bool]) -> None:
    """Wait at most ten seconds until a condition holds."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ask(browser: Any, script: str, *arguments: Any) -> Any:
    """Return the value of a JavaScript expression in the page."""
    return browser.execute_script(f"return {script}", *arguments)


def boxes(browser: Any, selector: str, *, ordered: bool = False) -> list[dict[str, float]]:
    """Return where elements are: all that match, or, ordered, the first of each of several selectors."""
    script = "[...document.querySelectorAll(arguments[0])]"
    if ordered:
        script = "arguments[0].split(', ').map(one => document.querySelector(one))"
    found: list[dict[str, float]] = ask(browser, f"{script}.map(it => it.getBoundingClientRect().toJSON())", selector)
    return found


def note_beside_code(browser: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Return where the first code with a value is, and where the value."""
    row = ".row:has(.value)"
    code, beside = boxes(browser, f"{row} > .code, {row} > .beside", ordered=True)
    return code, beside


def press(browser: Any, keys: str) -> None:
    """Type keys at the page."""
    browser.find_element("tag name", "body").send_keys(keys)


def drag(browser: Any, element: Any, right: int, down: int) -> None:
    """Press the mouse on an element, move it by some pixels, and release it."""
    from selenium.webdriver import ActionChains

    # A page that still scrolls, because a key was sent to an element far below, would carry the element away.
    browser.execute_script("arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", element)
    ActionChains(browser).drag_and_drop_by_offset(element, right, down).perform()

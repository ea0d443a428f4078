"""A real browser for the tests of pages: how it is opened, and what a test asks of it.

It is Chromium; with TEST_BROWSER=firefox in the environment, Firefox.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pages.firefox import Firefox
from tests.programs import BROWSER, require

WIDE, NARROW = (1280, 900), (390, 844)


def open_browser() -> Any:
    """Open the browser that is installed; skip the test where there is none."""
    if os.environ.get("TEST_BROWSER") == "firefox":
        return Firefox()
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
    except Exception as error:  # whatever a browser that can't start raises
        pytest.skip(f"the browser does not start: {str(error).splitlines()[0]}")


def show(browser: Any, page: Path, size: tuple[int, int] = WIDE, scheme: str = "light", at: str = "") -> None:
    """Open a page in a window of that size."""
    if isinstance(browser, Firefox):
        if scheme != "light":
            pytest.skip("Firefox without a driver takes the system's colours")
        browser.resize(*size)
        browser.get("about:blank")
        browser.get_log("browser")
    else:
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
        browser.get("about:blank")
        browser.get_log("browser"), browser.get_log("performance")
    browser.get(page.as_uri() + at)
    there = "location.href.startsWith(arguments[0]) && document.readyState == 'complete'"
    until(lambda: ask(browser, there, page.as_uri()))


def forget(browser: Any) -> None:
    """Drop what pages stored: a page's own `localStorage.clear` may come after what the next page stores."""
    if isinstance(browser, Firefox):
        browser.execute_script("try { localStorage.clear(); } catch { /* a page of the browser's own */ }")
    else:
        browser.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": "file://", "storageTypes": "local_storage"})


def until(true: Callable[[], bool]) -> None:
    """Wait until something holds, ten seconds at most."""
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def ask(browser: Any, script: str, *arguments: Any) -> Any:
    """Return what an expression is in the page."""
    return browser.execute_script(f"return {script}", *arguments)


def press(browser: Any, keys: str) -> None:
    """Type keys at the page."""
    browser.find_element("tag name", "body").send_keys(keys)


def drag(browser: Any, element: Any, right: int, down: int) -> None:
    """Press the mouse on an element, move it so many pixels, and release it."""
    if isinstance(browser, Firefox):
        element.drag(right, down)
    else:
        from selenium.webdriver import ActionChains

        ActionChains(browser).drag_and_drop_by_offset(element, right, down).perform()

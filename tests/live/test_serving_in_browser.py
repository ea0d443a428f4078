"""Writing a lecture with its page open: a real server, a real browser, real saves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import signals
from tests.live.lectures import LECTURE, write_lecture
from tests.pages.browsing import ask

pytestmark = pytest.mark.slow

LONG_S = 60.0  # a trace on a busy machine


class Writing:
    """A lecture that is being written, served, and read in a browser."""

    def __init__(self, lecture: Path, browser: Any, environment: dict[str, str]) -> None:
        self.lecture = lecture
        self.browser = browser
        environment = {**environment, "TMPDIR": str(lecture.parent / "tmp")}
        command = [
            sys.executable,
            "-m",
            "trace_tools",
            "serve",
            "lecture.py",
            "--port",
            "0",
            "--no-open",
        ]
        self.process = subprocess.Popen(
            command,
            cwd=lecture.parent,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=signals.heard,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[0]

    def save(self, old: str, new: str) -> None:
        """Save the lecture with one change, by renaming, as editors do."""
        assert old in LECTURE
        fresh = self.lecture.with_suffix(".new")
        fresh.write_text(LECTURE.replace(old, new, 1))
        os.replace(fresh, self.lecture)

    def open(self, page: str) -> None:
        self.browser.get(self.address + page)
        self.until(lambda: ask(self.browser, "document.getElementById('live') !== null"))

    def text(self, of: str = "main") -> str:
        return str(ask(self.browser, "document.querySelector(arguments[0])?.innerText ?? ''", of))

    def notice(self) -> str:
        shown = "document.getElementById('live').checkVisibility()"
        return self.text("#live") if ask(self.browser, shown) else ""

    def until(self, holds: Callable[[], bool]) -> None:
        from selenium.common.exceptions import WebDriverException

        end = time.monotonic() + LONG_S
        while time.monotonic() < end:
            try:
                if holds():
                    return
            except WebDriverException:  # between two pages
                pass
            time.sleep(0.02)
        raise AssertionError(f"never so; the page: {self.text()[:500]!r}, the notice: {self.notice()!r}")


@pytest.fixture(scope="module")
def writing(tmp_path_factory: pytest.TempPathFactory, browser: Any, environment: dict[str, str]) -> Iterator[Writing]:
    metrics = {"width": 1200, "height": 700, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get("about:blank")
    errors(browser)  # are those of the tests before
    folder = tmp_path_factory.mktemp("written")
    (folder / "tmp").mkdir()
    written = Writing(write_lecture(folder), browser, environment)
    yield written
    written.process.kill()
    browser.get("about:blank")


def errors(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser")]


def test_changed_prose_is_shown_and_the_page_keeps_its_position(writing: Writing) -> None:
    writing.open("cpu/00-first.html#step-1")
    browser = writing.browser
    writing.until(lambda: ask(browser, "document.body.classList.contains('stepping')"))
    ask(browser, "scrollTo({top: 900, behavior: 'instant'})")
    where = """(() => {
        const all = [...document.querySelectorAll("main .prose p")];
        const at = all.find((one) => one.getBoundingClientRect().top > 100);
        return [at.textContent, at.getBoundingClientRect().top];
    })()"""
    paragraph, top = ask(browser, where)
    assert ask(browser, "scrollY") == 900
    writing.save("Paragraph 2 says something.", "Paragraph 2 is now of many words. " * 30)
    writing.until(lambda: "of many words" in writing.text())
    writing.until(lambda: ask(browser, "document.body.classList.contains('stepping')"))
    writing.until(lambda: ask(browser, where)[0] == paragraph and abs(ask(browser, where)[1] - top) < 2)
    assert ask(browser, "scrollY") > 900
    assert ask(browser, "document.getElementById('step-now').textContent").startswith("step 1 ")
    assert ask(browser, "location.hash") == "#step-1"
    writing.save("Paragraph 2", "Paragraph 2")
    writing.until(lambda: "of many words" not in writing.text())
    assert errors(browser) == []


def line(code: str) -> int:
    """Return the line of the lecture that begins so."""
    lines = LECTURE.splitlines()
    return next(number for number, one in enumerate(lines, 1) if one.strip().startswith(code))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("y = x + 1", "y = x +", f"lecture.py:{line('y = x')}: not valid Python"),
        ("# @inspect y", "# @inspct y", f"lecture.py:{line('y = x')}: unknown directive `@inspct`"),
    ],
)
def test_mistakes_are_shown_until_they_are_fixed(writing: Writing, old: str, new: str, said: str) -> None:
    writing.open("cpu/00-first.html")
    writing.save(old, new)
    writing.until(lambda: said in writing.notice())
    assert "Paragraph 7 says something." in writing.text()
    writing.save(old, old)
    writing.until(lambda: writing.notice() == "")


@pytest.mark.slow
def test_changed_code_is_traced_and_failures_are_shown(writing: Writing) -> None:
    writing.open("cpu/00-first.html")
    writing.save("assert y == 2", "assert y == 3")
    writing.until(lambda: "Tracing section first" in writing.notice())
    assert "Paragraph 7 says something." in writing.text() and "y == 3" not in writing.text()
    writing.until(lambda: f"lecture.py:{line('assert')}: claim failed: y == 3" in writing.notice())
    assert "y == 3" not in writing.text()  # the last good page stays
    writing.save("y = x + 1", "y = x + [1]")
    writing.until(lambda: f"lecture.py:{line('y = x')}: TypeError: unsupported operand" in writing.notice())
    assert "x + [1]" not in writing.text()
    writing.until(lambda: "What the lecture did up to that point" in writing.notice())
    writing.browser.find_element("css selector", "#live a").click()
    writing.until(lambda: "x + [1]" in writing.text() and "TypeError" in writing.text())
    writing.save("Paragraph 2", "Paragraph 2")
    writing.until(lambda: writing.notice() == "" and "x + 1" in writing.text() and "y == 2" in writing.text())


def test_ctrl_c_ends_all_processes_and_removes_their_files(writing: Writing) -> None:
    writing.open("cpu/00-first.html")
    writing.save("x = 1", "x = 7")
    writing.until(lambda: "Tracing" in writing.notice() and bool(children(writing.process.pid)))
    started = children(writing.process.pid)
    writing.process.send_signal(signal.SIGINT)
    assert writing.process.wait(10) == 0
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
    folder = writing.lecture.parent
    assert not list((folder / ".serve").glob(".run-*"))
    assert [path.name for path in (folder / "tmp").iterdir() if not path.name.startswith("torchinductor_")] == []
    writing.until(lambda: "The server has ended" in writing.notice())


def children(pid: int) -> list[int]:
    """The processes that a process started, as the kernel lists them."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]

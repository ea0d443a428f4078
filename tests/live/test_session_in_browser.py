"""`serve` in a browser: a lecture is edited and saved while its page is open."""

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
from tests.pages.browsing import WIDE, ask, resize

pytestmark = pytest.mark.slow

TIMEOUT_S = 60.0  # longer than a trace takes on a busy machine

PARAGRAPHS = "".join(f'    text("Paragraph {n} says something.")\n' for n in range(30))
LECTURE = f'''\
from trace_tools import text

import words


def main():
    first()
    second()


def first():
    """The first section"""
{PARAGRAPHS}    x = 1  # @inspect x
    y = x + 1  # @inspect y
    assert y == 2


def second():
    """The second section"""
    word = words.WORD  # @inspect word
'''


class Serving:
    """A `serve` process for a lecture, and a browser that shows its pages."""

    def __init__(self, folder: Path, browser: Any, environment: dict[str, str]) -> None:
        self.lecture, self.browser = folder / "lecture.py", browser
        self.lecture.write_text(LECTURE)
        (folder / "words.py").write_text("WORD = 'before'\n")
        command = [sys.executable, "-m", "trace_tools", "serve", "lecture.py", "--port", "0", "--no-open"]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.process = subprocess.Popen(command, cwd=folder, env=environment, preexec_fn=signals.heard, **pipes)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[0]

    def save(self, old: str, new: str) -> None:
        """Replace the file by the original lecture with one change, as editors do: write a new file and rename it."""
        assert old in LECTURE
        new_file = self.lecture.with_suffix(".new")
        new_file.write_text(LECTURE.replace(old, new, 1))
        os.replace(new_file, self.lecture)

    def open(self, page: str) -> None:
        """Open a page of the machine, and wait until it can show the status."""
        self.until(lambda: bool([*self.lecture.parent.glob(f".serve/*/{page}")]))
        [path] = self.lecture.parent.glob(f".serve/*/{page}")
        self.browser.get(f"{self.address}{path.parent.name}/{page}")
        self.until(lambda: ask(self.browser, "document.getElementById('live') !== null"))

    def text(self) -> str:
        return str(ask(self.browser, "document.querySelector('main')?.innerText ?? ''"))

    def status(self) -> str:
        """Return the visible status, or ""."""
        return str(
            ask(self.browser, "(it => it.checkVisibility() ? it.innerText : '')(document.getElementById('live'))")
        )

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; fail after TIMEOUT_S."""
        from selenium.common.exceptions import WebDriverException

        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            try:
                if condition():
                    return
            except WebDriverException:  # while the page reloads
                pass
            time.sleep(0.02)
        raise AssertionError(f"timeout; the page: {self.text()[:500]!r}, the status: {self.status()!r}")


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, browser: Any, environment: dict[str, str]) -> Iterator[Serving]:
    resize(browser, WIDE)
    browser.get("about:blank")
    browser.get_log("browser")  # discard errors of earlier tests
    serving = Serving(tmp_path_factory.mktemp("served"), browser, environment)
    yield serving
    serving.process.kill()
    browser.get("about:blank")


def test_changed_prose_is_shown_and_the_page_keeps_its_place(serving: Serving) -> None:
    serving.open("00-first.html")
    browser = serving.browser
    ask(browser, "scrollTo({top: 900, behavior: 'instant'})")
    position = """(() => {
        const paragraphs = [...document.querySelectorAll("main .prose p")];
        const first = paragraphs.find((paragraph) => paragraph.getBoundingClientRect().top > 100);
        return [first.textContent, first.getBoundingClientRect().top];
    })()"""
    paragraph, top = ask(browser, position)
    serving.save("Paragraph 2 says something.", "Paragraph 2 is now of many words. " * 30)
    serving.until(lambda: "of many words" in serving.text())
    serving.until(lambda: ask(browser, position)[0] == paragraph and abs(ask(browser, position)[1] - top) < 2)
    assert ask(browser, "scrollY") > 900
    serving.save("Paragraph 2", "Paragraph 2")
    serving.until(lambda: "of many words" not in serving.text())
    assert browser.get_log("browser") == []


def test_mistakes_and_failures_are_shown_until_they_are_fixed(serving: Serving) -> None:
    def line(code: str) -> int:
        return next(n for n, text in enumerate(LECTURE.splitlines(), 1) if text.strip().startswith(code))

    serving.open("00-first.html")
    for old, new, message in (
        ("y = x + 1", "y = x +", f"lecture.py:{line('y = x')}: not valid Python"),
        ("# @inspect y", "# @inspct y", f"lecture.py:{line('y = x')}: unknown directive `@inspct`"),
        ("assert y == 2", "assert y == 3", f"lecture.py:{line('assert')}: claim failed: y == 3"),
        ("y = x + 1", "y = x + [1]", f"lecture.py:{line('y = x')}: TypeError: unsupported operand"),
    ):
        serving.save(old, new)
        serving.until(lambda: message in serving.status())  # noqa: B023
        assert "Paragraph 7 says something." in serving.text()
    assert "x + [1]" not in serving.text()  # the page of the last complete run remains
    serving.save("Paragraph 2", "Paragraph 2")
    serving.until(lambda: serving.status() == "" and "x + 1" in serving.text() and "y == 2" in serving.text())


def test_a_changed_module_runs_the_lecture_again(serving: Serving) -> None:
    serving.open("01-second.html")
    assert "before" in serving.text()
    (serving.lecture.parent / "words.py").write_text("WORD = 'afterwards'\n")
    serving.until(lambda: "afterwards" in serving.text())


def test_ctrl_c_ends_all_processes(serving: Serving) -> None:
    def children() -> list[int]:
        tasks = Path(f"/proc/{serving.process.pid}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]

    serving.open("00-first.html")
    serving.save("x = 1", "import time; time.sleep(60); x = 7")
    serving.until(lambda: "Running" in serving.status() and bool(children()))
    pids = children()
    serving.process.send_signal(signal.SIGINT)
    assert serving.process.wait(10) == 0
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    folder = serving.lecture.parent
    assert not [*folder.glob(".serve/.run-*"), *folder.parent.glob(".served*")]  # copies are beside the folder
    serving.until(lambda: "The server has ended" in serving.status())

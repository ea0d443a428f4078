"""A page that has all in itself → a PDF, as Chromium prints it: with page numbers, and headings as its outline.

printed("<!doctype html>…")      b"%PDF-1.4 …"
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from trace_tools.errors import UsageError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LONGEST_S = 300
_OPTIONS = (
    "--headless",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # which is small in containers
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # nothing in the page asks for anything, nor shall the browser
    "--no-first-run",
    "--no-pdf-header-footer",
    "--generate-pdf-document-outline",
)
_SAID = re.compile(r"^\[[^\]]*:(?:ERROR|FATAL):(?!dbus/)[^\]]*\] (.+)", re.MULTILINE)  # no desktop is no reason


def printed(page: str) -> bytes:
    """Print a page. Raises UsageError where there is no browser, and where it prints nothing or not in time."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise UsageError(f"no browser on PATH that prints a PDF: looked for {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory(prefix="trace-tools-", ignore_cleanup_errors=True) as name:
        source, made = Path(name) / "page.html", Path(name) / "page.pdf"
        source.write_text(page, encoding="utf-8")
        # a profile of its own: else a browser that is open would be asked to do it
        own = [f"--user-data-dir={name}/profile", f"--print-to-pdf={made}", source.as_uri()]
        root = ["--no-sandbox"] if os.geteuid() == 0 else []  # for root there is none
        said, code = _ran([browser, *_OPTIONS, *root, *own])
        content = made.read_bytes() if made.is_file() else b""
        if not (content.startswith(b"%PDF-") and content.rstrip().endswith(b"%%EOF")):
            why = (_SAID.findall(said) or [f"it ended with {code}"])[-1]
            raise UsageError(f"{browser} printed no PDF: {why}")
        if f"/Title ({source.as_uri()})".encode() in content:  # of the page that a browser shows in its place
            raise UsageError(f"{browser} can't read {source}; TMPDIR says where such files are written")
        return content


def _ran(command: list[str]) -> tuple[str, int]:
    """Run a browser; return what it said and how it ended. All of its processes end with it."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        _, said = process.communicate(timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        raise UsageError(f"{command[0]} printed no PDF in {LONGEST_S} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return said.decode("utf-8", "replace"), process.returncode

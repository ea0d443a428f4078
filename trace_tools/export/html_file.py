"""Write a whole lecture as one HTML file that loads nothing, to send or to archive, and print it as PDF with Chromium.

    one_file(placed(load(path), path, None, None))      "<!doctype html>…"
    printed("<!doctype html>…")                         b"%PDF-1.4 …", with page numbers, and headings as the outline

The file has all sections: text, code, margin notes with folded details, figures, questions and figures with inputs.
Parts that need other files are omitted: the player, the slides, other machines, and the search (browsers search one
page themselves).
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
from trace_tools.pages.html import HtmlWriter, SiteContext
from trace_tools.pages.pictures import read_picture
from trace_tools.pages.site import SiteTrace
from trace_tools.util.interpreter import collector_paused


@collector_paused()
def one_file(one: SiteTrace) -> str:
    """Return the page. Raises LectureError if a stored source is not valid Python."""
    site = SiteContext(
        machines=lambda section: (),
        picture=lambda address: read_picture(one.lecture_folder, address),
        home="#text",
        has_trace=False,
        alone=True,
    )
    return HtmlWriter(one.document, site).single_page()


# --- PDF ------------------------------------------------------------------------------------------

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LONGEST_S = 300
_OPTIONS = (
    "--headless",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # /dev/shm is small in containers
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # neither the page nor the browser may use the network
    "--no-first-run",
    "--no-pdf-header-footer",
    "--generate-pdf-document-outline",
)
# a missing desktop (dbus) is not an error
_ERROR = re.compile(r"^\[[^\]]*:(?:ERROR|FATAL):(?!dbus/)[^\]]*\] (.+)", re.MULTILINE)


def printed(page: str) -> bytes:
    """Print a page. Raises UsageError if no browser is found, or the browser does not print within the time limit."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise UsageError(f"no browser on PATH that prints a PDF: looked for {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory(prefix="trace-tools-", ignore_cleanup_errors=True) as name:
        source, pdf = Path(name) / "page.html", Path(name) / "page.pdf"
        source.write_text(page, encoding="utf-8")
        # a profile of its own: otherwise a running browser would take over
        own = [f"--user-data-dir={name}/profile", f"--print-to-pdf={pdf}", source.as_uri()]
        root = ["--no-sandbox"] if os.geteuid() == 0 else []  # root cannot use the sandbox
        process = subprocess.Popen(
            [browser, *_OPTIONS, *root, *own],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            _, stderr = process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            raise UsageError(f"{browser} printed no PDF in {LONGEST_S} s") from None
        finally:  # all its processes end with it
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        content = pdf.read_bytes() if pdf.is_file() else b""
        if not (content.startswith(b"%PDF-") and content.rstrip().endswith(b"%%EOF")):
            why = (_ERROR.findall(stderr.decode("utf-8", "replace")) or [f"it exited with {process.returncode}"])[-1]
            raise UsageError(f"{browser} printed no PDF: {why}")
        if f"/Title ({source.as_uri()})".encode() in content:  # the title of the browser's own error page
            raise UsageError(f"{browser} can't read {source}; set TMPDIR to a folder that it can read")
        return content

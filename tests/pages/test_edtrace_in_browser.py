"""A lecture written for edtrace, in a real browser: its images, small screens, and its content policy."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, ask, show
from tests.traces import example_trace
from trace_tools.machines.machine import STORED, from_json
from trace_tools.pages.site import render_folder
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.supervisor import Tracer

LINES = """from edtrace import image, text
def main():
    lines()
def lines():
    text("One line.")
    image("https://images.invalid/a/square.png")
"""
# The digest is `md5sum` of the image's address
CACHED_IMAGE = "var/files/image-12bae1de9ed78b3de3d6d4fc03ceb32a-https_images_invalid_a_square_png"


@pytest.fixture(scope="module")
def pages(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("course")
    shutil.copytree(Path(__file__).resolve().parents[1] / "lectures", folder, dirs_exist_ok=True)
    (folder / "lines.py").write_text(LINES, encoding="utf-8")
    (folder / CACHED_IMAGE).parent.mkdir(parents=True)
    (folder / CACHED_IMAGE).write_text('<svg xmlns="http://www.w3.org/2000/svg" width="30" height="30"></svg>')
    reference = replace(example_trace(), machine=from_json(Path(environment[STORED]).read_text(encoding="utf-8")))
    for name in ("edtrace_style", "lines"):
        out = folder / "pages" / name
        Tracer(folder / f"{name}.py", out, TraceOptions(device="cpu", draft=True), like=reference).run()
        render_folder(out, folder / f"{name}.py")
    return folder / "pages"


def test_images_use_the_cached_copy(browser: Any, pages: Path) -> None:
    show(browser, pages / "lines/cpu/00-lines.html", WIDE)
    image = "document.querySelector('figure img')"
    assert ask(browser, f"{image}.complete && {image}.naturalWidth") == 30
    policy = ask(browser, "document.querySelector('meta[http-equiv=Content-Security-Policy]').content")
    assert "images.invalid" not in policy
    assert "](<figures/square-" in (pages / "lines/cpu/00-lines.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("page", ["index", "00-bisection", "01-costs", "02-pictures"])
def test_pages_fit_the_window_and_obey_their_content_policy(
    browser: Any, pages: Path, page: str, size: tuple[int, int]
) -> None:
    show(browser, pages / f"edtrace_style/cpu/{page}.html", size)
    assert ask(browser, "document.documentElement.scrollWidth") <= size[0]
    refused = [
        entry["message"] for entry in browser.get_log("browser") if "Content Security Policy" in entry["message"]
    ]
    assert refused == []

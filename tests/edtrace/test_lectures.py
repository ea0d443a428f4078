"""Lectures written for edtrace and for CS336, traced, with their pages."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from tests.programs import require
from trace_tools.analysis.outcome import problems
from trace_tools.machines.machine import STORED
from trace_tools.pages.site import render_folder
from trace_tools.trace.model import Step, Text, Trace
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.tracer import Tracer

pytestmark = pytest.mark.slow


@pytest.fixture
def traced(environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Trace]:
    """Return a function that traces and renders a copy of a lecture in tests/lectures."""
    require("echo")
    shutil.copytree(Path(__file__).resolve().parents[1] / "lectures", tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv(STORED, environment[STORED])

    def run(name: str) -> Trace:
        lecture = tmp_path / name
        options = TraceOptions(device="cpu", passes=1, name="cpu", force=True)
        out = lecture.parent / "rendered"
        result = Tracer(lecture, out, options).run()
        assert problems(result.trace) == []
        render_folder(out, lecture)
        return result.trace

    return run


def step_at(trace: Trace, fragment: str) -> Step:
    (line,) = [n for n, text in enumerate(trace.source.text.splitlines(), 1) if fragment in text]
    return next(step for step in trace.steps if isinstance(step, Step) and step.line == line)


def test_an_edtrace_lecture_and_its_pages(traced: Callable[[str], Trace], tmp_path: Path) -> None:
    pytest.importorskip("edtrace", reason="the lecture imports it")
    trace = traced("edtrace_style.py")
    narratives = [item for step in trace.steps if isinstance(step, Step) for item in step.narrative or ()]
    assert {item.kind for item in narratives} == {"text", "note", "image", "video", "table"}
    article, standard = r"[\[article\]](<https://example.org/halving>)", "<https://example.org/standards/754>"
    line = f"Halve the `Interval` that holds it {article} [example.org/…/754]({standard})"
    assert step_at(trace, "Halve the").narrative == [Text(text=line)], "also what a helper of the lecture emits"
    assert dict(step_at(trace, "traced = bool").values or ())["traced"].value is True
    page = (tmp_path / "rendered/cpu/00-bisection.html").read_text(encoding="utf-8")
    assert ">Example+ 1991</a>." in page and 'title="What Every Programmer Should Know. Ada' in page
    shown = page.split("<main")[1].split('id="figures"')[0]
    assert "Halve the <code>Interval</code>" in shown and ">[article]</a> <a" in shown and "article(" not in shown
    assert "What a digit costs" in (tmp_path / "rendered/cpu/01-costs.html").read_text(encoding="utf-8")
    pictures = unescape((tmp_path / "rendered/cpu/02-pictures.html").read_text(encoding="utf-8"))
    for kind in ("img", "media"):
        assert f"{kind}-src 'self' data: https://example.org" in pictures
    assert '<img src="https://example.org/images/root-of-two.png" alt="" width="40%"' in pictures


def test_a_cs336_lecture_and_its_pages(traced: Callable[[str], Trace], tmp_path: Path) -> None:
    trace = traced("cs336_style/lecture_03.py")
    assert trace.title == "Lecture 03"
    (warning,) = step_at(trace, "from references import").warnings or ()
    assert warning.startswith("NotFetchedWarning: https://arxiv.org/abs/1412.6980 was not fetched (ConnectionError")
    (optimizers,) = step_at(trace, "an optimizer").narrative or ()
    assert re.findall(r"\[(.*?)\]", str(optimizers.text)) == ["arXiv:1412.6980", "arXiv:2005.14165"]
    images = step_at(trace, 'image(drawn("made.svg")').narrative or ()
    assert images[0].url and images[0].url.startswith("data:image/svg+xml;base64,")
    shares = [step for step in trace.steps if isinstance(step, Step) and step.values and step.values[0][0] == "share"]
    assert len(shares) == 1, "spawn must run the function once, in this process"
    page = (tmp_path / "cs336_style/rendered/cpu/00-byte-pairs.html").read_text(encoding="utf-8")
    shown = page.split("<main")[1].split('id="figures"')[0]
    assert "article_link" not in shown and shown.count(">[article]</a>") == 4 and "data:image/svg+xml" in shown

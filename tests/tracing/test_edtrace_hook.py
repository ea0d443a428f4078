"""Lectures in other tools' words, traced: what they tell is what ours tell, whether or not those tools are there."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.programs import require
from tests.traces import example_trace
from trace_tools.analysis.outcome import problems
from trace_tools.commands.trace import trace as command
from trace_tools.errors import LectureError
from trace_tools.lecture.vocabulary import listening
from trace_tools.machines.machine import STORED, from_json
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.site import render_folder
from trace_tools.trace.model import Link, Narrative, Step, Text, Trace
from trace_tools.tracing.edtrace_hook import Adoption, StandInWarning, saying_it_is_traced, traces_nothing
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.plan import check_lecture
from trace_tools.tracing.supervisor import Tracer

LECTURES = Path(__file__).resolve().parents[1] / "lectures"
Traced = Callable[..., Trace]


@pytest.fixture
def traced(environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Traced:
    """Trace a lecture among copies of those in tests/lectures; with `beside` first on the children's path."""
    machine = from_json(Path(environment[STORED]).read_text(encoding="utf-8"))
    require("echo")
    shutil.copytree(LECTURES, tmp_path, dirs_exist_ok=True)

    def run(name: str, beside: Path | None = None, **asked: Any) -> Trace:
        path = f"{environment['PYTHONPATH']}" if beside is None else f"{beside}:{environment['PYTHONPATH']}"
        monkeypatch.setenv("PYTHONPATH", path)
        known = replace(example_trace(), machine=machine)
        lecture = tmp_path / name
        options = TraceOptions(device="cpu", draft=True, **asked)
        made = Tracer(lecture, lecture.parent / "rendered", options, like=known).run()
        assert problems(made.trace) == []
        return made.trace

    return run


@contextmanager
def adopting(*vocabularies: str) -> Iterator[Adoption]:
    """Find modules as a traced process does, and forget those that were found."""
    adoption = Adoption(vocabularies)
    before = {name: sys.modules.pop(name) for name in [*sys.modules] if name.split(".")[0] in NAMES}
    sys.meta_path.insert(0, adoption)
    try:
        yield adoption
    finally:
        sys.meta_path.remove(adoption)
        for name in [name for name in sys.modules if name.split(".")[0] in NAMES]:
            del sys.modules[name]
        sys.modules.update(before)


NAMES = {"edtrace", "execute_util", "file_util", "arxiv_util", "reference"}


def told(call: Callable[[], Any]) -> list[Narrative]:
    heard: list[Narrative] = []
    with listening(heard.append):
        call()
    return heard


def said(trace: Trace) -> list[Narrative]:
    return [one for step in trace.steps if isinstance(step, Step) for one in step.narrative or ()]


def step_at(trace: Trace, fragment: str) -> Step:
    (line,) = [n for n, text in enumerate(trace.sources[0].text.splitlines(), 1) if fragment in text]
    return next(step for step in trace.steps if isinstance(step, Step) and step.line == line)


def test_edtrace_can_be_imported_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.machinery.PathFinder.find_spec
    hidden = staticmethod(lambda name, *rest: None if name.startswith("edtrace") else find(name, *rest))
    monkeypatch.setattr(importlib.machinery.PathFinder, "find_spec", hidden)
    with adopting("edtrace"):
        edtrace = importlib.import_module("edtrace")
        words = importlib.import_module("edtrace.execute_util")
        assert not getattr(edtrace, "__file__", None)
        assert told(lambda: (edtrace.text("a"), words.link(edtrace.Reference(title="T"))))[1].label == "T"
        assert importlib.import_module("edtrace.arxiv_util").is_arxiv_link("https://arxiv.org/abs/1")
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("edtrace.execute")


def test_the_real_edtrace_tells_the_same() -> None:
    pytest.importorskip("edtrace", reason="the real one; what stands in for it is tested above")
    with adopting("edtrace"):
        edtrace = importlib.import_module("edtrace")
        assert edtrace.__file__ and edtrace.Reference.__module__ == "edtrace.reference"
        reference = edtrace.Reference(title="T", authors=["Ada Example"], date="2020")
        link, text = told(lambda: (edtrace.link(reference), edtrace.text("a")))
        assert (link.label, text) == ("Example 2020", Text(text="a", flows=True))
        assert importlib.import_module("edtrace.execute_util").pop_renderings() == []
    assert importlib.import_module("edtrace").text.__module__ == "edtrace.execute_util"  # as it was, elsewhere


def test_words_beside_a_lecture_are_replaced_and_what_else_is_beside_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(LECTURES / "cs336_style")
    with adopting("cs336"):
        words = importlib.import_module("execute_util")
        assert words.__file__ == str(LECTURES / "cs336_style" / "execute_util.py")
        (link,) = told(lambda: words.link(title="T", url="https://example.org"))
        assert link.label == "T" and words.pop_renderings() == []
        assert importlib.import_module("reference").join("a", "b") == "a\nb"


def test_other_modules_of_such_names_are_let_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "execute_util.py").write_text("def text(x):\n    return 2 * x\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with adopting("cs336"):
        assert importlib.import_module("execute_util").text(2) == 4
    with adopting():
        assert importlib.import_module("execute_util").text(2) == 4


def test_a_module_that_needs_what_is_not_installed_is_stood_in_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file_util.py").write_text("import requests_of_nobody\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with adopting("cs336"), pytest.warns(StandInWarning, match="file_util needs requests_of_nobody, which is not"):
        assert importlib.import_module("file_util").relativize(str(Path.cwd() / "a")) == "a"


class Recorded:
    """A recorder at one step, which hears what is emitted."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self.clock = SimpleNamespace(excluded=nullcontext)
        self.ownership = SimpleNamespace(recorded_owner=lambda python_frame: SimpleNamespace(seq=7))

    def emit(self, field: str, content: str) -> None:
        self.heard.append((field, content))


@pytest.mark.parametrize(
    ("text", "decides"),
    [
        ("if sys.gettrace():\n    pass\n", True),
        ("found = sys.gettrace()\nx = 1 if found is None else 2\n", True),
        ("def traced():\n    return bool(sys.gettrace())\nwhile not traced():\n    pass\n", True),
        ("before = sys.gettrace()\nsys.settrace(None)\nsys.settrace(before)\n", False),
    ],
)
def test_who_asks_whether_it_is_traced_is_told_so_below_its_folder_and_the_step_warns_where_that_decides(
    text: str, decides: bool, tmp_path: Path
) -> None:
    path = tmp_path / "l.py"
    path.write_text(f"import sys\n{text}seen = sys.gettrace()\n")
    code = compile(path.read_text(), str(path), "exec")
    inside: dict[str, Any] = {}
    recorder, before = Recorded(), sys.gettrace()
    try:
        with saying_it_is_traced(str(tmp_path), recorder):  # type: ignore[arg-type]
            outside = sys.gettrace()
            exec(code, inside)
            exec(code, inside)
    finally:
        sys.settrace(before)
    assert outside is before
    if before is None:
        assert inside["seen"] is traces_nothing
        lines = {re.search(r"l\.py, line (\d+)", said)[1] for _, said in recorder.heard}  # type: ignore[index]
        assert len(recorder.heard) == len(lines) and bool(lines) == decides


@pytest.mark.slow
def test_a_lecture_in_edtraces_words_and_its_pages(traced: Traced, tmp_path: Path) -> None:
    trace = traced("edtrace_style.py")
    kinds = {one.kind for one in said(trace)}
    assert kinds == {"text", "link", "note", "image", "video", "plot"}
    assert [getattr(one, "label", None) for one in step_at(trace, "Halve the").narrative or ()] == [
        None, "Interval", None, "example.org/…/754",
    ]  # fmt: skip
    assert dict(step_at(trace, "traced = bool").values or ())["traced"].value is True
    render_folder(tmp_path / "rendered", tmp_path / "edtrace_style.py")
    page = (tmp_path / "rendered/cpu/00-bisection.html").read_text(encoding="utf-8")
    assert ">Example+ 1991</a>." in page and 'title="What Every Programmer Should Know. Ada' in page
    shown = page.split("<main")[1].split('id="figures"')[0]
    assert "Halve the <a href=" in shown and ">[article]</a> <a" in shown and "article(" not in shown
    assert 'class="prose lines green"' in page and "<summary>Abstract</summary>" in page
    assert "What a digit costs" in (tmp_path / "rendered/cpu/01-costs.html").read_text(encoding="utf-8")
    index = (tmp_path / "rendered/cpu/index.html").read_text(encoding="utf-8")
    assert '<a href="00-bisection.html" rel="noreferrer"><code>bisection</code></a>' in index
    pictures = unescape((tmp_path / "rendered/cpu/02-pictures.html").read_text(encoding="utf-8"))
    for kind in ("img", "media"):
        assert f"{kind}-src 'self' data: https://example.org" in pictures
    assert '<img src="https://example.org/images/root-of-two.png" alt="root of two" width="40%"' in pictures


@pytest.mark.slow
def test_a_lecture_with_its_words_beside_it(traced: Traced, tmp_path: Path) -> None:
    trace = traced("cs336_style/lecture_03.py")
    assert trace.title == "Lecture 03"
    (warning,) = step_at(trace, "from references import").warnings or ()
    assert warning.startswith("NotFetchedWarning: https://arxiv.org/abs/1412.6980 was not fetched (ConnectionError")
    labels = [getattr(one, "label", None) for one in step_at(trace, "an optimizer").narrative or ()]
    assert labels == [None, "arXiv:1412.6980", "arXiv:2005.14165"]
    made = step_at(trace, 'image(drawn("made.svg")').narrative or ()
    assert made[0].url and made[0].url.startswith("data:image/svg+xml;base64,")
    inner = [step for step in trace.steps if isinstance(step, Step) and step.values and step.values[0][0] == "share"]
    assert len(inner) == 1, "spawn ran it here, once"
    (otherwise,) = step_at(trace, "    spawn(of_rank").warnings or ()
    assert otherwise.startswith("BehavesOtherwise: parallel_util.py, line 7 checks whether it is traced")
    spawned = step_at(trace, "    spawned(of_rank")
    assert sorted((spawned.stdout or "").splitlines()) == ["rank 0 has 4", "rank 1 has 4"]
    (untraced,) = spawned.warnings or ()
    assert untraced.startswith("NotTraced: ") and "(spawn)" in untraced
    render_folder(tmp_path / "cs336_style/rendered", tmp_path / "cs336_style/lecture_03.py")
    page = (tmp_path / "cs336_style/rendered/cpu/00-byte-pairs.html").read_text(encoding="utf-8")
    shown = page.split("<main")[1].split('id="figures"')[0]
    assert "article_link" not in shown and shown.count(">[article]</a>") == 4 and "data:image/svg+xml" in shown
    ranks = (tmp_path / "cs336_style/rendered/cpu/01-ranks.html").read_text(encoding="utf-8")
    assert "not traced" in ranks


UTIL_2024 = """import os
content_path = None
def init_content(path):
    global content_path
    content_path = path
def add_content(name, args):
    assert content_path
def note(message, style=None, verbatim=False, pop_stack=False):
    add_content("addText", [message])
def see(obj, pop_stack=False):
    add_content("addText", [str(obj)])
def image(path, style=None, width=1.0, pop_stack=False):
    add_content("addImage", [path])
"""
LECTURE_2024 = """from dataclasses import dataclass
from util import *

@dataclass(frozen=True)
class Spec:
    name: str
    author: str | None = None
    date: str | None = None
    url: str | None = None
    description: list | None = None

adam = Spec("Adam", "Ada Example", "2014-12-22", "https://example.org/adam", ["momentum", "scale"])

def lecture_07():
    note("# Costs")
    costs()

def costs():
    note("An optimizer:"), see(adam)
    note("A page:"), see("https://example.org/a/page.html"), see(costs), see([1, 2])
    image("https://example.org/a.png", width=0.5)
    image("825 GB of text")
    total = 2 + 2  # @inspect total
    assert total == 4

if __name__ == "__main__":
    init_content("lecture_07-content.js")
    lecture_07()
"""


def test_a_lecture_of_2024_speaks_by_its_own_module_and_is_run_by_a_function_of_another_name(
    traced: Traced, tmp_path: Path
) -> None:
    (tmp_path / "old").mkdir()
    lecture = tmp_path / "old/lecture_07.py"
    lecture.write_text(LECTURE_2024, encoding="utf-8")
    (tmp_path / "old/util.py").write_text(UTIL_2024, encoding="utf-8")
    with pytest.raises(LectureError, match="`--main lecture_07`"):
        check_lecture(lecture)
    trace = traced("old/lecture_07.py", main="lecture_07")
    assert trace.run.main == "lecture_07" and trace.run.complete
    optimizer, page = (step_at(trace, text).narrative or () for text in ("An optimizer", "A page"))
    assert [(one.kind, one.label, one.date, one.notes) for one in optimizer[1:]] == [
        ("link", "Example 2014", "2014-12-22", "momentum\nscale")
    ]
    assert [one.target or one.url if isinstance(one, Link) else getattr(one, "text", None) for one in page] == [
        "A page:", "https://example.org/a/page.html", "costs", "[1, 2]",
    ]  # fmt: skip
    assert [one.width for one in step_at(trace, "a.png").narrative or ()] == ["50%"]
    assert "825 GB of text" in (step_at(trace, "825 GB").warnings or [""])[0]
    document = make_document(trace)
    assert [section.function for section in document.sections] == ["costs"]
    assert document.sections[0].held == 1
    render_folder(tmp_path / "old/rendered", lecture)
    assert "An optimizer:" in (tmp_path / "old/rendered/cpu/00-costs.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_edtrace_installed_or_not_the_same_is_told(traced: Traced, tmp_path: Path) -> None:
    there = importlib.util.find_spec("edtrace")
    if there is None or there.origin is None:
        pytest.skip("the real edtrace is not installed: what is told without it is tested above")
    real = said(traced("edtrace_style.py", Path(there.origin).parents[1]))
    (tmp_path / "none" / "edtrace").mkdir(parents=True)
    (tmp_path / "none" / "edtrace" / "__init__.py").write_text("import module_of_nobody\n", encoding="utf-8")
    with warnings.catch_warnings():
        assert said(traced("edtrace_style.py", tmp_path / "none")) == real


def test_a_vocabulary_can_be_asked_for(traced: Traced, tmp_path: Path) -> None:
    """Where no import tells of it: the module's name is computed."""
    lines = [
        "import importlib",
        "words = importlib.import_module('ed' + 'trace')",
        "def main():",
        "    part()",
        "def part():",
    ]
    (tmp_path / "hidden.py").write_text(
        "\n".join([*lines, "    words.text('a'), words.text('b')"]) + "\n", encoding="utf-8"
    )
    assert [one.text for one in said(traced("hidden.py", vocabularies=("edtrace",)))] == ["a", "b"]
    render_folder(tmp_path / "rendered", tmp_path / "hidden.py")
    page = (tmp_path / "rendered/cpu/00-part.md").read_text(encoding="utf-8")
    assert "\nab\n" in page and "words.text" not in page  # known from the run


@pytest.mark.slow
def test_a_lecture_inside_a_package(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "course" / "unit"
    package.mkdir(parents=True)
    (tmp_path / "course" / "__init__.py").write_text("", encoding="utf-8")
    (package / "__init__.py").write_text("from .deep import VALUE\n", encoding="utf-8")
    (package / "deep.py").write_text("VALUE = 7\n", encoding="utf-8")
    lines = [
        "from edtrace import text, image",
        "from .deep import VALUE",
        "import course.unit as unit",
        "def main():",
        "    section()",
        "def section():",
        "    x = VALUE + unit.VALUE  # @inspect x",
        "    image('here.svg')",
        "    open('written', 'w').close()",
    ]
    (package / "one.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.copy(LECTURES / "cs336_style/images/halving.svg", tmp_path / "here.svg")
    monkeypatch.chdir(tmp_path)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    command.main(["-m", "course.unit.one", "--passes", "1"], standalone_mode=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["course", "here.svg", "rendered"]
    text = (tmp_path / "rendered/cpu/trace.yaml").read_text(encoding="utf-8")
    assert '"x", {"type": "int", "value": 14}' in text and 'lecture: "course/unit/one.py"' in text
    page = (tmp_path / "rendered/cpu/00-section.html").read_text(encoding="utf-8")
    assert "data:image/svg+xml" in page and "not shown" not in page

"""Lectures written for other tools have the same narrative as ours, with and without those tools installed."""

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
from trace_tools.trace.model import Narrative, Step, Text, Trace
from trace_tools.tracing.edtrace_hook import Adoption, StandInWarning, saying_it_is_traced, traces_nothing
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.plan import check_lecture
from trace_tools.tracing.supervisor import Tracer

LECTURES = Path(__file__).resolve().parents[1] / "lectures"
Traced = Callable[..., Trace]


@pytest.fixture
def traced(environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Traced:
    """Return a function that traces a copy of a lecture in tests/lectures; PYTHONPATH begins with `packages`."""
    machine = from_json(Path(environment[STORED]).read_text(encoding="utf-8"))
    require("echo")
    shutil.copytree(LECTURES, tmp_path, dirs_exist_ok=True)

    def run(name: str, packages: Path | None = None, **options: Any) -> Trace:
        path = f"{environment['PYTHONPATH']}" if packages is None else f"{packages}:{environment['PYTHONPATH']}"
        monkeypatch.setenv("PYTHONPATH", path)
        like = replace(example_trace(), machine=machine)
        lecture = tmp_path / name
        trace_options = TraceOptions(device="cpu", draft=True, **options)
        result = Tracer(lecture, lecture.parent / "rendered", trace_options, like=like).run()
        assert problems(result.trace) == []
        return result.trace

    return run


@contextmanager
def adopting(*vocabularies: str) -> Iterator[Adoption]:
    """Import modules as a traced process does, and unload them at the end."""
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


def narrative_of(call: Callable[[], Any]) -> list[Narrative]:
    narratives: list[Narrative] = []
    with listening(narratives.append):
        call()
    return narratives


def recorded_narrative(trace: Trace) -> list[Narrative]:
    return [item for step in trace.steps if isinstance(step, Step) for item in step.narrative or ()]


def step_at(trace: Trace, fragment: str) -> Step:
    (line,) = [n for n, text in enumerate(trace.sources[0].text.splitlines(), 1) if fragment in text]
    return next(step for step in trace.steps if isinstance(step, Step) and step.line == line)


def test_edtrace_can_be_imported_without_being_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.machinery.PathFinder.find_spec
    hidden = staticmethod(lambda name, *rest: None if name.startswith("edtrace") else find(name, *rest))
    monkeypatch.setattr(importlib.machinery.PathFinder, "find_spec", hidden)
    with adopting("edtrace"):
        edtrace = importlib.import_module("edtrace")
        words = importlib.import_module("edtrace.execute_util")
        assert not getattr(edtrace, "__file__", None)
        assert narrative_of(lambda: (edtrace.text("a"), words.link(edtrace.Reference(title="T"))))[1].text == "T"
        assert importlib.import_module("edtrace.arxiv_util").is_arxiv_link("https://arxiv.org/abs/1")
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("edtrace.execute")


def test_the_installed_edtrace_emits_the_same_narrative() -> None:
    pytest.importorskip("edtrace", reason="not installed; its replacement is tested above")
    with adopting("edtrace"):
        edtrace = importlib.import_module("edtrace")
        assert edtrace.__file__ and edtrace.Reference.__module__ == "edtrace.reference"
        reference = edtrace.Reference(title="T", authors=["Ada Example"], date="2020")
        link, text = narrative_of(lambda: (edtrace.link(reference), edtrace.text("a")))
        assert (link.text, text.text) == ("Example 2020", "a")
        assert importlib.import_module("edtrace.execute_util").pop_renderings() == []
    assert importlib.import_module("edtrace").text.__module__ == "edtrace.execute_util"  # the real function is back


def test_only_vocabulary_modules_next_to_a_lecture_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(LECTURES / "cs336_style")
    with adopting("cs336"):
        words = importlib.import_module("execute_util")
        assert words.__file__ == str(LECTURES / "cs336_style" / "execute_util.py")
        (link,) = narrative_of(lambda: words.link(title="T", url="https://example.org"))
        assert link.text == "[T](<https://example.org>)" and words.pop_renderings() == []
        assert importlib.import_module("reference").join("a", "b") == "a\nb"


def test_unrelated_modules_with_these_names_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "execute_util.py").write_text("def text(x):\n    return 2 * x\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with adopting("cs336"):
        assert importlib.import_module("execute_util").text(2) == 4
    with adopting():
        assert importlib.import_module("execute_util").text(2) == 4


def test_modules_with_missing_imports_are_replaced_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file_util.py").write_text("import requests_of_nobody\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with adopting("cs336"), pytest.warns(StandInWarning, match="file_util needs requests_of_nobody, which is not"):
        assert importlib.import_module("file_util").relativize(str(Path.cwd() / "a")) == "a"


class FakeRecorder:
    """A recorder in one step that keeps what is emitted."""

    def __init__(self) -> None:
        self.emitted: list[tuple[str, str]] = []
        self.clock = SimpleNamespace(excluded=nullcontext)
        self.recorded_owner = lambda python_frame: SimpleNamespace(seq=7)

    def emit(self, field: str, content: str) -> None:
        self.emitted.append((field, content))


@pytest.mark.parametrize(
    ("text", "decides"),
    [
        ("if sys.gettrace():\n    pass\n", True),
        ("found = sys.gettrace()\nx = 1 if found is None else 2\n", True),
        ("def traced():\n    return bool(sys.gettrace())\nwhile not traced():\n    pass\n", True),
        ("before = sys.gettrace()\nsys.settrace(None)\nsys.settrace(before)\n", False),
    ],
)
def test_gettrace_returns_a_tracer_and_branches_on_it_warn(text: str, decides: bool, tmp_path: Path) -> None:
    path = tmp_path / "l.py"
    path.write_text(f"import sys\n{text}seen = sys.gettrace()\n")
    code = compile(path.read_text(), str(path), "exec")
    module_names: dict[str, Any] = {}
    recorder, before = FakeRecorder(), sys.gettrace()
    try:
        with saying_it_is_traced(str(tmp_path), recorder):  # type: ignore[arg-type]
            tracer_outside = sys.gettrace()
            exec(code, module_names)
            exec(code, module_names)
    finally:
        sys.settrace(before)
    assert tracer_outside is before
    if before is None:
        assert module_names["seen"] is traces_nothing
        lines = {re.search(r"l\.py, line (\d+)", warning)[1] for _, warning in recorder.emitted}  # type: ignore[index]
        assert len(recorder.emitted) == len(lines) and bool(lines) == decides


@pytest.mark.slow
def test_an_edtrace_lecture_and_its_pages(traced: Traced, tmp_path: Path) -> None:
    trace = traced("edtrace_style.py")
    kinds = {item.kind for item in recorded_narrative(trace)}
    assert kinds == {"text", "note", "image", "video", "plot"}
    article, standard = r"[\[article\]](<https://example.org/halving>)", "<https://example.org/standards/754>"
    line = f"Halve the `Interval` that holds it {article} [example.org/…/754]({standard})"
    assert step_at(trace, "Halve the").narrative == [Text(text=line)], "also what a helper of the lecture emits"
    assert dict(step_at(trace, "traced = bool").values or ())["traced"].value is True
    render_folder(tmp_path / "rendered", tmp_path / "edtrace_style.py")
    page = (tmp_path / "rendered/cpu/00-bisection.html").read_text(encoding="utf-8")
    assert ">Example+ 1991</a>." in page and 'title="What Every Programmer Should Know. Ada' in page
    shown = page.split("<main")[1].split('id="figures"')[0]
    assert "Halve the <code>Interval</code>" in shown and ">[article]</a> <a" in shown and "article(" not in shown
    assert "What a digit costs" in (tmp_path / "rendered/cpu/01-costs.html").read_text(encoding="utf-8")
    index = (tmp_path / "rendered/cpu/index.html").read_text(encoding="utf-8")
    assert "<code>bisection</code>" in index
    pictures = unescape((tmp_path / "rendered/cpu/02-pictures.html").read_text(encoding="utf-8"))
    for kind in ("img", "media"):
        assert f"{kind}-src 'self' data: https://example.org" in pictures
    assert '<img src="https://example.org/images/root-of-two.png" alt="" width="40%"' in pictures


@pytest.mark.slow
def test_a_cs336_lecture_and_its_pages(traced: Traced, tmp_path: Path) -> None:
    trace = traced("cs336_style/lecture_03.py")
    assert trace.title == "Lecture 03"
    (warning,) = step_at(trace, "from references import").warnings or ()
    assert warning.startswith("NotFetchedWarning: https://arxiv.org/abs/1412.6980 was not fetched (ConnectionError")
    (optimizers,) = step_at(trace, "an optimizer").narrative or ()
    assert re.findall(r"\[(.*?)\]", str(optimizers.text)) == ["arXiv:1412.6980", "arXiv:2005.14165"]
    images = step_at(trace, 'image(drawn("made.svg")').narrative or ()
    assert images[0].url and images[0].url.startswith("data:image/svg+xml;base64,")
    share_steps = [
        step for step in trace.steps if isinstance(step, Step) and step.values and step.values[0][0] == "share"
    ]
    assert len(share_steps) == 1, "spawn must run the function once, in this process"
    (behaves_otherwise,) = step_at(trace, "    spawn(of_rank").warnings or ()
    assert behaves_otherwise.startswith("BehavesOtherwise: parallel_util.py, line 7 checks whether it is traced")
    render_folder(tmp_path / "cs336_style/rendered", tmp_path / "cs336_style/lecture_03.py")
    page = (tmp_path / "cs336_style/rendered/cpu/00-byte-pairs.html").read_text(encoding="utf-8")
    shown = page.split("<main")[1].split('id="figures"')[0]
    assert "article_link" not in shown and shown.count(">[article]</a>") == 4 and "data:image/svg+xml" in shown


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


def test_a_2024_lecture_with_its_own_util_and_main(traced: Traced, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    lecture = tmp_path / "old/lecture_07.py"
    lecture.write_text(LECTURE_2024, encoding="utf-8")
    (tmp_path / "old/util.py").write_text(UTIL_2024, encoding="utf-8")
    with pytest.raises(LectureError, match="`--main lecture_07`"):
        check_lecture(lecture)
    trace = traced("old/lecture_07.py", main="lecture_07")
    assert trace.run.main == "lecture_07" and trace.run.complete
    optimizer, page = (step_at(trace, text).narrative or () for text in ("An optimizer", "A page"))
    hover = "Adam. Ada Example, 2014-12-22. momentum scale."
    assert optimizer == [Text(text=f'An optimizer: [Example 2014](<https://example.org/adam> "{hover}")')]
    address = "[example.org/…/page.html](<https://example.org/a/page.html>)"
    assert page == [Text(text=f"A page: {address}`costs` [1, 2]")]
    assert [item.width for item in step_at(trace, "a.png").narrative or ()] == ["50%"]
    assert "825 GB of text" in (step_at(trace, "825 GB").warnings or [""])[0]
    document = make_document(trace)
    assert [section.function for section in document.sections] == ["costs"]
    assert document.sections[0].held == 1
    render_folder(tmp_path / "old/rendered", lecture)
    assert "An optimizer:" in (tmp_path / "old/rendered/cpu/00-costs.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_narrative_is_the_same_without_edtrace_installed(traced: Traced, tmp_path: Path) -> None:
    installed = importlib.util.find_spec("edtrace")
    if installed is None or installed.origin is None:
        pytest.skip("edtrace is not installed; the narrative without it is tested above")
    expected = recorded_narrative(traced("edtrace_style.py", Path(installed.origin).parents[1]))
    (tmp_path / "none" / "edtrace").mkdir(parents=True)
    (tmp_path / "none" / "edtrace" / "__init__.py").write_text("import module_of_nobody\n", encoding="utf-8")
    with warnings.catch_warnings():
        assert recorded_narrative(traced("edtrace_style.py", tmp_path / "none")) == expected


def test_a_vocabulary_can_be_requested(traced: Traced, tmp_path: Path) -> None:
    """An option names the vocabulary if the lecture computes the name of the module it imports."""
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
    assert [item.text for item in recorded_narrative(traced("hidden.py", vocabularies=("edtrace",)))] == ["ab"]
    render_folder(tmp_path / "rendered", tmp_path / "hidden.py")
    page = (tmp_path / "rendered/cpu/00-part.md").read_text(encoding="utf-8")
    assert "\nab\n" in page and "words.text" not in page  # the trace stores the vocabulary


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
    command.main(["-m", "course.unit.one", "--passes", "1", "--name", "cpu"], standalone_mode=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["course", "here.svg", "rendered"]
    text = (tmp_path / "rendered/cpu/trace.yaml").read_text(encoding="utf-8")
    assert '"x", {"type": "int", "value": 14}' in text and 'lecture: "course/unit/one.py"' in text
    page = (tmp_path / "rendered/cpu/00-section.html").read_text(encoding="utf-8")
    assert "data:image/svg+xml" in page and "not shown" not in page

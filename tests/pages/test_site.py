from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.pages.lectures import LECTURE, failing, lecture
from tests.pages.recording import Recording
from trace_tools.cli import main
from trace_tools.errors import TraceFileError, UsageError
from trace_tools.pages.site import SiteTrace, render_files, render_folder, render_site, stale_files
from trace_tools.trace import file as trace_file
from trace_tools.trace.model import Machine, Plot, Run, Series, Text, Trace, Value

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
H200 = Machine("NVIDIA H200", "nvidia-h200", "cuda")


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def listed(site: Path) -> list[dict[str, Any]]:
    """Return the machines that the scripts of a site's pages know."""
    machines: list[dict[str, Any]] = json.JSONDecoder().raw_decode((site / "machines.js").read_text(), 16)[0]["list"]
    return machines


def write(trace: Trace, *paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        trace_file.write(trace, path)


def test_a_machine_has_index_and_section_pages_in_both_formats(tmp_path: Path) -> None:
    site = [SiteTrace(lecture().trace(), "cpu", LECTURE)]
    changed = render_site(site, tmp_path)
    machine = "index.html index.md 00-first.html 00-first.md 00-first.js setup.html search-index.js section.js"
    pages = {"index.html", "index.md", "machines.js", *(f"cpu/{name}" for name in machine.split())}
    assert contents(tmp_path).keys() == pages | {".pages", "cpu/.pages"}
    assert {str(path.relative_to(tmp_path)) for path in changed} == pages
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert render_site(site, tmp_path) == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_only_pages_of_removed_sections_are_deleted(tmp_path: Path) -> None:
    render_site([SiteTrace(failing().trace(), "cpu")], tmp_path)
    mine = {"cpu/trace.yaml", "cpu/02-my-own.html", "kept.md"}
    for name in mine:
        (tmp_path / name).write_text("kept")
    with (tmp_path / "cpu" / ".pages").open("a") as manifest:
        manifest.write("../kept.md\n/etc/passwd\ntrace.yaml\nfigures/../trace.yaml\n")
    render_site([SiteTrace(lecture().trace(), "cpu")], tmp_path)
    remaining = contents(tmp_path).keys()
    assert not {"cpu/01-second.html", "cpu/01-second.md"} & remaining and mine | {"cpu/00-first.html"} <= remaining


def test_another_machine_changes_no_file_of_the_first_one(tmp_path: Path) -> None:
    """A partial trace has its pages next to the complete ones."""
    here = SiteTrace(lecture().trace(), "cpu", LECTURE)
    render_site([here], tmp_path)
    before = contents(tmp_path / "cpu")
    other = SiteTrace(replace(failing().trace(), machine=H200), "nvidia-h200")
    run = Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="killed by SIGKILL")
    changed = render_site([here, other, SiteTrace(failing().trace(run=run), "cpu", partial=True)], tmp_path)
    after = contents(tmp_path / "cpu")
    assert before.items() <= after.items() and all(name.startswith("partial/") for name in after.keys() - before.keys())
    at_the_top = {path.name for path in changed if path.parent == tmp_path}
    assert at_the_top == {"index.html", "index.md", "machines.js"}
    assert [(machine["name"], machine["folder"], machine["sections"]) for machine in listed(tmp_path)] == [
        ("A processor", "cpu", ["00-first"]),
        ("NVIDIA H200", "nvidia-h200", ["00-first", "01-second"]),
        ("A processor (partial)", "cpu/partial", ["00-first", "01-second"]),
    ]
    index = (tmp_path / "index.md").read_text()
    assert "[A processor](cpu/index.md)" in index and "[NVIDIA H200](nvidia-h200/index.md)" in index
    assert "cpu/partial/index.html" in (tmp_path / "index.html").read_text()
    for page in ("00-first", "01-second", "index"):
        text = after[f"partial/{page}.html"].decode()
        assert "This trace is partial: killed by SIGKILL" in text and 'href="../../index.html"' in text


def test_links_between_pages_resolve(tmp_path: Path) -> None:
    write(failing().trace(), tmp_path / "cpu" / "trace.yaml")
    render_site([SiteTrace(failing().trace(), "cpu"), SiteTrace(lecture().trace(), "h200")], tmp_path)
    for name, content in contents(tmp_path).items():
        pattern = {"html": r'(?:href|src)="([^"#]+)', "md": r"\]\(([^)#]+)"}.get(name.rpartition(".")[2])
        for link in re.findall(pattern, content.decode()) if pattern else ():
            if not link.startswith(("http", "data:")):
                assert (tmp_path / name).parent.joinpath(link).exists(), (name, link)


@pytest.mark.parametrize("slug", ["", "..", "a/b", "/tmp/x", ".hidden", "a\\b", "index.html", "diff"])
def test_unsafe_folder_names_are_refused(tmp_path: Path, slug: str) -> None:
    with pytest.raises(UsageError, match="expected a folder's name"):
        render_site([SiteTrace(lecture().trace(), slug)], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_unwritable_folder_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "cpu").write_text("a file in the way")
    with pytest.raises(UsageError, match="can't be written"):
        render_site([SiteTrace(lecture().trace(), "cpu")], tmp_path)


@pytest.mark.slow
def test_a_rendered_folder_uses_the_lecture_next_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be rendered from inside any of its folders."""
    out = tmp_path / "rendered"
    write(lecture().trace(), *(out / slug / "trace.yaml" for slug in ("cpu", "h200", "h200/partial")))
    (tmp_path / "lecture.py").write_text(LECTURE.replace('text("Hello.")', 'text("Good day.")'))
    assert render_folder(out) == out / "index.html"
    files = contents(out)
    assert b"Good day." in files["cpu/00-first.html"] and "h200/partial/00-first.html" in files
    assert b'href="diff/index.html"' in files["index.html"], "the reports are written first, the index last"
    assert b'href="../index.html"' in files["diff/index.html"]
    for folder, trace, index in (
        ("h200", "trace.yaml", "../index.html"),
        ("h200/partial", "trace.yaml", "../../index.html"),
        (".", "cpu/trace.yaml", "index.html"),
    ):
        monkeypatch.chdir(out / folder)
        assert list(render_files([Path(trace)], None)) == [index]
        assert all(contents(out)[name] == files[name] for name in ("cpu/00-first.html", "index.html"))


def test_traces_of_different_lectures_have_no_report(tmp_path: Path) -> None:
    write(lecture().trace(), tmp_path / "cpu" / "trace.yaml")
    write(first_page().trace(), tmp_path / "h200" / "trace.yaml")
    assert "diff/index.html" not in render_folder(tmp_path).read_text() and not (tmp_path / "diff").exists()


def test_a_trace_with_another_name_is_rendered_elsewhere(tmp_path: Path) -> None:
    lone, out = tmp_path / "here" / "mine.yaml", tmp_path / "out"
    write(lecture().trace(), lone)
    assert list(render_files([lone], out)) == [str(out / "index.html")]
    assert (out / "cpu" / "00-first.html").exists()
    lone.write_text("- [")
    with pytest.raises(TraceFileError):
        list(render_files([lone], out))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Render two machines and the reports that compare them, and add a file by hand."""
    monkeypatch.chdir(tmp_path)
    for name in ("cpu", "other"):
        write(replace(lecture().trace(), machine=Machine(name, name, "cpu")), Path("rendered", name, "trace.yaml"))
    Path("lecture.py").write_text(LECTURE)
    Path("rendered", "picture.png").write_text("put there by hand")
    render_folder(Path("rendered"))
    return Path("rendered")


def test_pages_that_are_out_of_date_are_listed_and_nothing_is_written(site: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in site.rglob("*")}
    assert list(stale_files(site)) == []
    assert {path: path.stat().st_mtime_ns for path in site.rglob("*")} == before
    for changed in ("cpu/00-first.md", "cpu/07-gone.html", "diff/index.md", "extra.html"):
        (site / changed).write_text("by hand")
    (site / "index.html").unlink()
    assert list(stale_files(site)) == [
        "rendered/cpu/00-first.md: differs",
        "rendered/cpu/07-gone.html: not made from any of these traces",
        "rendered/diff/index.md: differs",
        "rendered/extra.html: not made from any of these traces",
        "rendered/index.html: missing",
    ]
    (site / "other").rename(site / "third")
    Path("lecture.py").write_text(LECTURE.replace('text("Hello.")', 'text("Good day.")'))
    stale = {line.split(": ")[0] for line in stale_files(site)}
    assert stale >= {"rendered/index.html", "rendered/machines.js", "rendered/cpu/00-first.html"}
    assert not stale & {"rendered/cpu/index.html", "rendered/third/index.html"}  # they list no other machine
    with pytest.raises(UsageError, match=r"no traces; expected \*/trace.yaml"):
        list(stale_files(site / "nothing"))
    result = CliRunner().invoke(main, ["render", "--check", "rendered/cpu/typo.yaml"])
    assert (result.exit_code, result.stderr) == (2, "error: rendered/cpu/typo.yaml: no such trace\n")


FIRST_PAGE = '''\
from trace_tools import plot, text


def main():
    """Title

    What it *teaches*.
    """
    counting()
    measuring()


def counting():
    """Counting"""
    text("You can count: it is easy. And more.")
    part()  # @deeper
    text("**In short.**\\n\\nOne.")


def part():
    """A part"""
    text("Said.")  # @cover
    plot({"a": [1, 2]}, title="The best")  # @cover
    total = 20 + 22  # @inspect total @cover


def measuring():
    """Measuring"""
    text("You can measure.")
'''


def first_page() -> Recording:
    """Return a lecture with an aim, a figure for the first page, and a section that ends with a summary."""
    recording = Recording(FIRST_PAGE)

    def say(frame: int, code: str, text: str) -> None:
        recording.step(frame, code, narrative=[Text(text=text)])

    main = recording.frame("main")
    counting = recording.call(main, "counting()", "counting")
    say(counting, 'text("You can count', "You can count: it is easy. And more.")
    part = recording.call(counting, "part()", "part")
    say(part, 'text("Said', "Said.")
    recording.step(part, "plot(", narrative=[Plot(title="The best", series=[Series("a", [0, 1], [1, 2])])])
    recording.step(part, "total =", values=[("total", Value("int", 42))])
    say(counting, 'text("**In short', "**In short.**\n\nOne.")
    measuring = recording.call(main, "measuring()", "measuring")
    say(measuring, 'text("You can measure', "**The question.** It is long. How long?")
    return recording


def test_the_first_page_shows_aim_start_figures_and_summaries(tmp_path: Path) -> None:
    render_site([SiteTrace(first_page().trace(), "cpu")], tmp_path)
    page, text = (tmp_path / "index.html").read_text(), (tmp_path / "index.md").read_text()
    assert "What it <em>teaches</em>." in page and "What it *teaches*." in text
    assert re.search(r'href="cpu/00-counting.html">Start reading <small>1 min</small>', page)
    assert 'aria-label="The best. ' in page and 'href="cpu/00-counting.html">0 Counting</a>' in page
    for written in (page, text):
        assert "You can count: it is easy." in written and "And more" not in written and "The question" not in written
        assert "It is long. How long?" in written
    assert "In short." not in page and '<div class="prose words"><p>One.</p>' in page
    section = (tmp_path / "cpu" / "00-counting.html").read_text()
    assert len(re.findall(r'<div class="prose takeaway" id="said-\d+"><p><strong>In short\.', section)) == 1
    [anchor] = re.findall(r'href="cpu/00-counting\.html#([\w-]+)"', page)
    assert re.search(rf'id="{anchor}">\s*<div class="code"><code>\s*total', section)
    order = ("Start reading", "<p>Said.</p>", 'total = <b class="v">42</b>', 'id="sections"', 'id="machines"')
    assert [*map(page.index, order)] == sorted(map(page.index, order))

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pages.recording import Recording
from tests.pages.test_compose import LECTURE, failing, lecture
from trace_tools.errors import TraceFileError, UsageError
from trace_tools.pages.site import SiteTrace, render_files, render_folder, render_site
from trace_tools.trace import file as trace_file
from trace_tools.trace.model import Image, Machine, Plot, Run, Series, Text, Value

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_machine_has_index_and_section_pages_in_both_formats(tmp_path: Path) -> None:
    changed = render_site([SiteTrace(lecture().trace(), "cpu", LECTURE)], tmp_path)
    pages = {
        "index.html",
        "index.md",
        "machines.js",
        "cpu/index.html",
        "cpu/index.md",
        "cpu/00-first.html",
        "cpu/00-first.md",
    }
    pages |= {
        "cpu/setup.html",
        "cpu/search-index.js",
        "cpu/section.js",
        "cpu/00-first.js",
        "cpu/figures/index-time.svg",
        "cpu/figures/00-first-time.svg",
    }
    assert names(tmp_path) == pages | {".pages", "cpu/.pages"}
    assert {str(path.relative_to(tmp_path)) for path in changed} == pages


@pytest.mark.slow
def test_rendering_again_changes_nothing(tmp_path: Path) -> None:
    site = [SiteTrace(lecture().trace(), "cpu"), SiteTrace(failing().trace(), "h200")]
    render_site(site, tmp_path)
    before = {name: (tmp_path / name).stat().st_mtime_ns for name in names(tmp_path)}
    assert render_site(site, tmp_path) == []
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in names(tmp_path)} == before


def test_only_pages_of_removed_sections_are_deleted(tmp_path: Path) -> None:
    render_site([SiteTrace(failing().trace(), "cpu")], tmp_path)
    (tmp_path / "cpu" / "trace.yaml").write_text("kept")
    (tmp_path / "cpu" / "02-my-own.html").write_text("kept")
    (tmp_path / "kept.md").write_text("kept")
    with (tmp_path / "cpu" / ".pages").open("a") as manifest:
        manifest.write("../kept.md\n/etc/passwd\ntrace.yaml\nfigures/../trace.yaml\n")
    render_site([SiteTrace(lecture().trace(), "cpu")], tmp_path)
    remaining = names(tmp_path)
    assert "cpu/01-second.html" not in remaining and "cpu/01-second.md" not in remaining
    assert {"cpu/trace.yaml", "cpu/02-my-own.html", "kept.md", "cpu/00-first.html"} <= remaining


def test_a_partial_trace_has_pages_next_to_complete_ones(tmp_path: Path) -> None:
    run = Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="killed by SIGKILL")
    partial = failing().trace(run=run)
    render_site([SiteTrace(lecture().trace(), "cpu"), SiteTrace(partial, "cpu", partial=True)], tmp_path)
    assert listed(tmp_path)[1]["folder"] == "cpu/partial"
    for page in ("00-first", "01-second", "index"):
        text = (tmp_path / "cpu" / "partial" / f"{page}.html").read_text()
        assert "This trace is partial: killed by SIGKILL" in text
        assert 'href="../../index.html"' in text
    assert "cpu/partial/index.html" in (tmp_path / "index.html").read_text()


def listed(site: Path) -> list[dict[str, Any]]:
    """Return the machines that the scripts of a site's pages know."""
    machines: list[dict[str, Any]] = json.JSONDecoder().raw_decode((site / "machines.js").read_text(), 16)[0]["list"]
    return machines


def test_another_machine_changes_no_file_of_the_first_one(tmp_path: Path) -> None:
    here = SiteTrace(lecture().trace(), "cpu", LECTURE)
    render_site([here], tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path) if name.startswith("cpu/")}
    other = replace(failing().trace(), machine=Machine("NVIDIA H200", "nvidia-h200", "cuda"))
    partial = SiteTrace(failing().trace(), "cpu", partial=True)
    changed = render_site([here, SiteTrace(other, "nvidia-h200"), partial], tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert names(tmp_path / "cpu") - {name.removeprefix("cpu/") for name in before} == {
        f"partial/{name}" for name in names(tmp_path / "cpu" / "partial")
    }
    at_the_top = {path.name for path in changed if path.parent == tmp_path}
    assert at_the_top == {"index.html", "index.md", "machines.js"}
    assert [(machine["name"], machine["folder"], machine["sections"]) for machine in listed(tmp_path)] == [
        ("A processor", "cpu", ["00-first"]),
        ("NVIDIA H200", "nvidia-h200", ["00-first", "01-second"]),
        ("A processor (partial)", "cpu/partial", ["00-first", "01-second"]),
    ]
    index = (tmp_path / "index.md").read_text()
    assert "[A processor](cpu/index.md)" in index and "(nvidia-h200/01-second.md)" in index


@pytest.mark.slow
def test_links_between_pages_resolve(tmp_path: Path) -> None:
    import re

    traces = [SiteTrace(failing().trace(), "cpu"), SiteTrace(lecture().trace(), "h200")]
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "trace.yaml").write_text("")
    render_site(traces, tmp_path)
    for name in names(tmp_path):
        text = (tmp_path / name).read_text()
        pattern = r'(?:href|src)="([^"#]+)' if name.endswith(".html") else r"\]\(([^)#]+)"
        for link in re.findall(pattern, text) if name.endswith((".html", ".md")) else ():
            if not link.startswith(("http", "data:")):
                assert (tmp_path / name).parent.joinpath(link).exists(), (name, link)


def test_images_next_to_the_lecture_are_copied_and_inlined(tmp_path: Path) -> None:
    (tmp_path / "lecture").mkdir()
    (tmp_path / "lecture" / "loss.png").write_bytes(PNG)
    recording = Recording("def main():\n    f()\n\ndef f():\n    g()\n")
    narrative = [Image(url=name, title=name) for name in ("loss.png", "../secret.png")]
    recording.step(recording.call(recording.frame("main"), "f()", "f"), "g()", narrative=narrative)
    out = tmp_path / "out"
    render_site([SiteTrace(recording.trace(), "cpu", lecture_folder=tmp_path / "lecture")], out)
    [copied] = [name for name in names(out) if name.startswith("cpu/figures/")]
    assert (out / copied).read_bytes() == PNG
    assert f"]({copied.removeprefix('cpu/')})" in (out / "cpu" / "00-f.md").read_text()
    assert 'src="data:image/png;base64,' in (out / "cpu" / "00-f.html").read_text()


@pytest.mark.parametrize("slug", ["", "..", "a/b", "/tmp/x", ".hidden", "a\\b", "index.html", "diff"])
def test_unsafe_folder_names_are_refused(tmp_path: Path, slug: str) -> None:
    with pytest.raises(UsageError, match="can't be a folder's name"):
        render_site([SiteTrace(lecture().trace(), slug)], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_unwritable_folder_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "cpu").write_text("a file in the way")
    with pytest.raises(UsageError, match="can't be written"):
        render_site([SiteTrace(lecture().trace(), "cpu")], tmp_path)


@pytest.mark.slow
def test_a_rendered_folder_uses_the_lecture_next_to_it(tmp_path: Path) -> None:
    out = tmp_path / "rendered"
    for slug in ("cpu", "h200", "h200/partial"):
        (out / slug).mkdir(parents=True)
        trace_file.write(lecture().trace(), out / slug / "trace.yaml")
    (tmp_path / "lecture.py").write_text(LECTURE.replace('text("Hello.")', 'text("Good day.")'))
    assert render_folder(out) == out / "index.html"
    assert "Good day." in (out / "cpu" / "00-first.html").read_text()
    assert (out / "h200" / "partial" / "00-first.html").exists()
    assert 'href="diff/index.html"' in (out / "index.html").read_text(), "the reports are written first, the index last"
    assert 'href="../index.html"' in (out / "diff" / "index.html").read_text()


def test_traces_of_different_lectures_have_no_report(tmp_path: Path) -> None:
    for slug, trace in (("cpu", lecture().trace()), ("h200", first_page().trace())):
        (tmp_path / slug).mkdir()
        trace_file.write(trace, tmp_path / slug / "trace.yaml")
    index = render_folder(tmp_path).read_text()
    assert "diff/index.html" not in index and not (tmp_path / "diff").exists()


def test_trace_files_are_rendered_in_place_or_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "rendered" / "mine" / "trace.yaml"
    path.parent.mkdir(parents=True)
    trace_file.write(lecture().trace(), path)
    assert list(render_files([path], None)) == [str(tmp_path / "rendered" / "index.html")]
    assert (path.parent / "00-first.html").exists()
    assert list(render_files([path], tmp_path / "out")) == [str(tmp_path / "out" / "index.html")]
    assert (tmp_path / "out" / "cpu" / "00-first.html").exists()
    bad = tmp_path / "rendered" / "bad.yaml"
    bad.write_text("- [")
    with pytest.raises(TraceFileError):
        list(render_files([bad], None))


@pytest.mark.slow
def test_traces_are_rendered_from_inside_the_rendered_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("rendered/cpu", "rendered/cpu/partial"):
        (tmp_path / folder).mkdir(parents=True)
        trace_file.write(lecture().trace(), tmp_path / folder / "trace.yaml")
    (tmp_path / "lecture.py").write_text(LECTURE.replace('text("Hello.")', 'text("Good day.")'))
    for folder, index in (("cpu", "../index.html"), ("cpu/partial", "../../index.html"), (".", "index.html")):
        monkeypatch.chdir(tmp_path / "rendered" / folder)
        trace = Path("cpu/trace.yaml") if folder == "." else Path("trace.yaml")
        assert list(render_files([trace], None)) == [index]
        assert "Good day." in (tmp_path / "rendered" / "cpu" / "00-first.html").read_text()
        assert "cpu/index.html" in (tmp_path / "rendered" / "index.html").read_text()


def test_a_trace_with_another_name_needs_an_output_folder(tmp_path: Path) -> None:
    lone = tmp_path / "here" / "mine.yaml"
    lone.parent.mkdir()
    trace_file.write(lecture().trace(), lone)
    with pytest.raises(UsageError, match=r"mine\.yaml: expected <machine>/trace\.yaml, or -o"):
        list(render_files([lone], None))
    assert names(tmp_path) == {"here/mine.yaml"}
    assert list(render_files([lone], tmp_path / "out")) == [str(tmp_path / "out" / "index.html")]


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
    text("Said.")
    plot({"a": [1, 2]}, title="The best")  # @cover
    total = 20 + 22  # @inspect total @cover


def measuring():
    """Measuring"""
    text("You can measure.")
'''


def first_page() -> Recording:
    """Return a lecture with an aim, a figure for the first page, and a section that ends with a summary."""
    recording = Recording(FIRST_PAGE)
    main = recording.frame("main")
    counting = recording.call(main, "counting()", "counting")
    recording.step(counting, 'text("You can count', narrative=[Text(text="You can count: it is easy. And more.")])
    part = recording.call(counting, "part()", "part")
    recording.step(part, 'text("Said', narrative=[Text(text="Said.")])
    series = [Series("a", [0, 1], [1, 2])]
    recording.step(part, "plot(", narrative=[Plot(title="The best", series=series)])
    recording.step(part, "total =", values=[("total", Value("int", 42))])
    recording.step(counting, 'text("**In short', narrative=[Text(text="**In short.**\n\nOne.")])
    measuring = recording.call(main, "measuring()", "measuring")
    recording.step(measuring, 'text("You can measure', narrative=[Text(text="**The question.** It is long. How long?")])
    return recording


def test_the_first_page_shows_aim_start_figures_and_summaries(tmp_path: Path) -> None:
    render_site([SiteTrace(first_page().trace(), "cpu")], tmp_path)
    page, text = (tmp_path / "index.html").read_text(), (tmp_path / "index.md").read_text()
    assert "What it <em>teaches</em>." in page and "What it *teaches*." in text
    assert '<a class="go" href="cpu/00-counting.html">Start reading <small>1 min</small></a>' in page
    assert "<title id=" in page and ">The best</title>" in page and 'href="cpu/00-counting.html">0 Counting</a>' in page
    for written in (page, text):
        assert "You can count: it is easy." in written and "And more" not in written and "The question" not in written
        assert "It is long. How long?" in written
    assert "In short." not in page and '<div class="prose words"><p>One.</p>' in page
    section = (tmp_path / "cpu" / "00-counting.html").read_text()
    assert (
        len(re.findall(r'<div class="prose takeaway" id="said-\d+"><p><strong>In short\.</strong></p>', section)) == 1
    )
    assert "<b>total = </b><b>42</b>" in page and page.index("Start reading") < page.index("<b>42</b>")
    [anchor] = re.findall(r'href="cpu/00-counting\.html#([\w-]+)"', page)
    assert re.search(rf'id="{anchor}">\s*<div class="code"><code>\s*total', section)
    assert page.index("Start reading") < page.index('id="sections"') < page.index('id="machines"')

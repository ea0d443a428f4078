"""`translate`, and the pages that `render` makes with a catalogue."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from babel.messages.pofile import read_po, write_po
from click.testing import CliRunner, Result

from trace_tools.cli import main

GERMAN = {
    "Growth": "Wachstum",
    "How many are there after ten steps?": "Wie viele sind es nach zehn Schritten?",
    "It doubles, it does not add.": "Es verdoppelt sich, es wird nicht addiert.",
    "Numbers in prose come from the program: {sizes[-1]:,} after ten steps.": (
        "Nach zehn Schritten sind es {sizes[-1]:,}: Zahlen im Text kommen aus dem Programm."
    ),
    "how many": "wie viele",
    "steps": "Schritte",
    "The formula is faster than the loop.": "Die Formel ist schneller.",
    "The loop is faster than the formula.": "Die Schleife ist schneller.",
    "Neither is faster here.": "Keine ist schneller.",
}


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translated")
    for command in (["new", "talk.py"], ["trace", "talk.py", "-o", "rendered", "--passes", "1"]):
        words = [str(folder / word) if word in ("talk.py", "rendered") else word for word in command]
        done = run(*words)
        assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def folder(once: Path, tmp_path: Path) -> Path:
    shutil.copytree(once, tmp_path / "lecture")
    return tmp_path / "lecture"


def run(*words: str) -> Result:
    return CliRunner().invoke(main, [*words])


def translate(folder: Path, words: dict[str, str]) -> None:
    """Fill a catalogue as a translator's editor does."""
    path = folder / "talk.de.po"
    with path.open("rb") as file:
        catalogue = read_po(file)
    for entry in catalogue:
        if entry.id in words:
            entry.string = words[str(entry.id)]
    with path.open("wb") as file:
        write_po(file, catalogue)


def code_of(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_a_lecture_in_german_needs_nothing_but_a_catalogue(folder: Path) -> None:
    done = run("translate", str(folder / "talk.py"), "--to", "de")
    assert done.exit_code == 0 and (folder / "talk.de.po").exists(), done.output
    assert run("translate", str(folder / "talk.py"), "--check").exit_code == 1
    translate(folder, GERMAN)
    own = (folder / "rendered/cpu/00-growth.html").read_text(encoding="utf-8")
    done = run("render", str(folder / "rendered/cpu/trace.yaml"))
    assert done.exit_code == 0, done.output
    page = folder / "rendered/de/cpu/00-growth.md"
    shown = page.read_text(encoding="utf-8")
    for words in (*list(GERMAN.values())[:3], "Nach zehn Schritten sind es 1,024: Zahlen", "| Schritte | wie viele |"):
        assert words in shown
    assert "Prose is **Markdown**" in shown  # what has no translation stays
    assert any(words in (folder / "rendered/de/cpu/01-two-ways.md").read_text() for words in list(GERMAN.values())[-3:])
    assert code_of(page) == code_of(folder / "rendered/cpu/00-growth.md") != []
    html = page.with_suffix(".html").read_text(encoding="utf-8")
    assert '<html lang="de">' in html and 'href="../../cpu/00-growth.html" hreflang="en"' in html
    english = (folder / "rendered/cpu/00-growth.html").read_text(encoding="utf-8")
    assert 'href="../de/cpu/00-growth.html" hreflang="de"' in english and "hreflang" not in own
    asked = re.compile(r'data-asked="(\w+)"')
    assert asked.findall(html) == asked.findall(english) != []  # an answer is remembered in both languages
    assert run("render", "--check", str(folder / "rendered/cpu/trace.yaml")).exit_code == 0
    (folder / "rendered/de/cpu/00-growth.md").write_text("other")
    stale = run("render", "--check", str(folder / "rendered/cpu/trace.yaml"))
    assert stale.exit_code == 1 and "de/cpu/00-growth.md: differs" in stale.output


def test_reports_on_machines_are_in_every_language(folder: Path) -> None:
    run("translate", str(folder / "talk.py"), "--to", "de")
    translate(folder, GERMAN)
    shutil.copytree(folder / "rendered/cpu", folder / "rendered/other")
    done = run("render", str(folder / "rendered/cpu/trace.yaml"))
    assert done.exit_code == 0, done.output
    report = (folder / "rendered/de/diff/index.html").read_text(encoding="utf-8")
    assert '<html lang="de">' in report and 'href="../../diff/index.html" hreflang="en"' in report
    assert "Wachstum" in report  # the title of a section
    [pair] = (folder / "rendered/diff").glob("*-to-*.html")
    assert f'href="../de/diff/{pair.name}" hreflang="de"' in pair.read_text(encoding="utf-8")
    assert run("render", "--check", str(folder / "rendered/cpu/trace.yaml")).exit_code == 0


def test_a_translation_keeps_placeholders_formulas_code_and_links(folder: Path) -> None:
    run("translate", str(folder / "talk.py"), "--to", "de")
    [message] = [text for text in GERMAN if "{" in text]
    formula = "Prose is **Markdown**, with math: after $n$ steps there are $2^n$. What a line did stands beside it:"
    translate(folder, {message: "Es sind {sizes[0]:,}.", formula: "Nach $n$ Schritten sind es $2n$:"})
    done = run("render", str(folder / "rendered/cpu/trace.yaml"))
    path = folder / "talk.de.po"
    lines = path.read_text(encoding="utf-8").splitlines()
    assert done.exit_code == 2
    wrong = re.findall(r"talk\.de\.po:(\d+): the translation of '([^']*)' lacks the (\w+) (\S+)", done.output)
    assert [(kind, what) for _, _, kind, what in wrong] == [("formula", "$2^n$"), ("placeholder", "sizes[-1]:,")]
    assert all(lines[int(line) - 1].startswith("msgid") for line, *_ in wrong)
    path.write_text("msgid oops\n")
    done = run("render", str(folder / "rendered/cpu/trace.yaml"))
    assert done.exit_code == 2 and "talk.de.po:1: " in done.output and "Traceback" not in done.output
    done = run("translate", str(folder / "talk.py"), "--to", "xx_oops")
    assert done.exit_code == 2 and "xx_oops" in done.output


def test_a_message_without_its_recorded_values_stays_in_the_lectures_words(folder: Path) -> None:
    run("translate", str(folder / "talk.py"), "--to", "de")
    translate(folder, GERMAN)
    trace = folder / "rendered/cpu/trace.yaml"
    recorded = trace.read_text(encoding="utf-8")
    trace.write_text(recorded.replace('"filled": [[0, ["1,024"]]]', '"filled": [[0, []]]'), encoding="utf-8")
    done = run("render", str(trace))
    assert done.exit_code == 0, done.output
    shown = (folder / "rendered/de/cpu/00-growth.md").read_text(encoding="utf-8")
    assert "come from the program: 1,024 after" in shown or "Nach zehn Schritten sind es 1,024" in shown


def test_a_changed_message_is_fuzzy_and_its_pages_are_in_the_lectures_words(folder: Path) -> None:
    lecture = folder / "talk.py"
    run("translate", str(lecture), "--to", "de")
    translate(folder, GERMAN)
    text = lecture.read_text(encoding="utf-8")
    lecture.write_text(text.replace("How many are there after ten steps?", "How many are there after the ten steps?"))
    done = run("translate", str(lecture))
    assert done.exit_code == 0 and "1 fuzzy" in done.output
    run("render", str(folder / "rendered/cpu/trace.yaml"))
    shown = (folder / "rendered/de/cpu/00-growth.md").read_text(encoding="utf-8")
    assert "How many are there after the ten steps?" in shown and "# 0 Wachstum" in shown


def test_other_commands_know_the_languages(folder: Path) -> None:
    run("translate", str(folder / "talk.py"), "--to", "de")
    translate(folder, GERMAN)
    trace = str(folder / "rendered/cpu/trace.yaml")
    run("render", trace)
    done = run("export", trace, "--format", "html", "--language", "de", "-o", str(folder / "talk.html"))
    assert done.exit_code == 0 and "Wachstum" in (folder / "talk.html").read_text(encoding="utf-8"), done.output
    assert run("export", trace, "--format", "html", "--language", "fr").exit_code == 2
    done = run("site", str(folder / "rendered"), "--url", "https://example.org/", "-o", str(folder / "site"))
    assert done.exit_code == 0, done.output
    page = (folder / "site/cpu/00-growth.html").read_text(encoding="utf-8")
    alternate = '<link rel="alternate" hreflang="{}" href="https://example.org/{}">'
    assert (
        alternate.format("de", "de/cpu/00-growth.html") in page and alternate.format("en", "cpu/00-growth.html") in page
    )
    assert "https://example.org/de/cpu/00-growth.html" in (folder / "site/sitemap.xml").read_text(encoding="utf-8")
    assert run("check", str(folder / "talk.py")).exit_code == 0
    translate(folder, {"Two ways to add up": "Zwei `Wege`"})
    assert "has the code `Wege`" in run("check", str(folder / "talk.py")).output

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
def traced_lecture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translated")
    for command in (["new", "talk.py"], ["trace", "talk.py", "-o", "rendered", "--passes", "1"]):
        words = [str(folder / word) if word in ("talk.py", "rendered") else word for word in command]
        result = run(*words)
        assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def folder(traced_lecture: Path, tmp_path: Path) -> Path:
    shutil.copytree(traced_lecture, tmp_path / "lecture")
    return tmp_path / "lecture"


def run(*words: str) -> Result:
    return CliRunner().invoke(main, [*words])


def fill_catalogue(folder: Path, words: dict[str, str]) -> None:
    """Enter translations into the German catalogue, as a translator would."""
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


def test_pages_are_translated_with_a_catalogue(folder: Path) -> None:
    result = run("translate", str(folder / "talk.py"), "--to", "de")
    assert result.exit_code == 0 and (folder / "talk.de.po").exists(), result.output
    assert run("translate", str(folder / "talk.py"), "--check").exit_code == 1
    fill_catalogue(folder, GERMAN)
    untranslated = (folder / "rendered/cpu/00-growth.html").read_text(encoding="utf-8")
    result = run("render", str(folder / "rendered/cpu/trace.yaml"))
    assert result.exit_code == 0, result.output
    page = folder / "rendered/de/cpu/00-growth.md"
    markdown = page.read_text(encoding="utf-8")
    for words in (*list(GERMAN.values())[:3], "Nach zehn Schritten sind es 1,024: Zahlen", "| Schritte | wie viele |"):
        assert words in markdown
    assert "Prose is **Markdown**" in markdown  # no translation exists
    assert any(words in (folder / "rendered/de/cpu/01-two-ways.md").read_text() for words in list(GERMAN.values())[-3:])
    assert code_of(page) == code_of(folder / "rendered/cpu/00-growth.md") != []
    html = page.with_suffix(".html").read_text(encoding="utf-8")
    assert '<html lang="de">' in html and 'href="../../cpu/00-growth.html" hreflang="en"' in html
    english = (folder / "rendered/cpu/00-growth.html").read_text(encoding="utf-8")
    assert 'href="../de/cpu/00-growth.html" hreflang="de"' in english and "hreflang" not in untranslated
    question_id = re.compile(r'data-asked="(\w+)"')
    assert question_id.findall(html) == question_id.findall(english) != []  # an answer is remembered in both languages
    assert run("render", "--check", str(folder / "rendered/cpu/trace.yaml")).exit_code == 0
    (folder / "rendered/de/cpu/00-growth.md").write_text("other")
    stale = run("render", "--check", str(folder / "rendered/cpu/trace.yaml"))
    assert stale.exit_code == 1 and "de/cpu/00-growth.md: differs" in stale.output


def test_machine_reports_are_translated(folder: Path) -> None:
    run("translate", str(folder / "talk.py"), "--to", "de")
    fill_catalogue(folder, GERMAN)
    shutil.copytree(folder / "rendered/cpu", folder / "rendered/other")
    result = run("render", str(folder / "rendered/cpu/trace.yaml"))
    assert result.exit_code == 0, result.output
    report = (folder / "rendered/de/diff/index.html").read_text(encoding="utf-8")
    assert '<html lang="de">' in report and 'href="../../diff/index.html" hreflang="en"' in report
    assert "Wachstum" in report  # the title of a section
    [pair] = (folder / "rendered/diff").glob("*-to-*.html")
    assert f'href="../de/diff/{pair.name}" hreflang="de"' in pair.read_text(encoding="utf-8")
    assert run("render", "--check", str(folder / "rendered/cpu/trace.yaml")).exit_code == 0


def test_translations_without_placeholder_or_formula_are_rejected(folder: Path) -> None:
    run("translate", str(folder / "talk.py"), "--to", "de")
    [message] = [text for text in GERMAN if "{" in text]
    formula = "Prose is **Markdown**, with math: after $n$ steps there are $2^n$. What a line did stands beside it:"
    fill_catalogue(folder, {message: "Es sind {sizes[0]:,}.", formula: "Nach $n$ Schritten sind es $2n$:"})
    result = run("render", str(folder / "rendered/cpu/trace.yaml"))
    path = folder / "talk.de.po"
    lines = path.read_text(encoding="utf-8").splitlines()
    assert result.exit_code == 2
    wrong = re.findall(r"talk\.de\.po:(\d+): the translation of '([^']*)' lacks the (\w+) (\S+)", result.output)
    assert [(kind, missing) for _, _, kind, missing in wrong] == [("formula", "$2^n$"), ("placeholder", "sizes[-1]:,")]
    assert all(lines[int(line) - 1].startswith("msgid") for line, *_ in wrong)
    path.write_text("msgid oops\n")
    result = run("render", str(folder / "rendered/cpu/trace.yaml"))
    assert result.exit_code == 2 and "talk.de.po:1: " in result.output and "Traceback" not in result.output
    result = run("translate", str(folder / "talk.py"), "--to", "xx_oops")
    assert result.exit_code == 2 and "xx_oops" in result.output


def test_message_without_recorded_values_may_stay_untranslated(folder: Path) -> None:
    run("translate", str(folder / "talk.py"), "--to", "de")
    fill_catalogue(folder, GERMAN)
    trace = folder / "rendered/cpu/trace.yaml"
    recorded = trace.read_text(encoding="utf-8")
    trace.write_text(recorded.replace('"filled": [[0, ["1,024"]]]', '"filled": [[0, []]]'), encoding="utf-8")
    result = run("render", str(trace))
    assert result.exit_code == 0, result.output
    markdown = (folder / "rendered/de/cpu/00-growth.md").read_text(encoding="utf-8")
    assert "come from the program: 1,024 after" in markdown or "Nach zehn Schritten sind es 1,024" in markdown


def test_changed_message_is_fuzzy_and_stays_untranslated(folder: Path) -> None:
    lecture = folder / "talk.py"
    run("translate", str(lecture), "--to", "de")
    fill_catalogue(folder, GERMAN)
    text = lecture.read_text(encoding="utf-8")
    lecture.write_text(text.replace("How many are there after ten steps?", "How many are there after the ten steps?"))
    result = run("translate", str(lecture))
    assert result.exit_code == 0 and "1 fuzzy" in result.output
    run("render", str(folder / "rendered/cpu/trace.yaml"))
    markdown = (folder / "rendered/de/cpu/00-growth.md").read_text(encoding="utf-8")
    assert "How many are there after the ten steps?" in markdown and "# 0 Wachstum" in markdown


def test_other_commands_support_translations(folder: Path) -> None:
    run("translate", str(folder / "talk.py"), "--to", "de")
    fill_catalogue(folder, GERMAN)
    trace = str(folder / "rendered/cpu/trace.yaml")
    run("render", trace)
    result = run("export", trace, "--format", "html", "--language", "de", "-o", str(folder / "talk.html"))
    assert result.exit_code == 0 and "Wachstum" in (folder / "talk.html").read_text(encoding="utf-8"), result.output
    assert run("export", trace, "--format", "html", "--language", "fr").exit_code == 2
    result = run("site", str(folder / "rendered"), "--url", "https://example.org/", "-o", str(folder / "site"))
    assert result.exit_code == 0, result.output
    page = (folder / "site/cpu/00-growth.html").read_text(encoding="utf-8")
    alternate = '<link rel="alternate" hreflang="{}" href="https://example.org/{}">'
    assert (
        alternate.format("de", "de/cpu/00-growth.html") in page and alternate.format("en", "cpu/00-growth.html") in page
    )
    assert "https://example.org/de/cpu/00-growth.html" in (folder / "site/sitemap.xml").read_text(encoding="utf-8")
    assert run("check", str(folder / "talk.py")).exit_code == 0
    fill_catalogue(folder, {"Two ways to add up": "Zwei `Wege`"})
    assert "has the code `Wege`" in run("check", str(folder / "talk.py")).output

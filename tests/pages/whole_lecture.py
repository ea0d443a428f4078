"""A lecture for tests of the single HTML file: its sections share headings and questions and link to each other."""

from __future__ import annotations

from pathlib import Path

from tests.pages.explored import EXPLORED
from tests.pages.recording import Recording, matrix
from tests.pages.test_exercises import QUESTIONS
from trace_tools.trace.file import write
from trace_tools.trace.model import Ask, Claim, Image, Plot, Series, Text, Trace, Value, Video

LECTURE = '''\
"""A whole lecture"""
from trace_tools import text

K = 3


def main():
    """A whole lecture

    It promises *much*.
    """
    text("What main says.")
    first()
    second()


def first():
    """The first part"""
    text("# Same heading")
    x = inner(2)  # @inspect x
    assert x == 4


def inner(n):
    return n * 2


def second():
    """The second part"""
    text('# Same heading')
    y = inner(3)  # @inspect y
    assert y == 6
'''
PNG = b"\x89PNG\r\n\x1a\n"
BEFORE = (
    "# Same heading\n\nMath: $\\frac{1}{2}$; [the second](01-second.html#same-heading), [a file](data.csv), [no](#no), "
)
BEFORE += "[the web](https://example.org/a?b=1&c=2)."
ON_THE_WEB = "https://example.org/picture.png"


def whole_lecture() -> Trace:
    recording = Recording(LECTURE)
    module = recording.frame("<module>")
    recording.step(module, "K = 3", values=[("K", Value("int", 3))])
    main = recording.frame("main")
    recording.step(main, 'text("What main', narrative=[Text(text="What main says.")])
    plot = Plot(title="A line", series=[Series("a", [1.0, 2.0, 3.0], [1.0, 4.0, 9.0], "line")])
    media = [Image(url=url, title="An image") for url in ("small.png", "large.png", ON_THE_WEB)]
    media.append(Video(url="film.webm", title="A film"))
    questions = [Ask(text=question, answer=answer) for question, answer in QUESTIONS]
    for section, statement, name, value in (("first", 'text("# Same', "x", 4), ("second", "text('# Same", "y", 6)):
        frame = recording.call(main, f"{section}()", section)
        narrative = [Text(text=BEFORE), *questions, *EXPLORED, plot, *(media if section == "first" else [])]
        recording.step(frame, statement, narrative=narrative)
        values = [(name, matrix(2, 3)), (f"{name}.shape", Value("str", "(2, 3)"))]
        calling = recording.step(frame, f"{name} = inner", values=values, annotated=True, host_ns=[10**8])
        recording.step(recording.frame("inner", calling), "return n * 2")
        sides = [(name, Value("int", value)), (f"{value}", Value("int", value))]
        recording.step(frame, f"assert {name}", claim=Claim(f"{name} == {value}", True, sides))
    return recording.trace(title="A whole lecture")


def written(folder: Path) -> Path:
    """Write the trace to `rendered/cpu/` and the pictures next to the lecture; return the trace's path."""
    (folder / "rendered" / "cpu").mkdir(parents=True)
    (folder / "small.png").write_bytes(PNG + b"small")
    (folder / "large.png").write_bytes(PNG + bytes(200_000))
    (folder / "film.webm").write_bytes(b"\x1aE\xdf\xa3film")
    path = folder / "rendered" / "cpu" / "trace.yaml"
    write(whole_lecture(), path)
    return path

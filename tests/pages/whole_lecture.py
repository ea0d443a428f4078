"""A lecture for tests of the single HTML file: its sections share headings and questions and link to each other."""

from __future__ import annotations

from tests.pages.explored import EXPLORED
from tests.pages.recording import Recording, matrix
from trace_tools.trace.model import Answer, Ask, Image, Plot, Series, Text, Trace, Value, Video

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


def inner(n):
    return n * 2


def second():
    """The second part"""
    text('# Same heading')
    y = inner(3)  # @inspect y
'''
BEFORE = (
    "# Same heading\n\nMath: $\\frac{1}{2}$; [the second](01-second.html#same-heading), [a file](data.csv), [no](#no), "
)
BEFORE += "[the web](https://example.org/a?b=1&c=2)."
ON_THE_WEB = "https://example.org/picture.png"
QUESTIONS = [
    Ask(text="How many bytes?", answer=Answer(4_000_000, "B", 0.01, hint="Four *each*.", why="A million of $4$.")),
    Ask(text="Which dtype?", answer=Answer("float32", choices=["float64", "float32"])),
]


def whole_lecture() -> Trace:
    recording = Recording(LECTURE)
    recording.step(recording.frame("<module>"), "K = 3", values=[("K", Value("int", 3))])
    main = recording.frame("main")
    recording.step(main, 'text("What main', narrative=[Text(text="What main says.")])
    plot = Plot(title="A line", series=[Series("a", [1.0, 2.0, 3.0], [1.0, 4.0, 9.0], "line")])
    media = [Image(url=url, title="An image") for url in ("small.png", "large.png", ON_THE_WEB)]
    media.append(Video(url="film.webm", title="A film"))
    for section, statement, name in (("first", 'text("# Same', "x"), ("second", "text('# Same", "y")):
        frame = recording.call(main, f"{section}()", section)
        narrative = [Text(text=BEFORE), *QUESTIONS, *EXPLORED, plot, *(media if section == "first" else [])]
        recording.step(frame, statement, narrative=narrative)
        values = [(name, matrix(2, 3)), (f"{name}.shape", Value("str", "(2, 3)"))]
        calling = recording.step(frame, f"{name} = inner", values=values, annotated=True, host_ns=[10**8])
        recording.step(recording.frame("inner", calling), "return n * 2")
    return recording.trace(title="A whole lecture")

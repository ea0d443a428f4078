"""A lecture with most kinds of lines and calls, as it ran, and with exceptions; and the parts of composed documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.pages.recording import Recording, matrix
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Block, Call, CodeListing, CodeRow, Section
from trace_tools.trace.model import Claim, Frame, Narrative, Plot, Raised, Text, Trace, Value

LECTURE = '''\
"""A lecture."""
from trace_tools import note, plot, text
import torch

WIDTH = 4


def main():
    first()
    second()


def first():
    """The first part

    With a *summary*.
    """
    text("Hello.")
    # a comment that stands before code
    x = torch.ones(2, 3)  # (2, 3) @inspect x

    y = x.t()  # @inspect y
    assert x.sum() == 6
    inner(3)
    z = helper(2)
    secret = 1  # @hide
    plot({"a": [1, 2]})  # @hide


def inner(n):
    """A part inside"""
    text(f"Inside, {n}.")
    for i in range(n):
        text(f"Turn {i}.")
        total = i * n  # @inspect total
    if n > 5:
        text("Large.")
    else:
        text("Small.")


def helper(a):  # @inspect a
    """Help."""
    b = a + 1  # @inspect b
    return b


def second():
    try:
        broken()
    except ValueError:
        caught = True
    broken()
    never = 1


def broken():
    raise ValueError("no")
'''


def text(markdown: str) -> list[Narrative]:
    return [Text(text=markdown)]


def number(value: int) -> Value:
    return Value("int", value)


def lecture() -> Recording:
    recording = Recording(LECTURE)
    module = recording.frame("<module>")
    recording.step(module, "import torch")
    recording.step(module, "WIDTH")
    main = recording.frame("main")
    first = recording.call(main, "first()", "first")
    recording.step(first, 'text("Hello.")', narrative=text("Hello."))
    recording.step(first, "x = torch", values=[("x", matrix(2, 3))], annotated=True, host_ns=[21_000, 20_000, 22_000])
    recording.step(first, "y = x.t()", values=[("y", matrix(3, 2))], annotated=True)
    recording.step(first, "assert", claim=Claim("x.sum() == 6", True, [("x.sum()", number(6)), ("6", number(6))]))
    inner = recording.call(first, "inner(3)", "inner")
    recording.step(inner, 'text(f"Inside', narrative=text("Inside, 3."))
    for i in range(3):
        recording.step(inner, "for i")
        recording.step(inner, 'text(f"Turn', narrative=text(f"Turn {i}."))
        recording.step(inner, "total", values=[("total", number(3 * i))], annotated=True)
    recording.omit(inner, "total", 7, 9_000)
    recording.step(inner, "for i")
    recording.step(inner, "if n > 5")
    recording.step(inner, 'text("Small.")', narrative=text("Small."))
    helper = recording.call(first, "z = helper", "helper", arguments=[("a", number(2))])
    recording.step(helper, "b = a", values=[("b", number(3))])
    recording.step(helper, "return b")
    recording.step(first, "secret", values=None, host_ns=[2_000_000])  # the only time that is long enough for a figure
    recording.step(first, "plot(", narrative=[Plot(series=[])])
    return recording


def failing(*, survived: bool = False) -> Recording:
    recording = lecture()
    main = next(event.frame for event in recording.events if isinstance(event, Frame) and event.function == "main")
    raised = Raised("ValueError", "no", origin_line=61)
    second = recording.frame("second", recording.step(main, "second()", raised=replace(raised, survived=survived)))
    recording.step(second, "try:")
    for _ in range(2):
        called = recording.frame("broken", recording.step(second, "broken()", raised=raised))
        recording.step(called, "raise ValueError", raised=raised)
    return recording


def blocks_of(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield all blocks, including those of all calls."""
    for block in blocks:
        yield block
        if isinstance(block, Call):
            yield from blocks_of(block.blocks)
        elif isinstance(block, CodeListing):
            yield from blocks_of([call for row in block.rows for e in row.executions for call in e.calls])


def rows(blocks: Sequence[Block]) -> list[CodeRow]:
    """Return all rows of code, including those of all calls."""
    return [row for block in blocks_of(blocks) if isinstance(block, CodeListing) for row in block.rows]


def first_section(trace: Trace) -> Section:
    """Compose a trace and return its first section."""
    return make_document(trace).sections[0]

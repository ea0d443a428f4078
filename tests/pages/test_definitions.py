"""The code of a function without recorded calls is listed under the first line that names it."""

from __future__ import annotations

from tests.pages.recording import Recording
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Call, CodeListing, Section, visible
from trace_tools.trace.model import Value

LECTURE = """\
def main():
    first()
    second()

def first():
    x = helper(2)  # @stepover
    y = helper(3)  # @stepover
    hidden(4)  # @stepover
    z = Block().go()  # @stepover

def second():
    w = helper(5)  # @stepover
    v = observed(6)  # @stepover
    u = observed(7)
    helper = 3
    only = [local for local in range(3)]

def helper(x):
    def pack(t):
        return t
    return deeper_down(pack(x))

def pack(x):
    pass

def deeper_down(x):
    return helper(x - 1) if x else 0

def hidden(x):  # @hide
    pass

def local():
    pass

def observed(x):
    r = x  # @inspect r
    return r

class Block:
    def go(self):
        return helper(1)
"""


def sections() -> tuple[Section, ...]:
    recording = Recording(LECTURE.replace("    helper = 3\n", ""))
    main = recording.frame("main")
    first = recording.call(main, "first()", "first")
    for code in ("x =", "y =", "hidden(4)", "z ="):
        recording.step(first, code)
    second = recording.call(main, "second()", "second")
    for code in ("w =", "v ="):
        recording.step(second, code)
    recording.step(recording.call(second, "u =", "observed"), "r =", values=[("r", Value("int", 7))])
    recording.step(second, "only =")
    return make_document(recording.trace()).sections


def definitions(section: Section) -> list[tuple[int, str, str]]:
    """Return for each listed definition its line, its function, and how it is shown."""
    listings = [block for block in visible(section.blocks) if isinstance(block, CodeListing)]
    return [
        (row.line, definition.name, definition.shown)
        for listing in listings
        for row in listing.rows
        for definition in row.definitions
    ]


def test_definitions_are_listed_once_under_their_first_use() -> None:
    first, _ = sections()
    assert definitions(first) == [(6, "helper", "folded"), (9, "Block", "folded"), (18, "deeper_down", "folded")]
    code = [row for block in visible(first.blocks) if isinstance(block, Call) and block.name == "helper"
            for row in block.blocks[0].rows]  # fmt: skip
    assert [line.text.strip() for row in code for line in row.lines] == [
        "def helper(x):", "def pack(t):", "return t", "return deeper_down(pack(x))",
    ]  # fmt: skip


def test_later_pages_link_to_definitions_and_recorded_calls() -> None:
    _, second = sections()
    kinds = {function: shown for _, function, shown in definitions(second)}
    assert kinds == {"helper": "named", "observed": "named"}  # not `local`, a local name of this function
    listings = [block for block in visible(second.blocks) if isinstance(block, CodeListing)]
    rows = [row for listing in listings for row in listing.rows]
    links = {definition.name: definition.anchor for row in rows for definition in row.definitions}
    assert links["helper"] == "00-first.html#def-helper"
    assert links["observed"].startswith("#call-")

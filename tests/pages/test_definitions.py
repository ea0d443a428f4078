"""Code that no recorded call shows stands at the first line of the lecture that names it."""

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
    made = Recording(LECTURE.replace("    helper = 3\n", ""))
    main = made.frame("main")
    first = made.call(main, "first()", "first")
    for line in ("x =", "y =", "hidden(4)", "z ="):
        made.step(first, line)
    second = made.call(main, "second()", "second")
    for line in ("w =", "v ="):
        made.step(second, line)
    made.step(made.call(second, "u =", "observed"), "r =", values=[("r", Value("int", 7))])
    made.step(second, "only =")
    return make_document(made.trace()).sections


def named(section: Section) -> list[tuple[int, str, str]]:
    """Return what stands under which line: the line, the function, and how it is shown."""
    listings = [block for block in visible(section.blocks) if isinstance(block, CodeListing)]
    return [(row.line, it.function, it.shown) for listing in listings for row in listing.rows for it in row.definitions]


def test_a_definition_stands_once_under_the_first_line_that_names_it_and_what_it_names_below_it() -> None:
    first, _ = sections()
    assert named(first) == [(6, "helper", "folded"), (9, "Block", "folded"), (18, "deeper_down", "folded")]
    code = [row for block in visible(first.blocks) if isinstance(block, Call) and block.function == "helper"
            for row in block.blocks[0].rows]  # fmt: skip
    assert [line.text.strip() for row in code for line in row.lines] == [
        "def pack(t):", "return t", "return deeper_down(pack(x))",
    ]  # fmt: skip


def test_a_later_page_leads_back_and_a_call_that_was_recorded_shows_itself() -> None:
    _, second = sections()
    found = {function: shown for _, function, shown in named(second)}
    assert found == {"helper": "named", "observed": "named"}  # not `local`: a name of this function's own
    links = {it.function: it.anchor for block in visible(second.blocks) if isinstance(block, CodeListing)
             for row in block.rows for it in row.definitions}  # fmt: skip
    assert links["helper"] == "00-first.html#def-helper"
    assert links["observed"].startswith("#call-")

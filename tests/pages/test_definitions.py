"""The code of a function without recorded calls is listed under the first line that names it."""

from __future__ import annotations

from tests.pages.lectures import rows
from tests.pages.recording import Recording
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Call, rows_shown, visible
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
    only = [local for local in range(3)]

def helper(x):
    def pack(t):
        return t
    return deeper_down(pack(x))

def pack(x): pass
def deeper_down(x): return helper(x - 1) if x else 0
def hidden(x): pass  # @hide
def local(): pass

def observed(x):
    r = x  # @inspect r
    return r

class Block:
    def go(self):
        return helper(1)
"""


def test_definitions_are_listed_once_on_each_page() -> None:
    recording = Recording(LECTURE)
    main = recording.frame("main")
    for section, codes in (("first", ("x =", "y =", "hidden(4)", "z =")), ("second", ("w =", "v ="))):
        frame = recording.call(main, f"{section}()", section)
        for code in codes:
            recording.step(frame, code)
    recording.step(recording.call(frame, "u =", "observed"), "r =", values=[("r", Value("int", 7))])
    recording.step(frame, "only =")
    first, second = make_document(recording.trace()).sections
    listed = [
        (row.lines[0].number, call.name, call.shown) for row in rows_shown(first.blocks) for call in row.definitions
    ]
    assert listed == [(6, "helper", "folded"), (9, "Block", "folded"), (18, "deeper_down", "folded")]
    [helper] = [block for block in visible(first.blocks) if isinstance(block, Call) and block.name == "helper"]
    lines = ["def helper(x):", "def pack(t):", "return t", "return deeper_down(pack(x))"]
    assert [line.text.strip() for row in rows(helper.blocks) for line in row.lines][:4] == lines
    again = [(call.name, call.shown) for row in rows_shown(second.blocks) for call in row.definitions]
    # not `local`, a local name of this function, nor `observed`, whose call shows its code
    assert again == [("helper", "folded"), ("deeper_down", "folded")]

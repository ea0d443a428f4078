"""`--inspect-all` inspects each name that a statement binds."""

from __future__ import annotations

from trace_tools.source.statements import parse_source
from trace_tools.tracing.instrument import inspect_all

SOURCE = """def main():
    a = b = 1
    (c, [d, *e]), f.g, h[i] = values
    k: int
    m: int = 2
    n += 1
    for o, p in pairs:
        print(o)
    with open(q) as r, s:
        pass
    del a
"""


def test_bound_names_are_inspected() -> None:
    source = parse_source(SOURCE, "lecture.py")
    directives = [(d.line, d.position, [i.source for i in d.inspected]) for d in inspect_all(source)]
    assert directives == [
        (2, "after", ["a", "b"]),
        (3, "after", ["c", "d", "e"]),
        (5, "after", ["m"]),
        (6, "after", ["n"]),
        (7, "header", ["o", "p"]),
        (9, "header", ["r"]),
    ]

"""Matched calls → the section that each belongs to, as B calls it where B has it.

sections_of(frames, a, b)     [None, None, "matmul", "matmul", …]: None for the module, `main` and what nothing called

What a section is, `call_tree` says; here the answers of two traces become one.
"""

from __future__ import annotations

from collections.abc import Sequence

from trace_tools.call_tree import Tree
from trace_tools.comparing.difference import FramePair
from trace_tools.schema import Trace


def sections_of(frames: Sequence[FramePair], a: Trace, b: Trace) -> tuple[str | None, ...]:
    """Return the section of each frame."""
    in_a, in_b = Tree(a).section_of, Tree(b).section_of
    renamed = {in_a[pair.a.frame]: in_b[pair.b.frame] for pair in frames if pair.a is not None and pair.b is not None}
    found: list[str | None] = []
    for pair in frames:
        if pair.b is not None:
            found.append(in_b[pair.b.frame])
        else:
            section = in_a[pair.a.frame] if pair.a is not None else None
            found.append(renamed.get(section, section))
    return tuple(found)

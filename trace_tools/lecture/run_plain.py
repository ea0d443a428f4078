"""Run a lecture as plain Python: print its sections and texts in the terminal.

if __name__ == "__main__":
    plain.run(main)          # "0 Overview", its texts, "1 Napkin math", …
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import wraps
from itertools import count
from types import FunctionType

from trace_tools.lecture.vocabulary import _listeners, listening
from trace_tools.trace.model import Ask, Link, Narrative, Note, Table, Text


def run(main: Callable[[], None]) -> None:
    """Call `main`; print the title of each section (each function of its module that it calls) and the texts.

    In a traced run, the pages show both instead.
    """
    assert isinstance(main, FunctionType)
    if _listeners:
        main()
        return
    module, numbers = main.__globals__, count()
    out = sys.stdout  # even if the lecture replaces it

    def announced(section: FunctionType) -> Callable[..., object]:
        @wraps(section)
        def begun(*args: object, **named: object) -> object:
            title = (section.__doc__ or section.__name__).strip().partition("\n")[0]
            number = next(numbers)
            print(f"{number} {title}" if number == 0 else f"\n{number} {title}", file=out, flush=True)
            return section(*args, **named)

        return begun

    def show_text(narrative: Narrative) -> None:
        if not isinstance(narrative, Note):  # notes are for the presenter
            print(f"\n{as_text(narrative)}", file=out, flush=True)

    called = {name: module.get(name) for name in main.__code__.co_names}
    sections = {name: f for name, f in called.items() if isinstance(f, FunctionType) and f.__globals__ is module}
    module.update({name: announced(section) for name, section in sections.items()})
    try:
        with listening(show_text, draws=False):
            main()
    finally:
        module.update(sections)
    trace = f"python -m trace_tools trace {shlex.quote(sys.argv[0])}"
    print(f"\nThe pages also show figures and what each line did: {trace}", file=out, flush=True)


def as_text(narrative: Narrative) -> str:
    """Return a narrative as plain text; of any other kind than these, its title in brackets."""
    match narrative:
        case Text() | Note():
            return narrative.text
        case Ask():
            return f"Question: {narrative.text}" + "".join(f"\n- {choice}" for choice in narrative.answer.choices or ())
        case Link():
            source = ", ".join(part for part in (narrative.authors, narrative.date) if part)
            title = " ".join(part for part in (narrative.title, f"({source})" if source else None) if part)
            return f"{title}: {narrative.url}" if title else narrative.url or ""
        case Table():
            rows = [[f"{x:.6g}" if isinstance(x, float) else str(x) for x in row] for row in narrative.rows]
            rows.insert(0, list(narrative.columns))
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines = ("  ".join(f"{x:{width}}" for x, width in zip(row, widths, strict=True)).rstrip() for row in rows)
            return "\n".join(filter(None, [narrative.title, *lines]))
        case _:
            named = getattr(narrative, "title", None) or getattr(narrative, "url", None)
            return f"[{narrative.kind}: {named}]" if named else f"[{narrative.kind}]"

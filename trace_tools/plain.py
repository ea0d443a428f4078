"""A lecture as plain Python: a line for each section as it begins, and what the lecture prints itself.

if __name__ == "__main__":
    plain.run(main)          # "0 Overview", "1 Napkin math", …
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import count
from types import FunctionType

__all__ = ["run"]


def run(main: Callable[[], None]) -> None:
    """Call `main`, and print the number and the title of each section: of each function beside it that it calls."""
    assert isinstance(main, FunctionType)
    beside, number = main.__globals__, count()

    def announced(section: FunctionType) -> Callable[..., object]:
        @wraps(section)
        def begun(*args: object, **named: object) -> object:
            title = (section.__doc__ or section.__name__).strip().partition("\n")[0]
            print(f"{next(number)} {title}", flush=True)
            return section(*args, **named)

        return begun

    called = [(name, beside.get(name)) for name in main.__code__.co_names]
    sections = {
        name: known for name, known in called if isinstance(known, FunctionType) and known.__globals__ is beside
    }
    beside.update({name: announced(section) for name, section in sections.items()})
    try:
        main()
    finally:
        beside.update(sections)

"""Another object in the place of a module's or a class's, until a `with` block ends.

What `unittest.mock.patch.object` does, which loads asyncio: more than all else that a process of a trace loads first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    """Put `new` in the place of an attribute that is there."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        setattr(owner, name, old)

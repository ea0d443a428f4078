"""Replace an attribute of a module or class until a `with` block ends.

`unittest.mock.patch.object` does the same, but it imports asyncio, which takes longer than all other imports of a
trace's process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    """Replace an existing attribute by `new`."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        setattr(owner, name, old)

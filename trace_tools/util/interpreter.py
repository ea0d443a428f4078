"""Change Python's behaviour in a `with` block, or until `end` is called.

with collector_paused(): …                     no cycle is collected
with replaced(module, "name", new): …          the attribute is `new`
OnceImported("torch._dynamo", then).begin()    `then` is called right after the next first import of the module

`unittest.mock.patch.object` also replaces an attribute, but it imports asyncio, which takes longer than all other
imports of a trace's process.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause cycle collection in the `with` block, which then scans no object twice and runs no `__del__` of a cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    """Replace an existing attribute by `new`."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    try:
        yield
    finally:
        setattr(owner, name, old)


class OnceImported:
    """A finder on `sys.meta_path` that delegates to the finders after it and calls back once its module is loaded."""

    def __init__(self, name: str, then: Callable[[], object]) -> None:
        self._name, self._then = name, then

    def begin(self) -> None:
        """Start waiting for the module, which must not be loaded yet."""
        sys.meta_path.insert(0, self)

    def end(self) -> None:
        """Stop waiting; there is no callback for a module that is being loaded at this moment."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find the module, and no other, as the finders after this one do."""
        if name != self._name or self not in sys.meta_path:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in behind)), None)
        if spec is None or spec.loader is None:
            return spec
        loader, load = spec.loader, spec.loader.exec_module

        def load_and_call_back(module: Any) -> None:
            vars(loader).pop("exec_module", None)
            load(module)
            if self in sys.meta_path:
                self._then()

        loader.exec_module = load_and_call_back  # type: ignore[method-assign]
        return spec

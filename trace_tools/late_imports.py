"""What is to be done once a module is there, without loading it before others do.

wait = OnceImported("torch._dynamo", then)
wait.begin()     # `then` is called right after the first import of it from now on
wait.end()       # nobody waits any more
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class OnceImported:
    """Stands among the finders of modules, finds its module as those behind it do, and speaks up when it is loaded."""

    def __init__(self, name: str, then: Callable[[], object]) -> None:
        self._name, self._then = name, then

    def begin(self) -> None:
        """Wait for the module, which is not loaded yet."""
        sys.meta_path.insert(0, self)

    def end(self) -> None:
        """Wait no longer; what is being loaded at this moment is not spoken of either."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find the module as the finders behind this one do; leave all others to them."""
        if name != self._name or self not in sys.meta_path:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in behind)), None)
        if spec is None or spec.loader is None:
            return spec
        loader, load = spec.loader, spec.loader.exec_module

        def load_and_speak_up(module: Any) -> None:
            vars(loader).pop("exec_module", None)
            load(module)
            if self in sys.meta_path:
                self._then()

        loader.exec_module = load_and_speak_up  # type: ignore[method-assign]
        return spec

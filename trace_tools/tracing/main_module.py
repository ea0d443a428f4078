"""Make the module in which a lecture runs."""

from __future__ import annotations

import builtins
import sys
import types
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path

MAIN_MODULE, SPAWNING_MODULE = "__main__", "__mp_main__"


def new_main_module(path: str, package: str) -> types.ModuleType:
    """Register and return the lecture's module, `__main__`, with the names that Python gives to a script.

    For a module inside a package, the names are the ones that `python -m` sets.
    """
    loader = SourceFileLoader(f"{package}.{Path(path).stem}" if package else MAIN_MODULE, path)
    spec = spec_from_file_location(loader.name, path, loader=loader) if package else None
    module = types.ModuleType(MAIN_MODULE)
    names = vars(module)
    names.update(__package__=package or None, __loader__=loader, __spec__=spec)
    if sys.version_info < (3, 14):
        names.update(__annotations__={})
    names.update(__builtins__=builtins, __file__=path, __cached__=spec.cached if spec else None)
    sys.modules[MAIN_MODULE] = module
    if "multiprocessing" in sys.modules:  # on import it registers the main module under this name
        sys.modules[SPAWNING_MODULE] = module
    return module

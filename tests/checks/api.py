"""Reference pages of every module's public names, from their docstrings: `make api` writes them into api/.

The pages are pdoc's, and are not committed.
"""

from __future__ import annotations

import pkgutil
import sys
import warnings
from pathlib import Path

import trace_tools


def write(folder: Path) -> None:
    """Write a page for each module, an index, and what its search needs."""
    import pdoc

    for name in trace_tools.__all__:  # those that are loaded when first used
        vars(trace_tools)[name] = getattr(trace_tools, name)
    parts = [one.name for one in pkgutil.iter_modules(trace_tools.__path__) if one.name != "__main__"]
    trace_tools.__all__ += [part for part in parts if part not in trace_tools.__all__]  # else they would be hidden
    pdoc.render.configure(docformat="markdown", show_source=False)
    # Of what only the type checker imports, names are shown as they are written.
    warnings.filterwarnings("ignore", "Error parsing type annotation", UserWarning)
    pdoc.pdoc("trace_tools", output_directory=folder)


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "api"))

"""Reference pages of all public names, made by pdoc from docstrings: `make api` writes them to api/.

The pages are not committed.
"""

from __future__ import annotations

import pkgutil
import sys
import warnings
from pathlib import Path

import trace_tools


def write(folder: Path) -> None:
    """Write a page for each module, an index, and the data of its search."""
    import pdoc

    for name in trace_tools.__all__:  # some names are loaded only when first used
        vars(trace_tools)[name] = getattr(trace_tools, name)
    parts = [module.name for module in pkgutil.iter_modules(trace_tools.__path__) if module.name != "__main__"]
    trace_tools.__all__ += [
        part for part in parts if part not in trace_tools.__all__
    ]  # pdoc hides modules that are not listed
    pdoc.render.configure(docformat="markdown", show_source=False)
    # pdoc shows types that only the type checker imports as they are written.
    warnings.filterwarnings("ignore", "Error parsing type annotation", UserWarning)
    pdoc.pdoc("trace_tools", output_directory=folder)


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "api"))

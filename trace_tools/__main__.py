"""`python -m trace_tools`, also with a Python that lacks the packages of pyproject.toml."""

import sys
from importlib.util import find_spec
from pathlib import Path

# The modules that the tools import, by the names of their packages.
NEEDED = {
    **{name: name for name in ("msgspec", "matplotlib", "click", "rich", "jinja2", "pygments", "latex2mathml")},
    **{name: name for name in ("starlette", "uvicorn", "watchfiles")},
    **{"pyyaml": "yaml", "markdown-it-py": "markdown_it", "mdit-py-plugins": "mdit_py_plugins"},
}

if missing := [package for package, module in NEEDED.items() if find_spec(module) is None]:
    install = f'{sys.executable} -m pip install -e "{Path(__file__).resolve().parents[1]}[lecture]"'
    print(f"error: this Python lacks {', '.join(missing)}; to install them: {install}", file=sys.stderr)
    sys.exit(2)

from trace_tools.cli import main  # noqa: E402

main(prog_name="python -m trace_tools")

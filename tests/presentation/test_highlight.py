from __future__ import annotations

import html
import re
from pathlib import Path

from tests.cases_in_one import each
from trace_tools.presentation import highlight

ROOT = Path(__file__).resolve().parents[2]

SOURCES = {
    "nothing": "",
    "a string that looks like code": 'x = """\ndef f(): pass\n"""\n@f\ndef g():\n    return x\n',
    "several on a line": "x = 1; y = 2\nz = 3; w = '''\n'''; v = 4\n",
    "not Python": "def f(:\n    x = 'a\n'''\n",
    "decorated": "import a\n\n\n@a.b(\n    1,\n)\nclass C:\n    '''doc'''\n    @a\n    def f(self): ...\n",
    "a carriage return": "x = 1\ny = '''a\rb\nz = 2\n'''\nw = 3\n",
    "markup": "x = '<script>&'  # </pre>\n",
    "this project": (ROOT / "trace_tools" / "pages" / "html.py").read_text(encoding="utf-8"),
}


@each("name", SOURCES)
def test_highlighting_by_statement_equals_highlighting_in_one_piece(name: str) -> None:
    lines = tuple(SOURCES[name].split("\n"))
    visible = tuple(line.replace("\r", "␍") for line in lines)
    highlighted = highlight.highlighted(lines)
    assert highlighted == highlight._highlighted(visible)
    assert tuple(html.unescape(re.sub(r"<[^>]*>", "", line)) for line in highlighted) == visible

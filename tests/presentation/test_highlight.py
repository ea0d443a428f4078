from __future__ import annotations

import html
import re
from pathlib import Path

from tests.cases_in_one import each
from trace_tools.presentation.page_shell import highlighted

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
def test_highlighting_keeps_the_text_of_each_line(name: str) -> None:
    lines = SOURCES[name].split("\n")
    shown = [html.unescape(re.sub(r"<[^>]*>", "", line)) for line in highlighted(lines)]
    assert shown == [line.replace("\r", "␍") for line in lines]


def test_strings_of_several_lines_are_highlighted() -> None:
    assert highlighted(('x = """', "def f(): pass", '"""'))[1] == '<span class="s">def f(): pass</span>'

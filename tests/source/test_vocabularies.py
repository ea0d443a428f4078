from __future__ import annotations

from tests.cases_in_one import each
from trace_tools.source.statements import parse_source
from trace_tools.source.vocabularies import narrating, narrative_calls
from trace_tools.trace.model import SourceFile


@each(
    ("source", "expected"),
    [
        ("from trace_tools import text\ntext('a')", {1: "text"}),
        ("from trace_tools import *\nplot({})", {1: "plot"}),
        ("from trace_tools import note as n\nn('a')", {1: "note"}),
        ("import trace_tools as t\nt.table([], [])", {1: "table"}),
        ("import trace_tools\nx = trace_tools.text('a')", {}),
        ("import trace_tools\ntrace_tools.measure(f)", {}),
        ("from edtrace import text\ntext('a'), text('b')", {1: "text"}),
        ("from edtrace import text, link\ntext('a'), link(f), text(':')\ntext('a'),", {1: "text", 2: "text"}),
        ("from edtrace import text\ntext('a'), f()", {}),
        ("from edtrace import system_text as run\nrun(['date'])", {1: "system_text"}),
        ("import edtrace\nedtrace.link(f)", {1: "link"}),
        ("import edtrace.execute_util as words\nwords.video('v.mp4')", {1: "video"}),
        ("from edtrace import execute_util\nexecute_util.graph(None)", {1: "graph"}),
        ("from execute_util import *\nimage('a.png')\nlink(f)", {1: "image", 2: "link"}),
        ("from execute_util import explore\nexplore(f)", {}),
        ("from other import text\ntext('a')", {}),
        ("from .execute_util import text\ntext('a')", {}),
        ("from edtrace import text\nx = text('a')", {}),
    ],
)
def test_narrative_calls_of_each_vocabulary(source: str, expected: dict[int, str]) -> None:
    assert narrative_calls(parse_source(source, "lecture.py")) == expected


def test_statements_that_only_narrate() -> None:
    """So do imports of the words, functions that pass arguments on to them, and loops that call nothing else."""
    lecture = (
        "from trace_tools import text\nimport torch\ndef main():\n    text('a')\n    told('b')\n    part()\n"
        "    x = text('b')\ndef told(what):\n    return text(what)\ndef part():\n    y = 1\n    text('b')\n"
        "    for x in y:\n        told(x)\n    if part():\n        text('c')\n"
    )
    assert narrating(SourceFile("l.py", lecture)) == {0, 3, 4, 11, 12, 13, 15}
    assert not narrating(SourceFile("new.py", "type x ="))

from __future__ import annotations

from typing import get_args

from tests.cases_in_one import each
from trace_tools.source.statements import parse_source
from trace_tools.source.vocabularies import VOCABULARIES, detected, narrative_calls, used, words_called
from trace_tools.trace.model import Narrative


@each(
    ("source", "found"),
    [
        ("from edtrace import text\ntext('a'), text('b')", {1: "text"}),
        ("from edtrace import text, link\ntext('a'), link(f), text(':')\ntext('a'),", {1: "text", 2: "text"}),
        ("from edtrace import text\ntext('a'), f()", {}),
        ("from edtrace import system_text as run\nrun(['date'])", {1: "text"}),
        ("import edtrace\nedtrace.link(f)", {1: "link"}),
        ("import edtrace.execute_util as words\nwords.video('v.mp4')", {1: "video"}),
        ("from edtrace import execute_util\nexecute_util.graph(None)", {1: "plot"}),
        ("from util import *\nnote('a'), see(f)\ninit_content('l.js')", {1: "text"}),
        ("from util import *\nnote('a'), see(f)", {}),
        ("from execute_util import *\nimage('a.png')\nlink(f)", {1: "image", 2: "link"}),
        ("from execute_util import explore\nexplore(f)", {}),
        ("from other import text\ntext('a')", {}),
        ("from .execute_util import text\ntext('a')", {}),
        ("from edtrace import text\nx = text('a')", {}),
    ],
)
def test_what_only_calls_words_is_narrative_in_each_vocabulary(source: str, found: dict[int, str]) -> None:
    assert narrative_calls(parse_source(source, "lecture.py")) == found


def test_it_is_known_whose_words_they_are() -> None:
    source = "from edtrace import text\nfrom trace_tools import note\ntext('a')\nnote('b')\n"
    assert words_called(parse_source(source, "lecture.py")) == {2: ("text", True), 3: ("note", False)}


def test_a_vocabulary_is_detected_by_what_is_imported() -> None:
    assert detected({"torch", "edtrace"}) == ("edtrace",)
    assert detected({"execute_util", "edtrace.execute_util"}) == ("edtrace", "cs336")
    assert detected({"trace_tools", "reference"}) == ()


def test_a_vocabulary_whose_module_has_a_common_name_is_known_by_its_sign() -> None:
    assert used(parse_source("from util import *\ninit_content('l.js')\n", "l.py")) == ("cs336-2024",)
    assert used(parse_source("import util, edtrace\n", "l.py")) == ("edtrace",)
    assert detected({"util"}) == used(parse_source("init_content('l.js')\n", "l.py")) == ()


def test_each_word_makes_a_narrative_that_there_is() -> None:
    kinds = {kind for one in VOCABULARIES.values() for words in one.modules.values() for kind in words.values()}
    assert kinds == {kind.__name__.lower() for kind in get_args(Narrative)}

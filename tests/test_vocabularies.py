from __future__ import annotations

import pytest

from trace_tools.narrative import NEEDS
from trace_tools.statements import parse_source
from trace_tools.vocabularies import VOCABULARIES, detected, narrative_calls, words_called


@pytest.mark.parametrize(
    ("source", "found"),
    [
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
def test_what_only_calls_words_is_narrative_in_each_vocabulary(source: str, found: dict[int, str]) -> None:
    assert narrative_calls(parse_source(source, "lecture.py")) == found


def test_it_is_known_whose_words_they_are() -> None:
    source = "from edtrace import text\nfrom trace_tools import note\ntext('a')\nnote('b')\n"
    assert words_called(parse_source(source, "lecture.py")) == {2: ("text", True), 3: ("note", False)}


def test_a_vocabulary_is_detected_by_what_is_imported() -> None:
    assert detected({"torch", "edtrace"}) == ("edtrace",)
    assert detected({"execute_util", "edtrace.execute_util"}) == ("edtrace", "cs336")
    assert detected({"trace_tools", "reference"}) == ()


def test_each_word_makes_a_narrative_that_there_is() -> None:
    kinds = {kind for one in VOCABULARIES.values() for words in one.modules.values() for kind in words.values()}
    assert kinds == set(NEEDS)

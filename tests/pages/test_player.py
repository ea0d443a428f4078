from __future__ import annotations

from collections.abc import Sequence

from tests.pages.lectures import LECTURE, first_section, lecture, number
from tests.pages.played import STEPS, played, vector
from tests.pages.recording import Recording, of_section
from tests.pages.written import unpacked
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Stepping, Stop
from trace_tools.pages.player import CHANGES, step_block
from trace_tools.trace.model import Text


def stepping_of(recording: Recording) -> Stepping:
    return first_section(recording.trace()).stepping


def lines(stops: Sequence[Stop], text: str = STEPS) -> list[str]:
    return [text.splitlines()[stop.line - 1].strip().partition("  #")[0] for stop in stops]


def changes(stop: Stop) -> list[tuple[str, str]]:
    return [(name, CHANGES[change % 8]) for name, _, _, change, _ in stop.variables]


def test_the_player_stops_at_executed_steps_in_order() -> None:
    stepping = stepping_of(played())
    calls = "total = g(1) / double = 2 * n / return double / g(2) / double = 2 * n / return double"
    # `shown` is hidden, but its value is inspected; the `for` that contains only prose is not on the page
    after = 'shown = secret() / [text(word) for word in "ab"] / text(word) / text(word)'
    assert " / ".join(lines(stepping.stops)) == f"x = zeros() / y = view(x) / y[0] = 9 / {calls} / {after}"
    assert [stop.inside for stop in stepping.stops] == [0, 0, 0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0]
    assert [frame[:2] for frame in stepping.frames] == [("f", -1), ("g", 3), ("g", 6)]
    assert [stop.outputs for stop in stepping.stops if stop.outputs] == [2]  # only the animated line
    assert stepping.narrations == ((1, 10), (2, 10), (3, 11), (4, 12))


def test_calls_without_a_listing_stop_at_another_calls_rows() -> None:
    recording, f = of_section("for i in range(9):\n    g(i)", "def g(n):\n    return n\n")
    for _ in range(9):
        recording.step(f, "for i")
        recording.step(recording.call(f, "g(i)", "g"), "return n")
    stops = stepping_of(recording).stops
    assert {stop.anchor for stop in stops if stop.line == 9} == {"call-2-L9"}
    assert not any(stop.code for stop in stops)


def test_code_missing_from_the_page_is_stored_at_its_caller() -> None:
    recording, f = of_section("from trace_tools import text\ntext(g())", "def g():\n    return 'a'\n")
    caller = recording.step(f, "text(g())", narrative=[Text(text="a")])
    recording.step(recording.frame("g", caller), "return")
    assert [(stop.anchor, stop.code) for stop in stepping_of(recording).stops] == [
        ("said-1", ""),
        ("said-1", "return 'a'"),
    ]


def test_stops_list_new_written_and_cleared_variables() -> None:
    stops = stepping_of(played()).stops
    assert [changes(stop) for stop in stops[:7]] == [
        [("x", "new")],
        [("y", "new")],
        [("y", "written")],
        [("total", "new")],
        [("n", "new"), ("double", "new")],
        [],
        [("total", "cleared"), ("x", "cleared")],
    ]
    assert [change >= 8 for *_, change, _ in stops[4].variables] == [True, False]
    assert all(text == "" for _, text, *_ in stops[6].variables)


def test_clear_removes_expressions_of_the_name_but_not_longer_names() -> None:
    recording, f = of_section("a = 1\nb = 2  # @clear x")
    names = ["x", "x.shape", 'x["k"]', "xs", "f(x)"]
    recording.step(f, "a = 1", values=[(name, number(1)) for name in names])
    recording.step(f, "b = 2")
    assert [name for name, *_ in stepping_of(recording).stops[1].variables] == names[:3]


def test_stops_have_the_lines_of_the_shown_text_and_keep_their_numbers() -> None:
    def stepping(edited: str) -> Stepping:
        return make_document(lecture().trace(), edited).sections[0].stepping

    longer = LECTURE.replace('    text("Hello.")\n', '    text(\n        "More.")\n')
    assert lines(stepping(longer).stops, longer)[:3] == ["text(", "x = torch.ones(2, 3)", "y = x.t()"]
    before, after = stepping(LECTURE), stepping(LECTURE.replace('text("Hello.")', 'text("Hello again.")'))
    ids = [[stop.step.id for stop in shown.stops] for shown in (before, after)]
    assert ids[0] == ids[1]
    assert [step for _, step in after.narrations] == [step for _, step in before.narrations]
    assert after.stops[0].anchor.startswith("said-")


def test_the_data_of_a_page_have_every_stop_with_its_changes() -> None:
    block = unpacked(step_block(first_section(played().trace()), played().trace().machine))
    assert [frame[1] for frame in block["frames"]] == [-1, 3, 6]
    assert [stop["inside"] for stop in block["stops"]] == [0, 0, 0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0]
    seen = [(at, *variable) for at, stop in enumerate(block["stops"]) for variable in stop["seen"]]
    assert [(at, name, text, change, storage) for at, name, text, _, change, storage in seen][:5] == [
        (0, "x", "f32[3] = [0., 0., 0.]", 1, "A"),
        (1, "y", "f32[2] = [0., 0.]", 1, "A"),
        (2, "y", "f32[2] = [9., 0.]", 3, "A"),
        (3, "total", "2", 1, ""),
        (4, "n", "1", 1 + 8, ""),
    ]


def test_what_reveals_a_write() -> None:
    recording, f = of_section("a = 1\nb = 2")
    moved = vector(0.0, 1.0, offset=1)
    for code, values in (("a = 1", [vector(0.0, 0.0)] * 4), ("b = 2", [vector(0.0, 1.0), vector(0.0, 0.0), moved])):
        recording.step(f, code, values=[(name, value) for name, value in zip("xyz", values, strict=False)])
    assert changes(stepping_of(recording).stops[1]) == [("x", "written"), ("y", "same"), ("z", "changed")]

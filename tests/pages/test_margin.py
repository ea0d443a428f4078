from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.cases_in_one import each
from tests.messages import says
from trace_tools.pages.document import Call, CodeRow, Failure, execution
from trace_tools.pages.margin import MarginNote, counted_once, margin_notes, notes_under, timed
from trace_tools.trace.model import Claim, Collective, LeftOut, Machine, Meters, Raised, Step, Value

CPU = Machine("A processor", "cpu", "cpu")
MS = 1_000_000


def row(*steps: dict[str, Any], omitted: int = 0, omitted_ns: int = 0, **more: Any) -> CodeRow:
    executions = (execution(Step(n, 0, 0, 1, n + 1, **step), CPU) for n, step in enumerate(steps))
    return CodeRow((), "L1", 1, tuple(executions), omitted, omitted_ns, **more)


def with_notes(rows: list[CodeRow]) -> list[CodeRow]:
    return [replace(code_row, beside=tuple(margin_notes(code_row))) for code_row in rows]


def summaries(notes: list[MarginNote]) -> list[tuple[str, str, str]]:
    return [(note.kind, note.label, f"{note.name} {note.text}".strip()) for note in notes]


def values(*numbers: int) -> list[dict[str, Any]]:
    return [{"values": [("x", Value("int", n))], "annotated": True} for n in numbers]


def test_only_repeated_executions_are_numbered() -> None:
    assert summaries(margin_notes(row(*values(1)))) == [("value", "", "x 1")]
    long = [{"values": [("x", Value("str", letter * 30))]} for letter in "ab"]
    assert [(kind, label) for kind, label, _ in summaries(margin_notes(row(*long)))] == [("value", "1"), ("value", "2")]


def test_up_to_eight_short_values_share_one_line() -> None:
    for count in range(2, 9):
        [note] = margin_notes(row(*values(*range(count))))
        assert note.text.split(" → ") == [str(n) for n in range(count)] and not note.label
    assert [label for _, label, _ in summaries(margin_notes(row(*values(*range(9)))))] == ["1", "9", ""]
    clocked = [{"values": [("x", Value("float", n / 3, varies=True))]} for n in (1, 2)]
    assert [label for _, label, _ in summaries(margin_notes(row(*clocked)))] == ["1", "2"]


def test_loop_headers_count_their_rounds() -> None:
    header = row(*values(*range(10)), {}, rounds=10)
    assert summaries(margin_notes(header))[-1] == ("count", "", "10 rounds")
    ended = row(*values(*range(11)), rounds=10)  # the last value of a `while` line ended the loop
    assert [label for kind, label, _ in summaries(margin_notes(ended)) if kind == "value"] == ["1", "11"]
    body = row(*values(*range(10)))
    assert [[note.kind for note in notes] for _, notes in counted_once(with_notes([header, body]))] == [
        ["value"] * 2 + ["count"],
        ["value"] * 2,
    ]


def test_output_of_a_few_executions_is_one_text() -> None:
    few = row(*({"stdout": f"{n}\n"} for n in range(8)))
    assert summaries(notes_under(few)) == [("stdout", "8 executions", "\n".join(map(str, range(8))))]
    many = summaries(notes_under(row(*({"stdout": f"{n}\n"} for n in range(20)))))
    assert [text for kind, _, text in many if kind == "stdout"] == ["0", "19"] and many[-1][0] == "more"


def test_a_value_equal_in_all_executions_is_shown_once() -> None:
    assert summaries(margin_notes(row(*values(1, 1)))) == [("value", "", "x 1")]
    value, count = summaries(margin_notes(row(*values(1, 1, 1), omitted=7, omitted_ns=2_000)))
    assert value == ("value", "", "x 1")
    assert count[0] == "count" and says(count[2], "10 executions", "7 ", "2 µs")


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"host_ns": [900_000] * 3}, []),  # short, and not requested by a directive
        ({"host_ns": [2 * MS] * 3}, ["2 ms ± 0%"]),
        ({"host_ns": [900_000] * 3, "annotated": True}, ["900 µs ± 0%"]),
        ({"host_ns": [1_000] * 3, "annotated": True}, []),
        ({"host_ns": [90_000] * 3, "annotated": True}, []),
        ({"host_ns": [200_000] * 3, "annotated": True}, ["200 µs ± 0%"]),
        ({"host_ns": [2 * MS, 3 * MS, 4 * MS]}, []),  # ± 33%
        ({"host_ns": [2 * MS] * 3, "harness": True}, []),
        ({"host_ns": [1_000] * 3, "annotated": True, "meters": Meters(flops=64)}, ["64 FLOP"]),
        ({"host_ns": [2 * MS] * 3, "compiled": True}, ["2 ms ± 0% · with compilation"]),
        ({"host_ns": [900_000] * 3, "annotated": True, "claim": Claim("x", True)}, []),
    ],
)
def test_only_long_or_requested_times_are_shown(step: dict[str, Any], expected: list[str]) -> None:
    assert [note.text for note in margin_notes(row(step)) if note.kind == "time"] == expected


def test_the_median_execution_gives_the_time_of_each() -> None:
    code_row = row(*({"host_ns": [n * MS]} for n in (6, 4, 5)))
    median = timed(code_row)
    assert median is not None and median.step.execution == 3
    assert [note.text for note in margin_notes(code_row) if note.kind == "time"] == ["5 ms each"]


def test_unequal_times_of_executions_are_shown_as_a_range() -> None:
    code_row = row(*({"host_ns": [n * MS]} for n in (9, 2, 5)))
    assert [note.text for note in margin_notes(code_row) if note.kind == "time"] == ["2 ms to 9 ms each"]


def test_failed_claims_and_caught_exceptions_are_noted() -> None:
    claim = {"claim": Claim("x == 6", False, [("x", Value("int", 5))])}
    assert [note.kind for note in margin_notes(row(claim))] == ["failed"]
    raised = Step(0, 0, 0, 1, raised=Raised("ValueError", "no"))
    call = Call("g", 1, 0, 1, 1, "call-1", "G", None, (), 2)
    passed = execution(raised, CPU, Failure("ValueError", "no", caught=True, origin=False))
    code_row = CodeRow((), "L1", 1, (replace(passed, calls=(call,)),))
    assert summaries(margin_notes(code_row)) == [("caught", "", "ValueError was raised in this call")]
    assert [note.kind for note in notes_under(code_row)] == ["call"]  # details are shown where it was raised


def test_output_warnings_and_failures_are_below_the_line() -> None:
    claim = Claim("x == 6", False, [("x", Value("int", 5))], "not six", ["pass 2, warm"])
    code_row = row({"stdout": "epoch 1\n", "warnings": ["careful"], "claim": claim})
    assert summaries(notes_under(code_row)) == [
        ("stdout", "", "epoch 1"),
        ("warning", "", "careful"),
        ("failure", "in pass 2, warm", "This claim failed x == 6\nx = 5\nnot six"),
    ]


def test_a_repeated_warning_is_shown_once() -> None:
    code_row = row({"warnings": ["careful", "slow"]}, {"stdout": "2\n", "warnings": ["careful"]})
    assert summaries(notes_under(code_row)) == [
        ("warning", "execution 1", "careful"),
        ("warning", "execution 1", "slow"),
        ("stdout", "execution 2", "2"),
    ]


def test_output_and_warnings_left_out_are_counted() -> None:
    left_out = [LeftOut("stdout", 199_934_464, 8), LeftOut("warnings", 1_000)]
    code_row = row({"stdout": "epoch 1\nthe end\n", "warnings": ["careful"], "left_out": left_out})
    assert summaries(notes_under(code_row)) == [
        ("stdout", "", "epoch 1\n\n… 199,934,464 more characters were printed …\nthe end"),
        ("warning", "", "careful"),
        ("more", "… 1,000 more warnings, only counted", ""),
    ]


def test_the_first_and_last_of_many_calls_are_shown() -> None:
    calls = tuple(Call("g", n, 0, n, 9, f"call-{n}", "G", None, (), 2) for n in range(1, 10))
    code_row = row({})
    code_row = replace(code_row, executions=(replace(code_row.executions[0], calls=calls),))
    shown = [note.call.number if note.call else note.label for note in notes_under(code_row)]
    assert shown == [1, 9]  # with their number and their total


@each(
    ("step", "quiet"),
    [
        ({"claim": Claim("x == 6", True, [("x", Value("int", 6)), ("6", Value("int", 6))])}, True),
        ({"claim": Claim("x.is_contiguous()", True, [("x.is_contiguous()", Value("bool", True))])}, True),
        ({"claim": Claim("x < 6", True, [("x", Value("int", 5)), ("6", Value("int", 6))])}, False),
        ({"claim": Claim("5 < 6", True, [("5", Value("int", 5)), ("6", Value("int", 6))])}, True),
        ({"claim": Claim("x == 6", False, [("x", Value("int", 5)), ("6", Value("int", 6))])}, False),
    ],
)
def test_obvious_claims_are_collapsed(step: dict[str, Any], quiet: bool) -> None:
    [note] = margin_notes(row(step))
    assert note.collapsed is quiet


def test_a_claim_held_in_all_executions_is_one_note() -> None:
    claims = [{"claim": Claim("x == n", True, [("x", Value("int", n)), ("n", Value("int", n))])} for n in (1, 2, 3)]
    held = [(note.kind, note.label, note.collapsed) for note in margin_notes(row(*claims)) if note.kind == "held"]
    assert held == [("held", "", True)]


def test_the_count_of_executions_is_shown_once_per_loop() -> None:
    rows = [row(*values(1, 1, 1), omitted=7, omitted_ns=2_000) for _ in range(3)]
    counts = [[note.text for note in notes if note.kind == "count"] for _, notes in counted_once(with_notes(rows))]
    assert [*map(len, counts)] == [1, 0, 0] and says(counts[0][0], "10 executions", "7 ", "2 µs")
    two_loops = [rows[0], row(*values(1)), rows[0]]
    assert [len(notes) for _, notes in counted_once(with_notes(two_loops))] == [2, 1, 2]


def test_long_waits_for_queued_work_are_reported() -> None:
    def waits(*queued_ns: int) -> list[str]:
        steps = [{"device_ns": [9_000] * 3, "queued_ns": [ns] * 3} for ns in queued_ns]
        return [note.label for note in notes_under(row(*steps)) if "queued" in note.label]

    assert [len(waits(ns)) for ns in (22_000_000, 20_000)] == [1, 0]
    assert "22 ms" in waits(22_000_000)[0] and "not in any step" in waits(22_000_000)[0]
    (longest,) = waits(3_000_000, 22_000_000, 150_000)
    assert "22 ms" in longest and "3 waits" in longest


def test_traffic_between_ranks_names_operation_group_and_payload() -> None:
    collective = Collective("all_reduce", 4, 2, 1 << 20)
    (note,) = margin_notes(row({"meters": Meters(collectives=[collective], operators=[("c10d.allreduce_", 2)])}))
    assert note.text == "all-reduce × 2 · 4 ranks · 1 MiB"

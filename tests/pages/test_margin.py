from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tests.cases_in_one import each
from trace_tools.pages.document import Call, CodeRow, Execution, Failure
from trace_tools.pages.margin import MarginNote, counted_once, margin_notes, notes_under
from trace_tools.trace.model import Claim, Collective, LeftOut, Machine, Meters, Raised, Step, Value

CPU = Machine("A processor", "cpu", "cpu")
MS = 1_000_000
Steps = list[dict[str, Any]]
Notes = list[tuple[str, str, str]]


def row(*steps: dict[str, Any], omitted: int = 0, **more: Any) -> CodeRow:
    executions = (Execution(Step(n, 0, 0, 1, n + 1, **step), CPU) for n, step in enumerate(steps))
    return CodeRow((), "L1", (), tuple(executions), omitted, **more)


def summaries(notes: list[MarginNote]) -> Notes:
    return [(note.kind, note.label, f"{note.name} {note.text}".strip()) for note in notes]


def values(*numbers: int) -> Steps:
    return [{"values": [("x", Value("int", n))], "annotated": True} for n in numbers]


def once_counted(*rows: CodeRow) -> list[list[MarginNote]]:
    noted = [replace(code_row, beside=tuple(margin_notes(code_row))) for code_row in rows]
    return [notes for _, notes in counted_once(noted)]


def claim(text: str, held: bool, left: int, right: int) -> Claim:
    names = text.replace("<", "==").split(" == ")
    return Claim(text, held, [(name, Value("int", side)) for name, side in zip(names, (left, right), strict=True)])


@each(
    ("steps", "labels"),
    [
        (values(1), [""]),
        (values(1, 1), [""]),
        (values(*range(9)), ["1", "9", ""]),
        ([{"values": [("x", Value("str", letter * 30))]} for letter in "ab"], ["1", "2"]),
        ([{"values": [("x", Value("float", n / 3, varies=True))]} for n in (1, 2)], ["1", "2"]),
    ],
)
def test_only_different_values_of_executions_are_numbered(steps: Steps, labels: list[str]) -> None:
    assert [note.label for note in margin_notes(row(*steps))] == labels


def test_loop_headers_count_their_rounds() -> None:
    header = row(*values(*range(10)), {}, rounds=10)
    assert summaries(margin_notes(header))[-1] == ("count", "", "10 rounds")
    ended = row(*values(*range(11)), rounds=10)  # the last value of a `while` line ended the loop
    assert [note.label for note in margin_notes(ended) if note.kind == "value"] == ["1", "11"]
    body = row(*values(*range(10)))
    kinds = [[note.kind for note in notes] for notes in once_counted(header, body)]
    assert kinds == [["value"] * 2 + ["count"], ["value"] * 2]


def test_the_count_of_executions_is_shown_once_per_loop() -> None:
    equal = row(*values(1, 1, 1), omitted=7)
    value, count = summaries(margin_notes(equal))
    assert value == ("value", "", "x 1")
    assert count == ("count", "", "10 executions")
    assert [len(notes) for notes in once_counted(equal, equal, equal)] == [2, 1, 1]
    assert [len(notes) for notes in once_counted(equal, row(*values(1)), equal)] == [2, 1, 2]


@each(
    ("steps", "expected"),
    [
        ([{"host_ns": [900_000] * 3}], []),  # short, and not requested by a directive
        ([{"host_ns": [2 * MS] * 3}], ["2 ms ± 0%"]),
        ([{"host_ns": [900_000] * 3, "annotated": True}], ["900 µs ± 0%"]),
        ([{"host_ns": [1_000] * 3, "annotated": True}], []),
        ([{"host_ns": [90_000] * 3, "annotated": True}], []),
        ([{"host_ns": [200_000] * 3, "annotated": True}], ["200 µs ± 0%"]),
        ([{"host_ns": [2 * MS, 3 * MS, 4 * MS]}], []),  # ± 33%
        ([{"host_ns": [2 * MS] * 3, "harness": True}], []),
        ([{"host_ns": [1_000] * 3, "annotated": True, "meters": Meters(flops=64)}], ["64 FLOP"]),
        ([{"host_ns": [2 * MS] * 3, "compiled": True}], ["2 ms ± 0% · with compilation"]),
        ([{"host_ns": [900_000] * 3, "annotated": True, "claim": Claim("x", True)}], []),
        ([{"host_ns": [n * MS]} for n in (6, 4, 5)], ["5 ms each"]),
        ([{"host_ns": [n * MS]} for n in (9, 2, 5)], ["2 ms to 9 ms each"]),
    ],
)
def test_only_long_or_requested_times_are_shown(steps: Steps, expected: list[str]) -> None:
    assert [note.text for note in margin_notes(row(*steps)) if note.kind == "time"] == expected


@each(
    ("claims", "expected"),
    [
        ([claim("x == 6", True, 6, 6)], ("held", True)),
        ([Claim("x.is_contiguous()", True, [("x.is_contiguous()", Value("bool", True))])], ("held", True)),
        ([claim("x < 6", True, 5, 6)], ("held", False)),
        ([claim("5 < 6", True, 5, 6)], ("held", True)),
        ([claim("x == 6", False, 5, 6)], ("failed", False)),
        ([claim("x == n", True, n, n) for n in (1, 2, 3)], ("held", True)),
    ],
)
def test_obvious_claims_are_collapsed(claims: list[Claim], expected: tuple[str, bool]) -> None:
    [note] = [note for note in margin_notes(row(*({"claim": one} for one in claims))) if note.kind != "count"]
    assert (note.kind, note.collapsed) == expected and note.label == ""


CALL = Call("g", 0, 1, 9, "call-1", "G", None, (), 2)


def test_caught_exceptions_are_noted_and_shown_where_they_were_raised() -> None:
    raised = Step(0, 0, 0, 1, raised=Raised("ValueError", "no"))
    passed = Execution(raised, CPU, Failure("ValueError", "no", caught=True, origin=False))
    code_row = CodeRow((), "L1", (), (replace(passed, calls=(CALL,)),))
    assert summaries(margin_notes(code_row)) == [("caught", "", "ValueError was raised in this call")]
    assert [note.kind for note in notes_under(code_row)] == ["call"]


def test_the_first_and_last_of_many_calls_are_shown() -> None:
    calls = tuple(replace(CALL, number=n) for n in range(1, 10))
    one = replace(row({}).executions[0], calls=calls)
    notes = notes_under(CodeRow((), "L1", (), (one,)))
    assert [note.call.number for note in notes if note.call] == [1, 9]  # with their number and their total
    for observed, text in ((False, "g"), (True, "g call 1 of 9")):
        named = replace(one, calls=(replace(CALL, shown="named", observed=observed),))
        assert summaries(margin_notes(CodeRow((), "L1", (), (named,)))) == [("call", "", text)]


FAILED = Claim("x == 6", False, [("x", Value("int", 5))], "not six", ["pass 2, warm"])
LEFT_OUT = [LeftOut("stdout", 199_934_464, 8), LeftOut("warnings", 1_000)]


BELOW = [
    (
        [{"stdout": "epoch 1\n", "warnings": ["careful"], "claim": FAILED}],
        ["stdout: epoch 1", "warning: careful", "failure in pass 2, warm: This claim failed x == 6\nx = 5\nnot six"],
    ),
    (  # a repeated warning is shown once
        [{"warnings": ["careful", "slow"]}, {"stdout": "2\n", "warnings": ["careful"]}],
        ["warning execution 1: careful", "warning execution 1: slow", "stdout execution 2: 2"],
    ),
    (
        [{"stdout": "epoch 1\nthe end\n", "left_out": LEFT_OUT}],
        [
            "stdout: epoch 1\n\n… 199,934,464 more characters were printed …\nthe end",
            "more … 1,000 more warnings, only counted: ",
        ],
    ),
]


@each(("steps", "expected"), BELOW)
def test_output_warnings_and_failures_are_below_the_line(steps: Steps, expected: list[str]) -> None:
    notes = summaries(notes_under(row(*steps)))
    assert [f"{kind} {label}".strip() + f": {text}" for kind, label, text in notes] == expected


def test_output_of_many_executions_is_shown_of_the_first_and_last() -> None:
    notes = summaries(notes_under(row(*({"stdout": f"{n}\n"} for n in range(20)))))
    assert [text for kind, _, text in notes if kind == "stdout"] == ["0", "19"] and notes[-1][0] == "more"


@each(
    ("queued_ns", "facts"),
    [
        ([22_000_000], ["22 ms", "not in any step"]),
        ([20_000], None),
        ([3_000_000, 22_000_000, 150_000], ["22 ms", "3 waits"]),
    ],
)
def test_long_waits_for_queued_work_are_reported(queued_ns: list[int], facts: list[str] | None) -> None:
    steps = [{"device_ns": [9_000] * 3, "queued_ns": [ns] * 3} for ns in queued_ns]
    waits = [note.label for note in notes_under(row(*steps)) if "queued" in note.label]
    assert len(waits) == (facts is not None) and all(fact in waits[0] for fact in facts or ())


def test_traffic_between_ranks_names_operation_group_and_payload() -> None:
    collective = Collective("all_reduce", 4, 2, 1 << 20)
    (note,) = margin_notes(row({"meters": Meters(collectives=[collective], operators=[("c10d.allreduce_", 2)])}))
    assert note.text == "all-reduce × 2 · 4 ranks · 1 MiB"


@each(
    ("value", "text"),
    [
        (Value("float", 0.27851), "0.279"),
        (Value("float", 1024.0), "1024"),
        (Value("float", 41_263.4), "41,300"),
        (Value("int", 33_554_432, unit="FLOP"), "33.6 MFLOP"),
        (Value("int", 33_554_432), "33,554,432"),  # a count
        (Value("int", 327_680, unit="B"), "320 KiB"),
        (Value("float", math.nan), "nan"),
        (Value("float", 2.3812e13), "2.38e13"),
        (Value("int", 70_272, unit="B"), "68.6 KiB"),
        (Value("list", items=[Value("float", 7.9971), Value("int", 1_310_720)]), "[8.0, 1_310_720]"),
        (Value("tuple", items=[Value("float", 1.001), Value("float", 1.0)]), "(1.001, 1.0)"),  # they would be equal
    ],
)
def test_measures_have_three_digits(value: Value, text: str) -> None:
    assert [note.text for note in margin_notes(row({"values": [("x", value)]}))] == [text]

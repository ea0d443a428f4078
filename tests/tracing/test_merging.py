"""Runs are matched as trees. The trace shows the most typical warm run; all runs give samples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.traces import example_trace
from trace_tools.source.directives import parse_directives
from trace_tools.source.statements import ParsedSource, parse_source
from trace_tools.trace.identities import COMPLETE, Ending, RunId
from trace_tools.trace.model import Event, Frame, Step, Tensor, Value
from trace_tools.trace.plain_yaml import flow
from trace_tools.trace.structure import to_plain
from trace_tools.tracing.instrument import Instrumented, instrument
from trace_tools.tracing.merge import merging
from trace_tools.tracing.merge.events import events
from trace_tools.tracing.merge.matching import Runs
from trace_tools.tracing.merge.merging import capped
from trace_tools.tracing.merge.reader import RecordedCall, RecordedStep, RunRecord

SOURCE = """def main():
    for i in range(2):
        x = f(i)  # @inspect x
    assert x == 1
def f(i):
    return i
"""


def program() -> tuple[ParsedSource, Instrumented]:
    source = parse_source(SOURCE, "lecture.py")
    return source, instrument(source, parse_directives(source))


def run(name: str, ns: int, *, iterations: int = 2, x: int = 1, shift: int = 0, held: bool = True) -> RunRecord:
    """Return a run of SOURCE as a recorder writes it. `shift` is the number of its first step and first frame."""
    record = RunRecord(RunId.parse(name), COMPLETE)
    numbers = iter(range(shift, 1000))
    frames = iter(range(shift, 1000))

    def frame(function: int, of: int | None) -> int:
        number = next(frames)
        record.frames[number] = RecordedCall(number, function, of, None)
        return number

    def step(of: int, statement: int, execution: int = 1, **content: Any) -> int:
        number = next(numbers)
        record.steps[number] = RecordedStep(number, of, statement, execution, ns=ns, **content)
        return number

    main = frame(0, None)
    for n in range(1, iterations + 1):
        step(main, 1, n)
        calling = step(main, 2, n, values=[["x", None, {"type": "int", "value": n - 1}]])
        step(frame(4, calling), 5)
    step(main, 1, iterations + 1)
    step(
        main,
        3,
        claim=[3, "held" if held else "passed over", [{"type": "int", "value": x}, {"type": "int", "value": 1}]],
    )
    return record


def merged(*timed: RunRecord, **others: Any) -> list[Any]:
    source, instrumented = program()
    return events(Runs(timed, **others), instrumented, source)


def steps(merged_events: list[Any]) -> list[Step]:
    return [event for event in merged_events if isinstance(event, Step)]


def test_samples_come_from_the_same_steps() -> None:
    merged_events = merged(
        run("pass 1, cold", 10), run("pass 1, warm", 5), run("pass 2, cold", 12, shift=300), run("pass 2, warm", 6)
    )
    assert [step.cold_ns for step in steps(merged_events)] == [[10, 12]] * 8
    assert [step.host_ns for step in steps(merged_events)] == [[5, 6]] * 8
    frames = [event for event in merged_events if isinstance(event, Frame)]
    assert [(frame.function, frame.of) for frame in frames] == [("main", None), ("f", 1), ("f", 4)]
    assert [(step.id, step.line, step.execution) for step in steps(merged_events)][:4] == [
        (0, 2, 1),
        (1, 3, 1),
        (2, 6, 1),
        (3, 2, 2),
    ]


def test_extra_steps_are_ignored_and_missing_ones_counted() -> None:
    merged_events = merged(run("pass 1, cold", 10), run("pass 2, cold", 12, iterations=5))
    assert [step.cold_ns for step in steps(merged_events)] == [[10, 12]] * 8
    assert {step.runs for step in steps(merged_events)} == {None}
    merged_events = merged(run("pass 1, cold", 10, iterations=3), run("pass 2, cold", 12))
    assert [step.cold_ns for step in steps(merged_events) if step.statement == 2] == [[10, 12], [10, 12], [10]]
    assert [step.runs for step in steps(merged_events) if step.statement in (2, 5)] == [None, None, None, None, 1, 1]


def test_steps_beyond_the_limit_count_as_run() -> None:
    short = run("pass 2, cold", 12)
    short.omitted[0, 2] = (1, 12)
    merged_events = merged(run("pass 1, cold", 10, iterations=3), short)
    assert {step.runs for step in steps(merged_events) if step.statement in (2, 5)} == {None}


def typical_run(*values: int) -> list[Any]:
    """Return `ns` and name of the chosen run. Each value is x in the warm run of a pass."""
    timed = [r for n, x in enumerate(values, 1) for r in (run(f"pass {n}, cold", 1), run(f"pass {n}, warm", n, x=x))]
    return [Runs(timed).representative.ns, str(Runs(timed).representative.id)]


def test_the_most_typical_warm_run_is_chosen() -> None:
    assert typical_run(970, 417, 349, 446, 383)[1] == "pass 2, warm"
    assert typical_run(1, 1, 1)[1] == "pass 1, warm"
    assert typical_run(5, 9)[1] == "pass 1, warm"
    runs = [run(f"pass {n}, warm", 1, iterations=i) for n, i in ((1, 7), (2, 2), (3, 2))]
    assert str(Runs(runs).representative.id) == "pass 2, warm"


def test_a_failed_run_is_chosen_only_if_none_completed() -> None:
    failed = run("pass 1, warm", 1)
    failed.ending = Ending("raised", "ValueError", 3)
    assert Runs([run("pass 1, cold", 1), failed]).representative.id.kind == "cold"
    assert Runs([failed]).representative is failed


def test_steps_and_values_that_follow_clocks_are_marked() -> None:
    timed = [run("pass 1, cold", 1), run("pass 1, warm", 1)]
    perturbed = run("shaken, clocks", 1, iterations=1)
    next(s for s in perturbed.steps.values() if s.claim).claim[2][0]["value"] = 2  # type: ignore[index]
    merged_steps = steps(merged(*timed, perturbed=[run("shaken, clocks inverted", 1), perturbed]))
    assert [s.clock for s in merged_steps if s.statement in (2, 5)] == [False, False, True, True]
    [sides] = [[value.clock for _, value in s.claim.sides] for s in merged_steps if s.claim]
    assert sides == [True, False]
    perturbed.ending = Ending("raised", "ValueError", 1)  # a failed run may have ended before a step
    assert not any(s.clock for s in steps(merged(*timed, perturbed=[perturbed])))


def text_call(text: str, **content: Any) -> dict[str, Any]:
    return {"kind": "text", "text": text, **content}


def merged_narrative(*texts: Any) -> Any:
    """Return the merged narrative of one call; each run, cold and warm in turn, emitted one of `texts`."""
    timed = []
    for n, text in enumerate(texts):
        timed.append(run(f"pass {n // 2 + 1}, {'warm' if n % 2 else 'cold'}", 1))
        next(iter(timed[-1].steps.values())).add("narrative", text_call(text) if isinstance(text, str) else text)
    [narrative] = [s.narrative[0] for s in steps(merged(*timed)) if s.narrative]
    return narrative


def test_a_measured_answer_is_the_median_of_all_runs() -> None:
    def ask_call(value: object) -> dict[str, object]:
        return {"kind": "ask", "text": "How long?", "answer": {"value": value, "within": 0.1}}

    answer = merged_narrative(*(ask_call(seconds) for seconds in (5.0, 1.0, 2.0, 4.0, 3.0, 9.0))).answer
    assert answer is not None and (answer.value, sorted(answer.samples or ())) == (3.5, [1.0, 2.0, 3.0, 4.0, 5.0, 9.0])
    answer = merged_narrative(*[ask_call(5)] * 6).answer
    assert answer is not None and (answer.value, answer.samples) == (5, None)


def test_a_number_in_prose_has_its_position_and_samples() -> None:
    factors = ["9.70", "4.17", "3.49", "4.46", "4.22", "3.83"]
    narrative = merged_narrative(*(f"Of 1,024 rows it falls by a factor of {f}." for f in factors))
    [varied] = narrative.varied
    assert narrative.text[varied.start : varied.end] == "4.17"
    assert varied.samples == ["4.17", "4.46", "3.83"] and varied.cold_samples == ["9.70", "3.49", "4.22"]
    assert narrative.others is None and merged_narrative(*["the same 3"] * 6).varied is None


def test_different_sentences_are_counted() -> None:
    narrative = merged_narrative(
        *(f"It is {word} by {n}." for n, word in enumerate(["slower", *["faster"] * 4, "slower"]))
    )
    assert (narrative.text == "It is faster by 1." and narrative.others == [("It is slower by 0.", 2)]) or (
        narrative.others == [("It is slower by 5.", 2)]
    )
    assert narrative.varied[0].samples == ["1", "3"]


def test_all_runs_choose_the_sentence() -> None:
    def chosen(*ratios: float) -> Any:
        return merged_narrative(*(decide_call(r) for r in ratios))

    def decide_call(ratio: float) -> dict[str, Any]:
        sentences = [f"{ratio} times as fast", "slower", "as fast"]
        choice = {"low": 0.9, "high": 1.1, "samples": [ratio], "sentences": sentences, "answer": "below"}
        return text_call("slower", choice=choice)

    fast = chosen(9.5, 4.5, 3.5, 4.6, 4.2, 3.8)
    assert fast.text == "4.5 times as fast" and fast.varied[0].samples == ["4.5", "4.6", "3.8"] and not fast.others
    assert (fast.choice.answer, fast.choice.samples, fast.choice.sentences) == (
        "above", [9.5, 4.5, 3.5, 4.6, 4.2, 3.8], None,
    )  # fmt: skip
    assert chosen(1.2, 1.3, 1.05, 1.2).text == chosen(0.5, 2.0).text == "as fast"
    assert chosen(0.5, 0.8).text == "slower"


def test_a_cell_of_a_table_has_its_samples() -> None:
    tables = [{"kind": "table", "columns": ["a", "b"], "rows": [["x", n], ["y", 1]]} for n in (3, 1, 3, 2, 3, 3)]
    [varied] = merged_narrative(*tables).varied
    assert (varied.row, varied.column, varied.samples) == (0, 1, [1, 2, 3])


def test_claims_are_judged_in_every_run() -> None:
    (claim,) = [
        s.claim for s in steps(merged(run("pass 1, cold", 1), run("pass 1, warm", 1, x=2, held=False))) if s.claim
    ]
    assert not claim.held and claim.failed_runs == ["pass 1, warm"]
    (x, literal) = claim.sides
    assert x[0] == "x" and x[1].varies and (x[1].cold_samples, x[1].samples) == ([1], [2]) and not literal[1].varies


def test_steps_without_a_metered_counterpart_give_the_reason() -> None:
    metered = run("metering, cold", 0, iterations=1)
    for step in metered.steps.values():
        step.meters = {"flops": 8, "operators": [["aten.mm", 1]], "uncounted": []}
    merged_events = merged(run("pass 1, cold", 10), metered=metered)
    first, second = [step.meters for step in steps(merged_events) if step.statement == 2]
    assert first and first.flops == 8 and first.uncounted is None
    assert second and second.flops is None and second.why == "no counterpart in the metering process"


def test_values_that_follow_the_device_seed_are_marked() -> None:
    seeded = run("shaken, other device seeds", 0)
    next(s for s in seeded.steps.values() if s.values).values[0][2]["value"] = 99
    values = [s.values[0][1] for s in steps(merged(run("pass 1, cold", 1), seeded=seeded)) if s.values]
    assert [value.device_random for value in values] == [True, False]
    values = [s.values[0][1] for s in steps(merged(run("pass 1, cold", 1), metered=seeded)) if s.values]
    assert not any(value.device_random for value in values)


def test_a_measurement_combines_samples_and_metered_counts() -> None:
    timed = [run(f"pass {n}, warm", 1) for n in (1, 2)]
    for index, record in enumerate(timed):
        next(iter(record.steps.values())).add("measured", {"seconds": 0.5 + index})
    metered = run("metering, cold", 1)
    counts = {"flops": 8, "bytes_read": 4, "bytes_written": 2, "dtype": "float32", "why": None}
    next(iter(metered.steps.values())).add("measured", counts)
    [measured] = steps(merged(*timed, metered=metered))[0].measured or []
    assert measured.seconds == [0.5, 1.5] and measured.flops == 8 and measured.dtype == "float32"
    [measured] = steps(merged(*timed))[0].measured or []
    assert measured.flops is None and measured.why == "no counterpart in the metering process"


def _size(events: list[Event]) -> int:
    return sum(len(flow(to_plain(event))) for event in events)


def test_a_trace_within_the_limit_is_not_shortened() -> None:
    events = example_trace().steps
    assert capped(events) == (events, [])


def test_a_large_trace_keeps_shapes_but_drops_elements() -> None:
    tensor = Tensor("float32", [100], "cpu", bytes=400, strides=[1], elements=[0.5] * 100)
    step = Step(0, 0, 0, 1, host_ns=[5], values=[("x", Value("tensor", tensor=tensor))], stdout="y" * 5000)
    events: list[Event] = [replace(step, id=n) for n in range(10)]
    shortened, dropped = capped(events, _size(events) - 1000)
    first = shortened[0]
    assert isinstance(first, Step) and first.values and first.values[0][1].tensor
    assert first.values[0][1].tensor.elements is None and first.values[0][1].tensor.shape == [100]
    assert first.host_ns == [5] and first.stdout == "y" * 5000
    assert len(dropped) == 2 and dropped[1].startswith("elements")


def test_only_shortened_events_are_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, large = Step(0, 0, 0, 1, host_ns=[5]), Step(1, 0, 0, 1, values=[("x", Value("str", value="z" * 5000))])
    events: list[Event] = [plain] * 20 + [large]
    measured: list[int] = []
    monkeypatch.setattr(merging, "flow", lambda plain: measured.append(plain["id"]) or flow(plain))
    _, dropped = capped(events, 1500)
    assert len(dropped) == 3 and measured == [0] * 20 + [1, 1] and events[-1] is large


def test_long_texts_are_shortened_last() -> None:
    step = Step(0, 0, 0, 1, values=[("x", Value("str", value="z" * 5000))], stdout="y" * 5000)
    shortened, dropped = capped([step], 100)
    first = shortened[0]
    assert isinstance(first, Step) and first.values and first.stdout == "y" * 1000
    assert (first.values[0][1].value, first.values[0][1].length) == ("z" * 1000, 5000)
    assert len(dropped) == 3

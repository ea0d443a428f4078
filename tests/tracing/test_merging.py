"""Runs are matched as trees: the most typical warm run tells the story, the rest are its samples."""

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
    """What a recorder writes of SOURCE; `shift` gives every step and frame another number."""
    made = RunRecord(RunId.parse(name), COMPLETE)
    numbers = iter(range(shift, 1000))
    frames = iter(range(shift, 1000))

    def frame(function: int, of: int | None) -> int:
        number = next(frames)
        made.frames[number] = RecordedCall(number, function, of, None)
        return number

    def step(of: int, statement: int, execution: int = 1, **content: Any) -> int:
        number = next(numbers)
        made.steps[number] = RecordedStep(number, of, statement, execution, ns=ns, **content)
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
    return made


def merged(*timed: RunRecord, **others: Any) -> list[Any]:
    source, instrumented = program()
    return events(Runs(timed, **others), instrumented, source)


def steps(made: list[Any]) -> list[Step]:
    return [event for event in made if isinstance(event, Step)]


def test_samples_come_from_the_same_steps() -> None:
    made = merged(
        run("pass 1, cold", 10), run("pass 1, warm", 5), run("pass 2, cold", 12, shift=300), run("pass 2, warm", 6)
    )
    assert [step.cold_ns for step in steps(made)] == [[10, 12]] * 8
    assert [step.host_ns for step in steps(made)] == [[5, 6]] * 8
    frames = [event for event in made if isinstance(event, Frame)]
    assert [(frame.function, frame.of) for frame in frames] == [("main", None), ("f", 1), ("f", 4)]
    assert [(step.id, step.line, step.execution) for step in steps(made)][:4] == [
        (0, 2, 1),
        (1, 3, 1),
        (2, 6, 1),
        (3, 2, 2),
    ]


def test_what_another_run_did_beside_is_left_out_and_what_it_did_not_do_is_counted() -> None:
    made = merged(run("pass 1, cold", 10), run("pass 2, cold", 12, iterations=5))
    assert [step.cold_ns for step in steps(made)] == [[10, 12]] * 8
    assert {step.runs for step in steps(made)} == {None}
    made = merged(run("pass 1, cold", 10, iterations=3), run("pass 2, cold", 12))
    assert [step.cold_ns for step in steps(made) if step.statement == 2] == [[10, 12], [10, 12], [10]]
    assert [step.runs for step in steps(made) if step.statement in (2, 5)] == [None, None, None, None, 1, 1]


def test_what_the_limit_left_out_has_run_all_the_same() -> None:
    short = run("pass 2, cold", 12)
    short.omitted[0, 2] = (1, 12)
    made = merged(run("pass 1, cold", 10, iterations=3), short)
    assert {step.runs for step in steps(made) if step.statement in (2, 5)} == {None}


def typical(*values: int) -> list[Any]:
    """The pass whose warm run tells the story, where x was so and so in the warm ones."""
    timed = [r for n, x in enumerate(values, 1) for r in (run(f"pass {n}, cold", 1), run(f"pass {n}, warm", n, x=x))]
    return [Runs(timed).representative.ns, str(Runs(timed).representative.id)]


def test_the_story_is_the_most_typical_warm_run() -> None:
    assert typical(970, 417, 349, 446, 383)[1] == "pass 2, warm"
    assert typical(1, 1, 1)[1] == "pass 1, warm"
    assert typical(5, 9)[1] == "pass 1, warm"
    odd = [run(f"pass {n}, warm", 1, iterations=i) for n, i in ((1, 7), (2, 2), (3, 2))]
    assert str(Runs(odd).representative.id) == "pass 2, warm"


def test_a_run_that_failed_tells_no_story_while_another_was_complete() -> None:
    failed = run("pass 1, warm", 1)
    failed.ending = Ending("raised", "ValueError", 3)
    assert Runs([run("pass 1, cold", 1), failed]).representative.id.kind == "cold"
    assert Runs([failed]).representative is failed


def test_what_moves_with_wrong_clocks_follows_from_them() -> None:
    timed = [run("pass 1, cold", 1), run("pass 1, warm", 1)]
    perturbed = run("shaken, clocks", 1, iterations=1)
    next(s for s in perturbed.steps.values() if s.claim).claim[2][0]["value"] = 2  # type: ignore[index]
    made = steps(merged(*timed, perturbed=[run("shaken, clocks inverted", 1), perturbed]))
    assert [s.clock for s in made if s.statement in (2, 5)] == [False, False, True, True]
    [sides] = [[value.clock for _, value in s.claim.sides] for s in made if s.claim]
    assert sides == [True, False]
    perturbed.ending = Ending("raised", "ValueError", 1)  # it may have ended before it came to a step
    assert not any(s.clock for s in steps(merged(*timed, perturbed=[perturbed])))


def said(text: str, **content: Any) -> dict[str, Any]:
    return {"kind": "text", "text": text, **content}


def told(*texts: Any) -> Any:
    """What becomes of one narrative call of which six runs said this."""
    timed = []
    for n, text in enumerate(texts):
        timed.append(run(f"pass {n // 2 + 1}, {'warm' if n % 2 else 'cold'}", 1))
        next(iter(timed[-1].steps.values())).add("narrative", said(text) if isinstance(text, str) else text)
    [narrative] = [s.narrative[0] for s in steps(merged(*timed)) if s.narrative]
    return narrative


def test_an_answer_that_was_measured_is_the_median_of_all_runs() -> None:
    def asked(value: object) -> dict[str, object]:
        return {"kind": "ask", "text": "How long?", "answer": {"value": value, "within": 0.1}}

    answer = told(*(asked(seconds) for seconds in (5.0, 1.0, 2.0, 4.0, 3.0, 9.0))).answer
    assert answer is not None and (answer.value, sorted(answer.samples or ())) == (3.5, [1.0, 2.0, 3.0, 4.0, 5.0, 9.0])
    answer = told(*[asked(5)] * 6).answer
    assert answer is not None and (answer.value, answer.samples) == (5, None)


def test_a_number_in_prose_has_its_samples_and_its_place() -> None:
    factors = ["9.70", "4.17", "3.49", "4.46", "4.22", "3.83"]
    narrative = told(*(f"Of 1,024 rows it falls by a factor of {f}." for f in factors))
    [varied] = narrative.varied
    assert narrative.text[varied.start : varied.end] == "4.17"
    assert varied.samples == ["4.17", "4.46", "3.83"] and varied.cold_samples == ["9.70", "3.49", "4.22"]
    assert narrative.others is None and told(*["the same 3"] * 6).varied is None


def test_another_sentence_is_counted() -> None:
    narrative = told(*(f"It is {word} by {n}." for n, word in enumerate(["slower", *["faster"] * 4, "slower"])))
    assert (narrative.text == "It is faster by 1." and narrative.others == [("It is slower by 0.", 2)]) or (
        narrative.others == [("It is slower by 5.", 2)]
    )
    assert narrative.varied[0].samples == ["1", "3"]


def test_a_sentence_is_chosen_by_all_runs() -> None:
    def chosen(*ratios: float) -> Any:
        return told(*(choice(r) for r in ratios))

    def choice(ratio: float) -> dict[str, Any]:
        sentences = [f"{ratio} times as fast", "slower", "as fast"]
        alone = {"low": 0.9, "high": 1.1, "samples": [ratio], "sentences": sentences, "answer": "below"}
        return said("slower", choice=alone)

    fast = chosen(9.5, 4.5, 3.5, 4.6, 4.2, 3.8)
    assert fast.text == "4.5 times as fast" and fast.varied[0].samples == ["4.5", "4.6", "3.8"] and not fast.others
    assert (fast.choice.answer, fast.choice.samples, fast.choice.sentences) == (
        "above", [9.5, 4.5, 3.5, 4.6, 4.2, 3.8], None,
    )  # fmt: skip
    assert chosen(1.2, 1.3, 1.05, 1.2).text == chosen(0.5, 2.0).text == "as fast"
    assert chosen(0.5, 0.8).text == "slower"


def test_a_cell_of_a_table_has_its_samples() -> None:
    tables = [{"kind": "table", "columns": ["a", "b"], "rows": [["x", n], ["y", 1]]} for n in (3, 1, 3, 2, 3, 3)]
    [varied] = told(*tables).varied
    assert (varied.row, varied.column, varied.samples) == (0, 1, [1, 2, 3])


def test_claims_are_judged_in_every_run() -> None:
    (claim,) = [
        s.claim for s in steps(merged(run("pass 1, cold", 1), run("pass 1, warm", 1, x=2, held=False))) if s.claim
    ]
    assert not claim.held and claim.failed_runs == ["pass 1, warm"]
    (x, one) = claim.sides
    assert x[0] == "x" and x[1].varies and (x[1].cold_samples, x[1].samples) == ([1], [2]) and not one[1].varies


def test_the_meters_say_when_they_have_no_counterpart() -> None:
    metered = run("metering, cold", 0, iterations=1)
    for step in metered.steps.values():
        step.meters = {"flops": 8, "operators": [["aten.mm", 1]], "uncounted": []}
    made = merged(run("pass 1, cold", 10), metered=metered)
    first, second = [step.meters for step in steps(made) if step.statement == 2]
    assert first and first.flops == 8 and first.uncounted is None
    assert second and second.flops is None and second.why == "no counterpart in the metering process"


def test_a_value_that_follows_the_device_seed() -> None:
    seeded = run("shaken, other device seeds", 0)
    next(s for s in seeded.steps.values() if s.values).values[0][2]["value"] = 99
    values = [s.values[0][1] for s in steps(merged(run("pass 1, cold", 1), seeded=seeded)) if s.values]
    assert [value.device_random for value in values] == [True, False]
    values = [s.values[0][1] for s in steps(merged(run("pass 1, cold", 1), metered=seeded)) if s.values]
    assert not any(value.device_random for value in values)


def test_a_measurement_is_put_together_from_its_seconds_and_one_call() -> None:
    timed = [run(f"pass {n}, warm", 1) for n in (1, 2)]
    for place, one in enumerate(timed):
        next(iter(one.steps.values())).add("measured", {"seconds": 0.5 + place})
    metered = run("metering, cold", 1)
    counts = {"flops": 8, "bytes_read": 4, "bytes_written": 2, "dtype": "float32", "why": None}
    next(iter(metered.steps.values())).add("measured", counts)
    [measured] = steps(merged(*timed, metered=metered))[0].measured or []
    assert measured.seconds == [0.5, 1.5] and measured.flops == 8 and measured.dtype == "float32"
    [measured] = steps(merged(*timed))[0].measured or []
    assert measured.flops is None and measured.why == "no counterpart in the metering process"


def _size(events: list[Event]) -> int:
    return sum(len(flow(to_plain(event))) for event in events)


def test_a_trace_that_fits_is_left_alone() -> None:
    events = example_trace().steps
    assert capped(events) == (events, [])


def test_elements_go_and_shapes_stay() -> None:
    tensor = Tensor("float32", [100], "cpu", bytes=400, strides=[1], elements=[0.5] * 100)
    step = Step(0, 0, 0, 1, host_ns=[5], values=[("x", Value("tensor", tensor=tensor))], stdout="y" * 5000)
    events: list[Event] = [replace(step, id=n) for n in range(10)]
    small, dropped = capped(events, _size(events) - 1000)
    kept = small[0]
    assert isinstance(kept, Step) and kept.values and kept.values[0][1].tensor
    assert kept.values[0][1].tensor.elements is None and kept.values[0][1].tensor.shape == [100]
    assert kept.host_ns == [5] and kept.stdout == "y" * 5000
    assert len(dropped) == 2 and dropped[1].startswith("elements")


def test_only_what_was_thinned_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, large = Step(0, 0, 0, 1, host_ns=[5]), Step(1, 0, 0, 1, values=[("x", Value("str", value="z" * 5000))])
    events: list[Event] = [plain] * 20 + [large]
    measured: list[int] = []
    monkeypatch.setattr(merging, "flow", lambda plain: measured.append(plain["id"]) or flow(plain))
    _, dropped = capped(events, 1500)
    assert len(dropped) == 3 and measured == [0] * 20 + [1, 1] and events[-1] is large


def test_long_texts_go_last() -> None:
    step = Step(0, 0, 0, 1, values=[("x", Value("str", value="z" * 5000))], stdout="y" * 5000)
    small, dropped = capped([step], 100)
    kept = small[0]
    assert isinstance(kept, Step) and kept.values and kept.stdout == "y" * 1000
    assert (kept.values[0][1].value, kept.values[0][1].length) == ("z" * 1000, 5000)
    assert len(dropped) == 3

"""Runs are matched as trees. The trace shows a warm run of median duration; all runs give samples."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from trace_tools.trace.identities import COMPLETE, Ending, RunId
from trace_tools.trace.model import (
    Answer,
    Ask,
    Choice,
    Claim,
    Event,
    Frame,
    Measured,
    Meters,
    Omitted,
    Step,
    Table,
    Text,
    Value,
)
from trace_tools.tracing.merge.events import events
from trace_tools.tracing.merge.matching import Runs
from trace_tools.tracing.merge.reader import RunRecord

# The run of this lecture, whose statements have the numbers 0 to 5:
#
#     def main():
#         for i in range(2):
#             x = f(i)  # @inspect x
#         assert x == 1
#     def f(i):
#         return i


def run(name: str, ns: int, *, iterations: int = 2, x: int = 1, shift: int = 0, held: bool = True) -> RunRecord:
    """Return a run as it is read from a journal. `shift` is the number of its first step and first frame."""
    record = RunRecord(RunId.parse(name), COMPLETE, ns)
    numbers = iter(range(shift, 1000))
    frames = iter(range(shift, 1000))

    def frame(function: str, of: int | None) -> int:
        number = next(frames)
        record.frames[number] = Frame(number, function, of)
        return number

    def step(of: int, statement: int, execution: int = 1, **content: Any) -> int:
        number = next(numbers)
        record.steps[number] = Step(number, of, statement, statement + 1, execution, [ns], **content)
        return number

    main = frame("main", None)
    for n in range(1, iterations + 1):
        step(main, 1, n)
        calling = step(main, 2, n, annotated=True, values=[("x", Value("int", value=n - 1))])
        step(frame("f", calling), 5)
    step(main, 1, iterations + 1)
    sides = [("x", Value("int", value=x)), ("1", Value("int", value=1))]
    claim = step(main, 3, claim=Claim("x == 1", held, sides))
    if not held:
        record.failed.add(claim)
    return record


def with_content(record: RunRecord, **content: Any) -> RunRecord:
    """Return a run with more content in its first step."""
    first = min(record.steps)
    record.steps[first] = replace(record.steps[first], **content)
    return record


def merged(*timed: RunRecord, **others: Any) -> list[Event]:
    return events(Runs([*timed, *others.values()]))


def steps(merged_events: list[Event]) -> list[Step]:
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


def test_steps_beyond_a_limit_count_as_run() -> None:
    short = run("pass 2, cold", 12)
    short.omitted.append(Omitted(1, 0, 2, 3, 12))
    merged_events = merged(run("pass 1, cold", 10, iterations=3), short)
    assert {step.runs for step in steps(merged_events) if step.statement in (2, 5)} == {None}
    few = run("pass 2, cold", 12)  # with two of the three calls of `f`
    few.steps |= {n: step for n, step in run("pass 2, cold", 12, iterations=3).steps.items() if step.frame == 0}
    few.refused["f"] = 1
    merged_events = merged(run("pass 1, cold", 10, iterations=3), few)
    assert {step.runs for step in steps(merged_events) if step.statement == 5} == {None}


def shown(*durations: int) -> str:
    """Return the name of the run that is shown; each pass has a warm run of one of these durations."""
    names = [(f"pass {n}, cold", f"pass {n}, warm", ns) for n, ns in enumerate(durations, 1)]
    return str(Runs([one for cold, warm, ns in names for one in (run(cold, 1), run(warm, ns))]).shown.id)


def test_the_warm_run_of_median_duration_is_shown() -> None:
    assert shown(9, 5, 7) == "pass 3, warm"
    assert shown(970, 417, 349, 446, 383) == "pass 2, warm"
    assert shown(1, 1, 1) == "pass 2, warm" and shown(5, 9) == shown(5) == "pass 1, warm"


def test_a_failed_run_is_shown_only_if_none_completed() -> None:
    failed = run("pass 1, warm", 1), run("pass 1, cold", 1)
    for one in failed:
        one.ending = Ending("raised", "ValueError", 3)
    assert Runs([run("pass 1, cold", 1), failed[0]]).shown.id.kind == "cold"
    assert Runs([failed[1]]).shown is failed[1]


def merged_narrative(*narratives: Any) -> Any:
    """Return the merged narrative of one call; each run, cold and warm in turn, emitted one of `narratives`."""
    timed = []
    for n, one in enumerate(narratives):  # all last as long, so the second of three warm runs is shown
        record = run(f"pass {n // 2 + 1}, {'warm' if n % 2 else 'cold'}", 1)
        timed.append(with_content(record, narrative=[Text(text=one) if isinstance(one, str) else one]))
    [narrative] = [s.narrative[0] for s in steps(merged(*timed)) if s.narrative]
    return narrative


def test_a_measured_answer_is_the_median_of_all_runs() -> None:
    def ask_call(value: float) -> Ask:
        return Ask(text="How long?", answer=Answer(value, within=0.1))

    answer = merged_narrative(*(ask_call(seconds) for seconds in (5.0, 1.0, 2.0, 4.0, 3.0, 9.0))).answer
    assert (answer.value, sorted(answer.samples or ())) == (3.5, [1.0, 2.0, 3.0, 4.0, 5.0, 9.0])
    answer = merged_narrative(*[ask_call(5)] * 6).answer
    assert (answer.value, answer.samples) == (5, None)


def test_a_number_in_prose_has_its_position_and_samples() -> None:
    factors = ["9.70", "4.17", "3.49", "4.46", "4.22", "3.83"]
    narrative = merged_narrative(*(f"Of 1,024 rows it falls by a factor of {f}." for f in factors))
    [varied] = narrative.varied
    assert narrative.text[varied.start : varied.end] == "4.46"
    assert varied.samples == ["4.17", "4.46", "3.83"] and varied.cold_samples == ["9.70", "3.49", "4.22"]
    assert narrative.others is None and merged_narrative(*["the same 3"] * 6).varied is None


def test_different_sentences_are_counted() -> None:
    narrative = merged_narrative(
        *(f"It is {word} by {n}." for n, word in enumerate(["slower", *["faster"] * 4, "slower"]))
    )
    assert narrative.text == "It is faster by 3." and narrative.others in (
        [("It is slower by 0.", 2)],
        [("It is slower by 5.", 2)],
    )
    assert narrative.varied[0].samples == ["1", "3"]


def test_all_runs_choose_the_sentence() -> None:
    def decide_call(ratio: float) -> Text:
        sentences = [f"{ratio} times as fast", "slower", "unknown", f"as fast: {ratio}"]
        return Text(text="slower", choice=Choice(0.9, 1.1, [ratio], "below", sentences))

    def chosen(*ratios: float) -> Any:
        return merged_narrative(*(decide_call(ratio) for ratio in ratios))

    fast = chosen(9.5, 4.5, 3.5, 4.6, 4.2, 3.8)
    assert fast.text == "4.6 times as fast" and fast.varied[0].samples == ["4.5", "4.6", "3.8"] and not fast.others
    assert (fast.choice.answer, fast.choice.samples, fast.choice.sentences) == (
        "above", [9.5, 4.5, 3.5, 4.6, 4.2, 3.8], None,
    )  # fmt: skip
    assert chosen(1.2, 1.3, 1.05, 1.2).text == chosen(0.5, 2.0).text == "unknown"
    assert chosen(1.0, 1.05, 0.95).choice.answer == "equal" and chosen(1.0, 1.05, 0.95).text.startswith("as fast")
    assert chosen(0.5, 0.8).text == "slower"


def test_a_cell_of_a_table_has_its_samples() -> None:
    tables = [Table(columns=["a", "b"], rows=[["x", n], ["y", 1]]) for n in (3, 1, 3, 2, 3, 3)]
    [varied] = merged_narrative(*tables).varied
    assert (varied.row, varied.column, varied.samples) == (0, 1, [1, 2, 3])


def test_claims_are_judged_in_every_run() -> None:
    (claim,) = [
        s.claim for s in steps(merged(run("pass 1, cold", 1), run("pass 1, warm", 1, x=2, held=False))) if s.claim
    ]
    assert not claim.held and claim.failed_runs == ["pass 1, warm"]
    (x, literal) = claim.sides
    assert x[0] == "x" and x[1].varies and (x[1].cold_samples, x[1].samples) == ([1], [2]) and not literal[1].varies


def test_a_failed_claim_that_the_lecture_caught_leaves_its_sides_as_values() -> None:
    caught = run("pass 1, cold", 1, x=2, held=False)
    caught.failed.clear()
    [step] = [s for s in steps(merged(caught)) if s.statement == 3]
    assert step.claim is None and [(source, value.value) for source, value in step.values or ()] == [("x", 2), ("1", 1)]


def test_steps_without_a_counted_counterpart_give_the_reason() -> None:
    counted = run("pass 1, counted", 0, iterations=1)
    for number, step in counted.steps.items():
        counted.steps[number] = replace(step, meters=Meters(flops=8, operators=[("aten.mm", 1)]))
    merged_events = merged(run("pass 1, cold", 10), counted=counted)
    first, second = [step.meters for step in steps(merged_events) if step.statement == 2]
    assert first and first.flops == 8 and first.uncounted is None
    assert second and second.flops is None and second.why == "no counterpart in the counted run"


def test_labels_of_addresses_do_not_vary_and_other_texts_do() -> None:
    def varies(kind: str, *texts: str) -> bool:
        runs = run("pass 1, cold", 1), run("pass 1, warm", 2)
        for record, text in zip(runs, texts, strict=True):
            for number, step in record.steps.items():
                record.steps[number] = replace(step, values=[("x", Value(kind, text=text))])
        return any(value.varies for step in steps(merged(*runs)) for _, value in step.values or ())

    assert not varies("int", "address 1", "address 2")
    assert varies("int", "address 1", "0x9… (9000 bits)") and varies("Thing", "address 1", "address 2")


def test_values_of_the_counted_run_are_not_compared() -> None:
    counted = run("pass 1, counted", 0, x=99, held=False)
    [claim] = [s.claim for s in steps(merged(run("pass 1, cold", 1), counted=counted)) if s.claim]
    assert claim.held and not any(value.varies for _, value in claim.sides)


def test_a_measurement_combines_samples_and_counts() -> None:
    timed = [with_content(run(f"pass {n}, warm", 1), measured=[Measured([n - 0.5])]) for n in (1, 2)]
    counts = Measured([0.0], flops=8, bytes_read=4, bytes_written=2, dtype="float32")
    counted = with_content(run("pass 1, counted", 1), measured=[counts])
    [measured] = steps(merged(*timed, counted=counted))[0].measured or []
    assert measured.seconds == [0.5, 1.5] and measured.flops == 8 and measured.dtype == "float32"
    [measured] = steps(merged(*timed))[0].measured or []
    assert measured.flops is None and measured.why == "no counterpart in the counted run"

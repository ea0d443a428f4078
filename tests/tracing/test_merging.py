"""Runs are matched as trees. The trace shows a warm run of median duration; all runs give samples."""

from __future__ import annotations

import itertools
from typing import Any

from msgspec.structs import replace

from trace_tools.trace import model
from trace_tools.trace.model import Choice, Claim, Frame, Measured, Meters, Omitted, Step, Table, Text, Value
from trace_tools.trace.records import COMPLETE, Ending, RunId
from trace_tools.tracing.merge.events import events
from trace_tools.tracing.merge.reader import RunRecord, Runs

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
    numbers, frames = itertools.count(shift), itertools.count(shift)

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
    claim = step(main, 3, claim=Claim("x == 1", held, [(str(name), Value("int", value=name)) for name in (x, 1)]))
    record.failed |= set() if held else {claim}
    return record


def with_content(record: RunRecord, **content: Any) -> RunRecord:
    """Return a run with more content in its first step."""
    first = min(record.steps)
    record.steps[first] = replace(record.steps[first], **content)
    return record


def merged(*recorded: RunRecord) -> list[Step]:
    return [event for event in events(Runs(recorded)) if isinstance(event, Step)]


def test_samples_come_from_the_same_steps() -> None:
    runs = [run(f"pass {n}, {kind}", ns, shift=300 * (n - 1)) for n, kind, ns in
            ((1, "cold", 10), (1, "warm", 5), (2, "cold", 12), (2, "warm", 6))]  # fmt: skip
    steps = merged(*runs)
    assert [(step.cold_ns, step.host_ns) for step in steps] == [([10, 12], [5, 6])] * 8
    assert [(step.id, step.line, step.execution) for step in steps][:4] == [(0, 2, 1), (1, 3, 1), (2, 6, 1), (3, 2, 2)]
    frames = [event for event in events(Runs(runs)) if isinstance(event, Frame)]
    assert [(frame.function, frame.of) for frame in frames] == [("main", None), ("f", 1), ("f", 4)]


def test_extra_steps_are_ignored_and_missing_ones_counted() -> None:
    steps = merged(run("pass 1, cold", 10), run("pass 2, cold", 12, iterations=5))
    assert [(step.cold_ns, step.runs) for step in steps] == [([10, 12], None)] * 8
    steps = merged(run("pass 1, cold", 10, iterations=3), run("pass 2, cold", 12))
    assert [step.cold_ns for step in steps if step.statement == 2] == [[10, 12], [10, 12], [10]]
    assert [step.runs for step in steps if step.statement in (2, 5)] == [None, None, None, None, 1, 1]


def test_steps_beyond_a_limit_count_as_run() -> None:
    short = run("pass 2, cold", 12)
    short.omitted.append(Omitted(1, 0, 2, 3, 12))
    steps = merged(run("pass 1, cold", 10, iterations=3), short)
    assert {step.runs for step in steps if step.statement in (2, 5)} == {None}
    few = run("pass 2, cold", 12)  # with two of the three calls of `f`
    few.steps |= {n: step for n, step in run("pass 2, cold", 12, iterations=3).steps.items() if step.frame == 0}
    few.refused["f"] = 1
    steps = merged(run("pass 1, cold", 10, iterations=3), few)
    assert {step.runs for step in steps if step.statement == 5} == {None}


def shown(*durations: int) -> str:
    """Return the name of the run that is shown; each pass has a warm run of one of these durations."""
    passes = [(run(f"pass {n}, cold", 1), run(f"pass {n}, warm", ns)) for n, ns in enumerate(durations, 1)]
    return str(Runs([*itertools.chain(*passes)]).shown.id)


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


# ------------------------------------------------------------------------------ prose


def merged_narrative(*narratives: Any) -> Any:
    """Return the merged narrative of one call; each run, cold and warm in turn, emitted one of `narratives`."""
    timed = []
    for n, one in enumerate(narratives):  # all last as long, so the second of three warm runs is shown
        record = run(f"pass {n // 2 + 1}, {'warm' if n % 2 else 'cold'}", 1)
        timed.append(with_content(record, narrative=[Text(text=one) if isinstance(one, str) else one]))
    [narrative] = [s.narrative[0] for s in merged(*timed) if s.narrative]
    return narrative


def test_a_measured_answer_is_the_median_of_all_runs() -> None:
    def asked(*answers: float) -> Any:
        calls = (model.Ask(text="How long?", answer=model.Answer(value, within=0.1)) for value in answers)
        return merged_narrative(*calls).answer

    answer = asked(5.0, 1.0, 2.0, 4.0, 3.0, 9.0)
    assert (answer.value, sorted(answer.samples or ())) == (3.5, [1.0, 2.0, 3.0, 4.0, 5.0, 9.0])
    assert (asked(*[5] * 6).value, asked(*[5] * 6).samples) == (5, None)


def test_a_number_in_prose_has_its_position_and_samples() -> None:
    factors = ["9.70", "4.17", "3.49", "4.46", "4.22", "3.83"]
    narrative = merged_narrative(*(f"Of 1,024 rows it falls by a factor of {f}." for f in factors))
    [varied] = narrative.varied
    assert narrative.text[varied.start : varied.end] == "4.46" and narrative.others is None
    assert varied.samples == ["4.17", "4.46", "3.83"] and varied.cold_samples == ["9.70", "3.49", "4.22"]
    assert merged_narrative(*["the same 3"] * 6).varied is None


def test_different_sentences_are_counted() -> None:
    words = ["slower", *["faster"] * 4, "slower"]
    narrative = merged_narrative(*(f"It is {word} by {n}." for n, word in enumerate(words)))
    assert narrative.text == "It is faster by 3." and narrative.varied[0].samples == ["1", "3"]
    [(other, count)] = narrative.others
    assert other in ("It is slower by 0.", "It is slower by 5.") and count == 2


def test_all_runs_choose_the_sentence() -> None:
    def chosen(*ratios: float) -> Any:
        def decided(ratio: float) -> Text:
            sentences = [f"{ratio} times as fast", "slower", "unknown", f"as fast: {ratio}"]
            return Text(text="slower", choice=Choice(0.9, 1.1, [ratio], "below", sentences))

        return merged_narrative(*map(decided, ratios))

    fast, samples = chosen(9.5, 4.5, 3.5, 4.6, 4.2, 3.8), [9.5, 4.5, 3.5, 4.6, 4.2, 3.8]
    assert fast.text == "4.6 times as fast" and fast.varied[0].samples == ["4.5", "4.6", "3.8"] and not fast.others
    assert (fast.choice.answer, fast.choice.samples, fast.choice.sentences) == ("above", samples, None)
    assert chosen(1.2, 1.3, 1.05, 1.2).text == chosen(0.5, 2.0).text == "unknown"
    assert chosen(1.0, 1.05, 0.95).choice.answer == "equal" and chosen(1.0, 1.05, 0.95).text.startswith("as fast")
    assert chosen(0.5, 0.8).text == "slower"


def test_a_cell_of_a_table_has_its_samples() -> None:
    tables = [Table(columns=["a", "b"], rows=[["x", n], ["y", 1]]) for n in (3, 1, 3, 2, 3, 3)]
    [varied] = merged_narrative(*tables).varied
    assert (varied.row, varied.column, varied.samples) == (0, 1, [1, 2, 3])


# ------------------------------------------------------------------------------ claims, values, counts


def test_claims_are_judged_in_every_timed_run() -> None:
    counted = run("pass 1, counted", 0, x=99, held=False)
    runs = run("pass 1, cold", 1), run("pass 1, warm", 1, x=2, held=False), counted
    [claim] = [step.claim for step in merged(*runs) if step.claim]
    assert not claim.held and claim.failed_runs == ["pass 1, warm"]
    (_, x), (_, literal) = claim.sides
    assert x.varies and (x.cold_samples, x.samples) == ([1], [2]) and not literal.varies


def test_a_failed_claim_that_the_lecture_caught_leaves_its_sides_as_values() -> None:
    caught = run("pass 1, cold", 1, x=2, held=False)
    caught.failed.clear()
    [step] = [s for s in merged(caught) if s.statement == 3]
    assert step.claim is None and [(source, value.value) for source, value in step.values or ()] == [("2", 2), ("1", 1)]


def test_labels_of_addresses_do_not_vary_and_other_texts_do() -> None:
    def varies(kind: str, *texts: str) -> bool:
        runs = run("pass 1, cold", 1), run("pass 1, warm", 2)
        for record, text in zip(runs, texts, strict=True):
            with_content(record, values=[("x", Value(kind, text=text))])
        [(_, value)] = merged(*runs)[0].values or []
        return value.varies

    assert not varies("int", "address 1", "address 2")
    assert varies("int", "address 1", "0x9… (9000 bits)") and varies("Thing", "address 1", "address 2")


def test_steps_without_a_counted_counterpart_give_the_reason() -> None:
    counted = run("pass 1, counted", 0, iterations=1)
    for number, step in counted.steps.items():
        counted.steps[number] = replace(step, meters=Meters(flops=8, operators=[("aten.mm", 1)]))
    steps = merged(run("pass 1, cold", 10), counted)
    first, second = [step.meters for step in steps if step.statement == 2]
    assert first and first.flops == 8 and first.uncounted is None
    assert second and second.flops is None and second.why == "no counterpart in the counted run"


def test_a_measurement_combines_samples_and_counts() -> None:
    timed = [with_content(run(f"pass {n}, warm", 1), measured=[Measured([n - 0.5])]) for n in (1, 2)]
    counts = Measured([0.0], flops=8, bytes_read=4, bytes_written=2, dtype="float32")
    counted = with_content(run("pass 1, counted", 1), measured=[counts])
    [measured] = merged(*timed, counted)[0].measured or []
    assert measured.seconds == [0.5, 1.5] and measured.flops == 8 and measured.dtype == "float32"
    [measured] = merged(*timed)[0].measured or []
    assert measured.flops is None and measured.why == "no counterpart in the counted run"

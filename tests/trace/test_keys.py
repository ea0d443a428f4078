"""The same call and the same step have one position in all runs, and no other has it."""

from __future__ import annotations

from trace_tools.trace.identities import TOP, CallCounter, CallKey, Positions, StepKey


def test_the_same_call_and_step_of_two_runs_have_one_position() -> None:
    positions = Positions()

    def run(iterations: int) -> list[int]:
        calls = CallCounter()
        main = positions.of_call(calls.key(TOP, "main"))
        loop = [positions.of_step(StepKey(main, 3, n)) for n in range(1, iterations + 1)]
        called = [positions.of_call(calls.key(step, name)) for step in loop for name in ("f", "g", "f")]
        return [main, *loop, *called]

    first, again, longer = run(2), run(2), run(3)
    assert len({*first}) == len(first) == 9 and again == first
    assert {*first} < {*longer} and len({*longer}) == len(longer) == 13
    assert positions.keys[first[1]] == StepKey(first[0], 3, 1)
    assert [positions.keys[one] for one in first[3:6]] == [
        CallKey(first[1], function, number) for function, number in (("f", 1), ("g", 1), ("f", 2))
    ]


def test_a_call_is_no_step_though_its_numbers_are_equal() -> None:
    positions = Positions()
    assert positions.of_call(CallKey(0, 1, 1)) != positions.of_step(StepKey(0, 1, 1))

"""Rounds of simulated processes: their order, their number, lost rounds, and the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.diff.planted import LECTURE, made, slower, with_steps
from trace_tools.bench import rounds
from trace_tools.bench.judgement import judge_rounds
from trace_tools.bench.rounds import BenchRequest, BenchResult, TooFewRoundsError, plain_rounds, run_rounds, summary
from trace_tools.diff.difference import Side
from trace_tools.machines.machine import to_json
from trace_tools.source.statements import parse_source
from trace_tools.trace.model import Machine, Step
from trace_tools.tracing.run_folder import Traced


@dataclass
class PretendTracer:
    """A tracer and its runner that run no process: they record its name and return a chosen exit status."""

    out: Path
    executed: list[str]
    failing: frozenset[str]  # processes that exit with status 1 the first time
    statuses: Mapping[str, int]  # process → its exit status, each time
    interrupted_at: str | None
    interrupts: int = 0
    letter: str = field(init=False)

    def __post_init__(self) -> None:
        self.letter = self.out.name

    def prepare(self, folder: Path) -> None:
        (folder / "run.json").write_text(json.dumps({"beside": ["metering"]}), encoding="utf-8")
        (folder / "machine.json").write_text(to_json(Machine("A processor", "cpu", "cpu")), encoding="utf-8")
        (folder / "versions.json").write_text("[]", encoding="utf-8")

    @property
    def runner(self) -> PretendTracer:
        return self

    def run(self, name: str, folder: Path) -> tuple[int, float]:
        process = f"{self.letter} {name}"
        self.interrupts = int(process == self.interrupted_at)
        (folder / f"{name.replace(' ', '-')}.journal").touch()
        self.executed.append(process)
        status = self.statuses.get(process, int(process in self.failing and self.executed.count(process) == 1))
        if status == 0 and process in self.statuses:  # as if the lecture called `exit`
            (folder / f"{name.replace(' ', '-')}.tail").touch()
        return status, 0.0


Bench = Callable[..., BenchResult]


@pytest.fixture
def executed() -> list[str]:
    """Return the list to which executed processes are appended, such as "A pass 1"."""
    return []


@pytest.fixture
def messages() -> list[str]:
    """Return the list to which the messages of `run_rounds` are appended."""
    return []


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, executed: list[str], messages: list[str]) -> Bench:
    """Return a function that runs rounds of two lectures without processes; each trace has one pass per round."""

    def run(
        failing: Iterable[str] = (),
        statuses: Mapping[str, int] = MappingProxyType({}),
        interrupted_at: str | None = None,
        budget_s: float = 300,
        **changes: Callable[[Step], Step],
    ) -> BenchResult:
        def merged(folder: Path, out: Path) -> Traced:
            passes = json.loads((folder / "run.json").read_text(encoding="utf-8"))["passes"]
            assert len(list(folder.glob("pass-*.journal"))) >= passes
            side = out.name.lower()
            trace = with_steps(made({"a": 1, "b": 2}[side], passes=passes), changes.get(side, lambda step: step))
            return Traced(trace, out / "trace.yaml", out, parse_source(LECTURE, "lecture.py"))

        monkeypatch.setattr(rounds, "merge_folder", merged)
        monkeypatch.setattr(
            rounds,
            "Tracer",
            lambda lecture, out, options: PretendTracer(out, executed, frozenset(failing), statuses, interrupted_at),
        )
        return run_rounds(BenchRequest(tmp_path / "a.py", tmp_path / "b.py", budget_s=budget_s), messages.append)

    return run


def test_both_sides_run_in_each_round_in_alternating_order(
    bench: Bench, executed: list[str], messages: list[str]
) -> None:
    result = bench()
    passes = [name for name in executed if "pass" in name]
    assert passes[:6] == ["A pass 1", "B pass 1", "B pass 2", "A pass 2", "A pass 3", "B pass 3"]
    assert executed[-2:] == ["A metering", "B metering"]  # after the last round
    assert result.rounds == len(passes) / 2 >= 6 and result.ended == "enough to detect 1.2×"
    assert messages[0] == "measuring the machine" and messages[-1] == "metering"
    assert any(message.startswith("round 6: noise ") for message in messages)


def test_the_budget_ends_the_run_after_at_least_six_rounds(bench: Bench, messages: list[str]) -> None:
    result = bench(budget_s=0)
    assert (result.rounds, result.ended) == (6, "the budget of 0 s was used up")
    assert "the 6 rounds needed will take about" in messages[1]


def test_a_round_that_ended_differently_is_skipped_on_both_sides(bench: Bench, executed: list[str]) -> None:
    result = bench(failing=["B pass 3"], budget_s=0)
    assert result.dropped == ("round 3 is skipped: B ended differently than in earlier rounds",)
    assert executed.count("A pass 3") == executed.count("B pass 3") == 2


def test_a_side_that_fails_from_the_first_round_is_compared(bench: Bench) -> None:
    assert bench(failing=[f"B pass {n}" for n in range(1, 7)], budget_s=0).dropped == ()


def test_too_many_lost_rounds_end_the_run(bench: Bench) -> None:
    failing = [f"A pass {n}" for n in range(2, 7)]
    with pytest.raises(TooFewRoundsError, match=r"too many rounds were lost after 4 rounds; at least 6 are") as error:
        bench(failing=failing, budget_s=0)
    assert error.value.exit_code == 3


@pytest.mark.parametrize(
    ("statuses", "message", "process_count"),
    [
        ({"B pass 1": -9}, "B killed by SIGKILL after 0 rounds", 8),
        ({"B pass 1": 0, "A pass 1": 3}, "A exited with status 3 and B exited with status 0 after 0 rounds", 8),
        ({"A pass 3": -11}, "A killed by SIGSEGV after 2 rounds", 12),
    ],
)
def test_four_lost_rounds_in_a_row_end_the_run(
    statuses: dict[str, int], message: str, process_count: int, bench: Bench, executed: list[str]
) -> None:
    """The run ends before its budget is used up, because further rounds would be lost as well."""
    with pytest.raises(
        TooFewRoundsError, match=rf"^the last 4 rounds were lost: {message}; at least 6 are needed"
    ) as error:
        bench(statuses=statuses)
    assert error.value.exit_code == 3 and len(executed) == process_count


def test_complete_rounds_are_judged_after_ctrl_c_if_enough(bench: Bench, executed: list[str]) -> None:
    result = bench(interrupted_at="A metering", budget_s=0)
    assert result.ended == "Ctrl-C" and executed[-1] == "A metering"
    with pytest.raises(TooFewRoundsError, match="Ctrl-C after 2 rounds; at least 6 are needed to judge") as error:
        bench(interrupted_at="A pass 3")
    assert error.value.exit_code == 130


def test_short_steps_end_the_run(bench: Bench) -> None:
    def short(step: Step) -> Step:
        return replace(step, host_ns=[300] * len(step.host_ns or []))

    result = bench(a=short, b=short)
    assert result.ended == "all steps are too short to time"


# --- reports --------------------------------------------------------------------------------------


ROUNDS = 8
DROPPED = "round 3 is skipped: B ended differently than in earlier rounds"


def bench_result(
    a: Callable[[Step], Step] = lambda step: step, b: Callable[[Step], Step] = lambda step: step
) -> BenchResult:
    """Return the result of eight rounds of two lectures, after changes of their steps."""
    sides = (
        Side(f"{name}.py", with_steps(made(seed, passes=ROUNDS), b if seed else a)) for seed, name in enumerate("ab")
    )
    return BenchResult(judge_rounds(*sides, ROUNDS), ROUNDS, 12.3456, "enough to detect 1.2×", (DROPPED,))


def test_slower_functions_are_reported_with_their_ratio() -> None:
    result = bench_result(b=slower(2))
    first, *others, last = summary(result)
    assert first.startswith("8 rounds of A and B in turn, 12 s: enough to detect 1.2×; noise ") and last == DROPPED
    assert "; can detect 1." in first and first.endswith("× in half of the functions that take 5% of the run or more")
    [line] = [line for line in others if line.startswith("work: ")]
    assert ", × 1.3" in line and line.endswith(", slower")
    plain = plain_rounds(result)
    assert (plain["rounds"], plain["seconds"], plain["dropped"]) == (ROUNDS, 12.346, [DROPPED])
    [work] = [entry for entry in plain["functions"] if entry["function"] == "work"]
    assert work["verdict"] == "slower" and abs(work["ratio"] - 4 / 3) < 0.05
    assert work["interval"][0] < work["ratio"] < work["interval"][1]


def test_short_steps_are_reported_as_not_judged() -> None:
    def short(step: Step) -> Step:
        return replace(step, host_ns=[300] * ROUNDS)

    result = bench_result(a=short, b=short)
    assert summary(result) == [
        "8 rounds of A and B in turn, 12 s: enough to detect 1.2×; TIME NOT JUDGED: all steps are too short to time",
        DROPPED,
    ]
    assert plain_rounds(result)["would_find"] is None

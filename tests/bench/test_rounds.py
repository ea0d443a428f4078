"""Which processes run, in which order, and when that ends, with pretended processes; and the report of the rounds."""

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
    """A tracer and its runner: notes the processes that it is asked to run; some fail, one may be interrupted."""

    out: Path
    ran: list[str]
    failing: frozenset[str]
    ending: Mapping[str, int]  # by a process's name: its status, each time
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
        this = f"{self.letter} {name}"
        self.interrupts = int(this == self.interrupted_at)
        (folder / f"{name.replace(' ', '-')}.journal").touch()
        self.ran.append(this)
        status = self.ending.get(this, int(this in self.failing and self.ran.count(this) == 1))
        if status == 0 and this in self.ending:  # the lecture itself ended it
            (folder / f"{name.replace(' ', '-')}.tail").touch()
        return status, 0.0


Bench = Callable[..., BenchResult]


@pytest.fixture
def ran() -> list[str]:
    """The processes that ran, in order."""
    return []


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ran: list[str], said: list[str]) -> Bench:
    """Run rounds of two lectures that take no time, with as many passes in their traces as there were rounds."""

    def run(
        failing: Iterable[str] = (),
        ending: Mapping[str, int] = MappingProxyType({}),
        interrupted_at: str | None = None,
        budget_s: float = 300,
        **changes: Callable[[Step], Step],
    ) -> BenchResult:
        def merged(folder: Path, out: Path) -> Traced:
            notes = json.loads((folder / "run.json").read_text(encoding="utf-8"))
            assert len(list(folder.glob("pass-*.journal"))) >= notes["passes"]
            side = out.name.lower()
            trace = with_steps(
                made({"a": 1, "b": 2}[side], passes=notes["passes"]), changes.get(side, lambda step: step)
            )
            return Traced(trace, out / "trace.yaml", out, parse_source(LECTURE, "lecture.py"))

        monkeypatch.setattr(rounds, "merge_folder", merged)
        monkeypatch.setattr(
            rounds,
            "Tracer",
            lambda lecture, out, options: PretendTracer(out, ran, frozenset(failing), ending, interrupted_at),
        )
        return run_rounds(BenchRequest(tmp_path / "a.py", tmp_path / "b.py", budget_s=budget_s), said.append)

    return run


def test_rounds_alternate_and_swap_their_order(bench: Bench, ran: list[str], said: list[str]) -> None:
    benched = bench()
    passes = [name for name in ran if "pass" in name]
    assert passes[:6] == ["A pass 1", "B pass 1", "B pass 2", "A pass 2", "A pass 3", "B pass 3"]
    assert ran[-2:] == ["A metering", "B metering"]  # after the last round
    assert benched.rounds == len(passes) / 2 >= 6 and benched.ended == "enough to detect 1.2×"
    assert said[0] == "measuring the machine" and said[-1] == "metering"
    assert any(line.startswith("round 6: noise ") for line in said)


def test_the_budget_ends_the_run_after_at_least_six_rounds(bench: Bench, said: list[str]) -> None:
    benched = bench(budget_s=0)
    assert (benched.rounds, benched.ended) == (6, "the budget of 0 s was used up")
    assert "the 6 rounds needed will take about" in said[1]


def test_a_round_that_ended_differently_is_skipped_on_both_sides(bench: Bench, ran: list[str]) -> None:
    benched = bench(failing=["B pass 3"], budget_s=0)
    assert benched.dropped == ("round 3 is skipped: B ended differently than in earlier rounds",)
    assert ran.count("A pass 3") == ran.count("B pass 3") == 2


def test_a_side_that_fails_from_the_first_round_is_compared(bench: Bench) -> None:
    assert bench(failing=["B pass 1"], budget_s=0).dropped == ()


def test_too_many_lost_rounds_end_the_run(bench: Bench) -> None:
    losing = [f"A pass {n}" for n in range(2, 7)]
    with pytest.raises(TooFewRoundsError, match=r"too many rounds were lost after 4 rounds; at least 6 are") as error:
        bench(failing=losing, budget_s=0)
    assert error.value.exit_code == 3


@pytest.mark.parametrize(
    ("ending", "message", "processes"),
    [
        ({"B pass 1": -9}, "B killed by SIGKILL after 0 rounds", 8),
        ({"B pass 1": 0, "A pass 1": 3}, "A exited with status 3 and B exited with status 0 after 0 rounds", 8),
        ({"A pass 3": -11}, "A killed by SIGSEGV after 2 rounds", 12),
    ],
)
def test_repeatedly_killed_processes_end_the_run(
    ending: dict[str, int], message: str, processes: int, bench: Bench, ran: list[str]
) -> None:
    """The budget is not used up, because no round would be complete."""
    with pytest.raises(
        TooFewRoundsError, match=rf"^the last 4 rounds were lost: {message}; at least 6 are needed"
    ) as error:
        bench(ending=ending)
    assert error.value.exit_code == 3 and len(ran) == processes


def test_ctrl_c_judges_the_complete_rounds_if_enough(bench: Bench, ran: list[str]) -> None:
    benched = bench(interrupted_at="A metering", budget_s=0)
    assert benched.ended == "Ctrl-C" and ran[-1] == "A metering"
    with pytest.raises(TooFewRoundsError, match="Ctrl-C after 2 rounds; at least 6 are needed to judge") as error:
        bench(interrupted_at="A pass 3")
    assert error.value.exit_code == 130


def test_short_steps_end_the_run(bench: Bench) -> None:
    def short(step: Step) -> Step:
        return replace(step, host_ns=[300] * len(step.host_ns or []))

    benched = bench(a=short, b=short)
    assert benched.ended == "all steps are too short to time"


# --- reports --------------------------------------------------------------------------------------


ROUNDS = 8
DROPPED = "round 3 is left out: B ended differently than in earlier rounds"


def benched(
    a: Callable[[Step], Step] = lambda step: step, b: Callable[[Step], Step] = lambda step: step
) -> BenchResult:
    sides = (
        Side(f"{name}.py", with_steps(made(seed, passes=ROUNDS), b if seed else a)) for seed, name in enumerate("ab")
    )
    return BenchResult(judge_rounds(*sides, ROUNDS), ROUNDS, 12.3456, "enough to detect 1.2×", (DROPPED,))


def test_slower_functions_are_reported_with_their_ratio() -> None:
    made_slower = benched(b=slower(2))
    first, *others, last = summary(made_slower)
    assert first.startswith("8 rounds of A and B in turn, 12 s: enough to detect 1.2×; noise ") and last == DROPPED
    assert "; can detect 1." in first and first.endswith("× in half of the functions that take 5% of the run or more")
    [slow] = [line for line in others if line.startswith("work: ")]
    assert ", × 1.3" in slow and slow.endswith(", slower")
    plain = plain_rounds(made_slower)
    assert (plain["rounds"], plain["seconds"], plain["dropped"]) == (ROUNDS, 12.346, [DROPPED])
    [work] = [entry for entry in plain["functions"] if entry["function"] == "work"]
    assert work["verdict"] == "slower" and abs(work["ratio"] - 4 / 3) < 0.05
    assert work["interval"][0] < work["ratio"] < work["interval"][1]


def test_short_steps_are_reported_as_not_judged() -> None:
    def short(step: Step) -> Step:
        return replace(step, host_ns=[300] * ROUNDS)

    nothing = benched(a=short, b=short)
    assert summary(nothing) == [
        "8 rounds of A and B in turn, 12 s: enough to detect 1.2×; TIME NOT JUDGED: all steps are too short to time",
        DROPPED,
    ]
    assert plain_rounds(nothing)["would_find"] is None

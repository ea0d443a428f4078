from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.comparing.plain_tracing import traced
from tests.comparing.planted import CPU, LECTURE, SLOW_LINE, at, differ, made, slower, tensor, with_steps
from tests.comparing.report_cases import terminal_of
from tests.traces import example_trace
from trace_tools.comparing.difference import Aspect, Difference, Side
from trace_tools.comparing.judging.between import Choices
from trace_tools.comparing.judging.times import LOADED, SMALL
from trace_tools.comparing.judging.tolerance import Tolerances
from trace_tools.comparing.judging.values import CLOCK
from trace_tools.comparing.reports.difference_report import headline
from trace_tools.comparing.reports.entries import ORDER, ReportEntry, entries, times_text
from trace_tools.comparing.reports.listing import listing_of
from trace_tools.errors import UsageError
from trace_tools.schema import Claim, Meters, Process, Raised, Step, Trace, Value


def leading(difference: Difference) -> tuple[Aspect, str, int]:
    """Return the aspect, name and line of what the report leads with."""
    first = next(found[0] for aspect in ORDER if (found := entries(difference, aspect)))
    return first.aspect, first.name, first.line


# --- nothing differs ------------------------------------------------------------------------------


def test_a_trace_against_itself_differs_in_nothing() -> None:
    for trace in (made(0), example_trace()):
        difference = differ(trace, trace)
        assert not difference.matters and headline(difference) == "No differences"


def test_two_runs_with_the_same_noise_do_not_differ() -> None:
    difference = differ(made(0), made(1))
    assert not difference.matters
    assert difference.times.judged > 60 and difference.times.different == 0


# --- one planted change each ----------------------------------------------------------------------

PLANTED: list[tuple[str, Callable[[Step], Step], tuple[Aspect, str, int]]] = [
    ("value", at(6, values=[("y", tensor(elements=[1.0, 2.0, 3.5, 4.0]))]), ("values", "y", 6)),
    ("stride", at(6, values=[("y", tensor(strides=[1, 2], contiguous=False))]), ("values", "y", 6)),
    ("nan", at(6, values=[("y", tensor(elements=[1.0, math.nan, 3.0, 4.0]))]), ("values", "y", 6)),
    ("dtype", at(6, values=[("y", tensor(dtype="bfloat16"))]), ("values", "y", 6)),
    ("memory", at(7, meters=Meters(0, 16, 0, 1_049_600, 1_049_600)), ("memory", "live tensor bytes", 7)),
    ("flops", at(6, meters=Meters(16, 16, 16, 1024, 2048)), ("flops", "FLOPs", 6)),
    ("claim", at(7, claim=Claim("y == 2", False, failed_runs=["pass 1, warm"])), ("claims", "y == 2", 7)),
    ("exception", at(12, raised=Raised("ValueError", "no")), ("steps", "raised", 12)),
    ("slowdown", slower(1.2), ("time", "1.2× slower", SLOW_LINE)),
]


@pytest.mark.parametrize(("name", "change", "expected"), PLANTED, ids=[name for name, _, _ in PLANTED])
def test_a_planted_change_is_found_and_led_with(
    name: str, change: Callable[[Step], Step], expected: tuple[Aspect, str, int]
) -> None:
    a = made(0)
    difference = differ(a, with_steps(made(0) if name != "slowdown" else made(1), change))
    assert difference.matters
    aspect, what, line = leading(difference)
    assert (aspect, line) == (expected[0], expected[2])
    if aspect != "time":
        assert what == expected[1]
    assert all(not entries(difference, other) for other in ORDER if other != aspect)


def test_a_slowdown_in_a_loop_is_one_entry_with_its_factor() -> None:
    difference = differ(made(0), with_steps(made(1), slower(1.5)))
    (entry,) = entries(difference, "time")
    assert (
        entry.executions == 20
        and difference.function_of(entry.row) == "work"
        and 1.45 < float(entry.name.split("×")[0]) < 1.55
    )
    assert {row.step.line for row in difference.rows if row.time and row.time.matters} == {SLOW_LINE}


def test_the_call_around_a_slow_statement_names_it_as_its_cause() -> None:
    def outer(step: Step) -> Step:
        return replace(step, host_ns=[ns + 400_000 for ns in step.host_ns or []]) if step.line == 3 else step

    slow = with_steps(with_steps(made(1), slower(20, line=12)), outer)
    base = with_steps(made(0), outer)
    difference = differ(base, with_steps(slow, slower(1.5, line=3)))
    rows = {row.step.line: row for row in difference.rows if row.time and row.time.matters}
    assert rows[3].time and rows[12].time
    assert rows[3].time.cause == rows[12].number and [e.line for e in entries(difference, "time")] == [12]


def test_a_leak_is_told_once() -> None:
    def leaking(step: Step) -> Step:
        ends_before = step.line in (1, 4, 5, 8, 13)  # definitions, and what runs before y is made
        held = 0 if ends_before else 4096
        return replace(step, meters=Meters(0, 0, 0, 1024 + held, 2048 + held))

    difference = differ(
        with_steps(made(0), lambda s: replace(s, meters=Meters(0, 0, 0, 1024, 2048))), with_steps(made(0), leaking)
    )
    assert {(e.name, e.line) for e in entries(difference, "memory")} == {
        ("live tensor bytes", 6),
        ("peak tensor bytes", 6),
    }


def test_a_longer_loop_is_told_once() -> None:
    a, b = traced(LECTURE), traced(LECTURE.replace("range(20)", "range(25)"))
    found = entries(differ(a, b), "steps")
    assert [(e.name, e.a, e.b, e.line) for e in found] == [("executions", "21", "26", 10)]
    assert found[0].follows >= 5


def test_renamed_variables_keep_their_values() -> None:
    a = with_steps(traced("x = [1]\ny = len(x)\n"), at(1, values=[("x", Value("int", 1)), ("x.y", Value("int", 2))]))
    b = with_steps(traced("h = [1]\ny = len(h)\n"), at(1, values=[("h", Value("int", 1)), ("h.y", Value("int", 2))]))
    counts = {(aspect, verdict): n for aspect, verdict, n in differ(a, b).counts}
    assert counts["values", "same"] == 2 and ("values", "only in A") not in counts


def test_all_executions_of_a_statement_are_one_question() -> None:
    difference = differ(made(0), with_steps(made(1), slower(1.5)))
    slow = [row.time for row in difference.rows if row.time and row.time.matters]
    assert len(slow) == 20 and {time.executions for time in slow} == {20} and len({time.p for time in slow}) == 1
    assert len({time.ratio for time in slow}) == 20  # each has its own, and together they have one
    assert difference.times.different == 20 and difference.times.statements < 20 < difference.times.judged
    assert sum(o.level == 2 for row in difference.rows for o in observations_of(difference, row.number)) == 1


def observations_of(difference: Difference, number: int) -> Sequence[ReportEntry]:
    """Return what the page shows of a row."""
    return listing_of(difference).said.get(number, ())


def test_a_call_follows_from_the_statements_in_it_together() -> None:
    def outer(step: Step) -> Step:
        return replace(step, host_ns=[ns + 200_000 for ns in step.host_ns or []]) if step.line == 2 else step

    def both(trace: Trace, factor: float) -> Trace:
        long = with_steps(trace, lambda s: slower(10 * factor, s.line)(s) if s.line in (5, 6) else s)
        return with_steps(long, lambda s: slower(factor, 2)(outer(s)))

    found = entries(differ(both(made(0), 1.0), both(made(1), 1.5)), "time")
    assert [e.line for e in found] == [5, 6] or [e.line for e in found] == [6, 5]
    assert sum(e.follows for e in found) == 1


def test_a_statement_that_nobody_would_notice_is_not_judged() -> None:
    def unlike(step: Step) -> Step:
        factor = {3: 2000, 14: 0.2, 15: 0.2, 16: 0.2}.get(step.line, 1.0)
        return slower(factor, step.line)(step)

    a, b = with_steps(made(0), unlike), with_steps(with_steps(made(1), unlike), slower(3.0, 16))
    base = differ(a, b)
    assert [row.time.verdict for row in base.rows if row.step.line == 16 and row.time] == ["slower"] * 20
    long = with_steps(a, slower(100.0, 3)), with_steps(b, slower(100.0, 3))
    assert {row.time.why for row in differ(*long).rows if row.step.line == 16 and row.time} == {SMALL}
    assert differ(*long).times.not_judged[0][0] == SMALL


@pytest.mark.parametrize(
    ("notes", "threads", "called"),
    [(None, 2, False), (None, 1, True), (["load average 2.4 on 2 cores: much"], 2, False)],
)
def test_what_all_have_in_common_is_put_down_to_the_machine(
    notes: list[str] | None, threads: int, called: bool
) -> None:
    factor = 1.6 if notes else 1.09
    a, b = traced(MANY, machine=CPU), traced(MANY, machine=replace(CPU, threads=threads))
    a, b = noisy(a, 0), with_steps(noisy(b, 1), lambda s: slower(factor if s.line != 9 else 1.3 * factor, s.line)(s))
    b = replace(b, run=replace(b.run, processes=[Process("pass 1", "complete", notes=notes)]))
    difference = differ(a, b)
    found = {e.line for e in entries(difference, "time")}
    assert (9 in found) and (difference.times.drift == 1 if called else found == {9})
    if not called:
        assert difference.times.drift == pytest.approx(factor, rel=0.01)
        assert "taken for the machine's" in terminal_of(difference).replace("\n", " ")


def test_times_of_a_machine_that_others_were_using_are_not_judged() -> None:
    busy = [Process("pass 2", "complete", notes=["load average 3.9 on 2 cores: more was running than they hold"])]
    b = with_steps(made(1), slower(1.5))
    difference = differ(made(0), replace(b, run=replace(b.run, processes=busy)))
    assert not difference.matters and difference.times.judged == 0
    assert {why for why, _ in difference.times.not_judged} == {LOADED}
    quiet = [Process(f"pass {n}", "complete") for n in (1, 3)]
    for others in ([replace(busy[0], name="metering")], [*busy, *quiet]):  # what ran before, say
        assert differ(made(0), replace(b, run=replace(b.run, processes=others))).matters


INSERTED = LECTURE.replace("    a = i + 1\n", "    a = i + 1\n    sum(range(9))\n")


def test_a_call_that_got_slower_names_the_statement_that_is_new_in_it() -> None:
    def timed(step: Step) -> Step:
        text = INSERTED.splitlines()[step.line - 1].strip()
        return slower({"sum(range(9))": 6.0, "total += work(i)": 7.0}.get(text, 1.0), step.line)(step)

    a = noisy(traced(LECTURE, machine=CPU), 0)
    a = with_steps(a, lambda s: slower(1.01 if s.line == 11 else 1.0, s.line)(s))
    difference = differ(a, with_steps(noisy(traced(INSERTED, machine=CPU), 1), timed))
    (entry,) = entries(difference, "time")
    assert (INSERTED.splitlines()[entry.line - 1], entry.verdict, entry.a) == ("    sum(range(9))", "only in B", None)
    assert entry.executions == 20 and entry.follows >= 20 and entry.level == 2
    (step,) = entries(difference, "steps")
    assert step.line == entry.line and step.b and step.b.endswith("µs")


def test_bytes_begin_at_the_statement_that_is_new() -> None:
    def holding(step: Step) -> Step:
        held = 4096 * (step.line == 14 or step.line > 14)
        return replace(step, meters=Meters(0, 0, 0, 1024 + held, 1024 + held))

    a = with_steps(traced("x = 1\n" * 12 + "y = 2\nz = 3\n"), lambda s: replace(s, meters=Meters(0, 0, 0, 1024, 1024)))
    b = with_steps(traced("x = 1\n" * 12 + "y = 2\nnew = 5\nz = 3\n"), holding)
    found = entries(differ(a, b), "memory")
    assert [(e.name, e.line) for e in found] == [("live tensor bytes", 14)] and found[0].follows == 2


def test_a_calls_peak_is_that_of_the_statement_that_is_new_in_it() -> None:
    def peaking(step: Step) -> Step:
        line = INSERTED.splitlines()[step.line - 1].strip()
        peak = 9_000 if line in ("sum(range(9))", "second()", "total += work(i)") else 2_000
        return replace(step, meters=Meters(0, 0, 0, 1_000, peak))

    a = with_steps(traced(LECTURE), lambda s: replace(s, meters=Meters(0, 0, 0, 1_000, 2_000)))
    found = entries(differ(a, with_steps(traced(INSERTED), peaking)), "memory")
    assert {(e.name, INSERTED.splitlines()[e.line - 1].strip()) for e in found} == {
        ("peak tensor bytes", "sum(range(9))")
    }


MANY = "".join(f"x{n} = {n}\n" for n in range(60))


def noisy(trace: Trace, seed: int) -> Trace:
    """Return the trace with durations of about 10 µs that scatter by 0.2%."""
    random_ns = random.Random(seed)
    return with_steps(
        trace, lambda s: replace(s, host_ns=[round(10_000 * random_ns.lognormvariate(0, 0.002)) for _ in range(5)])
    )


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.214, "1.21× slower"), (0.5, "2× faster"), (1 / 3154, "3,150× faster"), (1.004, "as long")]
)
def test_ratios_of_times_in_words(ratio: float, text: str) -> None:
    assert times_text(ratio) == text


# --- what is never called changed -----------------------------------------------------------------


@pytest.mark.parametrize("mark", ["varies", "device_random"])
def test_varying_and_random_values_are_never_called_changed(mark: str) -> None:
    marked = replace(tensor(elements=[9.0, 8.0, 7.0, 6.0]), **{mark: True})
    difference = differ(made(0), with_steps(made(0), at(6, values=[("y", marked)])))
    assert not difference.matters
    assert [f.verdict for _, f in difference.findings("values")] == ["varies" if mark == "varies" else "random"]


def test_the_layout_of_a_random_tensor_is_not_random() -> None:
    a = with_steps(made(0), at(6, values=[("y", replace(tensor(), device_random=True))]))
    b = with_steps(a, at(6, values=[("y", replace(tensor(strides=[1, 2], elements=[5.0] * 4), device_random=True))]))
    assert [f.verdict for _, f in differ(a, b).findings("values")] == ["changed"]


def test_launch_times_and_compilation_are_never_judged() -> None:
    gpu = replace(CPU, device="cuda")
    a, b = made(0, passes=3), with_steps(made(1), slower(9.0))
    difference = differ(replace(a, machine=gpu), replace(b, machine=gpu))
    assert difference.times.judged == 1 and difference.times.different == 0  # the one annotated step
    compiled = with_steps(b, lambda s: replace(s, compiled=True))
    assert differ(a, compiled).times.judged == 0


def test_fewer_than_three_processes_give_no_verdict() -> None:
    difference = differ(made(0, passes=2), with_steps(made(1, passes=3), slower(5.0)))
    assert difference.times.judged == 0 and not difference.matters
    assert "fewer than 3 processes" in terminal_of(difference)


def test_across_machines_times_are_ratios_with_an_interval() -> None:
    other = replace(with_steps(made(1), slower(3.0)), machine=replace(CPU, name="Another processor"))
    difference = differ(made(0), other)
    rows = [row.time for row in difference.rows if row.step.line == SLOW_LINE and row.time]
    assert not difference.matters and rows
    for time in rows:
        assert time.verdict == "ratio" and time.ratio and time.interval
        assert time.interval[0] < time.ratio < time.interval[1] and 2.7 < time.ratio < 3.3
    assert "Another processor" in terminal_of(difference)


def test_aliasing_is_compared_without_the_labels() -> None:
    def lying(first: str, second: str) -> Callable[[Step], Step]:
        return at(6, values=[("y", tensor(storage=first)), ("z", tensor(storage=second))])

    a = with_steps(made(0), lying("s1", "s1"))
    assert not differ(a, with_steps(made(0), lying("s7", "s7"))).matters
    found = [f for _, f in differ(a, with_steps(made(0), lying("s1", "s2"))).findings("values")]
    assert [(f.subject.expression, f.detail) for f in found] == [
        ("z", "it shares memory in A that it does not share in B")
    ]


def test_a_copy_in_place_of_a_view_is_told_once() -> None:
    def shared(*labels: str) -> Callable[[Step], Step]:
        return at(6, values=[(f"v{n}", tensor(storage=label)) for n, label in enumerate(labels)])

    a, b = with_steps(made(0), shared("s1", "s1", "s1", "s1")), with_steps(made(0), shared("t1", "t2", "t2", "t1"))
    assert [f.subject.expression for _, f in differ(a, b).findings("values")] == ["v1"]
    assert [f.subject.expression for _, f in differ(b, a).findings("values")] == ["v1"]


def test_an_edited_claim_is_compared_with_what_it_was() -> None:
    a, b = traced("y = 2\nassert y == 2\nz = 1\n"), traced("y = 2\nassert y != 3\nz = 1\n")
    a = with_steps(a, at(2, claim=Claim("y == 2", True)))
    found = [f for _, f in differ(a, with_steps(b, at(2, claim=Claim("y != 3", False)))).findings("claims")]
    assert [(f.verdict, f.subject.expression) for f in found] == [("claim flipped", "y != 3")]


def test_two_traces_of_one_section_are_compared_like_any_others() -> None:
    a, b = traced("x = 1\ny = 2\nz = 3\n"), traced("x = 1\nz = 3\n")
    only = [replace(t, run=replace(t.run, only="first", complete=False)) for t in (a, b)]
    assert differ(*only).matters
    assert not differ(a, only[1]).matters


def test_the_allocators_rounding_is_not_a_change() -> None:
    meters = Meters(0, 0, 0, 1000, 1000)
    a = with_steps(made(0), at(6, allocated_bytes=1024, meters=meters))
    rounded = differ(a, with_steps(a, at(6, allocated_bytes=1536, meters=meters)))
    assert not rounded.matters and [f.verdict for _, f in rounded.findings("memory")] == ["rounding"]
    assert differ(a, with_steps(a, at(6, allocated_bytes=1024 + 2**24, meters=meters))).matters


def test_what_follows_from_a_clock_is_never_called_changed_and_a_stable_number_beside_it_is() -> None:
    def valued(side: int, share: float, **marks: bool) -> Trace:
        values = [("side", Value("int", side, **marks)), ("share", Value("float", share))]
        return with_steps(made(0), at(6, values=values))

    quiet = differ(valued(209, 0.99, clock=True), valued(199, 0.99))
    assert not quiet.matters
    assert [(f.verdict, f.detail) for _, f in quiet.findings("values")] == [("varies", CLOCK)]
    changed = differ(valued(209, 0.99, clock=True), valued(199, 0.25, clock=True))
    assert [(e.name, e.a, e.b) for e in entries(changed, "values")] == [("share", "0.99", "0.25")]
    assert changed.matters


# --- choices --------------------------------------------------------------------------------------


def test_only_and_ignore_leave_things_out() -> None:
    b = with_steps(made(0), at(6, values=[("y", tensor(elements=[0.0] * 4))]))
    assert differ(made(0), b).matters
    assert not differ(made(0), b, Choices(aspects=frozenset({"time"}))).matters
    for pattern in ("y", "fir*"):
        difference = differ(made(0), b, Choices(ignored=(pattern,)))
        assert not difference.matters and pattern in difference.ignored


def test_a_wider_tolerance_makes_a_change_rounding() -> None:
    b = with_steps(made(0), at(6, values=[("y", tensor(elements=[1.0, 2.0, 3.0, 4.01]))]))
    assert differ(made(0), b).matters
    wide = differ(made(0), b, Choices(tolerances=Tolerances.parse(["float32=0.01"])))
    assert [f.verdict for _, f in wide.findings("values")] == ["rounding"]
    assert ("float32", 0.01) in [(t.dtype, t.relative) for t in wide.tolerances]


# --- bad input ------------------------------------------------------------------------------------


def test_unrelated_lectures_are_refused() -> None:
    a, b = made(0), traced("import math\nfor k in range(99):\n    q = math.sin(k)\n")
    with pytest.raises(UsageError, match=r"different lectures.*--force"):
        differ(a, b)
    assert differ(a, b, Choices(force=True)).matters


def test_a_trace_without_steps_is_refused() -> None:
    with pytest.raises(UsageError, match=r"b\.yaml: has no steps"):
        differ(made(0), replace(made(0), steps=[]))


def test_a_partial_trace_is_compared_as_far_as_it_goes() -> None:
    a = made(0)
    cut = replace(a, steps=a.steps[:12], run=replace(a.run, complete=False, ended="killed by SIGKILL"))
    difference = differ(a, cut)
    assert not difference.matters
    assert "B is partial: killed by SIGKILL" in terminal_of(difference)
    assert any(f.detail == "B is partial: it ended before" for _, f in difference.findings("steps"))


# --- the report -----------------------------------------------------------------------------------


def test_the_report_fits_a_screen_and_leads_with_claims() -> None:
    def wrecked(step: Step) -> Step:
        worse = slower(3.0, step.line)(step)
        values = [(f"v{n}", Value("int", n)) for n in range(9)]
        claim = Claim("y == 2", False, message="no") if step.line == 7 else step.claim
        return replace(worse, claim=claim, values=values, meters=Meters(5, 5, 5, 5, 5))

    base = with_steps(made(0), lambda s: replace(s, values=[(f"v{n}", Value("int", -1)) for n in range(9)]))
    text = terminal_of(differ(base, with_steps(made(1), wrecked)))
    assert len(text.splitlines()) <= 60
    assert text.index("Claims") < text.index("Values") < text.index("Memory") < text.index("Time, ")
    assert "more (--all)" in text
    assert len(terminal_of(differ(base, with_steps(made(1), wrecked)), everything=True)) > 3 * len(text)


def test_settings_and_versions_come_first() -> None:
    b = replace(made(0), versions=[("torch", "9.9")], run=replace(made(0).run, seed=7))
    text = terminal_of(differ(made(0), b))
    assert "setting: seed 0 → 7; version: python 3.11.7 → –; version: torch 2.13.0 → 9.9" in text.replace("\n", " ")


def test_load_during_a_run_is_told_once() -> None:
    notes = [Process(f"pass {n}", "complete", notes=[f"load average {n}.5 on 2 cores"]) for n in range(1, 4)]
    b = replace(made(0), run=replace(made(0).run, processes=notes))
    assert "B, pass 1: load average 1.5 on 2 cores (and 2 more like it)" in differ(made(0), b).notes


def test_hostile_text_is_shown_as_what_it_is() -> None:
    nasty = "[bold red]x[/]\x1b[2J\u202e"
    b = with_steps(made(0), at(6, values=[(nasty, Value("str", nasty))]))
    text = terminal_of(differ(made(0), replace(b, versions=[(nasty, nasty)])), everything=True)
    assert "[bold red]x[/]" in text and "\x1b" not in text and "\u202e" not in text


def test_a_difference_without_counterparts_for_its_sides() -> None:
    side = Side("a.yaml", made(0))
    assert side.label == "cpu"

"""How much else was running beside a process: by the CPU time of others, else by the load average."""

from __future__ import annotations

from dataclasses import replace

from tests.messages import says
from tests.traces import example_trace
from trace_tools.machines.loads import is_loaded, is_run_loaded, load_average_of, load_text, loaded_passes, loads_text
from trace_tools.trace.model import Process, Run

NOTE = "load average 2.2 on 2 cores: more was running than they hold"


def run(*processes: Process) -> Run:
    return replace(example_trace().run, processes=[*processes], passes=len(processes))


def test_cpu_time_of_others_counts_before_a_load_average() -> None:
    own_threads = Process("pass 1", "complete", notes=[NOTE], other_cores=0.02)
    assert not is_loaded(own_threads) and load_text(own_threads) is None
    assert is_loaded(Process("pass 1", "complete", other_cores=0.97))  # a load average lags by a minute
    older = Process("pass 1", "complete", notes=["a governor", NOTE, NOTE.replace("2.2", "2.4")])
    assert is_loaded(older) and load_text(older) == "load average 2.4 on 2 cores"
    assert not is_loaded(Process("pass 1", "complete"))


def test_of_a_run_half_of_the_timed_processes_count() -> None:
    busy, calm = Process("pass 1", "complete", notes=[NOTE]), Process("pass 2", "complete")
    assert is_run_loaded(run(busy, calm)) and not is_run_loaded(run(busy, calm, replace(calm, name="pass 3")))
    assert not is_run_loaded(run(replace(busy, name="metering"))) and not is_run_loaded(run())
    assert load_average_of(run(busy, replace(busy, name="pass 2"))) == 1.1
    assert load_average_of(run(replace(busy, other_cores=0.0))) == load_average_of(run()) == 0
    assert loads_text(run(calm)) is None
    heavier = replace(busy, name="pass 3", notes=[NOTE.replace("2.2", "3.1")])
    assert says(loads_text(run(busy, calm, heavier)), "load average 3.1", "2 cores", "pass 3")


def test_durations_know_their_pass_where_each_pass_has_one() -> None:
    three = run(
        Process("pass 1", "complete"), Process("pass 2", "complete", notes=[NOTE]), Process("pass 3", "complete")
    )
    assert loaded_passes(three, 3) == [False, True, False]
    assert loaded_passes(three, 2) == [True, True]  # which one is missing is not known
    assert loaded_passes(run(*[Process("pass 1", "complete")] * 3), 2) == [False, False]

"""All users of the table of options agree."""

from __future__ import annotations

from pathlib import Path

from trace_tools.commands.trace import trace
from trace_tools.tracing.job import Job
from trace_tools.tracing.options import DEFAULTS, OPTIONS, TraceOptions, flag_of


def test_trace_has_the_options_of_the_table() -> None:
    by_name = {option.name: option for option in trace.params}
    assert by_name.keys() - OPTIONS.keys() == {"lecture", "out"}
    for name in OPTIONS:
        assert flag_of(name) in by_name[name].opts
        assert by_name[name].default in (getattr(DEFAULTS, name), None)


def test_a_job_is_read_as_it_was_written(tmp_path: Path) -> None:
    options = TraceOptions(only="part", draft=True)
    job = Job("/course/l\udc80cture.py", "x = 1\n", options, skipped=("one",))
    job.write(tmp_path)
    assert Job.read(tmp_path) == job


def test_recorded_options_are_fields_of_a_run() -> None:
    assert TraceOptions(passes=5).recorded().keys() == {"passes", "seed", "limit", "only", "keep_going", "inspect_all"}

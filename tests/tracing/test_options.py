"""All users of the table of options agree."""

from __future__ import annotations

import json
from dataclasses import asdict, fields

from trace_tools.commands.trace import trace
from trace_tools.trace.model import Run
from trace_tools.tracing.options import DEFAULTS, OPTIONS, RECORDED, TraceOptions, flag_of


def test_trace_has_the_options_of_the_table() -> None:
    by_name = {option.name: option for option in trace.params}
    assert by_name.keys() - OPTIONS.keys() == {"lecture", "out"}
    for name in OPTIONS:
        assert flag_of(name) in by_name[name].opts
        assert by_name[name].default in (getattr(DEFAULTS, name), None)


def test_options_survive_json() -> None:
    options = TraceOptions(only="part", include=("a.py", "b"), draft=True)
    assert TraceOptions.from_plain(json.loads(json.dumps(asdict(options)))) == options != DEFAULTS


def test_recorded_options_are_fields_of_a_run() -> None:
    recorded = {name for name, option in OPTIONS.items() if RECORDED in option.scope}
    assert TraceOptions(passes=5).recorded().keys() == recorded
    assert recorded == {f.name for f in fields(Run)} & {f.name for f in fields(TraceOptions)}

"""Identities and endings in the form that trace files have."""

from __future__ import annotations

from tests.cases_in_one import each
from trace_tools.trace.records import Ending, ProcessId, RunId


@each(
    ("text", "process"),
    [
        ("pass 12", ProcessId("pass", 12)),
        *(
            (text, ProcessId(text))
            for text in ("pass", "pass 0", "pass 01", "pass ²", "passes 1", "another tool's", "")
        ),
    ],
)
def test_process_names_survive_a_round_trip(text: str, process: ProcessId) -> None:
    assert ProcessId.parse(text) == process and str(process) == text
    assert RunId.parse(f"{text}, warm") == RunId(process, "warm") and str(RunId(process, "warm")) == f"{text}, warm"
    if process.pass_ is not None:
        assert ProcessId.parse(process.file_stem) == process


@each(
    ("text", "ending"),
    [
        ("complete", Ending("complete")),
        ("ValueError at line 12", Ending("raised", "ValueError", 12)),
        ("re.error at line 1", Ending("raised", "re.error", 1)),
        ("KeyboardInterrupt", Ending("raised", "KeyboardInterrupt")),
        ("killed by SIGKILL", Ending("killed", "SIGKILL")),
        ("killed by SIGSEGV at line 3", Ending("killed", "SIGSEGV", 3)),
        ("exited with status 3 at line 4", Ending("exited", "3", 4)),
        ("stopped when the tracer was killed", Ending("stopped", "when the tracer was killed")),
        ("the device failed at line 9", Ending("failed", "the device failed", 9)),
        ("trace-tools failed: KeyError: 1 (a.py:3)", Ending("failed", "trace-tools failed: KeyError: 1 (a.py:3)")),
        ("", Ending("failed")),
    ],
)
def test_endings_survive_a_round_trip(text: str, ending: Ending) -> None:
    assert Ending.parse(text) == ending and str(ending) == text
    assert ending.is_complete == (text == "complete")
    for tail in ("", " (pass 2)", "; cut"):
        assert Ending.of_trace(text + tail) == ending


def test_old_endings_at_line_none_are_read() -> None:
    assert Ending.parse("ImportError at line None") == Ending("raised", "ImportError")

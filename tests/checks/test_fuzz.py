"""A short run of the fuzz tests; `make fuzz` runs them for longer."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.checks import fuzz, fuzz_arguments
from tests.checks.fuzz_programs import Program, compiles, lecture
from tests.checks.fuzz_runs import VARIANTS, compared, counted, differences, plainly
from trace_tools.machines.machine import STORED

SHORT = range(1, 121, 20)  # seeds; every fourth would need torch


@pytest.mark.slow
def test_probed_programs_run_as_plain_python() -> None:
    ends = time.monotonic() + 60
    texts = [lecture([Program.drawn(seed)]) for seed in SHORT]
    results = list(fuzz.in_a_process(lambda n: fuzz.attempted(texts[n], VARIANTS[:2]), range(len(texts)), ends))
    assert [difference for _, difference in results] == [""] * len(texts)


def test_same_seed_draws_the_same_program() -> None:
    for seed in SHORT[:3]:
        assert Program.drawn(seed).text == Program.drawn(seed).text
        assert compiles(lecture([Program.drawn(seed)]))


def test_programs_cover_the_grammar() -> None:
    """The fuzz cannot test a construct that no program contains."""
    text = "".join(Program.drawn(seed, torch=seed % 4 == 0).text for seed in range(40))
    words = (
        "async for", "async with", "await", "yield from", "except*", "finally:", "match", "case", "global",
        "lambda", "class", "@noted", "del ", ":=", "nonlocal", "contextmanager", "cancelled(", "while", "else:",
        "assert", "raise", "return", "with (", "torch.",
        "# @inspect", "# @stepover", "# @hide", "drive(", "in_thread(", "asyncio.run(", "metaclass=Meta", "__slots__",
    )  # fmt: skip
    assert [word for word in words if word not in text] == []


def test_statements_are_counted() -> None:
    text = lecture([Program(1, ["def program_1():", "    for i in range(3):", "        x = i"])])
    line = text.splitlines().index("        x = i") + 1
    assert 3 in counted(text).values()
    assert plainly(text).error is None, line


@pytest.mark.slow
def test_differences_are_found_and_reduced() -> None:
    """Probes change the length of a function's code, and the reduced program still shows this difference."""
    text = lecture([Program.drawn(1)]).replace("    start(", "    say(len(main.__code__.co_code))\n    start(", 1)
    assert "said: " in fuzz.attempted(text)

    def still_differs(text: str) -> bool:
        return compiles(text) and "said: " in differences(text, VARIANTS[:1])

    assert len(fuzz.cut_down(text, still_differs, time.monotonic() + 5).splitlines()) < len(text.splitlines())


def test_first_difference_is_reported() -> None:
    assert compared("said", ["a", "b"], ["a", "c"]).startswith("said: line 1\n")
    assert compared("said", ["a"], ["a", "b"]).endswith("plain   None\n    probed  b")


def test_died_process_is_reported_with_its_item() -> None:
    def work(item: int) -> str:
        if item == 2:
            os._exit(9)
        return "fine"

    results = list(fuzz.in_a_process(work, [1, 2, 3], time.monotonic() + 60))
    assert results[0] == (1, "fine")
    assert results[1][0] == 2
    assert "ended with 9" in results[1][1]


def test_lines_and_blocks_are_reduced() -> None:
    text = "a = 1\nif a:\n    b = 2  # @inspect b\n    c = 3\nd = 4\n"
    assert fuzz.cut_down(text, lambda t: compiles(t) and "b = 2" in t, time.monotonic() + 10) == "b = 2\n"


@pytest.mark.slow
def test_programs_run_through_the_command_line(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One trace of random programs has cold, warm, metered and shaken runs; all behave as plain Python."""
    monkeypatch.setenv(STORED, environment[STORED])
    programs = [Program.drawn(seed, torch=seed % 4 == 0) for seed in range(1, 5)]  # the first loads torch's compiler
    assert fuzz.through_the_command_line(lecture(programs, last=fuzz.ENDINGS[0]), readers=False) == ""


def test_same_seed_draws_the_same_arguments() -> None:
    calls = [fuzz_arguments.drawn(seed) for seed in range(300)]
    assert calls == [fuzz_arguments.drawn(seed) for seed in range(300)]
    assert compiles(fuzz_arguments.lecture(calls))
    assert {call.partition("(")[0] for call in calls} == fuzz_arguments.VOCABULARY


def test_findings_are_added_to_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tmp_path / "fuzz.md"
    report.write_text("# Title\n\n| a |\n|---|\n\n## Found\n", encoding="utf-8")
    monkeypatch.setattr(fuzz, "REPORT", report)
    fuzz.append("| run |", [fuzz.Finding("programs", 7, "said: line 1", "x = 1\n")])
    text = report.read_text(encoding="utf-8")
    assert text.index("| run |") < text.index("## Found") < text.index("### programs, seed 7") < text.index("x = 1")
    assert sys.modules["tests.checks.fuzz"] is fuzz

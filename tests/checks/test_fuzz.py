"""A short run of the fuzz; `make fuzz` runs it for longer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.checks import fuzz
from tests.checks.fuzz_programs import drawn


@pytest.mark.slow
def test_programs_run_as_plain_python() -> None:
    assert {seed: found for seed in range(8) if (found := fuzz.forked(drawn(seed)))} == {}


def test_programs_cover_the_grammar() -> None:
    """The fuzz cannot test a construct that no program contains. The same seed draws the same program."""
    texts = [drawn(seed) for seed in range(30)]
    assert texts == [drawn(seed) for seed in range(30)]
    words = (
        "async for", "async with", "await", "yield from", "except*", "finally:", "match", "case", "global", "lambda",
        "class", "@noted", "del ", ":=", "contextmanager", "while", "else:", "assert", "raise", "return", "# @inspect",
        "# @stepover", "drive(", "in_thread(", "asyncio.run(", "@staticmethod", "break", "continue", "locals()",
    )  # fmt: skip
    assert [word for word in words if not any(word in text for text in texts)] == []


def test_differences_are_found_and_reduced() -> None:
    """Probes change the length of a function's code, and the reduced program still shows this difference."""
    text = "import sys\nx = 1\ndef main():\n    if x:\n        y = 2\n        print(len(main.__code__.co_code))\n"
    small = fuzz.reduced(text, fuzz.differences)
    assert small == "def main():\n    print(len(main.__code__.co_code))\n"


def test_process_that_dies_is_a_difference() -> None:
    assert fuzz.forked("import os\ndef main():\n    os._exit(9)\n") == "died"


@pytest.mark.slow
def test_program_says_the_same_in_each_run_of_a_trace(tmp_path: Path, environment: dict[str, str]) -> None:
    """The runs of a trace are cold, warm and, with torch, counted."""
    (tmp_path / "lecture.py").write_text(f"import torch\n{drawn(2)}", encoding="utf-8")
    said = {}
    for name, command in (("plain", []), ("traced", ["-m", "trace_tools", "trace", "--passes", "1", "-o", "out"])):
        (folder := tmp_path / name).mkdir()
        variables = {**environment, "FUZZ_OUT": str(folder)}
        subprocess.run([sys.executable, *command, "lecture.py"], cwd=tmp_path, env=variables, check=True)
        said[name] = [path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())]
    assert said["traced"] == said["plain"] * 3 and len(said["plain"][0]) > 100

"""A short run of the fuzz; `make fuzz` runs it for longer."""

from __future__ import annotations

import pytest

from tests.checks import fuzz
from tests.checks.fuzz_programs import drawn


@pytest.mark.slow
def test_programs_run_as_plain_python() -> None:
    assert {seed: found for seed in range(12) if (found := fuzz.forked(drawn(seed)))} == {}


def test_programs_cover_the_grammar() -> None:
    """The fuzz cannot test a construct that no program contains. The same seed draws the same program."""
    texts = [drawn(seed) for seed in range(20)]
    assert texts[:3] == [drawn(seed) for seed in range(3)]
    words = (
        "async for", "async with", "await", "yield from", "except*", "finally:", "match", "case", "global", "lambda",
        "class", "@noted", "del ", ":=", "while", "else:", "assert", "raise", "return", "# @inspect", "# @stepover",
        "drive(", "in_thread(", "asyncio.run(", "break", "continue", "locals()",
    )  # fmt: skip
    assert [word for word in words if not any(word in text for text in texts)] == []


def test_differences_and_deaths_are_found() -> None:
    """Probes change the length of a function's code."""
    assert fuzz.forked("def main():\n    print(len(main.__code__.co_code))\n").startswith("within limits\n")
    assert fuzz.forked("import os\ndef main():\n    os._exit(9)\n") == "died"

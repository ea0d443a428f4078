"""Functions that measure time are found by name, also if they read the clock through another function."""

from __future__ import annotations

from pathlib import Path

from tests.cases_in_one import each
from trace_tools.source.statements import parse_source, qualified_name
from trace_tools.tracing.clock_readers import clock_readers

HELPER = "import time as t\ndef stopwatch():\n    return t.monotonic()\ndef other(): pass\n"

CASES = {
    "two readings": (
        "import time\ndef main(): part()\ndef part(): timed()\n"
        "def timed():\n    start = time.time()\n    return time.time() - start\n",
        ["timed"],
    ),
    "a renamed timer that calls a function": (
        "from timeit import timeit as often\ndef main(): part()\ndef part(): timed()\n"
        "def timed():\n    def run(): pass\n    return often(run)\n",
        ["timed"],
    ),
    "one reading, returned to the caller": (
        "import time\ndef main(): part()\ndef part(): whole()\ndef now(): return time.perf_counter()\n"
        "def whole():\n    start = now()\n    return now() - start\n",
        ["now", "whole"],
    ),
    "a context manager": (
        "import time\ndef main(): part()\ndef part(): whole()\n"
        "def timer():\n    start = time.time()\n    yield\n    print(time.time() - start)\n"
        "def whole():\n    with timer(): pass\n",
        ["timer", "whole"],
    ),
    "a context manager class": (
        "import time\ndef main(): part()\ndef part(): whole()\nclass Deadline:\n"
        "    def __enter__(self): self.start = time.time()\n    def __exit__(self, *_): print(time.time())\n"
        "def whole():\n    with Deadline(): pass\n",
        ["Deadline.__enter__", "Deadline.__exit__", "whole"],
    ),
    "a decorator": (
        "import time\ndef main(): part()\ndef part(): whole()\ndef timed(f):\n    def inner():\n"
        "        start = time.time()\n        f()\n        print(time.time() - start)\n    return inner\n"
        "@timed\ndef whole(): pass\n",
        ["timed", "timed.inner"],
    ),
    "an imported module that is not traced": (
        "from beside import stopwatch, other\ndef main(): part()\ndef part():\n    whole()\n    other()\n"
        "def whole(): print(stopwatch(), stopwatch())\n",
        ["whole"],
    ),
    "no clock": ("import time, re\ndef main():\n    time.sleep(0)\n    re.compile('a')\n", []),
    "main": ("import time\ndef main(): print(time.time())\n", None),
    "main, through another function": ("import time\ndef main(): now()\ndef now(): return time.time()\n", None),
    "the module": ("import time\nSTART = time.time()\ndef main(): pass\n", None),
    "compiled": ("import torch\ndef main(): part()\ndef part(): torch.compile(print)\n", None),
}


@each("case", CASES)
def test_functions_that_measure_time_are_found(case: str, tmp_path: Path) -> None:
    text, expected = CASES[case]
    (tmp_path / "beside.py").write_text(HELPER, encoding="utf-8")
    source = parse_source(text, "lecture.py")
    numbers = clock_readers([source], tmp_path, "main")
    assert (None if numbers is None else [qualified_name(source.statements[n]) for n in sorted(numbers)]) == expected


def test_functions_of_traced_modules_are_found_by_number(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(HELPER, encoding="utf-8")
    lecture = parse_source("from beside import stopwatch\ndef main(): part()\ndef part(): pass\n", "lecture.py")
    numbers = clock_readers([lecture, parse_source(HELPER, "beside.py")], tmp_path, "main")
    assert numbers == {len(lecture.statements) + 1}

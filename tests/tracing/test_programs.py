"""Programs as people write them print and end traced as plain Python does: with `main`, as a module, as a script."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from trace_tools.diff.difference import Side
from trace_tools.diff.judge.between import Choices, difference_between
from trace_tools.pages.content.compose import make_document
from trace_tools.trace.file import load
from trace_tools.trace.model import Omitted, Step, Trace
from trace_tools.trace.tree import Tree

pytestmark = pytest.mark.slow
PROGRAMS = sorted((Path(__file__).parent / "cases/programs").glob("*.py"))
TIMEOUT_S = 170  # less than the idle workers of a pool would wait for work
Done = subprocess.CompletedProcess[str]


def run(folder: Path, *arguments: str) -> Done:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
    )


def traced(folder: Path, *arguments: str) -> tuple[Trace, Done]:
    """Trace a program in one pass; return the trace and the command's end."""
    done = run(
        folder, "-m", "trace_tools", "trace", *arguments, "--passes", "1", "-o", "out", "--name", "cpu", "--force"
    )
    return load(max((folder / "out").glob("**/trace.yaml"), key=os.path.getmtime)), done


def runs_as_plain(folder: Path, *arguments: str, plainly: Any = None) -> tuple[Trace, Done]:
    """Run a program traced and plain, compare what is printed and how it ends; return the trace and the plain end."""
    plain = run(folder, *(plainly or arguments))
    trace, done = traced(folder, *arguments)
    steps = sorted((event for event in trace.steps if isinstance(event, Step)), key=lambda step: step.id)
    assert "".join(step.stdout or "" for step in steps) == plain.stdout, done.stderr
    assert done.returncode == bool(plain.returncode), done.stderr
    for error in ("AssertionError", "IndexError", "ValueError"):
        assert (error in plain.stderr) == (error in done.stderr)
    [process] = trace.run.processes
    assert trace.run.complete == (process.warm_ns is not None) == (plain.returncode == 0), process.why_no_warm
    return trace, plain


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs_as_plain_python(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name in ", ".join(re.findall("^# needs (.*)", text, re.M)).split(", "):
        if name and find_spec(name) is None:
            pytest.skip(f"not installed: {name}")
    (tmp_path / path.name).write_text(text, encoding="utf-8")
    _, plain = runs_as_plain(tmp_path, path.name)
    assert plain.returncode == 0 and plain.stdout, plain.stderr


PACKAGED = """\
import sys
from . import beside

def main():
    section()

def section():
    print(__name__, __package__, __spec__.name, __loader__.name, beside.NAME, "course.talk" in sys.modules)

if __name__ == "__main__":
    main()
"""


def test_a_module_of_a_package_runs_as_by_python_m(tmp_path: Path) -> None:
    (tmp_path / "course").mkdir()
    for name, text in {"__init__": "", "beside": "NAME = __name__\n", "talk": PACKAGED}.items():
        (tmp_path / f"course/{name}.py").write_text(text, encoding="utf-8")
    _, plain = runs_as_plain(tmp_path, "-m", "course.talk")
    assert plain.stdout.startswith("__main__ course course.talk")


# ------------------------------------------------------------------------------ the block that calls main

DEFINED = """\
import argparse, asyncio, functools, multiprocessing, random, sys

SCALE = 1
random.seed(1)

def square(x):
    return x * x

def draw(steps):
    \"\"\"Draw\"\"\"
    print(steps, SCALE, random.randrange(100), [name for name in globals() if name.startswith("_@")])

def leave(status):
    if status == "unlucky":
        raise ValueError(status)
    return status

"""
MAIN = """\
def main(steps=2):
    draw(steps)
    return leave("unlucky" if steps == 13 else 0)

"""
BLOCK = """\
if __name__ == "__main__":
"""
CALLS = {
    "settings and calls": f"{MAIN}{BLOCK}    SCALE = 3\n    random.seed(7)\n    main(1); functools.partial(main, 4)()\n"
    "    try:\n        main(13)\n    except ValueError as error:\n        print('caught', error)\n",
    "arguments": f"{MAIN}{BLOCK}    parser = argparse.ArgumentParser()\n"
    "    parser.add_argument('--steps', type=int, default=5)\n    sys.exit(main(**vars(parser.parse_args())))\n",
    "pool": f"{MAIN}{BLOCK}    multiprocessing.set_start_method('spawn')\n    pool = multiprocessing.Pool(1)\n"
    "    main(pool.map(square, [3]))\n    pool.terminate()\n",
    "error": f"{MAIN}{BLOCK}    sys.excepthook = lambda *error: print('hook', error[1]) or sys.__excepthook__(*error)\n"
    "    main(1)\n    leave('unlucky')\n",
    "status": f"{MAIN}{BLOCK}    main(1)\n    sys.exit(3)\n",
    "no block": f"{MAIN}main(6)\n",
    "no call": MAIN,
    "asynchronous": f"async def main():\n    draw(1)\n\n{BLOCK}    asyncio.run(main())\n",
    "another name": f"def talk():\n    draw(1)\n\n{BLOCK}    random.seed(1)\n    talk()\n",
}


@pytest.mark.parametrize("name", CALLS)
def test_main_is_traced_where_the_file_calls_it(tmp_path: Path, name: str) -> None:
    text = DEFINED + CALLS[name]
    (tmp_path / "talk.py").write_text(text, encoding="utf-8")
    trace, _ = runs_as_plain(tmp_path, "talk.py", plainly=["-c", f"{text}\nmain()"] if name == "no call" else None)
    assert Tree(trace).section_calls()[0][1].function == "draw"


# ------------------------------------------------------------------------------ scripts

CELLS = '''\
"""A script"""
from __future__ import annotations

# %% [markdown]
# ## Data
# A list of *ten* numbers.

# %%
names = [name for name in globals() if name.startswith("_@")]
numbers = list(range(10))  # @inspect numbers

def total(numbers):
    """Total"""
    subtotal = 0
    for number in numbers:
        subtotal += number  # @inspect subtotal
    return subtotal

# %% [markdown]
"""
## Sum
Their sum.
"""

# %%
for _ in range(1500):
    s = total(numbers)
print(s, names, __name__)
assert s == 45

# %%
class Counter:
    def __enter__(self):
        return self
    def __exit__(self, *error):
        print("left", error[0])

with Counter() as counter:
    numbers.append(total([1]))
# %% [markdown]
# ## The end
# %%
print(len(numbers))
ENDING
'''


@pytest.mark.parametrize(
    "ending",
    ["exec('y = 2'); print(y)", "import sys; sys.exit(3)", "print(numbers[11])", "assert len(numbers) == 10"],
    ids=["to its end", "exit", "error", "failed claim"],
)
def test_cells_of_a_script_are_sections(tmp_path: Path, ending: str) -> None:
    (tmp_path / "a_script.py").write_text(CELLS.replace("ENDING", ending), encoding="utf-8")
    trace, _ = runs_as_plain(tmp_path, "a_script.py")
    assert (trace.title, trace.run.main) == ("A script", "<module>")
    tree = Tree(trace)
    assert [frame.function for _, frame in tree.section_calls()] == ["Data", "Sum", "The end"]
    functions = [frame.function for frame in tree.frames.values()]
    assert functions.count("total") == 101  # of 1,501: a statement keeps 100 executions
    assert sum(event.omitted for event in trace.steps if isinstance(event, Omitted) and event.line == 27) == 1400
    pages = make_document(trace)
    assert [section.title for section in pages.sections] == ["Data", "Sum", "The end"]
    assert len(pages.sections[1].claims) == 1 and not pages.opening
    stepped = pages.sections[1].stepping
    assert stepped is not None and stepped.frames[0][0] == "Sum"


def test_pages_show_prose_and_code_of_a_script_but_no_markers(tmp_path: Path) -> None:
    (tmp_path / "a_script.py").write_text(CELLS.replace("ENDING", "raise ValueError"), encoding="utf-8")
    traced(tmp_path, "a_script.py", "--keep-going")
    data, of_sum, html = (
        (tmp_path / "out/cpu" / name).read_text() for name in ("00-data.md", "01-sum.md", "00-data.html")
    )
    assert "A list of *ten* numbers.\n" in data and "numbers = list(range(10))  # numbers = [" in data
    assert "Their sum." in of_sum and '"""\n## Sum' not in of_sum
    assert "A list of <em>ten</em> numbers." in html
    for text in (data, of_sum, html):
        assert "# %%" not in text and "[markdown]" not in text


def test_an_edited_script_is_compared_cell_by_cell(tmp_path: Path) -> None:
    text = CELLS.replace("ENDING", "").replace('"""A script"""\nfrom __future__ import annotations\n', "")
    traces = []
    for edited in (text, text.replace("## Sum", "## The sum").replace("== 45", "> 44")):
        (tmp_path / "a_script.py").write_text(edited, encoding="utf-8")
        traces.append(traced(tmp_path, "a_script.py")[0])
    difference = difference_between(Side("A", traces[0]), Side("B", traces[1]), Choices())
    matched = [(pair.a.function, pair.b.function) for pair in difference.frames if pair.a and pair.b]
    assert {("Data", "Data"), ("Sum", "The sum"), ("The end", "The end")} <= {*matched}
    assert len(matched) == len(difference.frames)
    reworded = text.replace("*ten*", "*10*").replace("## The end", "## Its end")
    shown = [(section.number, section.title) for section in make_document(traces[0], reworded).sections]
    assert shown == [(0, "Data"), (1, "Sum"), (2, "Its end")]
    moved = reworded.replace("# %%\nclass", "class").replace('# %% [markdown]\n"""', '"""')
    assert any("stale" in notice.kind for notice in make_document(traces[0], moved).notices)

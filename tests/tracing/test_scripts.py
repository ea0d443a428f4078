"""A script without `main` is traced as Python runs it; its cells are the sections of the pages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trace_tools.diff.difference import Side
from trace_tools.diff.judge.between import Choices, difference_between
from trace_tools.pages.content.compose import make_document
from trace_tools.trace.file import load
from trace_tools.trace.model import Omitted, Step, Trace
from trace_tools.trace.tree import Tree

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
ENDINGS = {
    "to its end": ("exec('y = 2'); print(y)", 0),
    "exit": ("import sys; sys.exit(3)", 1),
    "error": ("print(numbers[11])", 1),
    "failed claim": ("assert len(numbers) == 10", 1),
}


def traced(folder: Path, text: str, *options: str) -> tuple[Trace, int, str]:
    """Trace a script, and return the trace, the exit status and the messages."""
    (folder / "a_script.py").write_text(text, encoding="utf-8")
    command = ["-m", "trace_tools", "trace", "a_script.py", "--passes", "1", "-o", "out", "--name", "cpu", "--force"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, *command, *options], cwd=folder, env=environment, capture_output=True, text=True
    )
    return load(max((folder / "out").glob("**/trace.yaml"), key=os.path.getmtime)).trace, done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_script_runs_as_in_plain_python(tmp_path: Path, ending: str) -> None:
    text = CELLS.replace("ENDING", ENDINGS[ending][0])
    trace, status, messages = traced(tmp_path, text)
    plain = subprocess.run([sys.executable, "a_script.py"], cwd=tmp_path, capture_output=True, text=True)
    steps = [event for event in trace.steps if isinstance(event, Step)]
    printed = "".join(step.stdout or "" for step in steps if step.stdout)
    assert printed == plain.stdout and status == bool(plain.returncode) == ENDINGS[ending][1], messages
    assert trace.run.complete == (plain.returncode == 0)
    assert (plain.stderr.strip().rpartition("\n")[2].partition(":")[0] or "talk") in messages + "talk"
    assert (trace.title, trace.run.main) == ("A script", "<module>")
    tree = Tree(trace)
    assert [frame.function for _, frame in tree.section_calls()] == ["Data", "Sum", "The end"]
    functions = [frame.function for frame in tree.frames.values()]
    assert functions.count("total") == 101  # of 1,501: a statement keeps 100 executions
    assert sum(event.omitted for event in trace.steps if isinstance(event, Omitted) and event.line == 27) == 1400
    pages = make_document(trace)
    assert [section.title for section in pages.sections] == ["Data", "Sum", "The end"]
    assert pages.sections[1].held == 1 and not pages.opening
    stepped = pages.sections[1].stepping
    assert stepped is not None and stepped.frames[0].function == "Sum"


@pytest.mark.slow
def test_pages_show_prose_and_code_of_a_script_but_no_markers(tmp_path: Path) -> None:
    traced(tmp_path, CELLS.replace("ENDING", "raise ValueError"), "--keep-going")
    data, of_sum = ((tmp_path / "out/cpu" / name).read_text() for name in ("00-data.md", "01-sum.md"))
    assert "A list of *ten* numbers.\n" in data and "numbers = list(range(10))  # numbers = [" in data
    assert "Their sum." in of_sum and '"""\n## Sum' not in of_sum
    html = (tmp_path / "out/cpu/00-data.html").read_text()
    assert "A list of <em>ten</em> numbers." in html
    for text in (data, of_sum, html):
        assert "# %%" not in text and "[markdown]" not in text


@pytest.mark.slow
def test_an_edited_script_is_compared_cell_by_cell(tmp_path: Path) -> None:
    text = CELLS.replace("ENDING", "").replace('"""A script"""\nfrom __future__ import annotations\n', "")
    before, *_ = traced(tmp_path, text)
    after, *_ = traced(tmp_path, text.replace("## Sum", "## The sum").replace("== 45", "> 44"))
    difference = difference_between(Side("A", before), Side("B", after), Choices())
    matched = [(pair.a.function, pair.b.function) for pair in difference.frames if pair.a and pair.b]
    assert {("Data", "Data"), ("Sum", "The sum"), ("The end", "The end")} <= {*matched}
    assert not any(pair.a is None or pair.b is None for pair in difference.frames)
    reworded = text.replace("*ten*", "*10*").replace("## The end", "## Its end")
    shown = [(section.number, section.title) for section in make_document(before, reworded).sections]
    assert shown == [(0, "Data"), (1, "Sum"), (2, "Its end")]
    moved = reworded.replace("# %%\nclass", "class").replace('# %% [markdown]\n"""', '"""')
    assert any("stale" in notice.kind for notice in make_document(before, moved).notices)

"""A site with pages of all kinds, for tests in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from tests.golden import test_golden
from tests.pages.explored import explored_lecture
from tests.pages.hostile import hostile_trace
from tests.pages.lectures import LECTURE, failing
from tests.pages.recording import of_section
from tests.pages.whole_lecture import whole_lecture
from trace_tools.describing.values import Describer
from trace_tools.pages.html import one_file
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace import file as trace_file
from trace_tools.trace.model import Claim, Run, Table, Tensor, Text, Trace, Value, Varied

LONG_LINE = "total = previous_total * the_share_that_is_left + gradient_of_this_step + a_last_term_that_is_long * 2"
LINES = ["x0 = 0", "x1 = 1", "x2 = 2", "x3 = 3", "x4 = 4", "x5 = 5", "for step in range(3):", f"    {LONG_LINE}"]
VARIED_TEXT = (
    "A long line of prose ends, as it were, at the very edge of its own column: 9.7. Other lines that go on, 12.5 "
    "and 3.25, are *followed by* **14.75** and others, and once more at the edge by numbers: 4.125 4.25 4.375 4.5."
)
VARIED_NUMBERS = ("9.7", "12.5", "3.25", "14.75", "4.125", "4.25", "4.375", "4.5")


def notes() -> Trace:
    """Return lines with a short note, several, a long one with a time, views of a storage, frames, claims."""
    describer = Describer()
    x = torch.arange(6.0).view(2, 3)
    views = {"x": x, "x.t()": x.t(), "x[:, 1:]": x[:, 1:], "z": torch.arange(6.0).view(3, 2), "wide": torch.ones(4, 8)}
    described = {name: msgspec.convert(describer.describe(view), Value) for name, view in views.items()}
    column = Value("Series", tensor=Tensor("float64", [3], "cpu", elements=[0.5, 1.25, 2.0]))
    frame = Value("DataFrame", length=2, entries=[(Value("str", name), column) for name in ("height", "width")])
    long = Value("Config", entries=[(Value("str", f"field_{n}"), Value("int", n)) for n in range(6)])
    values: list[dict[str, Value]] = [
        {"x0": Value("int", 0)},
        {f"name_{n}": Value("int", n) for n in range(9)},
        {"x2": long},
        described,
        {"x4": frame},
    ]
    lines = [*LINES, "assert total < 1", "assert total"]
    recording, f = of_section("\n".join(lines))
    for line, noted in zip(lines, values, strict=False):
        host_ns = [5_000_000] if line.startswith(("x2", "x3")) else [1_000]
        recording.step(f, line, values=[*noted.items()], host_ns=host_ns)
    total = ("total", Value("int", 0))
    recording.step(f, "total =", values=[total])
    recording.step(f, lines[-2], values=[total, ("half", Value("int", 2))], claim=Claim("total < 1", True, []))
    recording.step(f, lines[-1], claim=Claim("total", True, []))
    return recording.trace()


def varied_lecture() -> Trace:
    """Return a lecture with a text and a table whose numbers varied; two of six runs have another text."""
    recording, f = of_section("text(f'{x}')\ntable(rows)")
    numbers = [Varied([n, "1.5", "2.25"], ["88"], (at := VARIED_TEXT.index(n)), at + len(n)) for n in VARIED_NUMBERS]
    recording.step(f, "text", narrative=[Text(text=VARIED_TEXT, varied=numbers, others=[("Another.", 2)])])
    cells = [Varied([2.5, 3.5, 2.75], [9.5, 9.0, 9.25], row=row, column=1) for row in range(3)]
    rows: Any = [[f"the {n} of several operations, with a long name", 2.5] for n in ("first", "second", "third")]
    recording.step(f, "table", narrative=[Table(columns=["operation", "ms"], rows=rows, varied=cells)], runs=4)
    return recording.trace(run=Run("lecture.py", "2025", 0, 3, 100, complete=True, timed_runs=6))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Render the golden lecture, and lectures that fail, that attack, and that test layout; some as single files."""
    out = tmp_path_factory.mktemp("site")
    golden = test_golden.HERE
    trace, lecture = trace_file.load(golden / "trace.yaml"), (golden / "lecture.py").read_text("utf-8")
    run = Run("lecture.py", "2025", 0, 3, 100, complete=False, ended="ValueError at line 61")
    sites = [SiteTrace(trace, "golden", lecture, golden), SiteTrace(failing().trace(run=run), "failing", LECTURE)]
    others = {"hostile": hostile_trace(), "notes": notes(), "varied": varied_lecture(), "explored": explored_lecture()}
    render_site([*sites, *(SiteTrace(trace, name) for name, trace in others.items())], out)
    for name, trace in {"whole": whole_lecture(), "hostile-whole": hostile_trace()}.items():
        (out / f"{name}.html").write_text(one_file(trace), encoding="utf-8")
    return out

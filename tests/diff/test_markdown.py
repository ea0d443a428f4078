"""Reports as Markdown: as long as a comment may be, and nothing in them becomes markup."""

from __future__ import annotations

import re

from tests.diff.report_cases import between, hostile, markdown_of
from tests.diff.test_compare import machine_trace, side_by_side
from tests.pages.recording import Recording
from trace_tools.diff.report.comparison_report import report_of
from trace_tools.diff.report.markdown import LONGEST, figure_files, markdown
from trace_tools.trace.model import Value


def test_markdown_fits_a_comment_whatever_differs() -> None:
    many = {f"x{n}": "y" * 110 for n in range(400)}
    lecture = "def main():\n" + "".join(f"    {name} = 1  # @inspect {name}\n" for name in many)
    sides = []
    for end in ("1", "2"):
        made = Recording(lecture)
        main = made.frame("main")
        for name, text in many.items():
            made.step(main, f"{name} =", values=[(name, Value("str", text + end))])
        sides.append(made.trace())
    text = markdown_of(between(*sides))
    assert len(text) <= LONGEST + 200
    assert "385 more, 25 of them here" in text
    assert text.count("<details>") == text.count("</details>")


def test_hostile_markdown_stays_text() -> None:
    text = markdown_of(hostile())
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert not re.search(r"(?<!\\)<(?!br>|/?details>|/?summary>)", outside)


def test_markdown_tables_have_as_many_cells_as_columns() -> None:
    found = side_by_side(machine_trace("a|`x`", [20_000]), machine_trace("b", [10_000]), machine_trace("c", [30_000]))
    report = report_of(found, "md", csv="compare.csv")
    text, files = markdown(report), figure_files(report.parts)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    widths = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
    assert set(widths) == {5, 8}  # three machines and what they are; the machines' own table
    assert "● **10 µs** (× 0.5)" in text
    assert set(re.findall(r"\]\((figures/[^)]+)\)", text)) == set(files)
    assert "figures/" not in markdown(report_of(found, "md"))  # on stdout no files lie beside it

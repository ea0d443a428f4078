"""Build the report of a comparison: one table per measured quantity with the best marked, and every number as CSV.

report_of(comparison, "terminal", width=100)                          # as many columns as fit
report_of(comparison, "html", links=("cpu-to-gpu.html",), csv="compare.csv")     # with files in the same folder
csv_text(comparison)                                                  # one row for each quantity of each step
"""

from __future__ import annotations

import csv as spreadsheet
import io
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from trace_tools.diff.compare import TIME, VALUES, Cell, Comparison, Line, Quantity
from trace_tools.diff.report import difference_report
from trace_tools.diff.report.difference_report import headline
from trace_tools.presentation import prose
from trace_tools.presentation.report import (
    Content,
    Form,
    Grid,
    Part,
    Phrase,
    Report,
    html,
    markdown,
)
from trace_tools.trace.model import MODULE, Trace
from trace_tools.trace.tree import Tree
from trace_tools.util import formats
from trace_tools.util.files import update_folder
from trace_tools.util.interpreter import collector_paused

FEW = 6  # lines of each table on a terminal, besides sections, unless the user asks for all
LEADING = 10  # steps with a clear difference before the fold
CODE: dict[Form, int] = {"terminal": 38, "md": 70, "html": 90}  # characters of a statement
NARROW = 22  # the same, on a terminal too narrow for the spread of each figure
MACHINE_COLUMNS = ("hardware", "torch", "passes", "claims", "main()", "first run")
ABOVE = " ▲"  # after a rate above its roof
FOOT = (
    f"{formats.SPREAD} On an asynchronous device the tracer waits only for annotated statements, so only these have a "
    "time. Hover over a dash to see why a machine has no figure."
)


def report_of(
    comparison: Comparison,
    form: Form,
    *,
    width: int = 120,
    everything: bool = False,
    csv: str = "",
    links: Sequence[str] = (),
) -> Report:
    """Return the report for a format: on a terminal of some width, the largest lines, or everything.

    `csv` is the file of all numbers, and `links` are the reports of the differences, if they are in the same folder.
    """
    return _Writer(comparison, form, width).report(csv, links, everything=everything)


class _Writer:
    """Writes the parts of a report for one format and width."""

    def __init__(self, comparison: Comparison, form: Form, width: int) -> None:
        self.comparison = comparison
        self.form = form
        self.terminal = form == "terminal"
        self.labels = [side.label for side in comparison.sides]
        self.base = self.labels[0]
        self.wide = not self.terminal or width >= CODE["terminal"] + 22 + 30 * len(self.labels)
        self.section_titles = comparison.sides[0].titles

    def report(self, csv: str, links: Sequence[str], *, everything: bool) -> Report:
        """Return the report; see `report_of`."""
        comparison, html = self.comparison, self.form == "html"
        parts: list[Content] = [Phrase(self.intro())]
        if csv:
            parts.append(Phrase(f"All exact numbers: {csv}", link=csv))
        parts += [Phrase(note, style="note") for note in comparison.notes]
        differences = [
            [Phrase(f"{self.base} → {label}", soft=headline(difference), link=links[n] if links else "")]
            for n, (label, difference) in enumerate(zip(self.labels[1:], comparison.differences, strict=True))
        ]
        if self.terminal:
            parts += [Phrase(f"{pair.text}: {pair.soft}") for [pair] in differences]
        else:
            parts.append(Part("Differences", [Grid("list", (), differences)], "pairs"))
        parts.append(Part("Machines", [self.machines()], "machines") if html else self.machines())
        if not self.terminal:
            parts += self.fastest()
        parts += self.tables(everything=everything)
        if html:
            parts.append(Phrase(FOOT, style="foot"))
        count = formats.plural(len(self.labels), "machine")
        return Report(comparison.title, f": {count} side by side", parts)

    def intro(self) -> str:
        """Report how many steps matched, and explain the marks."""
        comparison = self.comparison
        steps = formats.plural(comparison.matched, "annotated step")
        machines = "both machines" if len(comparison.sides) == 2 else f"all {len(comparison.sides)} machines"
        unmatched = zip(comparison.sides, comparison.unmatched, strict=True)
        names = ", ".join(f"{side.label}: {n}" for side, n in unmatched if n)
        missing = f"; not on every machine: {names}" if names else ""
        return (
            f"{steps} matched on {machines}{missing}. × is relative to {self.base}; "
            "● marks the best machine if all of its passes beat all passes of the others."
        )

    def machines(self) -> Grid:
        """Describe each machine and its whole run."""
        sides = zip(self.labels, self.comparison.sides, strict=True)
        rows = [[Phrase(label), *map(Phrase, _facts(side.trace))] for label, side in sides]
        return Grid("index", ("", *MACHINE_COLUMNS), rows, "Machines")

    def fastest(self) -> Iterator[Part]:
        """Yield the times of sections, and the steps that one machine ran faster in every pass."""
        times = self.comparison.tables[TIME]
        sections = [line for line in times if line.where == "section"]
        if sections:
            meaning = Phrase("Warm time of each section on each machine.")
            yield Part("Sections", [meaning, self.grid(sections, TIME, "Sections")], "sections")
        clear = [line for line in times if line.where != "section" and any(cell.best for cell in line.cells)]
        if clear:
            meaning = Phrase("Steps that were faster in every pass on one machine, by size of effect.")
            clear.sort(key=effect, reverse=True)
            grid = self.grid(clear[:LEADING], TIME, "Steps with clear differences", len(clear[LEADING:]))
            yield Part("Clear differences", [meaning, grid], "judged")

    def tables(self, *, everything: bool) -> Iterator[Part]:
        """Yield the table of each quantity; in texts, the largest steps and all other lines, or everything."""
        for quantity, all_lines in self.comparison.tables.items():
            lines: Sequence[Line] = all_lines
            if self.form != "html" and not everything:
                steps = [line for line in all_lines if line.where == "step"]
                steps.sort(key=lambda line: -max(cell.value or 0 for cell in line.cells))
                lines = [line for line in all_lines if line.where != "step" or line in steps[:FEW]]
            none = "" if lines else " No machine has this figure."
            if lines or not self.terminal:
                meaning = Phrase(quantity.meaning + none)
                grid = self.grid(lines, quantity, quantity.title, len(all_lines) - len(lines))
                yield Part(quantity.title, [meaning, *_warnings(*all_lines), grid], quantity.key, not self.terminal)

    def grid(
        self,
        lines: Sequence[Line],
        quantity: Quantity,
        name: str,
        omitted: int = 0,
    ) -> Grid:
        """Return a row for each line; the omitted ones are counted."""
        columns = [label + " (base)" * (label == self.base and not self.terminal) for label in self.labels]
        where = "with --all" if self.terminal else "in the CSV"
        rest = f"{omitted:,} more {where}" if omitted else ""
        return Grid("side", ("", *columns), [self.row(line, quantity) for line in lines], name, rest=rest)

    def row(self, line: Line, quantity: Quantity) -> list[Phrase]:
        """Return a line's code, and its figure on each machine."""
        terminal = self.terminal
        number = f"line {line.line}" if line.line and not terminal else str(line.line or "")
        function = line.function.replace(MODULE, "")
        position = [number, line.which] if terminal else [function, number, line.which]
        code = formats.one_line(line.code, CODE[self.form] if self.wide else NARROW)
        style = "strong" * (line.where == "section")
        title = self.section_titles.get(line.code.removesuffix("()")) if style and not terminal else None
        name = formats.one_line(prose.readable_text(title), 80) if title else ""
        soft = (" " if terminal else ", ").join(part for part in position[bool(name) :] if part)
        head = Phrase(name, "" if name else code, soft, style=style)
        return [head, *(self.figure(line, cell, quantity) for cell in line.cells)]

    def figure(self, line: Line, cell: Cell, quantity: Quantity) -> Phrase:
        """Format a figure: its median, half the range over its passes relative to it, and its ratio to the base.

        The unit is the quantity's or the line's; a value of the lecture without a unit is a plain number.
        """
        unit = quantity.unit or line.unit
        if cell.value is None:
            return Phrase("–", soft=cell.why or "", style="missing")
        if unit is None:
            text = formats.number(cell.value, 4) if quantity == VALUES else formats.percent(cell.value)
        else:
            text = formats.quantity(cell.value, unit, 3)
            if self.wide and cell.low is not None and cell.high is not None and cell.low != cell.high:
                text += f" ± {formats.percent(formats.half_range((cell.low, cell.value, cell.high)))}"
        text += ABOVE if cell.above else ""
        ratio = factor(cell.ratio) if cell.ratio not in (None, 1.0) and cell.ratio is not None else ""
        return Phrase(text, ratio=ratio, style="best" if cell.best else "right")


def effect(line: Line) -> float:
    """Return the logarithm of the largest over the smallest number of a line's machines."""
    values = [cell.value for cell in line.cells if cell.value]
    return math.log(max(values) / min(values)) if len(values) > 1 and min(values) > 0 else 0.0


def _facts(trace: Trace) -> list[str]:
    """Return a machine's name (of a CPU, with its threads), torch, passes, claims, whole run, first run.

    Claims are counted as on the pages: once per section, and as held if every execution held.
    """
    tree, claims = Tree(trace), defaultdict[tuple[str | None, int], list[bool]](list)
    for step in tree.by_id.values():
        if step.claim is not None:
            claims[tree.section_of[step.frame], step.statement].append(step.claim.held)
    failed = sum(not all(held) for held in claims.values())
    machine = trace.machine
    threads = f", {formats.plural(machine.threads, 'thread')}" if machine.threads else ""
    times = [trace.run.lasted("warm_ns"), trace.run.lasted("cold_ns")]
    return [
        machine.name + threads,
        dict(trace.versions).get("torch", "–"),
        str(trace.run.passes),
        f"{failed:,} of {len(claims):,} failed" if failed else f"all {len(claims):,} hold" if claims else "none",
        *(formats.duration(statistics.median(runs_ns)) if runs_ns else "not timed" for runs_ns in times),
    ]


def _warnings(*lines: Line) -> list[Phrase]:
    """Return the different warnings for rates among these lines that are above their roof."""
    warnings = dict.fromkeys(cell.above for line in lines for cell in line.cells if cell.above)
    return [Phrase(f"{ABOVE.strip()}: {warning}.", style="note") for warning in warnings]


def factor(ratio: float) -> str:
    """Format a ratio: × 0.31, × 12, × 1/1,470."""
    return f"× 1/{formats.three_digits(1 / ratio)}" if 0 < ratio < 0.01 else f"× {formats.three_digits(ratio)}"


def csv_text(comparison: Comparison) -> str:
    """Return every number exactly, one row for each quantity of each step, one column for each machine."""
    out = io.StringIO()
    rows = spreadsheet.writer(out, lineterminator="\n")
    labels = [side.label for side in comparison.sides]
    header = ["quantity", "unit", "where", "function", "line", "code", "which", *labels]
    header += [f"{label} ÷ {labels[0]}" for label in labels]
    header += ["above its roof"]
    rows.writerow(map(_as_text, header))
    for quantity, lines in comparison.tables.items():
        for line in lines:
            unit = quantity.unit or line.unit or "1"
            columns = [quantity.key, unit, line.where, line.function, str(line.line or ""), line.code, line.which]
            numbers = [*(cell.value for cell in line.cells), *(cell.ratio for cell in line.cells)]
            above = "; ".join(label for label, cell in zip(labels, line.cells, strict=True) if cell.above)
            shown = ["" if number is None else repr(number) for number in numbers]
            rows.writerow([*map(_as_text, columns), *shown, _as_text(above)])
    return out.getvalue()


def _as_text(text: str) -> str:
    """Return text that a spreadsheet reads as text, not as a formula."""
    text = formats.one_line(text, 300)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


# --- a folder of reports --------------------------------------------------------------------------


CSV = "compare.csv"
PAIR = re.compile(r"\w[\w.-]*-to-[\w.-]+\.(?:html|md)")


@collector_paused()
def report_files(comparison: Comparison, home: str | None) -> dict[str, bytes]:
    """Return the files of a folder of reports by name; `home` is the index of the site they belong to."""
    base, *others = comparison.sides
    folder = PurePath(base.name).parent.name  # of its pages, in the site
    pages = f"../{folder}/" if home is not None and folder else None
    texts: dict[str, str] = {}
    names = [f"{_plain(base.label)}-to-{_plain(other.label)}" for other in others]
    for name, difference in zip(names, comparison.differences, strict=True):
        texts[f"{name}.html"] = html(difference_report.report_of(difference, "html", site="index.html"), home, pages)
        texts[f"{name}.md"] = markdown(difference_report.report_of(difference, "md"))
    page, text = (
        report_of(comparison, form, csv=CSV, links=[f"{name}.{form}" for name in names]) for form in ("html", "md")
    )
    texts |= {
        "index.html": html(page, home, pages),
        "index.md": markdown(text),
        CSV: csv_text(comparison),
    }
    return {name: content.encode("utf-8") for name, content in texts.items()}


def write_reports(folder: Path, comparison: Comparison, home: str | None) -> None:
    """Write these reports to a folder, and remove reports of machines that are gone.

    Raises UsageError if that fails.
    """
    update_folder(folder, report_files(comparison, home), PAIR)


def _plain(label: str) -> str:
    """Return a machine's label in a form that is valid as a file name."""
    return re.sub(r"[^\w.-]+", "-", label).strip("-") or "machine"

"""Build the report of a comparison: one table per measured quantity with the best marked, and every number as CSV.

report_of(comparison, "terminal", width=100)                          # as many columns as fit
report_of(comparison, "html", links=("cpu-to-gpu.html",), csv="compare.csv")     # with files in the same folder
csv_text(comparison)                                                  # one row for each quantity of each step
"""

from __future__ import annotations

import csv as spreadsheet
import io
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

from trace_tools.analysis.floors import Floor, fit_in_words, floor_in_words
from trace_tools.diff.compare import MEASURED_UNITS, RATE, TIME, Cell, Comparison, Line, extremes
from trace_tools.diff.report.difference_report import headline, roof_of
from trace_tools.diff.report.report import Chart, Content, Form, Grid, Part, Phrase, Report
from trace_tools.diff.report.sources import titles_of
from trace_tools.diff.report.summary import clear_differences, summary_of
from trace_tools.presentation import prose
from trace_tools.presentation.charts import roofline
from trace_tools.presentation.charts.plot import bars
from trace_tools.trace.model import Trace
from trace_tools.trace.tree import Tree
from trace_tools.util import formats

FEW = 6  # lines of each table on a terminal, besides sections, unless the user asks for all
MANY = 3  # fewest machines for a row to name the best and the worst
NAMED = 2  # most machines named as best, or as worst
LEADING = 10  # steps with a clear difference before the fold
CODE: dict[Form, int] = {"terminal": 38, "md": 70, "html": 90}  # characters of a statement
NARROW = 22  # the same, on a terminal too narrow for the spread of each figure
MACHINE_COLUMNS = ("hardware", "torch", "passes", "claims", "main()", "first run")
ABOVE = " ▲"  # after a rate above its roof
FLOOR = "floor from the datasheet"
FLOORS = (
    "No run on these machines was measured. A floor is a lower bound on their time for the work that was counted on "
    "{base}: for each operator the larger of FLOPs ÷ peak of the dtype and bytes ÷ bandwidth, summed. The roof named "
    "with it limits most of that time. Only caches, compiled code, convolutions by Winograd's or Fourier's algorithm "
    "and operators that run at the same time can be faster."
)
FOOT = (
    "Times are medians over the passes, ± half their range. On an asynchronous device the tracer waits only for "
    "annotated statements, so only these have a time. Hover over a dash to see why a machine has no figure."
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
    Markdown has figures only if `csv` is given.
    """
    return _Writer(comparison, form, width).report(csv, links, everything=everything)


class _Writer:
    """Writes the parts of a report for one format and width."""

    def __init__(self, comparison: Comparison, form: Form, width: int) -> None:
        self.comparison = comparison
        self.form = form
        self.terminal = form == "terminal"
        self.labels = [formats.one_line(side.label, 40) for side in comparison.sides]
        self.base = self.labels[0]
        self.wide = not self.terminal or width >= CODE["terminal"] + 22 + 30 * len(self.labels)
        self.section_titles = titles_of(comparison.sides[0])

    def report(self, csv: str, links: Sequence[str], *, everything: bool) -> Report:
        """Return the report; see `report_of`."""
        comparison, html = self.comparison, self.form == "html"
        alone = len(self.labels) == 1
        parts: list[Content] = [Phrase(self.intro())]
        if csv:
            parts.append(Phrase(f"All exact numbers: {csv}", link=csv))
        parts += [Phrase(formats.one_line(note, 400), style="note") for note in comparison.notes]
        differences = [
            [Phrase(f"{self.base} → {label}", soft=headline(difference), link=links[n] if links else "")]
            for n, (label, difference) in enumerate(zip(self.labels[1:], comparison.differences, strict=True))
        ]
        if differences and self.terminal:
            parts += [Phrase(f"{pair.text}: {pair.soft}") for [pair] in differences]
        elif differences:
            parts.append(Part("Differences", [Grid("list", (), differences)], "pairs"))
        titles = {"peaks": "Peaks", "machines": "Machines", "judged": "Clear differences"}
        titles |= {table.quantity.key: table.quantity.title for table in comparison.tables}
        sentences = [
            [Phrase(s.text, soft=titles[s.evidence], link=f"#{s.evidence}") if html else Phrase(s.text)]
            for s in ([] if alone else summary_of(comparison))
        ]
        if sentences:
            parts.append(Part("Summary", [Grid("list", (), sentences)], "words"))
        parts.append(Part("Machines", [self.machines()], "machines") if html else self.machines())
        if comparison.ceilings:
            parts.append(self.untraced())
        figures = [] if self.terminal or (self.form == "md" and not csv) else list(charts_of(comparison))
        if roofs := [chart for chart in figures if chart.name == "roofs"]:
            parts.append(Part("Rooflines", roofs, "rooflines"))
        if not self.terminal:
            parts += self.fastest()
        parts.append(self.peaks([chart for chart in figures if chart.name != "roofs"]))
        parts += self.tables(everything=everything)
        if comparison.values:
            title = "Measured by the lecture"
            meaning = Phrase("Numbers that the lecture itself measured and inspected.")
            values = self.grid(comparison.values, None, title)
            parts.append(Part(title, [meaning, values], "values", folded=not self.terminal))
        if html:
            parts.append(Phrase(FOOT, style="foot"))
        count = formats.plural(len(self.labels), "machine")
        title = "1 machine, and floors" if alone else f"{count} side by side"
        return Report(comparison.title, f": {title}", parts)

    def intro(self) -> str:
        """Report how many steps matched, and explain the marks."""
        comparison = self.comparison
        steps = formats.plural(comparison.matched, "annotated step")
        if len(comparison.sides) == 1:
            return f"{steps} of {self.base}."
        unmatched = zip(comparison.sides, comparison.unmatched, strict=True)
        names = ", ".join(f"{side.label}: {n}" for side, n in unmatched if n)
        missing = f"; not on every machine: {names}" if names else ""
        text = "{steps} matched on both machines{rest}. × is relative to {base}; {marks}."
        if len(comparison.sides) > 2:
            text = "{steps} matched on all {n} machines{rest}. × is relative to {base}; {marks}."
        marks = "● marks the best machine if all of its passes beat all passes of the others"
        if len(comparison.sides) >= MANY:
            marks += ", ○ the worst"
        return text.format(steps=steps, n=len(comparison.sides), rest=missing, base=self.base, marks=marks)

    def machines(self) -> Grid:
        """Describe each machine and its whole run, in a table if there is room."""
        facts = [_facts(side.trace) for side in self.comparison.sides]
        columns = [column for column in MACHINE_COLUMNS]
        rows = [[Phrase(label), *map(Phrase, texts)] for label, texts in zip(self.labels, facts, strict=True)]
        if self.wide:
            return Grid("index", ("", *columns), rows, "Machines")
        lines = []
        for label, texts in zip(self.labels, facts, strict=True):
            named = [f"{column} {text}" for column, text in zip(columns[1:], texts[1:], strict=True)]
            lines.append([Phrase(label, soft=" · ".join([texts[0], *named]))])
        return Grid("sides", (), lines, "Machines")

    def untraced(self) -> Part:
        """Describe the machines with lower bounds, and whether the lecture's tensors would fit there."""
        rows = []
        for ceiling in self.comparison.ceilings:
            by_dtype = [(name, ceiling.flops_per_second.get(name)) for name in ("bfloat16", "float16", "float32")]
            rates = [
                "{rate} in {name}".format(rate=formats.quantity(rate, "FLOP/s", 4), name=name)
                for name, rate in by_dtype
                if rate
            ]
            text = "{name}: {rates_text} ({source}). Would the lecture fit? {fit}.".format(
                name=ceiling.name,
                rates_text=", ".join([formats.quantity(ceiling.bytes_per_second, "B/s", 4), *rates]),
                source=ceiling.source,
                fit=fit_in_words(self.comparison.live_bytes, ceiling),
            )
            rows.append([Phrase(text)])
        meaning = Phrase(FLOORS.format(base=self.base))
        return Part("Machines that were not traced", [meaning, Grid("list", (), rows)], "floors")

    def fastest(self) -> Iterator[Part]:
        """Yield the times of sections, and the steps that one machine ran faster in every pass."""
        time = next(table for table in self.comparison.tables if table.quantity == TIME)
        sections = [line for line in time.lines if line.where == "section"]
        if sections:
            meaning = Phrase("Warm time of each section on each machine.")
            grid = self.grid(sections, "s", "Sections", better="lower")
            yield Part("Sections", [meaning, grid], "sections")
        if clear := clear_differences(time.lines):
            meaning = Phrase("Steps that were faster in every pass on one machine, by size of effect.")
            title, folded = "Steps with clear differences", clear[LEADING:]
            grid = self.grid(clear[:LEADING], "s", title, "", folded, "more step", "lower")
            yield Part("Clear differences", [meaning, grid], "judged")

    def peaks(self, parts: list[Content]) -> Part:
        """Return the machines' peaks after their figures, and the highest share of them that a step reached."""
        peaks, reached = self.comparison.peaks, self.comparison.reached
        grid = self.grid(peaks, None, "Peaks", "peak")
        parts.append(grid if peaks else Phrase("The peaks of these machines are unknown."))
        if reached:
            parts.append(Phrase("Highest MFU of an annotated step:"))
            parts.append(self.grid(reached, None, "Highest MFU", "dtype"))
            parts += _warnings(*reached)
        return Part("Peaks", parts, "peaks", folded=not self.terminal)

    def tables(self, *, everything: bool) -> Iterator[Part]:
        """Yield the table of each quantity; on a terminal, sections and the largest lines, or everything."""
        for table in self.comparison.tables:
            quantity = table.quantity
            lines: Sequence[Line] = table.lines
            folded: Sequence[Line] = table.folded
            if self.terminal and everything:
                lines, folded = (*lines, *folded), ()
            elif self.terminal:
                steps = [line for line in lines if line.where != "section"]
                steps.sort(key=lambda line: -max(cell.value or 0 for cell in line.cells))
                lines = [line for line in lines if line.where == "section" or line in steps[:FEW]]
                folded = (*folded, *steps[FEW:])
            none = "" if lines else " No annotated step has this figure on any of these machines."
            if lines or not self.terminal:
                meaning = Phrase(quantity.meaning + none)
                grid = self.grid(lines, quantity.unit, quantity.title, "", folded, better=quantity.better)
                warnings = _warnings(*lines, *folded)
                yield Part(quantity.title, [meaning, *warnings, grid], quantity.key, folded=not self.terminal)

    def grid(
        self,
        lines: Sequence[Line],
        unit: str | None,
        name: str,
        first: str = "",
        folded: Sequence[Line] = (),
        noun: str = "smaller one",
        better: str | None = None,
    ) -> Grid:
        """Return a row for each line; folded and omitted lines are counted."""
        smaller = formats.plural(len(folded), noun) if folded else ""
        columns = [label + " (base)" * (label == self.base and not self.terminal) for label in self.labels]
        floors = 0  # columns
        if any(floor.seconds is not None for line in (*lines, *folded) for floor in line.floors):
            columns += [f"{FLOOR}: {ceiling.name}" for ceiling in self.comparison.ceilings]
            floors = len(self.comparison.ceilings)
        shown, hidden = ([self.row(line, unit, better, floors) for line in some] for some in (lines, folded))
        if self.form == "html":
            return Grid("side", (first, *columns), shown, name, hidden, smaller, unmeasured=floors)
        omitted = f"{smaller} with --all" if self.terminal else f"{smaller}: in the CSV."
        return Grid("side", (first, *columns), shown, name, rest=smaller and omitted, unmeasured=floors)

    def row(self, line: Line, unit: str | None, better: str | None, floors: int) -> list[Phrase]:
        """Return a line's code, its figure on each machine, and its lower bounds."""
        terminal = self.terminal
        number = f"line {line.line}" if line.line and not terminal else str(line.line or "")
        position = [number, line.which] if terminal else [formats.one_line(line.function, 40), number, line.which]
        code = formats.one_line(line.code, CODE[self.form] if self.wide else NARROW)
        style = "strong" * (line.where == "section")
        title = self.section_titles.get(line.code.removesuffix("()")) if style and not terminal else None
        name = formats.one_line(prose.plain_text(title), 80) if title else ""
        soft = (" " if terminal else ", ").join(part for part in position[bool(name) :] if part)
        if not terminal and len(self.labels) >= MANY:
            ends = self.ends(line, better or MEASURED_UNITS.get(line.unit or "" if line.where == "value" else ""))
            soft = "; ".join(part for part in (soft, ends) if part)
        return [
            Phrase(name, "" if name else code, soft, style=style),
            *(self.figure(line, cell, unit) for cell in line.cells),
            *(self.floor(floor) for floor in line.floors[:floors]),
        ]

    def ends(self, line: Line, better: str | None) -> str:
        """Name the best machine and the worst of a row, by its passes; "" if neither end is better."""
        best, worst = extremes(line.cells, better)
        if len(best) + len(worst) < 2 or not any(cell.value for cell in line.cells):
            return ""
        if set(best) & set(worst):
            return "no clear difference"
        named = []
        for word, machines in (("best {machines}", best), ("worst {machines}", worst)):
            names = " or ".join(self.labels[n] for n in machines)
            named.append(word.format(machines=names if len(machines) <= NAMED else f"one of {len(machines)}"))
        text = ", ".join(named)
        if all(line.cells[n].value for n in (*best, *worst)):
            medians = [statistics.median(abs(line.cells[n].value or 0.0) for n in side) for side in (best, worst)]
            far = formats.ratio(max(medians) / min(medians) if min(medians) else 0.0)
            text += f", {far}× apart"
        return text

    def figure(self, line: Line, cell: Cell, unit: str | None) -> Phrase:
        """Format a figure: its median, half the range over its passes relative to it, and its ratio to the base.

        The unit is the quantity's or its own; a value of the lecture without a unit is a plain number.
        """
        unit = unit or line.unit
        if cell.value is None:
            return Phrase("–", soft=formats.one_line(cell.why or "", 160), style="missing")
        if unit is None:
            text = formats.number(cell.value, 4) if line.where == "value" else formats.percent(cell.value)
            text += ABOVE if cell.above else ""
        else:
            text = formats.quantity(cell.value, unit, 3)
            if self.wide and cell.low is not None and cell.high is not None and cell.low != cell.high:
                text += f" ± {formats.percent((cell.high - cell.low) / 2 / abs(cell.value or 1))}"
            text += ABOVE if cell.above else ""
        ratio = factor(cell.ratio) if cell.ratio not in (None, 1.0) and cell.ratio is not None else ""
        return Phrase(text, ratio=ratio, style="best" if cell.best else "worst" if cell.worst else "right")

    def floor(self, floor: Floor) -> Phrase:
        """Format a lower bound with the roof that limits most of it."""
        if floor.seconds is None:
            return Phrase("–", soft=formats.one_line(floor.why or "", 160), style="missing")
        return Phrase(floor_in_words(floor, "≥ "), style="floor")


def _facts(trace: Trace) -> list[str]:
    """Return a machine's name (of a CPU, with its threads), torch, passes, claims, whole run, first run.

    Claims are counted as on the pages: once per section, and as held if every execution held.
    """
    tree, claims = Tree(trace), defaultdict[tuple[str | None, int, int], list[bool]](list)
    for step in tree.by_id.values():
        if step.claim is not None:
            claims[tree.section_of[step.frame], tree.frames[step.frame].source, step.statement].append(step.claim.held)
    failed = sum(not all(held) for held in claims.values())
    machine = trace.machine
    threads = f", {formats.plural(machine.threads, 'thread')}" if machine.threads else ""
    times = [trace.run.lasted("warm_ns"), trace.run.lasted("cold_ns")]
    return [
        formats.one_line(machine.name + threads, 60),
        formats.one_line(dict(trace.versions).get("torch", "–"), 40),
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
    return f"× 1/{formats.ratio(1 / ratio)}" if 0 < ratio < 0.01 else f"× {formats.ratio(ratio)}"


def charts_of(comparison: Comparison) -> Iterator[Chart]:
    """Yield all rooflines on one figure, and bars for each dtype: peaks, and the best share reached."""
    rates = next(table for table in comparison.tables if table.quantity == RATE)
    roofs = [
        roof_of(side.label, side.trace.machine, ((line.code, line.cells[index]) for line in rates.lines))
        for index, side in enumerate(comparison.sides)
    ]
    drawn = roofline.roofline(roofs, "roofs", "Rooflines")
    if drawn is not None:
        warnings = [warning.text for warning in _warnings(*rates.lines)]
        yield Chart("roofs", " ".join(["Each machine's roof, and its annotated steps under it", *warnings]), drawn)
    peaks = [line for line in comparison.peaks if line.code != "memory"]
    for name, title, lines, write in (
        ("peaks", "Peak of each dtype", peaks, lambda rate: formats.quantity(rate, "FLOP/s", 3)),
        ("reached", "Highest MFU of an annotated step, by dtype", comparison.reached, _share),
    ):
        rows = [
            (side.label, [line.cells[index].value for line in lines]) for index, side in enumerate(comparison.sides)
        ]
        drawn = bars([line.code for line in lines], rows, name, title, write)
        if drawn is not None:
            yield Chart(name, " ".join([title, *(warning.text for warning in _warnings(*lines))]), drawn)


def _share(share: float) -> str:
    return f"{formats.number(100 * share, 3).removesuffix('.0')}%"


def csv_text(comparison: Comparison) -> str:
    """Return every number exactly, one row for each quantity of each step, one column for each machine."""
    out = io.StringIO()
    rows = spreadsheet.writer(out, lineterminator="\n")
    labels = [side.label for side in comparison.sides]
    header = ["quantity", "unit", "where", "function", "line", "code", "which", *labels]
    header += [f"{label} ÷ {labels[0]}" for label in labels]
    header += [f"{FLOOR}: {ceiling.name}" for ceiling in comparison.ceilings]
    header += ["above its roof"]
    rows.writerow(map(_as_text, header))
    every = [(t.quantity.key, t.quantity.unit or "1", (*t.lines, *t.folded)) for t in comparison.tables]
    every += [
        ("value", "", comparison.values),
        ("peak", "", comparison.peaks),
        ("highest_mfu", "", comparison.reached),
    ]
    for quantity, unit, lines in every:
        for line in lines:
            columns = [
                quantity,
                unit or line.unit or "1",
                line.where,
                line.function,
                str(line.line or ""),
                line.code,
                line.which,
            ]
            least = [floor.seconds for floor in line.floors] or [None] * len(comparison.ceilings)
            numbers = [*(cell.value for cell in line.cells), *(cell.ratio for cell in line.cells), *least]
            above = "; ".join(label for label, cell in zip(labels, line.cells, strict=True) if cell.above)
            shown = ["" if number is None else repr(number) for number in numbers]
            rows.writerow([*map(_as_text, columns), *shown, _as_text(above)])
    return out.getvalue()


def _as_text(text: str) -> str:
    """Return text that a spreadsheet reads as text, not as a formula."""
    text = formats.one_line(text, 300)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text

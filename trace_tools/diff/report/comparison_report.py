"""Build the report of a comparison: one table per measured quantity with the best marked, and every number as CSV.

report_of(comparison, "terminal", width=100)                          # as many columns as fit
report_of(comparison, "html", csv="compare.csv", pairs=(…))           # with links to files in the same folder
csv_text(comparison)                                                  # one row for each quantity of each step
"""

from __future__ import annotations

import csv as spreadsheet
import io
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from trace_tools.analysis.distances import Estimator
from trace_tools.analysis.floors import Floor, fit_in_words, floor_in_words
from trace_tools.diff.compare import MEASURED_UNITS, RATE, TIME, Cell, Comparison, Line, extremes
from trace_tools.diff.report.listing import titles_of
from trace_tools.diff.report.report import Chart, Content, Form, Grid, Part, Phrase, Report
from trace_tools.diff.report.summary import judged, summary_of
from trace_tools.presentation import prose
from trace_tools.presentation.charts import roofline
from trace_tools.presentation.charts.plot import bars
from trace_tools.trace.model import Machine, Trace
from trace_tools.trace.ranks import whole_runs
from trace_tools.trace.tree import Tree
from trace_tools.util import formats
from trace_tools.util.languages import N_, _

FEW = 6  # lines of each table on a terminal, besides sections, unless the user asks for all
MANY = 3  # fewest machines for a row to name the best and the worst
NAMED = 2  # most machines named as best, or as worst
LEADING = 10  # steps with a clear difference before the fold
CODE: dict[Form, int] = {"terminal": 38, "md": 70, "html": 90}  # characters of a statement
NARROW = 22  # the same, on a terminal too narrow for the spread of each figure
MACHINE_COLUMNS = (N_("hardware"), "torch", N_("passes"), N_("claims"), "main()", N_("first run"))
ABOVE = " ▲"  # after a rate above its roof
FLOOR = N_("floor from the datasheet")
FLOORS = N_(
    "No run on these machines was measured. A floor is a lower bound on their time for the work that was counted on "
    "{base}: for each operator the larger of FLOPs ÷ peak of the dtype and bytes ÷ bandwidth, summed. The roof named "
    "with it limits most of that time. Only caches, compiled code, convolutions by Winograd's or Fourier's algorithm "
    "and operators that run at the same time can be faster."
)
FOOT = N_(
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
    pairs: Sequence[Phrase] = (),
) -> Report:
    """Return the report for a format: on a terminal of some width, the largest lines, or everything.

    `csv` is the file of all numbers, and `pairs` are links to the reports of each machine against the base, if they are
    in the same folder. Markdown has figures only if `csv` is given.
    """
    labels = [formats.one_line(side.label, 40) for side in comparison.sides]
    terminal, base = form == "terminal", labels[comparison.base]
    wide = not terminal or width >= CODE["terminal"] + 22 + 30 * len(labels)
    code_width = CODE[form] if wide else NARROW
    columns = [label + _(" (base)") * (label == base and not terminal) for label in labels]
    estimator = comparison.estimator
    section_titles = titles_of(comparison.sides[comparison.base])
    untraced = [f"{_(FLOOR)}: {ceiling.name}" for ceiling in comparison.ceilings]

    def grid(
        lines: Sequence[Line],
        unit: str | None,
        name: str,
        first: str = "",
        folded: Sequence[Line] = (),
        noun: str = N_("smaller one"),
        better: str | None = None,
    ) -> Grid:
        """Return a row for each line; folded and omitted lines are counted."""
        smaller = formats.plural(len(folded), noun) if folded else ""
        floored = any(floor.seconds is not None for line in (*lines, *folded) for floor in line.floors)
        below = untraced if floored else []
        shown, hidden = ([_row(line, unit, better, len(below)) for line in some] for some in (lines, folded))
        every = (first, *columns, *below)
        if form == "html":
            return Grid("side", every, shown, name, hidden, smaller, unmeasured=len(below))
        rest = smaller and (
            f"{smaller} with --all" if terminal else _("{smaller}: in the CSV.").format(smaller=smaller)
        )
        return Grid("side", every, shown, name, rest=rest, unmeasured=len(below))

    def _row(line: Line, unit: str | None, better: str | None, floors: int) -> list[Phrase]:
        line_text = _("line {line}").format(line=line.line) if line.line and not terminal else str(line.line or "")
        which = [line_text, line.which] if terminal else [formats.one_line(line.function, 40), line_text, line.which]
        code, style = formats.one_line(line.code, code_width), "strong" * (line.where == "section")
        title = section_titles.get(line.code.removesuffix("()")) if style and not terminal else None
        name = formats.one_line(prose.plain_text(title), 80) if title else ""
        soft = (" " if terminal else ", ").join(part for part in which[bool(name) :] if part)
        if not terminal and len(labels) >= MANY:
            ends = _ends(line, labels, better or MEASURED_UNITS.get(line.unit or "" if line.where == "value" else ""))
            soft = "; ".join(part for part in (soft, ends) if part)
        where = Phrase(name, "" if name else code, soft, style=style)
        return [
            where,
            *(_figure(line, cell, unit, spread=wide) for cell in line.cells),
            *(_floor(floor, estimator) for floor in line.floors[:floors]),
        ]

    parts: list[Content] = [Phrase(_intro(comparison, base))]
    if csv:
        parts.append(Phrase(_("Every number, exactly: {csv}").format(csv=csv), link=csv))
    parts += [Phrase(formats.one_line(note, 400), style="note") for note in comparison.notes]
    titles = {"peaks": _("Peaks"), "machines": _("Machines"), "judged": _("Clear differences")}
    titles |= {table.quantity.key: _(table.quantity.title) for table in comparison.tables}
    alone = len(labels) == 1
    sentences = [
        Phrase(sentence.text, soft=titles[sentence.evidence], link=f"#{sentence.evidence}")
        if form == "html"
        else Phrase(sentence.text)
        for sentence in ([] if alone else summary_of(comparison))
    ]
    if sentences:
        parts.append(Part(_("Summary"), [Grid("list", (), [[phrase] for phrase in sentences])], "words"))
    machines = _machines(comparison, labels, wide=wide)
    parts.append(Part(_("Machines"), [machines], "machines") if form == "html" else machines)
    if comparison.ceilings:
        meaning = Phrase(_(FLOORS).format(base=base))
        estimated = Phrase(_estimated(comparison, labels))
        parts.append(Part(_("Machines that were not traced"), [meaning, _untraced(comparison), estimated], "floors"))
    if pairs:
        what = Phrase(_("Differences between each machine and {base}, along the lecture.").format(base=base))
        parts.append(Part(_("Step by step"), [what, Grid("list", (), [[pair] for pair in pairs])], "pairs"))
    figures = [] if terminal or (form == "md" and not csv) else list(charts_of(comparison))
    roofs = [chart for chart in figures if chart.name == "roofs"]
    if roofs:
        parts.append(Part(_("Rooflines"), roofs, "rooflines"))
    time = next(table for table in comparison.tables if table.quantity == TIME)
    sections = [line for line in time.lines if line.where == "section"]
    if sections and not terminal:
        meaning = Phrase(_("Warm time of each section on each machine."))
        parts.append(Part(_("Sections"), [meaning, grid(sections, "s", _("Sections"), better="lower")], "sections"))
    apart = judged(time.lines)
    if apart and not terminal:
        meaning = Phrase(_("Steps that were faster in every pass on one machine, by size of effect."))
        largest = grid(
            apart[:LEADING], "s", _("Steps with clear differences"), "", apart[LEADING:], N_("more step"), "lower"
        )
        parts.append(Part(_("Clear differences"), [meaning, largest], "judged"))
    peaks: list[Content] = [chart for chart in figures if chart.name != "roofs"]
    peak_grid = grid(comparison.peaks, None, _("Peaks"), _("peak"))
    peaks.append(peak_grid if comparison.peaks else Phrase(_("The peaks of these machines are unknown.")))
    if comparison.reached:
        peaks += [
            Phrase(_("Highest MFU of an annotated step:")),
            grid(comparison.reached, None, _("Highest MFU"), _("dtype")),
        ]
        peaks += _warnings(*comparison.reached)
    parts.append(Part(_("Peaks"), peaks, "peaks", folded=not terminal))
    for table in comparison.tables:
        quantity = table.quantity
        lines: Sequence[Line] = table.lines
        folded: Sequence[Line] = table.folded
        if terminal and everything:
            lines, folded = (*lines, *folded), ()
        elif terminal:
            steps = [line for line in lines if line.where != "section"]
            steps.sort(key=lambda line: -max(cell.value or 0 for cell in line.cells))
            few = [line for line in lines if line.where == "section" or line in steps[:FEW]]
            lines, folded = few, (*folded, *steps[FEW:])
        none = "" if lines else _(" No annotated step has this figure on any of these machines.")
        if lines or not terminal:
            meaning = Phrase(_(quantity.meaning) + none)
            rows = grid(lines, quantity.unit, _(quantity.title), "", folded, better=quantity.better)
            warned = _warnings(*lines, *folded)
            parts.append(Part(_(quantity.title), [meaning, *warned, rows], quantity.key, folded=not terminal))
    if comparison.values:
        title, meaning = (
            _("Measured by the lecture"),
            Phrase(_("Numbers that the lecture itself measured and inspected.")),
        )
        parts.append(Part(title, [meaning, grid(comparison.values, None, title)], "values", folded=not terminal))
    if form == "html":
        parts.append(Phrase(_(FOOT), style="foot"))
    title = (
        _("1 machine, and floors") if alone else _("{n} side by side").format(n=formats.plural(len(labels), "machine"))
    )
    return Report(comparison.title, f": {title}", parts)


def _ends(line: Line, labels: Sequence[str], better: str | None) -> str:
    """Name the best machine and the worst of a row, by its passes; "" if neither end is better."""
    best, worst = extremes(line.cells, better)
    if len(best) + len(worst) < 2 or not any(cell.value for cell in line.cells):
        return ""
    if set(best) & set(worst):
        return _("no clear difference")
    medians = [statistics.median(abs(line.cells[n].value or 0.0) for n in machines) for machines in (best, worst)]
    far = ""
    if all(line.cells[n].value for n in (*best, *worst)):
        far = formats.ratio(max(medians) / min(medians) if min(medians) else 0.0)
    named = [
        word.format(
            machines=_(" or ").join(labels[n] for n in machines)
            if len(machines) <= NAMED
            else _("one of {n}").format(n=len(machines))
        )
        for word, machines in ((_("best {machines}"), best), (_("worst {machines}"), worst))
    ]
    return ", ".join(named) + (_(", {far}× apart").format(far=far) if far else "")


def _intro(comparison: Comparison, base: str) -> str:
    matched = formats.plural(comparison.matched, "annotated step")
    if len(comparison.sides) == 1:
        return _("{matched} of {base}.").format(matched=matched, base=base)
    alone = [f"{side.label}: {n}" for side, n in zip(comparison.sides, comparison.unmatched, strict=True) if n]
    rest = _("; not on every machine: {names}").format(names=", ".join(alone)) if alone else ""
    every = _("{steps} matched on both machines{rest}. × is relative to {base}; {marks}.")
    if len(comparison.sides) > 2:
        every = _("{steps} matched on all {n} machines{rest}. × is relative to {base}; {marks}.")
    marks = _("● marks the best machine if all of its passes beat all passes of the others")
    if len(comparison.sides) >= MANY:
        marks += _(", ○ the worst")
    return every.format(steps=matched, n=len(comparison.sides), rest=rest, base=base, marks=marks)


def _machines(comparison: Comparison, labels: Sequence[str], *, wide: bool) -> Grid:
    """Describe each machine and its whole run, in a table if there is room."""
    facts = [_facts(side.trace) for side in comparison.sides]
    if wide:
        rows = [[Phrase(label), *map(Phrase, texts)] for label, texts in zip(labels, facts, strict=True)]
        return Grid("index", ("", *map(_, MACHINE_COLUMNS)), rows, _("Machines"))
    named = [
        " · ".join(
            [
                texts[0],
                *(f"{column} {fact}" for column, fact in zip(map(_, MACHINE_COLUMNS[1:]), texts[1:], strict=True)),
            ]
        )
        for texts in facts
    ]
    return Grid(
        "sides", (), [[Phrase(label, soft=text)] for label, text in zip(labels, named, strict=True)], _("Machines")
    )


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
    times = [whole_runs(trace.run, "warm_ns"), whole_runs(trace.run, "cold_ns")]
    return [
        formats.one_line(machine.name + threads, 60),
        formats.one_line(dict(trace.versions).get("torch", "–"), 40),
        str(trace.run.passes),
        _("{failed:,} of {n:,} failed").format(failed=failed, n=len(claims))
        if failed
        else _("all {n:,} hold").format(n=len(claims))
        if claims
        else _("none"),
        *(formats.duration(statistics.median(runs_ns)) if runs_ns else _("not timed") for runs_ns in times),
    ]


def _figure(line: Line, cell: Cell, unit: str | None, *, spread: bool) -> Phrase:
    """Format a figure: its median, half the range over the passes relative to it, and its ratio to the base.

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
        if spread and cell.low is not None and cell.high is not None and cell.low != cell.high:
            text += f" ± {formats.percent((cell.high - cell.low) / 2 / abs(cell.value or 1))}"
        text += ABOVE if cell.above else ""
    ratio = factor(cell.ratio) if cell.ratio not in (None, 1.0) and cell.ratio is not None else ""
    return Phrase(text, ratio=ratio, style="best" if cell.best else "worst" if cell.worst else "right")


def _warnings(*lines: Line) -> list[Phrase]:
    """Return the different warnings for rates among these lines that are above their roof."""
    warnings = dict.fromkeys(cell.above for line in lines for cell in line.cells if cell.above)
    return [Phrase(f"{ABOVE.strip()}: {warning}.", style="note") for warning in warnings]


def factor(ratio: float) -> str:
    """Format a ratio: × 0.31, × 12, × 1/1,470."""
    return f"× 1/{formats.ratio(1 / ratio)}" if 0 < ratio < 0.01 else f"× {formats.ratio(ratio)}"


def roof_of(label: str, machine: Machine, rates: Iterable[tuple[str, Cell]]) -> roofline.Roof:
    """Return a machine's roof and the rates of arithmetic that steps achieved, each with its code."""
    points = [
        roofline.RoofPoint(cell.intensity, cell.value, code, dtype=cell.dtype)
        for code, cell in rates
        if cell.value and cell.intensity is not None
    ]
    return roofline.roof_of(label, machine, points)


def charts_of(comparison: Comparison) -> Iterator[Chart]:
    """Yield all rooflines on one figure, and bars for each dtype: peaks, and the best share reached."""
    rates = next(table for table in comparison.tables if table.quantity == RATE)
    roofs = [
        roof_of(side.label, side.trace.machine, ((line.code, line.cells[index]) for line in rates.lines))
        for index, side in enumerate(comparison.sides)
    ]
    drawn = roofline.roofline(roofs, "roofs", _("Rooflines"))
    if drawn is not None:
        warnings = [warning.text for warning in _warnings(*rates.lines)]
        yield Chart("roofs", " ".join([_("Each machine's roof, and its annotated steps under it"), *warnings]), drawn)
    peaks = [line for line in comparison.peaks if line.code != "memory"]
    for name, title, lines, write in (
        ("peaks", _("Peak of each dtype"), peaks, lambda rate: formats.quantity(rate, "FLOP/s", 3)),
        ("reached", _("Highest MFU of an annotated step, by dtype"), comparison.reached, _share),
    ):
        rows = [
            (side.label, [line.cells[index].value for line in lines]) for index, side in enumerate(comparison.sides)
        ]
        drawn = bars([line.code for line in lines], rows, name, title, write)
        if drawn is not None:
            yield Chart(name, " ".join([title, *(warning.text for warning in _warnings(*lines))]), drawn)


def _floor(floor: Floor, estimator: Estimator | None) -> Phrase:
    """Format a lower bound with the roof that limits most of it, and an estimate with its error, if any."""
    if floor.seconds is None:
        return Phrase("–", soft=formats.one_line(floor.why or "", 160), style="missing")
    seconds = estimator.seconds(floor) if estimator is not None else None
    estimate = f"≈ {formats.duration(1e9 * seconds, 2)}, {_off(estimator)}" if estimator is not None and seconds else ""
    return Phrase(floor_in_words(floor, "≥ "), ratio=estimate, style="floor")


def _off(estimator: Estimator) -> str:
    return _("9 in 10 within × {ratio}").format(ratio=formats.ratio(estimator.most))


def _estimated(comparison: Comparison, labels: Sequence[str]) -> str:
    """Describe the basis of the estimates and their error for each machine that was left out."""
    estimator = comparison.estimator
    if estimator is None:
        names = {formats.one_line(side.trace.machine.name, 60) for side in comparison.sides}
        one = (
            _(" All of these traces are from one machine, {names}.").format(names=names.pop())
            if len(labels) > len(names) == 1
            else ""
        )
        return _(
            "Estimates need traces of two or more machines with counts for each operator: leaving out "
            "each machine in turn shows the error of the estimates.{one}"
        ).format(one=one)
    ratios = ", ".join(f"{kind} × {formats.ratio(ratio)}" for kind, ratio in sorted(estimator.ratios.items()))
    kinds = {"CPU" if side.trace.machine.device == "cpu" else "GPU" for side in comparison.sides}
    only = (
        _(" All of these are {kinds}s; the error on other devices was not tested.").format(kinds=kinds.pop())
        if len(kinds) == 1
        else ""
    )
    return _(
        "An estimate, ≈, multiplies the floor of each kind of operator by its ratio of time to floor "
        "on {names}: {ratios}. As a test, each machine was left out in turn: half of {tried} of its "
        "steps were off by at most × {ratio}, nine in ten by at most × {ratio2}, which is shown with "
        "each.{only} Operators with a floor below a microsecond have no estimate, because launching "
        "them takes longer."
    ).format(
        names=" and ".join(labels),
        ratios=ratios,
        tried=formats.plural(estimator.tried, "estimate"),
        ratio=formats.ratio(estimator.half),
        ratio2=formats.ratio(estimator.most),
        only=only,
    )


def _untraced(comparison: Comparison) -> Grid:
    """Describe the machines with lower bounds, and whether the lecture's tensors would fit there."""
    rows = []
    for ceiling in comparison.ceilings:
        by_dtype = [(name, ceiling.flops_per_second.get(name)) for name in ("bfloat16", "float16", "float32")]
        rates = [
            _("{rate} in {name}").format(rate=formats.quantity(rate, "FLOP/s", 4), name=name)
            for name, rate in by_dtype
            if rate
        ]
        rates_text = ", ".join([formats.quantity(ceiling.bytes_per_second, "B/s", 4), *rates])
        fit = fit_in_words(comparison.live_bytes, ceiling)
        rows.append(
            [
                Phrase(
                    _("{name}: {rates_text} ({source}). Would the lecture fit? {fit}.").format(
                        name=ceiling.name, rates_text=rates_text, source=ceiling.source, fit=fit
                    )
                )
            ]
        )
    return Grid("list", (), rows)


def _share(share: float) -> str:
    return f"{formats.number(100 * share, 3).removesuffix('.0')}%"


def csv_text(comparison: Comparison) -> str:
    """Return every number exactly, one row for each quantity of each step, one column for each machine."""
    out = io.StringIO()
    rows = spreadsheet.writer(out, lineterminator="\n")
    labels = [side.label for side in comparison.sides]
    header = ["quantity", "unit", "where", "function", "line", "code", "which", *labels]
    header += [f"{label} ÷ {labels[comparison.base]}" for label in labels]
    header += [f"{FLOOR}: {ceiling.name}" for ceiling in comparison.ceilings]
    estimator = comparison.estimator
    if estimator is not None:
        header += [f"estimate, {_off(estimator)}: {ceiling.name}" for ceiling in comparison.ceilings]
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
            if estimator is not None:
                numbers += [estimator.seconds(floor) for floor in line.floors] or [None] * len(comparison.ceilings)
            above = "; ".join(label for label, cell in zip(labels, line.cells, strict=True) if cell.above)
            shown = ["" if number is None else repr(number) for number in numbers]
            rows.writerow([*map(_as_text, columns), *shown, _as_text(above)])
    return out.getvalue()


def _as_text(text: str) -> str:
    """Return text that a spreadsheet reads as text, not as a formula."""
    text = formats.one_line(text, 300)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text

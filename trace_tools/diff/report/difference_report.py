"""Build the report of a Difference: differences that matter first, then how they were judged.

report_of(difference, "terminal")                                 # fits a screen: four of each, and a count of the rest
report_of(difference, "md")                                       # the same, in tables
report_of(difference, "html", site="index.html")                  # has all: figures, both sides along the lecture
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from trace_tools.diff.difference import Aspect, Difference, Side, StepPair
from trace_tools.diff.report.entries import ORDER, ReportEntry, blocks, entries
from trace_tools.diff.report.timings import summary, timing_parts
from trace_tools.diff.wording import setting_sides, subject_text, word_of
from trace_tools.presentation.report import Content, Form, Grid, Part, Phrase, Report
from trace_tools.trace.model import MODULE
from trace_tools.util import formats

LEADS = "Possible causes of other differences"
LEAD_COLUMNS = ("where", "what", "A", "B", "how it differs")
RATIOS = "Times of annotated steps, as ratios"  # title of the comparison of two machines
WORDS: dict[Aspect, tuple[str, str]] = {  # an aspect's title and its noun for a single difference
    "claims": ("Claims", "claim"),
    "values": ("Values", "value"),
    "memory": ("Memory", "memory figure"),
    "flops": ("FLOPs, bytes and operators", "count"),
    "time": ("Time, by time lost or gained", "timing"),
    "steps": ("Steps", "step"),
    "output": ("Output", "output"),
}
ALL = 10**9
# Limits of texts and of the page: entries of an aspect, folded entries, settings, functions, notes.
TEXT, PAGE, NONE = (4, 0, 6, 6, 3), (12, 200, ALL, 12, ALL), (ALL, 0, ALL, ALL, ALL)
CODE = 90  # characters of a line of source
MOST_ORIGINS = 3  # most lines that an entry names as possible causes
NOTHING = "No difference that matters in settings, claims, values, times, memory or steps."
FOOT = (
    f"{formats.SPREAD} “No difference detected” is not “the same”. Values that vary between passes are never reported "
    "as changed."
)


def report_of(difference: Difference, form: Form, *, everything: bool = False, site: str | None = None) -> Report:
    """Return the report within the limits of a format; with `everything`, all differences, and no text is cut.

    Markdown has the lines of a terminal. `site` is the page of all machines, if it is in the same folder.
    """
    a, b = difference.a, difference.b
    html, limits = form == "html", NONE if everything else PAGE if form == "html" else TEXT
    most_entries, most_folded, most_settings, most_functions, most_notes = limits
    quality = "bad" if difference.matters else "warn" if difference.time_not_judged else "ok"
    sides = [[Phrase(letter, s.name, side_text(s))] for letter, s in (("A", a), ("B", b))]
    parts: list[Content] = [
        Grid("sides", (a.label, b.label), sides, "The two sides"),
        *([Phrase("All machines side by side", link=site)] if site else []),
        Phrase(headline(difference), style=f"headline {quality}"),
    ]
    every_note = _notes(difference)
    notes = [Phrase(note, style="note") for note in every_note[:most_notes]]
    if len(every_note) > len(notes):
        notes.append(Phrase(f"and {len(every_note) - len(notes)} more", style="note"))
    settings = [
        [
            Phrase(f"{setting.group}: {setting.name}"),
            *(Phrase("–" if side is None else side) for side in setting_sides(setting)),
        ]
        for setting in difference.settings
    ]
    functions = [
        [
            Phrase(f.how),
            *(Phrase(code=name) if name else Phrase("–") for name in (f.a, f.b)),
            Phrase(formats.percent(f.similarity)),
            Phrase(formats.one_line(", ".join(f"{a} → {b}" for a, b in f.variables), CODE)),
        ]
        for f in difference.matching.functions
    ]
    hardware = "Differing settings, versions and hardware"
    before = _changes(hardware, "Settings", ("", "A", "B"), settings, most_settings, html=html)
    columns = ("", "A", "B", "similarity", "renamed variables")
    code = _changes("Functions that changed", "Code", columns, functions, most_functions, html=html)
    leads = list(_leads(difference, most_entries, most_folded, html=html, everything=everything))
    judged = Grid("list", (), [[Phrase(line)] for line in _how_judged(difference, html=html)])
    if not html:
        if not everything:  # different printed text is no difference that matters, but readers may look for it
            printed = [e for e in entries(difference, "output", everything=True) if e.finding.subject.kind == "printed"]
            more = f"… and {len(printed) - most_entries:,} more (--all)" if len(printed) > most_entries else ""
            rows = [_entry_row(difference, entry) for entry in printed[:most_entries]]
            grid = Grid("leads", LEAD_COLUMNS, rows, "Printed text", rest=more)
            leads += [Part("Printed text", [grid])] if rows else []
        return Report("", f"A {a.label} → B {b.label}", [*parts, *before, *code, *notes, *leads, judged])
    matters = [*before, *leads, *code]
    if text := summary(difference, {aspect: WORDS[aspect][1] for aspect in ("claims", "values", "memory", "flops")}):
        parts.append(Phrase(text))
    timings = list(timing_parts(difference))
    parts += notes
    if matters or not timings:
        parts.append(Part("What matters", matters or [Phrase(NOTHING)], "matters"))
    if timings:
        parts.append(Part("Times" if difference.same_machine else RATIOS, timings, "times"))
    parts += [Part("How it was judged", [judged], "judged", folded=True), Phrase(FOOT, style="foot")]
    return Report(b.trace.title, ": what differs", parts, (a.label, b.label))


def _changes(
    title: str, name: str, columns: tuple[str, ...], rows: Sequence[Sequence[Phrase]], most: int, *, html: bool
) -> list[Part]:
    """Return the differences that existed before the run, which may explain all others."""
    more = f"{len(rows) - most:,} more" if len(rows) > most else ""
    grid = Grid("changes", columns, rows[:most], name, rows[most:] if html else (), more, "" if html else more)
    return [Part(title, [grid])] if rows else []


def side_text(side: Side) -> str:
    """Describe a side in one line: its machine, torch, passes, start and end."""
    run = side.trace.run
    torch = dict(side.trace.versions).get("torch")
    parts = [side.trace.machine.name]
    parts += [f"torch {torch}"] if torch else []
    parts += ["1 pass" if run.passes == 1 else f"{run.passes} passes"]
    parts += [] if run.complete else [f"partial: {run.ended}"]
    parts.append(run.started)
    parts += [f"commit {run.commit}"] if run.commit else []
    return " · ".join(parts)


# --- what differs ---------------------------------------------------------------------------------


def headline(difference: Difference) -> str:
    """Summarise in one line the differences that matter, and whether times could be judged."""
    leading: list[ReportEntry] = []
    matters: Counter[Aspect] = Counter()
    after: Counter[Aspect] = Counter()  # what may follow from an earlier difference
    for aspect, lead, group in blocks(difference):
        if lead:
            leading += group
        else:
            after[aspect] += sum(bool(entry.after_lines) for entry in group)
            matters[aspect] += sum(not entry.after_lines for entry in group)
    leads = Counter(entry.finding.subject.kind for entry in leading)
    matters.update(e.finding.aspect for e in leading if e.finding.subject.kind not in ("code", "executions"))
    parts = [formats.plural(leads["code"], "edited statement")] if leads["code"] else []
    ran = formats.plural(leads["executions"], "statement")
    parts += [f"{ran} that ran more or less often"] if leads["executions"] else []
    parts += [formats.plural(matters[aspect], WORDS[aspect][1]) for aspect in ORDER if matters[aspect]]
    following = [formats.plural(after[aspect], WORDS[aspect][1]) for aspect in ORDER if after[aspect]]
    unjudged = f"TIME NOT JUDGED: {difference.time_not_judged}" if difference.time_not_judged else None
    if parts or following:
        text = f"Differences that matter: {', '.join(parts or following)}"
        text += f" (which may cause: {', '.join(following)})" if parts and following else ""
        return f"{text}. {unjudged}" if unjudged else text
    none = "differences that matter" if any(map(_differs, difference.rows)) else "differences"
    return f"{unjudged}. No other {none}" if unjudged else f"No {none}"


def _differs(row: StepPair) -> bool:
    """Return whether two recordings of one execution differ in any way, however small."""
    return any(f.a != f.b or (f.aspect != "time" and f.verdict != "noise") for f in row.findings)


def _leads(difference: Difference, most: int, most_folded: int, *, html: bool, everything: bool) -> Iterator[Part]:
    """Yield possible causes of other differences, then the others by aspect, at most `most` of each and more folded.

    Times on two machines are uncertain, so they follow all differences that matter.
    """
    groups = [
        (LEADS if lead else WORDS[aspect][0], group)
        for aspect, lead, group in blocks(difference, everything=everything)
        if aspect != "time" or (not html and (difference.same_machine or everything))
    ]
    if not difference.same_machine and not everything and not html:
        every = entries(difference, "time", everything=True)
        groups.append((RATIOS, [e for e in every if e.finding.verdict == "ratio" and e.row.step.annotated]))
    for title, group in groups:
        summary, omitted = "", ""
        over, unlisted = len(group) - most, len(group) - most - most_folded
        if not html:
            omitted = f"… and {over:,} more (--all)" if over > 0 else ""
        else:
            summary = f"{min(over, most_folded)} more"
            omitted = f"{unlisted} more (--all, or the pages with the other machine's column)." if unlisted > 0 else ""
        rows = [_entry_row(difference, entry) for entry in group[: most + most_folded]]
        if rows:
            grid = Grid("leads", LEAD_COLUMNS, rows[:most], "Differences", rows[most:], summary, omitted)
            yield Part(title, [grid])


def _entry_row(difference: Difference, entry: ReportEntry) -> list[Phrase]:
    """Format an entry: position, subject, both sides, difference, number of executions, consequences."""
    row, is_time = entry.row, entry.finding.aspect == "time"
    path = (difference.a if row.b is None else difference.b).trace.source.path
    function = difference.function_of(row).replace(MODULE, "")
    subject = Phrase(code=entry.name)
    if is_time or entry.finding.subject.kind == "code":
        subject = Phrase("time") if is_time else Phrase("code")
    sides = [Phrase("–" if text is None else text, style="right" * is_time) for text in (entry.a, entry.b)]
    verdict = entry.name if is_time and entry.finding.verdict in ("changed", "ratio") else entry.word
    how = [entry.name] if is_time and entry.name not in (verdict, entry.finding.verdict) else []
    how += [entry.detail] if entry.detail else []
    how += [f"in {entry.executions:,} executions"] if entry.executions > 1 else []
    how += [f"explains {entry.follows:,} more"] if entry.follows else []
    if lines := [str(line) for line in entry.after_lines[-MOST_ORIGINS:]]:  # the nearest ones
        how.append(f"may follow from line {' or '.join(filter(None, (', '.join(lines[:-1]), lines[-1])))}")
    differs = Phrase(verdict, soft="; ".join(how), style=entry.word)
    return [Phrase(f"{path}:{row.step.line}", _code(difference, row), function), subject, *sides, differs]


def _code(difference: Difference, row: StepPair) -> str:
    """Return a row's line of source without directives, from B if B has it."""
    side = difference.a if row.b is None else difference.b
    return formats.one_line(side.shown_lines[row.step.line - 1], CODE)


# --- how it was judged ----------------------------------------------------------------------------


def _notes(difference: Difference) -> list[str]:
    """Return the most important notes, each once, including the note that a slowdown could go unnoticed."""
    times, notes = difference.times, list(difference.notes)
    passes, needed = min(times.a_processes, times.b_processes), times.passes_for_20_percent
    if times.judged and (needed is None or needed > passes):
        would = f"about {needed} would find it" if needed else "with this noise not even 50 would find it"
        notes.append(f"time: a change of 20% can go unnoticed with {passes} passes; {would}")
    return [*dict.fromkeys(notes)]


def _how_judged(difference: Difference, *, html: bool) -> Iterator[str]:
    """Yield sentences about comparisons that are not worth an entry, and the precision of the judgement."""
    for aspect in ORDER:
        of_aspect = {verdict: n for which, verdict, n in difference.counts if which == aspect}
        lines = [f"{of_aspect['same']:,} the same"] if "same" in of_aspect else []
        noise = Counter(word_of(f) for _, f in difference.findings(aspect) if f.verdict == "noise")
        lines += [f"{n:,} {word}" for word, n in noise.items()]
        lines += [f"{of_aspect['not judged']:,} not judged"] if "not judged" in of_aspect else []
        if lines and aspect != "time":
            yield f"{aspect}: {', '.join(lines)}"
    if sentence := _time_sentence(difference):
        yield sentence
    for why, count in difference.times.not_judged if html else ():
        yield _unjudged(why, count)
    if difference.tolerances:
        used = ", ".join(f"{t.dtype} {t.relative:g} relative + {t.absolute:g} absolute" for t in difference.tolerances)
        yield f"numbers within these tolerances count as equal (at least those of torch.testing): {used}"
    if difference.ignored:
        yield f"left out on request: {', '.join(difference.ignored)}"


def _unjudged(why: str, count: int) -> str:
    return f"{formats.plural(count, 'timing')} not judged: {why}"


def _time_sentence(difference: Difference) -> str:
    """Describe how times were judged and the smallest detectable change; "" without times."""
    times = difference.times
    unjudged = sum(n for _, n in times.not_judged)
    if not difference.same_machine:
        ratios = sum(n for which, verdict, n in difference.counts if (which, verdict) == ("time", "ratio"))
        return f"times: {ratios:,} ratios between two machines, {unjudged:,} not comparable" if ratios else ""
    if not times.judged:
        return "; ".join(_unjudged(why, n) for why, n in times.not_judged[:3])
    text = f"times in {formats.plural(times.statements, 'statement')}: {times.different:,} of {times.judged:,} differ "
    text += f"({formats.percent(times.different / times.judged)}), no difference detected in "
    text += f"{times.judged - times.different:,}"
    if times.noise is not None and times.detectable is not None:
        text += f"; noise {formats.percent(times.noise)} between processes; smallest change detectable in half of the "
        text += f"statements: {formats.three_digits(times.detectable)}×"
    if times.drift is not None and abs(times.drift - 1) >= 0.005:
        text += f"; most took {formats.three_digits(times.drift)}× as long, attributed to the machine"
    return text + (f"; {unjudged:,} not judged" if unjudged else "")


# --- JSON -----------------------------------------------------------------------------------------


FORMAT, VERSION = "trace_tools difference", 3


def difference_json(difference: Difference) -> str:
    """Return the difference as JSON text; the same difference gives the same text."""
    summary = {
        "format": FORMAT,
        "version": VERSION,
        "matters": difference.matters,
        "a": _side(difference.a),
        "b": _side(difference.b),
        "same_machine": difference.same_machine,
        "time_not_judged": difference.time_not_judged,
        "settings": difference.settings,
        "functions": difference.matching.functions,
        "notes": difference.notes,
        "ignored": difference.ignored,
        "counts": difference.counts,
        "tolerances": difference.tolerances,
        "times": difference.times,
    }
    # Findings are encoded one by one: as plain data, 100,000 take ten times the memory of their lines.
    lines = ",\n".join(msgspec.json.encode(finding).decode() for finding in _findings(difference))
    head = msgspec.json.format(msgspec.json.encode(summary), indent=1).decode()
    return f'{head.removesuffix("}").rstrip()},\n "findings": [\n{lines}\n ]\n}}\n'


def _side(side: Side) -> dict[str, Any]:
    run, machine = side.trace.run, side.trace.machine
    return {
        "name": side.name,
        "title": side.trace.title,
        "machine": machine.name,
        "device": machine.device,
        "started": run.started,
        "passes": run.passes,
        "complete": run.complete,
    }


def _findings(difference: Difference) -> Iterator[dict[str, Any]]:
    for row in difference.rows:
        side = difference.a if row.b is None else difference.b
        position = {
            "row": row.number,
            "function": difference.function_of(row),
            "path": side.trace.source.path,
            "line": row.step.line,
            "execution": row.step.execution,
            "a_step": None if row.a is None else row.a.id,
            "b_step": None if row.b is None else row.b.id,
        }
        for finding in row.findings:
            yield {**position, "name": subject_text(finding.subject), **msgspec.to_builtins(finding)}

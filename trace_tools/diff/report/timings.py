"""Build the part of a page about times: what differs by roof, then each timing by section and statement.

    list(timing_parts(difference))          [Grid("list", …), Part("Compute accounting", [Grid("timings", …)]), …]

A timing is one statement in one function, for all its executions that were judged together, or a measurement in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from trace_tools.diff.difference import Aspect, Difference
from trace_tools.diff.report.entries import ReportEntry, timings_of
from trace_tools.presentation import prose
from trace_tools.presentation.report import Content, Grid, Part, Phrase
from trace_tools.util import formats

COLUMNS = ("", "A → B", "B / A", "95% interval", "0.5× to 4×", "share of roof, A → B")
CODE = 70  # characters of a statement
NEAR, HALF = 0.85, 0.5  # least shares of a roof of arithmetic, and of memory, that are called its roof
FIRST, LAST = 0.5, 4.0  # ends of the strips, whose scale is logarithmic


def summary(difference: Difference, nouns: Mapping[Aspect, str]) -> str:
    """Summarise in two sentences how many times differ, and which observations are all the same."""
    timings = timings_of(difference) if difference.same_machine else []
    sentences = []
    if timings:
        slower, lines = [ratio for t in timings if (ratio := _ratio(t)) > 1], {t.line for t in timings}
        parts = []
        if slower:
            spread = dict.fromkeys(formats.three_digits(end) for end in (min(slower), max(slower)))
            parts.append(f"{len(slower):,} slower on B, by {' to '.join(spread)} times")
        parts += [f"{len(timings) - len(slower):,} faster"] if len(timings) > len(slower) else []
        executions = sum(timing.executions for timing in timings)
        count = f"{formats.plural(len(timings), 'timing')} on {formats.plural(len(lines), 'line')}"
        count += f" ({executions:,} executions)" if executions > len(timings) else ""
        containing = difference.times.different - executions
        more = f" {containing:,} more only contain one of these." if containing else ""
        sentences.append(f"{count} of the lecture: {', '.join(parts)}.{more}")
    changed = {finding.aspect for row in difference.rows for finding in row.findings if finding.matters}
    same = [
        formats.plural(n, nouns[aspect])
        for aspect, verdict, n in difference.counts
        if verdict == "same" and aspect in nouns and aspect not in changed
    ]
    if same:
        sentences.append(f"The same: {', '.join(same)}.")
    return " ".join(sentences)


def timing_parts(difference: Difference) -> Iterator[Content]:
    """Yield what differs by roof, then the timings of each section with its title."""
    timings = timings_of(difference)
    if lines := [[phrase] for phrase in _by_roof(timings)]:
        yield Grid("list", (), lines, "By roof")
    titles, by_section = difference.b.titles, dict[str | None, list[ReportEntry]]()
    for timing in timings:
        by_section.setdefault(difference.frames[timing.row.frame].section, []).append(timing)
    for section, here in by_section.items():
        rows: list[list[Phrase]] = []
        for (line, _), group in groupby(here, lambda timing: (timing.line, timing.row.step.statement)):
            together = list(group)
            shown = difference.b.shown_lines[line - 1].partition("  #")[0]  # without its comment
            code = formats.one_line(shown, CODE)
            if len(together) > 1:  # the statement, and its measurements below it
                rows.append([Phrase(code=code, soft=f"line {line}", style="strong")])
            rows += [_row(timing, code if len(together) == 1 else "") for timing in together]
        title = (
            formats.one_line(prose.readable_text(titles[section]), 80) if section in titles else section or "Elsewhere"
        )
        yield Part(title, [Grid("timings", COLUMNS, rows, f"Times in {title}")])


def _ratio(timing: ReportEntry) -> float:
    """Return the ratio B / A of all executions that were judged together."""
    return timing.finding.durations.overall or 1.0


def _share(timing: ReportEntry) -> float:
    """Return the share of A's roof."""
    return timing.finding.durations.a_share or 0.0


def _row(timing: ReportEntry, code: str) -> list[Phrase]:
    """Format a timing: its code or name, both times, their ratio with its interval and strip, shares of the roof."""
    row, subject, of, ratio = timing.row, timing.finding.subject, timing.finding.durations, _ratio(timing)
    kinds = {"measured": f"measurement {subject.index + 1}", "launch": "launch time"}
    name = kinds.get(subject.kind, "its own time" if of.executions > 1 else f"execution {row.step.execution}")
    notes = [f"line {timing.line}"] if code else []
    notes += [name] if code and subject.kind in kinds else []
    notes += [f"in {timing.executions:,} executions"] if timing.executions > 1 else []
    notes += [f"explains {timing.follows} more"] if timing.follows else []
    ends = of.interval or (ratio, ratio)
    shares = [formats.percent(share) if share is not None else "–" for share in (of.a_share, of.b_share)]
    return [
        Phrase("" if code else name, code, "; ".join(notes)),
        Phrase(f"{timing.a} → {timing.b}", style="right"),
        Phrase(f"{formats.three_digits(ratio)}×", style="faster" if ratio < 1 else "slower"),
        Phrase(" to ".join(map(formats.three_digits, ends)) if of.interval else ""),
        Phrase(style="strip", strip=(_across(ends[0]), _across(ratio), _across(ends[1]))),
        Phrase(" → ".join(shares) if of.roof else "", soft=formats.one_line(of.roof or "", 40), style="right"),
    ]


def _across(ratio: float) -> float:
    """Return the position of a ratio on a strip, from 0 to 100."""
    bounded = min(max(ratio, FIRST), LAST)
    return round(100 * math.log(bounded / FIRST) / math.log(LAST / FIRST), 1)


def _by_roof(timings: Sequence[ReportEntry]) -> Iterator[Phrase]:
    """Yield a sentence for the timings under each of A's roofs, and for timings that are faster on B."""
    slower = [timing for timing in timings if _ratio(timing) > 1]
    under = [timing for timing in slower if timing.finding.durations.roof]
    of_memory = [timing for timing in under if "memory" in (timing.finding.durations.roof or "")]
    of_arithmetic = [timing for timing in under if timing not in of_memory]
    kinds = [
        ("At the roof of arithmetic", "85% or more of A's peak", [t for t in of_arithmetic if _share(t) >= NEAR]),
        ("At the roof of memory", "50 to 100%", [timing for timing in of_memory if HALF <= _share(timing) <= 1]),
        ("From A's cache", "above its roof of memory", [timing for timing in of_memory if _share(timing) > 1]),
    ]
    for name, share, group in kinds:
        if group:
            ratios = list(map(_ratio, group))
            spread = dict.fromkeys(formats.three_digits(end) for end in (min(ratios), max(ratios)))
            text = f"{name} ({share}; {formats.plural(len(group), 'timing')}): {' to '.join(spread)} times as long."
            yield Phrase(text)
    if faster := [timing for timing in timings if _ratio(timing) < 1]:
        longest = formats.duration(max(max(timing.finding.numbers or (0.0,)) for timing in faster))
        yield Phrase(f"Faster on B ({formats.plural(len(faster), 'timing')}): all take at most {longest}.")

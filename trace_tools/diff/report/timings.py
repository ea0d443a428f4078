"""Build the part of a page about times: what differs by roof, then each timing by section and statement.

    found = timings_of(difference)
    found[0].statement, found[0].time       ("x @ w", Finding("time", "changed", …))
    list(timing_parts(difference))          [Grid("list", …), Part("Compute accounting", [Grid("timings", …)]), …]

A timing is one statement in one function, for all its executions that were judged together, or one of its
measurements. On one machine only timings that differ are listed, on two machines those of annotated statements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trace_tools.diff.difference import Aspect, Difference, Finding, StepPair
from trace_tools.diff.report.sources import shown_line, titles_of
from trace_tools.presentation import prose
from trace_tools.presentation.report import Content, Grid, Part, Phrase
from trace_tools.util import formats

COLUMNS = ("", "A → B", "B / A", "95% interval", "0.5× to 4×", "share of roof, A → B")
CODE = 70  # characters of a statement
NEAR, HALF = 0.85, 0.5  # least shares of a roof of arithmetic, and of memory, that are called its roof
FIRST, LAST = 0.5, 4.0  # ends of the strips, whose scale is logarithmic


@dataclass(frozen=True, slots=True)
class Timing:
    """One timing: its first execution, its time there, its statement, and the findings that it explains."""

    row: StepPair
    time: Finding
    section: str | None
    statement: str
    follows: int

    @property
    def ratio(self) -> float:
        """The ratio B / A of all its executions."""
        return self.time.durations.overall or 1.0

    @property
    def share(self) -> float:
        """The share of A's roof."""
        return self.time.durations.a_share or 0.0


def timings_of(difference: Difference) -> list[Timing]:
    """Return the timings to list, each once, in the lecture's order; those that follow from others are left out."""
    found: dict[tuple[object, ...], Timing] = {}
    times = list(difference.findings("time"))
    causes = [time.cause for _, time in times if time.cause is not None]
    for row, time in times:
        wanted = time.matters and time.cause is None
        if not wanted and not (time.verdict == "ratio" and row.step.annotated):
            continue
        pair = difference.frames[row.frame]
        code = formats.one_line(shown_line(difference.b, pair.frame.source, row.step.line), CODE)
        key = (difference.function_of(row), row.step.statement, time.subject, time.durations.overall)
        found.setdefault(key, Timing(row, time, pair.section, code, causes.count(row.number)))
    return list(found.values())


def summary(difference: Difference, nouns: Mapping[Aspect, str]) -> str:
    """Summarise in two sentences how many times differ, and which observations are all the same."""
    timings = timings_of(difference) if difference.same_machine else []
    sentences = []
    if timings:
        slower, lines = [t.ratio for t in timings if t.ratio > 1], {timing.row.step.line for timing in timings}
        parts = []
        if slower:
            spread = dict.fromkeys(formats.ratio(end) for end in (min(slower), max(slower)))
            parts.append(f"{len(slower):,} slower on B, by {' to '.join(spread)} times")
        parts += [f"{len(timings) - len(slower):,} faster"] if len(timings) > len(slower) else []
        count = f"{formats.plural(len(timings), 'timing')} on {formats.plural(len(lines), 'line')}"
        sentences.append(f"{count} of the lecture: {', '.join(parts)}.")
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
    titles, sections = titles_of(difference.b), dict.fromkeys(timing.section for timing in timings)
    for section in sections:
        here = [timing for timing in timings if timing.section == section]
        rows: list[list[Phrase]] = []
        for n, timing in enumerate(here):
            if n == 0 or _place(here[n - 1]) != _place(timing):
                together = [other for other in here if _place(other) == _place(timing)]
                if len(together) > 1:
                    rows.append([Phrase(code=timing.statement, soft=f"line {timing.row.step.line}", style="strong")])
            else:
                together = [timing, timing]
            rows.append(_row(timing, alone=len(together) == 1))
        title = formats.one_line(prose.plain_text(titles[section]), 80) if section in titles else section or "Elsewhere"
        yield Part(title, [Grid("timings", COLUMNS, rows, f"Times in {title}")])


def _place(timing: Timing) -> tuple[int, int]:
    return timing.row.step.line, timing.row.step.statement


def _row(timing: Timing, *, alone: bool) -> list[Phrase]:
    """Format a timing: its name, both times, their ratio with its interval and strip, and the shares of the roof."""
    row, time, of = timing.row, timing.time, timing.time.durations
    a_ns, b_ns = time.numbers or (0.0, 0.0)
    kinds = {"measured": f"measurement {time.subject.index + 1}", "launch": "launch time"}
    name = kinds.get(time.subject.kind, f"execution {row.step.execution}" if of.executions == 1 else "its own time")
    notes = [f"line {row.step.line}"] if alone else []
    notes += [name] if alone and time.subject.kind in kinds else []
    notes += [f"in {of.executions:,} executions"] if of.executions > 1 else []
    notes += [f"adjusted p {of.adjusted_p:.2g}"] if of.adjusted_p is not None and time.matters else []
    notes += [f"explains {timing.follows} more"] if timing.follows else []
    ends = of.interval or (timing.ratio, timing.ratio)
    shares = [formats.percent(share) if share is not None else "–" for share in (of.a_share, of.b_share)]
    return [
        Phrase(code=timing.statement, soft="; ".join(notes)) if alone else Phrase(name, soft="; ".join(notes)),
        Phrase(f"{formats.duration(a_ns)} → {formats.duration(b_ns)}", style="right"),
        Phrase(f"{formats.ratio(timing.ratio)}×", style="faster" if timing.ratio < 1 else "slower"),
        Phrase(" to ".join(map(formats.ratio, ends)) if of.interval else ""),
        Phrase(style="strip", strip=(_across(ends[0]), _across(timing.ratio), _across(ends[1]))),
        Phrase(" → ".join(shares) if of.roof else "", soft=formats.one_line(of.roof or "", 40), style="right"),
    ]


def _across(ratio: float) -> float:
    """Return the position of a ratio on a strip, from 0 to 100."""
    bounded = min(max(ratio, FIRST), LAST)
    return round(100 * math.log(bounded / FIRST) / math.log(LAST / FIRST), 1)


def _by_roof(timings: Sequence[Timing]) -> Iterator[Phrase]:
    """Yield a sentence for the timings under each of A's roofs, and for those that are faster on B."""
    slower = [timing for timing in timings if timing.ratio > 1]

    def under(timing: Timing, *, memory: bool) -> bool:
        return timing.time.durations.roof is not None and ("memory" in timing.time.durations.roof) is memory

    kinds: list[tuple[str, str, Callable[[Timing], bool]]] = [
        ("At the roof of arithmetic", "85% or more of A's peak", lambda t: under(t, memory=False) and t.share >= NEAR),
        ("At the roof of memory", "50 to 100%", lambda t: under(t, memory=True) and HALF <= t.share <= 1),
        ("From A's cache", "above its roof of memory", lambda t: under(t, memory=True) and t.share > 1),
    ]
    for name, share, belongs in kinds:
        if some := [timing.ratio for timing in slower if belongs(timing)]:
            spread = dict.fromkeys(formats.ratio(end) for end in (min(some), max(some)))
            text = f"{name} ({share}; {formats.plural(len(some), 'timing')}): {' to '.join(spread)} times as long."
            yield Phrase(text)
    if faster := [timing for timing in timings if timing.ratio < 1]:
        longest = formats.duration(max(max(timing.time.numbers or (0.0,)) for timing in faster))
        yield Phrase(f"Faster on B ({formats.plural(len(faster), 'timing')}): all take at most {longest}.")

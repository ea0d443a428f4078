"""What the Markdown and the HTML report say in the same words: sides, counts, tolerances, ratios.

side_text(difference.b)     "NVIDIA H200 · torch 2.13.0 · 3 passes"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from trace_tools import formats
from trace_tools.comparing.difference import Aspect, Difference, Side, TimeFinding
from trace_tools.comparing.reports.entries import Entry, blocks, entries, quiet_counts, roof_texts, time_sentence
from trace_tools.errors import LectureError
from trace_tools.layout import cut_source, split_lines
from trace_tools.schema import SourceFile

CODE = 90  # characters of a line of source
TITLES: dict[Aspect, str] = {
    "claims": "Claims",
    "values": "Values",
    "memory": "Memory",
    "flops": "FLOPs, bytes and operators",
    "time": "Time",
    "steps": "Steps",
    "output": "Output",
}


LEADS = "What others may follow from"


def leading(difference: Difference) -> list[tuple[Aspect, str, list[Entry]]]:
    """Return what matters: what others follow from, the rest by aspect, the ratios of annotated steps' times."""
    found: list[tuple[Aspect, str, list[Entry]]] = []
    for aspect, lead, lines in blocks(difference):
        title = LEADS if lead else TITLES[aspect]
        if aspect == "time" and not difference.same_machine:
            annotated = {row.number for row in difference.rows if row.step.annotated}
            every = entries(difference, aspect, everything=True)
            lines = [e for e in every if e.verdict == "ratio" and e.row in annotated]
            title = "Times of annotated steps, as ratios"
        if lines:
            found.append((aspect, title, lines))
    return found


def side_text(side: Side) -> str:
    """Say in one line what a side is: its machine, its torch, its passes, how it ended."""
    trace = side.trace
    torch = dict(trace.versions).get("torch")
    parts = [formats.one_line(trace.machine.name, 60)]
    parts += [f"torch {formats.one_line(torch, 40)}"] if torch else []
    parts += ["1 pass" if trace.run.passes == 1 else f"{trace.run.passes} passes"]
    parts += [f"commit {formats.one_line(trace.run.commit, 60)}"] if trace.run.commit else []
    parts += [] if trace.run.complete else [f"partial: {formats.one_line(trace.run.ended, 80)}"]
    return " · ".join(parts)


def change_text(entry: Entry) -> str:
    """Say how something differs: its verdict, the detail, how often, what follows from it."""
    ratio = entry.aspect == "time" and entry.verdict != "not judged"
    parts = [entry.name if ratio else entry.verdict]
    parts += [entry.detail] if entry.detail else []
    parts += [f"in {entry.executions:,} executions"] if entry.executions > 1 else []
    parts += [f"explains {entry.follows:,} more"] if entry.follows else []
    parts += [f"may follow from line {entry.after_line}"] if entry.after_line is not None else []
    return formats.one_line("; ".join(parts), 300)


def time_text(time: TimeFinding) -> str:
    """Write a ratio with its interval, and each side's share of its own roof."""
    parts = []
    if time.overall is not None:
        span = f" ({' to '.join(map(formats.ratio, time.interval))})" if time.interval else ""
        together = f" over {time.executions:,} executions" if time.executions > 1 else ""
        parts.append(f"× {formats.ratio(time.overall)}{span}{together}")
    parts += roof_texts(time)
    if time.why and time.clock != "launch":  # its name says why
        parts.append(formats.one_line(time.why, 160))
    return ", ".join(parts)


def shown_lines(side: Side) -> list[tuple[str, ...]]:
    """Return the lines of each of a side's sources as pages show them: without directives."""
    return [_shown(source) for source in side.trace.sources]


@lru_cache(maxsize=8)
def _shown(source: SourceFile) -> tuple[str, ...]:
    try:
        return tuple(line or "" for line in cut_source(source.text, source.path).lines)
    except LectureError:  # another Python's syntax
        return tuple(split_lines(source.text))


def code_of(difference: Difference) -> Callable[[int], str]:
    """Return what gives a row's line of source, as B has it if it does, without directives."""
    sides = shown_lines(difference.a), shown_lines(difference.b)

    def code(number: int) -> str:
        row = difference.rows[number]
        pair = difference.frames[row.frame]
        frame, lines = (pair.b, sides[1]) if row.b is not None else (pair.a, sides[0])
        text = lines[frame.source] if frame is not None else ()
        return formats.one_line(text[row.step.line - 1], CODE) if row.step.line <= len(text) else ""

    return code


def notes(difference: Difference) -> list[str]:
    """Return what a reader must know before anything else, each once."""
    every = dict.fromkeys([*difference.notes, *_unseen(difference)])
    return [formats.one_line(note, 400) for note in every]


def _unseen(difference: Difference) -> Iterator[str]:
    """Say that a slowdown worth finding could be there and not be called."""
    times = difference.times
    passes = min(times.a_processes, times.b_processes)
    needed = times.passes_for_20_percent
    if times.judged and (needed is None or needed > passes):
        would = f"about {needed} would find it" if needed else "in this noise not even 50 would find it"
        yield f"time: 20% more or less can go unseen with {passes} passes; {would}"


def how_judged(difference: Difference) -> Iterator[str]:
    """Yield sentences about what was looked at, and how finely."""
    yield from quiet_counts(difference)
    sentence = time_sentence(difference)
    if sentence:
        yield sentence
    for why, count in difference.times.not_judged:
        yield f"{formats.plural(count, 'time')} not judged: {formats.one_line(why, 160)}"
    if difference.tolerances:
        found = ", ".join(f"{t.dtype} {t.relative:g} relative + {t.absolute:g} absolute" for t in difference.tolerances)
        yield f"numbers count as equal within tolerances (floor: torch.testing): {found}"
    if difference.ignored:
        yield f"left out on request: {', '.join(formats.one_line(what, 40) for what in difference.ignored)}"

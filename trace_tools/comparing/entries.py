"""A Difference → what to say first: one entry per statement and thing that changed, the most important first.

    for entry in entries(difference, "time"):
        entry.function, entry.line, entry.name, entry.a, entry.b, entry.detail, entry.executions

The executions of one statement are one entry; what another row explains is not an entry of its own, but
counted in that row's (`follows`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from trace_tools.comparing.difference import Aspect, Difference, Finding, Row, Setting, TimeFinding, Verdict
from trace_tools.rendering import formats

ORDER: tuple[Aspect, ...] = ("claims", "values", "memory", "flops", "time", "steps", "output")
BY_SIZE: frozenset[Aspect] = frozenset({"memory", "flops", "time"})  # the others stand in the lecture's order
WORTH_A_SHARE = 0.1  # of its roof, that a step reaches: on one machine its time says the rest
CODE = 72  # characters of a source line


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that is not the same, about one statement."""

    aspect: Aspect
    verdict: Verdict
    row: int  # the first execution of which this is said
    function: str
    path: str
    line: int
    code: str  # the line's text
    name: str
    a: str | None = None
    b: str | None = None
    detail: str | None = None
    executions: int = 1
    follows: int = 0  # findings elsewhere that this one explains
    matters: bool = False
    size: float = 0.0  # for ranking; of times, nanoseconds


def entries(difference: Difference, aspect: Aspect, *, everything: bool = False) -> list[Entry]:
    """Return an aspect's entries, the most important first; without `everything` those that matter only."""
    if aspect == "time":
        found = _times(difference, everything=everything)
    else:
        found = _findings(difference, aspect, everything=everything)
    return sorted(found, key=lambda e: -e.size) if aspect in BY_SIZE else found


def _findings(difference: Difference, aspect: Aspect, *, everything: bool) -> list[Entry]:
    explained = _explained(difference, aspect)
    grouped: dict[tuple[object, ...], Entry] = {}
    for row, finding in difference.findings(aspect):
        follows = finding.cause is not None and finding.cause != row.number
        if follows or not (finding.matters or everything):
            continue
        key = (
            difference.function_of(row),
            row.b is None,
            row.step.statement,
            finding.name,
            finding.verdict,
            finding.matters,
        )
        if key in grouped:
            grouped[key] = replace(grouped[key], executions=grouped[key].executions + 1)
        else:
            grouped[key] = _entry(difference, row, finding, explained[row.number])
    return list(grouped.values())


def _explained(difference: Difference, aspect: Aspect) -> Counter[int]:
    """Count, for each row, the findings of one aspect that it explains elsewhere."""
    found = ((row.number, f.cause) for row, f in difference.findings(aspect))
    return Counter(cause for number, cause in found if cause is not None and cause != number)


def _entry(difference: Difference, row: Row, finding: Finding, follows: int) -> Entry:
    plain = _placed(difference, row, finding.aspect, finding.verdict, finding.name)
    return replace(
        plain,
        a=finding.a,
        b=finding.b,
        detail=finding.detail,
        follows=follows,
        matters=finding.matters,
        size=finding.size,
    )


def _placed(difference: Difference, row: Row, aspect: Aspect, verdict: Verdict, name: str) -> Entry:
    side = difference.a if row.b is None else difference.b
    pair = difference.frames[row.frame]
    frame = pair.a if row.b is None else pair.b
    path = side.trace.sources[frame.source].path if frame else ""
    code = formats.one_line(difference.source_line(row), CODE)
    function = formats.one_line(difference.function_of(row), 60)
    return Entry(aspect, verdict, row.number, function, formats.one_line(path, 60), row.step.line, code, name)


# --- times ----------------------------------------------------------------------------------------


def _times(difference: Difference, *, everything: bool) -> list[Entry]:
    explained = Counter(
        row.time.cause for row in difference.rows if row.time is not None and row.time.cause is not None
    )
    grouped: dict[tuple[object, ...], list[Row]] = {}
    for row in difference.rows:
        time = row.time
        if time is not None and time.cause is None and (time.matters or everything or row.number in explained):
            key = (difference.function_of(row), row.step.statement, time.verdict, time.why)
            grouped.setdefault(key, []).append(row)
    return [_timed(difference, rows, explained) for rows in grouped.values()]


def _timed(difference: Difference, rows: Sequence[Row], explained: Counter[int]) -> Entry:
    times = [row.time for row in rows if row.time is not None]
    a_ns, b_ns = sum(t.a_ns for t in times), sum(t.b_ns for t in times)
    first = max(rows, key=lambda row: abs(row.time.change_ns) if row.time is not None else 0.0)
    time, follows = first.time, sum(explained[row.number] for row in rows)
    assert time is not None
    ratio = time.overall if time.overall and time.verdict != "ratio" else b_ns / a_ns if a_ns and b_ns else None
    plain = _placed(difference, first, "time", time.verdict, times_text(ratio) if ratio else time.verdict)
    return replace(
        plain,
        a=formats.duration(a_ns) if first.a is not None else None,
        b=formats.duration(b_ns) if first.b is not None else None,
        detail=_time_detail(time) or None,
        executions=len(rows),
        follows=follows,
        matters=time.matters or follows > 0,
        size=abs(b_ns - a_ns),
    )


def times_text(ratio: float) -> str:
    """Write a ratio of times as a reader says it: 1.21× slower, 2× faster, as long."""
    if ratio >= 1.005:
        return f"{formats.ratio(ratio)}× slower"
    return f"{formats.ratio(1 / ratio)}× faster" if 0 < ratio <= 1 / 1.005 else "as long"


def _time_detail(time: TimeFinding) -> str:
    if time.why:
        return time.why
    parts = []
    if time.interval is not None and time.overall:
        low, high = time.interval
        ends = (low, high) if time.overall >= 1 or low <= 0 else (1 / high, 1 / low)  # as the name says it: faster
        parts.append(" to ".join(map(formats.ratio, ends)) + "×")
    if time.adjusted_p is not None and time.matters:
        parts.append(f"q = {time.adjusted_p:.2g}")
    return ", ".join([*parts, *roof_texts(time)])


def roof_texts(time: TimeFinding) -> list[str]:
    """Say what share of its own roof each side reached, where one came near or the roofs are two machines'."""
    near = max(time.a_share or 0.0, time.b_share or 0.0) >= WORTH_A_SHARE
    if time.roof is None or not (near or time.verdict == "ratio"):
        return []
    shares = (formats.percent(s) if s is not None else "unknown" for s in (time.a_share, time.b_share))
    return [f"{' → '.join(shares)} of the {formats.one_line(time.roof, 60)} roof"]


# --- in words -------------------------------------------------------------------------------------

_NOUNS: dict[Aspect, str] = {
    "claims": "claim",
    "values": "value",
    "memory": "memory figure",
    "flops": "count",
    "time": "timing",
    "steps": "step",
    "output": "output",
}


def headline(difference: Difference) -> str:
    """Say in one line whether anything differs that matters, and what."""
    counts = [(aspect, len(entries(difference, aspect))) for aspect in ORDER]
    said = [formats.plural(n, _NOUNS[aspect]) for aspect, n in counts if n]
    if said:
        return f"Differences that matter: {', '.join(said)}"
    return "No differences that matter" if any(map(_differs, difference.rows)) else "No differences"


def _differs(row: Row) -> bool:
    """Whether two recordings of one execution are not the same in any way, however small."""
    recorded = any(f.a != f.b or f.verdict not in ("varies", "random") for f in row.findings)
    return recorded or (row.time is not None and row.time.a_ns != row.time.b_ns)


def quiet_counts(difference: Difference) -> Iterator[str]:
    """Yield what was looked at and is not worth an entry, one phrase each."""
    names = {"varies": "vary between passes", "random": "device-random", "rounding": "rounding only"}
    for aspect in ORDER:
        of_aspect = {verdict: n for which, verdict, n in difference.counts if which == aspect}
        if not of_aspect or aspect == "time":
            continue
        said = [f"{of_aspect['same']:,} the same"] if "same" in of_aspect else []
        said += [f"{of_aspect[v]:,} {text}" for v, text in names.items() if v in of_aspect]
        said += [f"{of_aspect['not judged']:,} not judged"] if "not judged" in of_aspect else []
        if said:
            yield f"{aspect}: {', '.join(said)}"


def time_sentence(difference: Difference) -> str | None:
    """Say how times were judged, and the smallest change that could have been seen; None without times."""
    times = difference.times
    unjudged = sum(n for _, n in times.not_judged)
    if not difference.same_machine:
        ratios = sum(n for which, verdict, n in difference.counts if (which, verdict) == ("time", "ratio"))
        return f"times: {ratios:,} ratios between two machines, {unjudged:,} not comparable" if ratios else None
    if not times.judged:
        why = "; ".join(f"{n:,} {why}" for why, n in times.not_judged[:3])
        return f"times: none judged: {why}" if why else None
    share = formats.percent(times.different / times.judged)
    text = f"times: {times.different:,} of {times.judged:,} differ ({share}), {times.judged - times.different:,} no "
    text += f"difference detected, in {formats.plural(times.statements, 'statement')}"
    if times.noise is not None and times.detectable is not None:
        text += (
            f"; noise {formats.percent(times.noise)} between processes; the smallest change that half of the "
            f"statements would have shown: {formats.ratio(times.detectable)}×"
        )
    if times.passes_for_20_percent is None:
        text += "; too noisy to find 20% with 50 passes"
    elif times.passes_for_20_percent > min(times.a_processes, times.b_processes):
        text += f"; {times.passes_for_20_percent} passes would find 20%"
    if times.drift is not None and abs(times.drift - 1) >= 0.005:
        text += f"; most took × {formats.ratio(times.drift)}, taken for the machine's"
    return text + (f"; {unjudged:,} not judged" if unjudged else "")


def setting_text(setting: Setting) -> str:
    """Write a setting that differs: torch 2.12.0 → 2.13.0."""
    return f"{setting.name} {setting.a or '(none)'} → {setting.b or '(none)'}"


def code_changes(difference: Difference) -> list[str]:
    """Return what became of functions, a phrase each: what a rename or a move explains."""
    said = []
    for f in difference.functions:
        a, b = (formats.one_line(name, 60) if name else "" for name in (f.a, f.b))
        if f.how in ("renamed", "moved"):
            said.append(f"{a} {f.how} to {b}")
        elif f.how == "edited":
            said.append(f"{b} edited")
        else:
            said.append(f"{a or b} {f.how}")
        said[-1] += "".join(f", {old} renamed to {new}" for old, new in f.variables)
    return said

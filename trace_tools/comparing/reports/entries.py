"""A Difference → what to say first: one entry per statement and thing that changed, the most important first.

    for entry in leads(difference):                 what explains others: an edit, another number of executions
    for entry in entries(difference, "time"):
        entry.function, entry.line, entry.name, entry.a, entry.b, entry.detail, entry.executions

The executions of one statement are one entry; what another row says too is not an entry of its own, but
counted in that row's (`follows`). What may follow from a lead is an entry, and says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from trace_tools import formats
from trace_tools.comparing.difference import (
    Aspect,
    Difference,
    Finding,
    StepPair,
    Subject,
    TimeFinding,
    Verdict,
)
from trace_tools.comparing.judging.times import HARNESS
from trace_tools.comparing.wording import setting_text, sides_text, subject_text, texts_apart

ORDER: tuple[Aspect, ...] = ("claims", "values", "memory", "flops", "time", "steps", "output")
BY_SIZE: frozenset[Aspect] = frozenset({"memory", "flops", "time"})  # the others stand in the lecture's order
WORTH_A_SHARE = 0.1  # of its roof, that a step reaches: on one machine its time says the rest
CODE = 72  # characters of a source line
MOST_REPEATS = 4  # of one setting, that are named


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
    subject: Subject
    a: str | None = None
    b: str | None = None
    detail: str | None = None
    executions: int = 1
    follows: int = 0  # findings elsewhere that this one explains
    origin: int | None = None  # the row of the lead that this may follow from
    after_line: int | None = None  # and its line
    matters: bool = False
    size: float = 0.0  # for ranking; of times, nanoseconds


def leads(difference: Difference) -> list[Entry]:
    """Return what others may follow from, in the lecture's order: edits, numbers of executions, changed counts."""
    explained = Counter(f.origin for row in difference.rows for f in row.all if f.matters)
    found = []
    for row in difference.rows:
        if explained[row.number]:
            found.append(replace(_lead(difference, row), follows=explained[row.number], matters=True))
    return found


def _lead(difference: Difference, row: StepPair) -> Entry:
    """Return what a row began: an edit before what ran more often for it, that before what was counted."""
    own = [f for f in row.findings if f.matters and f.origin is None and f.cause is None]
    ran = next((f for f in own if f.subject.kind in ("executions", "step")), None)
    if ran is None and not row.edited:
        first = min(own, key=lambda f: f.subject.expression != "flops", default=None)
        return _entry(difference, row, first, 0) if first is not None else _code_entry(difference, row)
    if not row.edited or row.a is None or row.b is None:
        return _entry(difference, row, ran, 0) if ran is not None else _code_entry(difference, row)
    edited = _code_entry(difference, row)
    if ran is None:
        return edited
    counted = " → ".join(side or "–" for side in sides_text(ran))
    return replace(edited, detail=f"executions {counted}")


def _code_entry(difference: Difference, row: StepPair) -> Entry:
    """Say that a statement was edited, with its line on both sides."""
    pair = difference.frames[row.frame]
    lines = []
    for side, frame, step in ((difference.a, pair.a, row.a), (difference.b, pair.b, row.b)):
        text = side.trace.sources[frame.source].text.split("\n") if frame is not None else []
        lines.append(text[step.line - 1].strip() if step is not None and step.line <= len(text) else None)
    a, b = lines
    if a is not None and b is not None:
        a, b = texts_apart(a, b)
    plain = _placed(difference, row, "steps", "edited", Subject("step", expression="the statement"))
    return replace(plain, a=a, b=b)


def entries(difference: Difference, aspect: Aspect, *, everything: bool = False) -> list[Entry]:
    """Return an aspect's entries, the most important first; without `everything` those that matter only."""
    if aspect == "time":
        found = _times(difference, everything=everything)
    else:
        found = _findings(difference, aspect, everything=everything)
    return sorted(found, key=lambda e: (e.origin is not None, -e.size if aspect in BY_SIZE else 0))


def besides(found: Sequence[Entry], leading: Sequence[Entry]) -> list[Entry]:
    """Return the entries that no lead says already."""
    said = {(lead.row, lead.subject) for lead in leading}
    ran = {lead.row for lead in leading if lead.verdict == "edited"}
    return [e for e in found if (e.row, e.subject) not in said and not (e.aspect == "steps" and e.row in ran)]


def blocks(difference: Difference, *, everything: bool = False) -> Iterator[tuple[Aspect, bool, list[Entry]]]:
    """Yield (aspect, whether they lead, entries) in the order of reports: edits, claims, counts that lead, the rest."""
    first = leads(difference)
    code = [e for e in first if e.aspect in ("steps", "output")]
    yield "steps", True, code
    for aspect in ORDER:
        yield aspect, False, besides(entries(difference, aspect, everything=everything), first)
        if aspect == "claims":
            yield "values", True, [e for e in first if e not in code]


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
            finding.subject,
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


def _entry(difference: Difference, row: StepPair, finding: Finding, follows: int) -> Entry:
    a, b = sides_text(finding)
    detail = finding.detail
    if finding.aspect == "flops" and finding.matters and (unseen := _unseen(difference, row, finding)):
        detail = f"{detail}; {unseen}" if detail else unseen
    return replace(
        _placed(difference, row, finding.aspect, finding.verdict, finding.subject),
        a=a,
        b=b,
        detail=detail,
        follows=follows,
        origin=finding.origin,
        after_line=None if finding.origin is None else difference.rows[finding.origin].step.line,
        matters=finding.matters,
        size=finding.size,
    )


def _placed(difference: Difference, row: StepPair, aspect: Aspect, verdict: Verdict, subject: Subject) -> Entry:
    side = difference.a if row.b is None else difference.b
    pair = difference.frames[row.frame]
    frame = pair.a if row.b is None else pair.b
    path = side.trace.sources[frame.source].path if frame else ""
    code = formats.one_line(difference.source_line(row), CODE)
    function = formats.one_line(difference.function_of(row), 60)
    name = subject_text(subject)
    return Entry(aspect, verdict, row.number, function, formats.one_line(path, 60), row.step.line, code, name, subject)


# --- counters, where clocks can't tell ------------------------------------------------------------

TOO_NOISY = "clocks too noisy to show it"


def _unseen(difference: Difference, row: StepPair, finding: Finding) -> str | None:
    """Say that times could not show a change in FLOPs; None where they could, or were not asked."""
    if finding.subject.expression != "flops" or not isinstance(finding.a, int) or not isinstance(finding.b, int):
        return None
    if not difference.same_machine or "time" in difference.ignored or any(time.matters for time in row.times):
        return None
    more = max(finding.a, finding.b) / max(min(finding.a, finding.b), 1)
    blind = [time for time in row.times if time.detectable is not None and time.detectable > more]
    return TOO_NOISY if difference.time_not_judged or blind else None


def _work(difference: Difference) -> str | None:
    """Say how much more or less work was counted where clocks could not tell: 50% more FLOPs."""
    counted = [
        (f.size, f.a, f.b)
        for row, f in difference.findings("flops")
        if f.matters and f.cause is None and _unseen(difference, row, f)
    ]
    for _, a, b in sorted(counted, key=lambda c: -c[0]):
        if isinstance(a, int) and isinstance(b, int) and a and b:
            share = b / a - 1
            said = f"{formats.ratio(b / a)} × the FLOPs" if share >= 1 else f"{formats.percent(abs(share))} "
            said += "" if share >= 1 else "more FLOPs" if share > 0 else "fewer FLOPs"
            return f"{said}; clocks too noisy"
    return None


# --- times ----------------------------------------------------------------------------------------


def _times(difference: Difference, *, everything: bool) -> list[Entry]:
    every = [(row, time) for row in difference.rows for time in row.times]
    explained = Counter(time.cause for _, time in every if time.cause is not None)
    grouped: dict[tuple[object, ...], list[tuple[StepPair, TimeFinding]]] = {}
    for row, time in every:
        if time.cause is None and (time.matters or everything or row.number in explained):
            key = (difference.function_of(row), row.step.statement, time.subject, time.verdict, time.why)
            grouped.setdefault(key, []).append((row, time))
    return [_timed(difference, found, explained) for found in grouped.values()]


def _timed(difference: Difference, found: Sequence[tuple[StepPair, TimeFinding]], explained: Counter[int]) -> Entry:
    a_ns, b_ns = sum(time.a_ns for _, time in found), sum(time.b_ns for _, time in found)
    first, time = max(found, key=lambda item: abs(item[1].change_ns))
    follows = sum(explained[row.number] for row, _ in found)
    ratio = time.overall if time.overall and time.verdict != "ratio" else b_ns / a_ns if a_ns and b_ns else None
    measured = time.subject.kind == "measured"
    calls = len(found) if measured else 1  # of a measurement what one call takes is said
    shown = time.why != HARNESS
    return replace(
        _placed(difference, first, "time", time.verdict, time.subject),
        name=times_text(ratio) if ratio else time.verdict,
        a=formats.duration(a_ns / calls) if first.a is not None and shown else None,
        b=formats.duration(b_ns / calls) if first.b is not None and shown else None,
        detail=_time_detail(time) or None,
        executions=len(found),
        follows=follows,
        origin=time.origin,
        after_line=None if time.origin is None else difference.rows[time.origin].step.line,
        matters=time.matters or follows > 0,
        size=_weight_ns([row for row, _ in found], time) if measured else abs(b_ns - a_ns),
    )


def _weight_ns(rows: Sequence[StepPair], time: TimeFinding) -> float:
    """Rank a measurement by what its change would have cost, had `measure` made as many calls all the same."""
    spent = [max(step.host_ns or [0]) for row in rows for step in (row.a, row.b) if step is not None]
    return sum(spent) / 2 * abs((time.overall or 1.0) - 1)


def times_text(ratio: float) -> str:
    """Write a ratio of times as a reader says it: 1.21× slower, 2× faster, as long."""
    if ratio >= 1.005:
        return f"{formats.ratio(ratio)}× slower"
    return f"{formats.ratio(1 / ratio)}× faster" if 0 < ratio <= 1 / 1.005 else "as long"


def _time_detail(time: TimeFinding) -> str:
    if time.why:
        return time.why
    parts = [f"one call, measurement {time.subject.index + 1}"] if time.subject.kind == "measured" else []
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
    """Say in one line whether anything differs that matters, and what; and whether times could be judged."""
    leading = leads(difference)
    alone: list[str] = []
    following: list[str] = []
    for aspect in ORDER:
        found = besides(entries(difference, aspect), leading)
        for phrases, wanted in ((alone, False), (following, True)):
            n = sum((e.origin is not None) is wanted for e in found)
            phrases += [formats.plural(n, _NOUNS[aspect])] if n else []
    said = [*_lead_phrases(leading), *alone]
    unjudged = f"TIME NOT JUDGED: {difference.time_not_judged}" if difference.time_not_judged else None
    if said or following:
        text = f"Differences that matter: {', '.join(said or following)}"
        text += f" (from which may follow: {', '.join(following)})" if said and following else ""
        return ". ".join(part for part in (text, _work(difference), unjudged) if part)
    quiet = "No differences that matter" if any(map(_differs, difference.rows)) else "No differences"
    return f"{unjudged}. {quiet} beside" if unjudged else quiet


def _lead_phrases(leading: Sequence[Entry]) -> Iterator[str]:
    edited = sum(e.verdict == "edited" for e in leading)
    ran = sum(e.verdict != "edited" and e.subject.kind == "executions" for e in leading)
    if edited:
        yield formats.plural(edited, "edited statement")
    if ran:
        yield f"{formats.plural(ran, 'statement')} that ran more or less often"
    for aspect in ORDER:
        n = sum(e.aspect == aspect and e.verdict != "edited" and e.subject.kind != "executions" for e in leading)
        if n:
            yield formats.plural(n, _NOUNS[aspect])


def _differs(row: StepPair) -> bool:
    """Whether two recordings of one execution are not the same in any way, however small."""
    recorded = any(f.a != f.b or f.verdict not in ("varies", "random") for f in row.findings)
    return recorded or any(time.a_ns != time.b_ns for time in row.times)


def repeated(difference: Difference) -> list[list[str]]:
    """Return, for each setting, where the lecture repeats it: under it, and no differences of their own."""
    found: list[dict[str, None]] = [{} for _ in difference.settings]
    for row in difference.rows:
        for f in row.findings:
            if f.setting is not None:
                found[f.setting][f"{subject_text(f.subject, 40)} in line {row.step.line}"] = None
    said = []
    for places in found:
        more = [f"and {len(places) - MOST_REPEATS} more"] if len(places) > MOST_REPEATS else []
        said.append([*list(places)[:MOST_REPEATS], *more])
    return said


def settings_texts(difference: Difference) -> list[str]:
    """Return each setting that differs with what only repeats it: threads 2 → 1 (so: threads in line 2280)."""
    return [
        setting_text(setting) + (f" (so: {', '.join(places)})" if places else "")
        for setting, places in zip(difference.settings, repeated(difference), strict=True)
    ]


def quiet_counts(difference: Difference) -> Iterator[str]:
    """Yield what was looked at and is not worth an entry, one phrase each."""
    names = {"varies": "vary or follow from clocks", "random": "device-random", "rounding": "rounding only"}
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

"""A row of code → the remarks that stand beside it: values, claims, time, in the order a reader wants them.

Both writers print these, one as a margin column, the other as comments. A remark is one line of text; its
facts and its value are what a closer look shows. Calm comes first: a statement that nobody annotated and that
took less than a millisecond has nothing to say about time.

    remarks(row)    [Remark("value", "x", "f32[4, 4] · 64 B", …), Remark("time", "", "11.2 ms ± 0.4%", …)]
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trace_tools.rendering import formats
from trace_tools.rendering.document import Call, Execution, Failure, Rate, Row, Timing, salient
from trace_tools.rendering.summaries import claim_summary, facts, summary
from trace_tools.schema import Claim, Meters, Value

WORTH_SAYING_NS = 1_000_000  # of a statement that nobody annotated
WORTH_SAYING_ANNOTATED_NS = 10_000

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Remark:
    """One line beside a row. `label` is the number of the execution it is about, where there are several."""

    kind: Literal["value", "error", "held", "failed", "caught", "time", "count", "call"]
    name: str
    text: str
    label: str = ""
    value: Value | None = None
    facts: Facts = ()
    link: str | None = None  # anchor on the page
    timing: Timing | None = None  # whose samples a figure can show


def remarks(row: Row) -> list[Remark]:
    """Return what stands beside a row."""
    found = [_value(name, value) for name, value in row.arguments]
    shown = salient(row.executions)
    several = len(row.executions) > 1
    for execution in shown:
        spoken = [*_values(execution), *_claims(execution), *_passed_on(execution)]
        found += [replace(r, label=f"{execution.number}") for r in spoken] if several else spoken
    found = _once(found) if several else found
    time = _time(row)
    all_shown = len(shown) == len(row.executions) and not row.omitted
    count = _count(row) if several and (found or time) and not all_shown else []
    return [*found, *time, *count, *_named(shown)]


def _once(found: Sequence[Remark]) -> list[Remark]:
    """Say once what is the same in every execution shown."""
    texts: dict[tuple[str, str, str], list[Remark]] = {}
    for remark in found:
        texts.setdefault((remark.kind, remark.name, remark.text), []).append(remark)
    return [same[0] if len(same) == 1 else replace(same[0], label="") for same in texts.values()]


def _values(execution: Execution) -> list[Remark]:
    return [_value(name, value) for name, value in execution.values]


def _value(name: str, value: Value) -> Remark:
    kind: Literal["error", "value"] = "error" if value.type == "error" else "value"
    return Remark(kind, formats.one_line(name, 60), summary(value), value=value, facts=tuple(facts(value)))


def _claims(execution: Execution) -> list[Remark]:
    claim = execution.claim
    if claim is None:
        return []
    known = tuple((formats.one_line(name, 60), summary(value)) for name, value in claim.sides)
    return [Remark("held" if claim.held else "failed", "", claim_summary(claim), facts=known)]


def _passed_on(execution: Execution) -> list[Remark]:
    """Say that an exception came out of a call; where it began, it is shown in full."""
    failure = execution.failure
    if failure is None or failure.origin or not execution.calls:
        return []
    text = f"{formats.one_line(failure.type, 60)} came out of this call"
    return [Remark("caught" if failure.caught else "failed", "", text)]


def _named(shown: Sequence[Execution]) -> list[Remark]:
    """Name the functions whose code is shown elsewhere on the page, one remark each."""
    calls: dict[str, list[Call]] = {}
    for execution in shown:
        named = {call.function for call in salient(execution.calls) if call.shown == "named"}
        for call in execution.calls:
            if call.function in named:
                calls.setdefault(call.function, []).append(call)
    return [Remark("call", formats.one_line(name, 40), _which(of), link=_link(of)) for name, of in calls.items()]


def _which(calls: Sequence[Call]) -> str:
    if not any(call.observed for call in calls):
        return ""
    numbers = sorted(call.number for call in calls)
    if len(numbers) == 1:
        return f"call {numbers[0]} of {calls[0].total}"
    return f"calls {numbers[0]} {'and' if len(numbers) == 2 else 'to'} {numbers[-1]} of {calls[0].total}"


def _link(calls: Sequence[Call]) -> str:
    return next(call.anchor for call in calls if call.shown == "named")


def _count(row: Row) -> list[Remark]:
    """Say how often a statement was executed, and what is known of the times that are only totals."""
    total = len(row.executions) + row.omitted
    text = f"{formats.plural(total, 'execution')}"
    if row.omitted:
        text += f", {row.omitted:,} of them only counted: {formats.duration(row.omitted_ns)} in all"
    return [Remark("count", "", text)]


def _time(row: Row) -> list[Remark]:
    """Say how long a statement took where that is worth a line; the execution nearest to the median speaks."""
    spoken = timed(row)
    if spoken is None or spoken.timing is None or not worth_saying(spoken):
        return []
    several = sum(_has_time(e) for e in row.executions) > 1
    text = formats.spread(spoken.timing.samples_ns) + (" each" if several else "")
    if spoken.annotated and spoken.meters is not None and spoken.meters.flops:
        text += f" · {formats.quantity(spoken.meters.flops, 'FLOP')}"
    if spoken.compiled:
        text += " · with compilation"
    return [Remark("time", "", text, facts=tuple(measured(spoken)), timing=spoken.timing)]


def timed(row: Row) -> Execution | None:
    """Return the execution whose time speaks for all of a row: the middle one."""
    known = [e for e in row.executions if _has_time(e)]
    return sorted(known, key=_median_ns)[len(known) // 2] if known else None


def worth_saying(execution: Execution) -> bool:
    """Whether a reader wants to know how long an execution took."""
    counted = execution.meters is not None and bool(execution.meters.flops) and execution.annotated
    asked = execution.annotated and execution.claim is None
    return counted or _median_ns(execution) >= (WORTH_SAYING_ANNOTATED_NS if asked else WORTH_SAYING_NS)


def _has_time(execution: Execution) -> bool:
    return execution.timing is not None and execution.timing.clock != "launch"


def _median_ns(execution: Execution) -> float:
    return statistics.median(execution.timing.samples_ns) if execution.timing is not None else 0.0


def measured(execution: Execution) -> list[tuple[str, str]]:
    """Return everything that clocks and meters found out about one execution, as (name, text)."""
    found = _clocked(execution.timing) if execution.timing is not None else []
    if execution.meters is not None:
        found += _metered(execution.meters)
    found += [_rated(rate) for rate in execution.rates]
    if execution.allocated_bytes is not None:
        found.append(("allocated after", formats.byte_size(execution.allocated_bytes)))
    if execution.compiled:
        found.append(("compiled", "torch.compile ran during this step"))
    return found


def _clocked(timing: Timing) -> list[tuple[str, str]]:
    clock = {"device": "device time", "host": "time", "launch": "launch time (host)"}[timing.clock]
    samples = ", ".join(formats.duration(sample) for sample in timing.samples_ns[:12])
    found = [(clock, f"{formats.spread(timing.samples_ns)}; passes: {samples}")]
    if timing.cold_ns and timing.cold_ns != timing.samples_ns:
        found.append(("first run", formats.spread(timing.cold_ns)))
    return found


def _metered(meters: Meters) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    moved = (("read", meters.bytes_read), ("written", meters.bytes_written))
    if meters.flops is not None:
        exactly = f" ({meters.flops:,})" if meters.flops >= 10_000 else ""
        found.append(("FLOPs", formats.quantity(meters.flops, "FLOP") + exactly))
    found += [(name, formats.byte_size(count)) for name, count in moved if count is not None]
    if meters.flops and sum(count or 0 for _, count in moved):
        intensity = meters.flops / sum(count or 0 for _, count in moved)
        found.append(("intensity", f"{formats.number(intensity, 3)} FLOP/byte"))
    if meters.peak_bytes is not None:
        found.append(("peak", f"{formats.byte_size(meters.peak_bytes)} of tensors"))
    if meters.live_bytes is not None:
        found.append(("live after", f"{formats.byte_size(meters.live_bytes)} of tensors"))
    for name, count in (meters.operators or [])[:12]:
        found.append(("operator", f"{formats.one_line(name, 60)} × {count:,}"))
    if meters.uncounted:
        names = ", ".join(formats.one_line(name, 60) for name in meters.uncounted[:12])
        found.append(("not counted", f"no FLOP formula for {names}"))
    if meters.why:
        found.append(("not measured", formats.one_line(meters.why, 200)))
    return found


def _rated(rate: Rate) -> tuple[str, str]:
    text = formats.quantity(rate.per_second, rate.name)
    if rate.share is not None:
        return "achieved", f"{text}, {formats.percent(rate.share)} of the {formats.one_line(rate.roof or '', 120)}"
    return "achieved", f"{text}; {formats.one_line(rate.roof or '', 120)}"


@dataclass(frozen=True, slots=True)
class Below:
    """What stands under a row, across the page: something printed, raised, warned of, or called."""

    kind: Literal["stdout", "warning", "failure", "caught", "call", "more"]
    title: str = ""
    text: str = ""
    label: str = ""
    call: Call | None = None


PRINTED = 6_000  # characters of output shown
WARNED = 5  # warnings of one execution


def below(row: Row) -> list[Below]:
    """Return what stands under a row, in the order in which it happened."""
    found: list[Below] = []
    several = len(row.executions) > 1
    for execution in salient(row.executions):
        label = f"execution {execution.number}" if several else ""
        found += [
            Below("call", call=call) for call in salient(execution.calls) if call.shown in ("open", "folded", "part")
        ]
        if execution.stdout:
            found.append(_printed(execution.stdout, label))
        for warning in execution.warnings[:WARNED]:
            found.append(Below("warning", text=formats.visible(formats.shorten(warning, 1_000)), label=label))
        if execution.claim is not None and not execution.claim.held:
            found.append(_failed(execution.claim, label))
        elif execution.failure is not None and not _passed_on(execution):
            found.append(_raised(execution.failure, label))
    hidden = sum(len(e.calls) - len(salient(e.calls)) for e in salient(row.executions))
    if hidden and any(it.kind == "call" for it in found):
        found.append(Below("more", label=f"and {formats.plural(hidden, 'more call')}, in the trace"))
    return found


def _printed(stdout: str, label: str) -> Below:
    cut = f"the first {PRINTED:,} of {len(stdout):,} characters" if len(stdout) > PRINTED else ""
    text = formats.visible(stdout[:PRINTED].rstrip("\n"))
    return Below("stdout", text=text, label=", ".join(part for part in (label, cut) if part))


def _failed(claim: Claim, label: str) -> Below:
    lines = [formats.visible(formats.shorten(claim.source, 1_000))]
    lines += [f"{formats.one_line(name, 80)} = {summary(value)}" for name, value in claim.sides]
    if claim.message:
        lines.append(formats.visible(formats.shorten(claim.message, 1_000)))
    runs = f"in {', '.join(claim.failed_runs)}" if claim.failed_runs else ""
    return Below("failure", "This claim failed", "\n".join(lines), ", ".join(part for part in (label, runs) if part))


def _raised(failure: Failure, label: str) -> Below:
    title = formats.one_line(failure.type, 80)
    message = formats.visible(formats.shorten(failure.message, 2_000))
    from_line = f"from line {failure.line}" if failure.line is not None and not failure.origin else ""
    where = "the lecture caught it" if failure.caught else "nothing caught it: the run ended here"
    label = ", ".join(part for part in (label, from_line, where) if part)
    return Below("caught" if failure.caught else "failure", title, message, label)

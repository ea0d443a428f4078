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

from trace_tools import formats
from trace_tools.rates import WORTH_SAYING_ANNOTATED_NS, WORTH_SAYING_NS, Rate, Timing, intensity_of
from trace_tools.rendering.document import Call, Execution, Failure, Row, salient
from trace_tools.schema import Claim, Measured, Meters, Value
from trace_tools.summaries import claim_summary, facts, side_text, summary

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Remark:
    """One line beside a row. `label` is the number of the execution it is about, where there are several."""

    kind: Literal["value", "error", "held", "failed", "caught", "time", "count", "runs", "call"]
    name: str
    text: str
    label: str = ""
    value: Value | None = None
    facts: Facts = ()
    link: str | None = None  # anchor on the page
    timing: Timing | None = None  # whose samples a figure can show
    counted: bool = False  # the FLOPs of what took the time are known
    index: int | None = None  # of a value: its place among those of the execution, or of the call's arguments


def remarks(row: Row) -> list[Remark]:
    """Return what stands beside a row."""
    found = [_value(index, *named) for index, named in enumerate(row.arguments)]
    shown = salient(row.executions)
    several = len(row.executions) > 1
    for execution in shown:
        spoken = [*_values(execution), *_claims(execution), *_passed_on(execution)]
        found += [replace(r, label=f"{execution.number}") for r in spoken] if several else spoken
    found = _once(found) if several else found
    time = _time(row)
    all_shown = len(shown) == len(row.executions) and not row.omitted
    count = _count(row) if several and (found or time) and not all_shown else []
    return [*found, *time, *count, *_sometimes(shown), *_named(shown)]


def _once(found: Sequence[Remark]) -> list[Remark]:
    """Say once what is the same in every execution shown."""
    texts: dict[tuple[str, int | None, str], list[Remark]] = {}
    for remark in found:
        texts.setdefault((remark.kind, remark.index, remark.text), []).append(remark)
    return [same[0] if len(same) == 1 else replace(same[0], label="") for same in texts.values()]


def _values(execution: Execution) -> list[Remark]:
    return [_value(index, *named) for index, named in enumerate(execution.values)]


def _value(index: int, name: str, value: Value) -> Remark:
    kind: Literal["error", "value"] = "error" if value.type == "error" else "value"
    known = tuple(facts(value))
    return Remark(kind, formats.one_line(name, 60), summary(value), value=value, facts=known, index=index)


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


def _sometimes(shown: Sequence[Execution]) -> list[Remark]:
    """Say that a statement did not run in every timed run; once where that is the same for all executions shown."""
    told = {e.sometimes: Remark("runs", "", e.sometimes, f"{e.number}") for e in reversed(shown) if e.sometimes}
    if len({e.sometimes for e in shown}) == 1:
        return [replace(remark, label="") for remark in told.values()]
    return list(reversed(told.values()))


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
    text = took(spoken.timing) + (" each" if several and spoken.timing.clock != "call" else "")
    flops = _flops(spoken)
    if spoken.annotated and flops:
        text += f" · {formats.quantity(flops, 'FLOP')}"
    if spoken.compiled:
        text += " · with compilation"
    if spoken.harness and spoken.timing.clock != "call":
        text += " · with measuring"
    known = tuple(measured(spoken))
    return [Remark("time", "", text, facts=known, timing=spoken.timing, counted=bool(spoken.annotated and flops))]


def took(timing: Timing) -> str:
    """Say how long a step took, or one call that it measured: 11.2 ms ± 0.4%, 18.1 ms ± 2% a call."""
    return formats.spread(timing.samples_ns) + (" a call" if timing.clock == "call" else "")


def _flops(execution: Execution) -> int | None:
    """Return the FLOPs that go with an execution's time: those of the one call it measured, else its own."""
    if execution.measured or execution.harness:
        return execution.measured[0].flops if len(execution.measured) == 1 else None
    return execution.meters.flops if execution.meters is not None else None


def timed(row: Row) -> Execution | None:
    """Return the execution whose time speaks for all of a row: the middle one."""
    known = [e for e in row.executions if _has_time(e)]
    return sorted(known, key=_median_ns)[len(known) // 2] if known else None


def worth_saying(execution: Execution) -> bool:
    """Whether a reader wants to know how long an execution took."""
    counted = execution.annotated and bool(_flops(execution))
    asked = execution.annotated and execution.claim is None
    return (
        counted
        or bool(execution.measured)
        or _median_ns(execution) >= (WORTH_SAYING_ANNOTATED_NS if asked else WORTH_SAYING_NS)
    )


def _has_time(execution: Execution) -> bool:
    return execution.timing is not None and execution.timing.clock != "launch"


def _median_ns(execution: Execution) -> float:
    return statistics.median(execution.timing.samples_ns) if execution.timing is not None else 0.0


def measured(execution: Execution) -> list[tuple[str, str]]:
    """Return everything that clocks and meters found out about one execution, as (name, text)."""
    found = _clocked(execution.timing) if execution.timing is not None else []
    several = len(execution.measured) > 1
    for number, call in enumerate(execution.measured, start=1):
        told = [("time a call", _each_pass(_nanoseconds(call)))] if several else []
        told += [*_counted(call), *_achieved(execution, number)]
        found += [(f"{number}: {name}", text) for name, text in told] if several else told
    meters = execution.meters
    if meters is not None:
        own = not execution.measured  # else those are of every call together, warm-up included
        counted = _counted(meters) if own else []
        found += [fact for fact in counted if fact[0] != "intensity" or not execution.harness]
        found += _achieved(execution, None) if own and counted else []
        found += _metered(meters)
    if execution.allocated_bytes is not None:
        found.append(("allocated after", formats.byte_size(execution.allocated_bytes)))
    if execution.compiled:
        found.append(("compiled", "torch.compile ran during this step"))
    return found


def _clocked(timing: Timing) -> list[tuple[str, str]]:
    names = {"device": "device time", "host": "time", "launch": "launch time (host)", "call": "time a call"}
    found = [(names[timing.clock], _each_pass(timing.samples_ns))]
    if timing.cold_ns and timing.cold_ns != timing.samples_ns:
        found.append(("first run", formats.spread(timing.cold_ns)))
    if timing.whole_ns:
        found.append(("all its calls", f"{formats.spread(timing.whole_ns)}: what the statement itself took"))
    return found


def _nanoseconds(call: Measured) -> list[int]:
    return [max(1, round(1e9 * seconds)) for seconds in call.seconds]


def _each_pass(samples_ns: Sequence[int]) -> str:
    samples = ", ".join(formats.duration(sample) for sample in samples_ns[:12])
    return f"{formats.spread(samples_ns)}; passes: {samples}"


def _counted(counted: Meters | Measured) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if counted.flops is not None:
        exactly = f" ({counted.flops:,})" if counted.flops >= 10_000 else ""
        found.append(("FLOPs", formats.quantity(counted.flops, "FLOP") + exactly))
    moved = (("read", counted.bytes_read), ("written", counted.bytes_written))
    found += [(name, formats.byte_size(count)) for name, count in moved if count is not None]
    intensity = intensity_of(counted)
    if intensity is not None:
        found.append(("intensity", f"{formats.number(intensity, 3)} FLOP/byte"))
    return found


def _achieved(execution: Execution, call: int | None) -> list[tuple[str, str]]:
    """Return the rates of an execution, or of one of the calls that it measured; where there are none, why."""
    found = [_rated(rate) for rate in execution.rates if rate.call == call]
    why = execution.no_rate if call is None else execution.measured[call - 1].why
    if not found and why:
        found.append(("no rate", formats.one_line(why, 200)))
    return found


def _metered(meters: Meters) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
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
    lines += [f"{formats.one_line(name, 80)} = {side_text(value)}" for name, value in claim.sides]
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

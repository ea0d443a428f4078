"""A row of code → the remarks beside it, and what stands under it, in the order a reader wants them.

Both writers print these, one as a margin column, the other as comments. A remark beside a row is one line of text;
its facts and its value are what a closer look shows. Calm comes first: a statement that nobody annotated and that
took less than a millisecond has nothing to say about time.

    remarks(row)    [Remark("value", "x", "f32[4, 4] · 64 B", …), Remark("time", "", "11.2 ms ± 0.4%", …)]
    below(row)      [Remark("call", call=call), Remark("stdout", "", "epoch 1", "execution 3")]
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trace_tools import formats
from trace_tools.ranks import by_rank, disagreeing, in_words, times
from trace_tools.rates import (
    TEACHES_NS,
    TEACHES_WITHIN,
    WORTH_SAYING_ANNOTATED_NS,
    WORTH_SAYING_NS,
    Timing,
    intensity_of,
)
from trace_tools.rendering.document import Call, CodeRow, Execution, salient
from trace_tools.schema import Collective, Measured, Meters, Step, Value
from trace_tools.summaries import LEFT_OUT_IN_WORDS, claim_summary, facts, grids, side_text, summary, tells_nothing_new

Facts = tuple[tuple[str, str], ...]

PRINTED = 6_000  # characters of output shown
WARNED = 5  # warnings of one execution
RANKS_APART = 1.1  # times as long: then a line says how far ranks are apart
CLOSER, FIRST = 2, 6  # facts, and elements, by which a value is told apart on ranks of which a line says the same
RANKS_SHOWN = 8  # whose values, times and outputs are told one by one
UNLIKE = 2  # times as long: then executions of a statement do not do the same


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing said of a row; `label` says which execution it is about, where there are several."""

    kind: Literal[
        "value", "error", "held", "failed", "caught", "time", "count", "runs", "call", "sent",  # beside it
        "stdout", "warning", "failure", "more",  # with "caught" and "call", under it
    ]  # fmt: skip
    name: str = ""
    text: str = ""
    label: str = ""
    value: Value | None = None
    facts: Facts = ()
    ranks: Facts = ()  # what it was on which ranks, where that is not the same on all
    link: str | None = None  # address: "#anchor" on the page
    timing: Timing | None = None  # whose samples a figure can show
    counted: bool = False  # the FLOPs of what took the time are known
    index: int | None = None  # of a value: its place among those of the execution, or of the call's arguments
    call: Call | None = None  # that stands under the row
    quiet: bool = False  # its text is for who asks: a claim that says nothing new, a time too short to teach


# --- beside a row ---


def remarked(rows: Sequence[CodeRow]) -> Iterator[tuple[CodeRow, list[Remark]]]:
    """Yield rows of a listing with what stands beside each; how often a loop ran is said once."""
    before = ""
    for row in rows:
        found = remarks(row)
        counted = next((remark.text for remark in found if remark.kind == "count"), "")
        yield row, [remark for remark in found if remark.kind != "count" or counted != before]
        before = "" if len(row.executions) == 1 else counted or before  # that row is in no loop: another may follow


def remarks(row: CodeRow) -> list[Remark]:
    """Return what stands beside a row: values and claims, its time, how often it ran, calls shown elsewhere."""
    shown = salient(row.executions)
    several = len(row.executions) > 1
    found = observed(row)
    time = _time(row)
    all_shown = len(shown) == len(row.executions) and not row.omitted
    count = []
    if several and (found or time) and not all_shown:
        text = formats.plural(len(row.executions) + row.omitted, "execution")
        if row.omitted:
            text += f", {row.omitted:,} of them only counted: {formats.duration(row.omitted_ns)} in all"
        count = [Remark("count", "", text)]
    return [*found, *time, *_sent(row), *count, *_sometimes(shown), *_named(shown), *_elsewhere(row)]


def observed(row: CodeRow) -> list[Remark]:
    """Return what stands beside a row of arguments, values, claims and exceptions."""
    shown = salient(row.executions)
    several = len(row.executions) > 1
    found = list(_values(row.arguments, row.disagreeing))
    for execution in shown:
        label = f"{execution.step.execution}" if several else ""
        found += [replace(remark, label=label) if label else remark for remark in _observed(execution)]
    if several:  # what is the same in every execution shown is said once
        texts: dict[tuple[str, int | None, str, Facts], list[Remark]] = {}
        for remark in found:
            quiet = remark.kind == "held" and remark.quiet
            texts.setdefault((remark.kind, remark.index, "" if quiet else remark.text, remark.ranks), []).append(remark)
        found = [same[0] if len(same) == 1 else replace(same[0], label="") for same in texts.values()]
    return found


def _observed(execution: Execution) -> Iterator[Remark]:
    """Yield what was inspected and claimed, and the exception that came out of a call: in full it is where it began."""
    yield from _values(execution.values, disagreeing(execution.step, execution.ranks))
    claim = execution.step.claim
    if claim is not None:
        known = tuple((formats.one_line(name, 60), summary(value)) for name, value in claim.sides)
        kind: Literal["held", "failed"] = "held" if claim.held else "failed"
        yield Remark(kind, "", claim_told(execution), facts=known, quiet=tells_nothing_new(claim))
    failure = execution.failure
    if failure is not None and _passed_on(execution):
        text = f"{formats.one_line(failure.type, 60)} came out of this call"
        yield Remark("caught" if failure.caught else "failed", "", text)


def claim_told(execution: Execution) -> str:
    """Say what a claim came to; where that is not the same on all ranks, whose sides these are."""
    step = execution.step
    if step.claim is None:
        return ""
    text = claim_summary(step.claim)
    if not text or all(one.claim is None for one in step.ranks or ()):
        return text
    claims = {rank: one.claim for rank, one in by_rank(step, execution.ranks).items() if one.claim is not None}
    whose = [rank for rank, claim in claims.items() if claim.held == step.claim.held and claim_summary(claim) == text]
    return f"{text} on {in_words(whose)}" if len(whose) < len(claims) else text


def told_apart(of_ranks: Mapping[int, Value]) -> Facts:
    """Say what a value was on which ranks: where a line says the same of all, by what a closer look shows."""
    texts = {rank: summary(value) for rank, value in of_ranks.items()}
    if len({*texts.values()}) == 1:
        closer = {rank: dict([*_elements(value), *facts(value)]) for rank, value in of_ranks.items()}
        names = dict.fromkeys(name for known in closer.values() for name in known)
        apart = [name for name in names if len({known.get(name) for known in closer.values()}) > 1]
        for rank, known in closer.items():
            more = [f"{name} {known[name]}" for name in apart[:CLOSER] if name in known] or ["differs inside"]
            texts[rank] = formats.one_line(" · ".join([texts[rank], *more]), 200)
    alike: dict[str, list[int]] = {}
    for rank, text in texts.items():
        alike.setdefault(text, []).append(rank)
    told = [(in_words(ranks), text) for text, ranks in alike.items()]
    rest = [*alike.values()][RANKS_SHOWN:]
    if len(rest) > 1:  # of the others the trace tells
        told[RANKS_SHOWN:] = [(in_words(rank for ranks in rest for rank in ranks), f"{len(rest):,} other values")]
    return tuple(told)


def _elements(value: Value) -> list[tuple[str, str]]:
    """Return the first elements of a tensor's first matrix."""
    for label, rows in grids(value.tensor)[:1] if value.tensor is not None else ():
        told = [cell for row in rows for cell in row]
        return [(label or "elements", ", ".join(told[:FIRST]) + ", …" * (len(told) > FIRST))]
    return []


def _values(
    values: Sequence[tuple[str, Value]], disagreeing: Sequence[tuple[str, Mapping[int, Value]]]
) -> Iterator[Remark]:
    apart = dict(disagreeing)
    for index, (name, value) in enumerate(values):
        remark = _value(index, name, value)
        yield replace(remark, text="", ranks=told_apart(apart[name])) if name in apart else remark


def _value(index: int, name: str, value: Value) -> Remark:
    kind: Literal["error", "value"] = "error" if value.type == "error" else "value"
    known = tuple(facts(value))
    return Remark(kind, formats.one_line(name, 60), summary(value), value=value, facts=known, index=index)


def _passed_on(execution: Execution) -> bool:
    return execution.failure is not None and not execution.failure.origin and bool(execution.calls)


def _named(shown: Sequence[Execution]) -> Iterator[Remark]:
    """Name the functions whose code is shown elsewhere on the page, one remark each."""
    calls: dict[str, list[Call]] = {}
    for execution in shown:
        named = {call.name for call in salient(execution.calls) if call.shown == "named"}
        for call in execution.calls:
            if call.name in named:
                calls.setdefault(call.name, []).append(call)
    for function, of in calls.items():
        numbers, text = sorted(call.number for call in of), ""
        if any(call.observed for call in of) and len(numbers) == 1:
            text = f"call {numbers[0]} of {of[0].total}"
        elif any(call.observed for call in of):
            text = f"calls {numbers[0]} {'and' if len(numbers) == 2 else 'to'} {numbers[-1]} of {of[0].total}"
        link = next(call.anchor for call in of if call.shown == "named")
        yield Remark("call", formats.one_line(function, 40), text, link=f"#{link}")


def _elsewhere(row: CodeRow) -> Iterator[Remark]:
    """Name the code that another page shows."""
    for it in row.definitions:
        if it.shown == "named":
            yield Remark("call", formats.one_line(it.name, 40), it.title, link=it.anchor)


def _sometimes(shown: Sequence[Execution]) -> list[Remark]:
    """Say that a statement did not run in every timed run; once where that is the same for all executions shown."""
    told = {e.sometimes: Remark("runs", "", e.sometimes, f"{e.step.execution}") for e in reversed(shown) if e.sometimes}
    if len({e.sometimes for e in shown}) == 1:
        return [replace(remark, label="") for remark in told.values()]
    return list(reversed(told.values()))


# --- time and counts ---


def _time(row: CodeRow) -> list[Remark]:
    """Say how long a statement took where that is worth a line; the execution nearest to the median speaks."""
    spoken = timed(row)
    if spoken is None or spoken.timing is None or not worth_saying(spoken):
        return []
    all_of_it = [e for e in row.executions if _has_time(e)]
    text = took(spoken.timing) + (" each" if len(all_of_it) > 1 and spoken.timing.clock != "call" else "")
    least, *_, most = sorted(map(_median_ns, [*all_of_it, spoken]))
    if most > UNLIKE * least:  # none speaks for all
        each = "a call" if spoken.timing.clock == "call" else "each"
        text = f"{formats.duration(least)} to {formats.duration(most)} {each}"
    flops = _flops(spoken) if spoken.step.annotated and len({_flops(e) for e in all_of_it}) == 1 else None
    if flops:
        text += f" · {formats.quantity(flops, 'FLOP')}"
    if spoken.step.compiled:
        text += " · with compilation"
    if spoken.step.harness and spoken.timing.clock != "call":
        text += " · with measuring"
    ranks = times(spoken.step, spoken.ranks) if spoken.ranks > 1 and not spoken.step.measured else {}
    slowest = sorted(sorted(ranks, key=lambda rank: -ranks[rank])[:RANKS_SHOWN])
    which = "rank" if len(slowest) == len(ranks) else "among the slowest: rank"
    of_ranks = tuple((f"{which} {rank}", formats.duration(ranks[rank])) for rank in slowest)
    known = (*measured(spoken), *of_ranks)
    samples = spoken.timing.samples_ns
    short = statistics.median(samples) < TEACHES_NS and not spoken.step.measured
    quiet = (short and not flops) or formats.half_range(samples) >= TEACHES_WITHIN
    found = [Remark("time", "", text, facts=known, timing=spoken.timing, counted=bool(flops), quiet=quiet)]
    if ranks and not quiet and TEACHES_NS <= max(ranks.values()) > RANKS_APART * min(ranks.values()):
        apart = f"by rank {formats.duration(min(ranks.values()))} to {formats.duration(max(ranks.values()))}"
        found.append(Remark("sent", "", apart, facts=of_ranks))
    return found


def _sent(row: CodeRow) -> list[Remark]:
    """Say what went between ranks in one execution: a line for each operation, with what each rank waited and moved."""
    executions = [e for e in row.executions if e.step.meters is not None and e.step.meters.collectives]
    if not executions or executions[0].calls:  # the lines of what it calls say it
        return []
    spoken = executions[len(executions) // 2]
    of_ranks = {rank: exchanged(step) for rank, step in by_rank(spoken.step, spoken.ranks).items()}
    found = []
    for key in dict.fromkeys(key for of_rank in of_ranks.values() for key in of_rank):
        there = {rank: of_rank[key] for rank, of_rank in of_ranks.items() if key in of_rank}
        one = next(iter(there.values()))
        text = formats.one_line(one.operation.replace("_", "-"), 40) + (f" × {one.calls:,}" if one.calls > 1 else "")
        text += f" · {one.ranks} ranks"
        if one.bytes:
            text += f" · {formats.byte_size(one.bytes, 3)}"
        rates = [rate for it in there.values() if (rate := bus_bandwidth(it)) is not None]
        if rates:
            text += f" · bus {formats.quantity(min(rates), 'B/s', 3)}"
        known = []
        if one.factor is not None:
            moved = f"{formats.byte_size(one.bytes * one.factor, 3)}, {formats.number(one.factor, 4)} × the payload"
            known.append(("on each link", moved))
        timed_ranks = [(f"rank {rank}", told) for rank, it in there.items() if (told := _waited_and_moved(it))]
        known += timed_ranks[:RANKS_SHOWN]
        if len(timed_ranks) > RANKS_SHOWN:
            known.append(("others", f"{len(timed_ranks) - RANKS_SHOWN:,} more ranks, in the trace"))
        if rates:
            known.append(("how", "in the metering run, after a barrier: what that took was waiting, the rest moving"))
        found.append(Remark("sent", "", text, facts=tuple(known)))
    return found


def exchanged(step: Step) -> dict[tuple[str, int], Collective]:
    """Return what went between ranks in a step, by operation and size of the group."""
    found = step.meters.collectives if step.meters is not None else None
    return {(one.operation, one.ranks): one for one in found or ()}


def bus_bandwidth(one: Collective) -> float | None:
    """Return bytes per second on a link, as nccl-tests define it (`metering.collectives`); None without a time."""
    if not one.moved_ns or not one.bytes or one.factor is None:
        return None
    return one.bytes * one.factor / one.moved_ns * 1e9


def _waited_and_moved(one: Collective) -> str:
    if one.waited_ns is None and one.moved_ns is None:
        return ""
    rate = bus_bandwidth(one)
    told = f"waited {formats.duration(one.waited_ns or 0)}, moved {formats.duration(one.moved_ns or 0)}"
    return told + (f": {formats.quantity(rate, 'B/s', 3)}" if rate is not None else "")


def took(timing: Timing) -> str:
    """Say how long a step took, or one call that it measured: 11.2 ms ± 0.4%, 18.1 ms ± 2% a call."""
    return formats.spread(timing.samples_ns) + (" a call" if timing.clock == "call" else "")


def _flops(execution: Execution) -> int | None:
    """Return the FLOPs that go with an execution's time: those of the one call it measured, else its own."""
    step = execution.step
    if step.measured or step.harness:
        return step.measured[0].flops if step.measured and len(step.measured) == 1 else None
    return step.meters.flops if step.meters is not None else None


def timed(row: CodeRow) -> Execution | None:
    """Return the execution whose time speaks for all of a row: the middle one."""
    known = [e for e in row.executions if _has_time(e)]
    return sorted(known, key=_median_ns)[len(known) // 2] if known else None


def worth_saying(execution: Execution) -> bool:
    """Whether a reader wants to know how long an execution took."""
    step = execution.step
    if step.measured or (step.annotated and _flops(execution)):
        return True
    asked = step.annotated and step.claim is None
    return _median_ns(execution) >= (WORTH_SAYING_ANNOTATED_NS if asked else WORTH_SAYING_NS)


def _has_time(execution: Execution) -> bool:
    return execution.timing is not None and execution.timing.clock != "launch"


def _median_ns(execution: Execution) -> float:
    return statistics.median(execution.timing.samples_ns) if execution.timing is not None else 0.0


def measured(execution: Execution) -> list[tuple[str, str]]:
    """Return everything that clocks and meters found out about one execution, as (name, text)."""
    step, calls = execution.step, execution.step.measured or ()
    found = _clocked(execution.timing) if execution.timing is not None else []
    for number, call in enumerate(calls, start=1):
        told = [*_counted(call), *_achieved(execution, number)]
        if len(calls) > 1:
            samples_ns = [max(1, round(1e9 * seconds)) for seconds in call.seconds]
            told = [(f"{number}: {name}", text) for name, text in (("time a call", _each_pass(samples_ns)), *told)]
        found += told
    if step.meters is not None:
        if not calls:  # else those are of every call together, warm-up included
            counted = _counted(step.meters)
            found += [fact for fact in counted if fact[0] != "intensity" or not step.harness]
            found += _achieved(execution, None) if counted else []
        found += _metered(step.meters)
    if step.allocated_bytes is not None:
        found.append(("allocated after", formats.byte_size(step.allocated_bytes)))
    if step.compiled:
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
    found = []
    for rate in execution.rates:
        if rate.call == call:
            roof = formats.one_line(rate.roof or "", 120)
            beside = f"; {roof}" if rate.share is None else f", {formats.percent(rate.share)} of the {roof}"
            found.append(("achieved", formats.quantity(rate.per_second, rate.name) + beside))
    why = execution.no_rate if call is None else (execution.step.measured or [])[call - 1].why
    return found or ([("rate", formats.one_line(f"none: {why}", 200))] if why else [])


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


# --- under a row ---


def below(row: CodeRow) -> list[Remark]:
    """Return what stands under a row, across the page, in the order in which it happened."""
    found: list[Remark] = []
    shown = salient(row.executions)
    for execution in shown:
        label = f"execution {execution.step.execution}" if len(row.executions) > 1 else ""
        calls = (call for call in salient(execution.calls) if call.shown != "named")
        found += [*(Remark("call", call=call) for call in calls), *_happened(execution, label)]
    found += [Remark("call", call=call) for call in row.definitions if call.shown != "named"]
    hidden = sum(len(e.calls) - len(salient(e.calls)) for e in shown)
    if hidden and any(it.kind == "call" for it in found):
        found.append(Remark("more", label=f"and {formats.plural(hidden, 'more call')}, in the trace"))
    return found


def _happened(execution: Execution, label: str) -> Iterator[Remark]:
    """Yield what was printed, warned of and raised; the sides of a claim that failed are its message."""
    step, claim, failure = execution.step, execution.step.claim, execution.failure

    def labelled(*more: str) -> str:
        return ", ".join(part for part in (label, *more) if part)

    left_out = {it.what: it for it in step.left_out or ()}
    own = by_rank(step, execution.ranks) if step.ranks else {}
    printed = {rank: of_rank.stdout for rank, of_rank in own.items() if of_rank.stdout}
    if len({*printed.values(), *(None for rank in own if rank not in printed)}) > 1:
        left_out.pop("stdout", None)
        for rank, text in [*printed.items()][:RANKS_SHOWN]:
            text = formats.visible(text[: PRINTED // len(printed)].rstrip("\n"))
            yield Remark("stdout", text=text, label=labelled(f"rank {rank}"))
        if len(printed) > RANKS_SHOWN:
            yield Remark("more", label=f"… {len(printed) - RANKS_SHOWN:,} more ranks printed, in the trace")
    elif step.stdout:
        text, length, gone = step.stdout, len(step.stdout), left_out.pop("stdout", None)
        if gone is not None:  # the first and the last of what was printed were kept: here, of each a part
            at, length = gone.at or 0, length + gone.count
            first, last = text[:at][: PRINTED // 2], text[at:][-(PRINTED // 2) :]
            text = f"{first}\n… {length - len(first) - len(last):,} more characters were printed …\n{last}"
        cut = f"the first {PRINTED:,} of {length:,} characters" if length > PRINTED and gone is None else ""
        text = text if gone is not None else text[:PRINTED]
        yield Remark("stdout", text=formats.visible(text.rstrip("\n")), label=labelled(cut))
    for warning in (step.warnings or ())[:WARNED]:
        yield Remark("warning", text=formats.visible(formats.shorten(warning, 1_000)), label=label)
    for what, gone in left_out.items():
        yield Remark("more", label=f"… {gone.count:,} {LEFT_OUT_IN_WORDS.get(what, 'more')}, only counted")
    if claim is not None and not claim.held:
        lines = [formats.visible(formats.shorten(claim.source, 1_000))]
        lines += [f"{formats.one_line(name, 80)} = {side_text(value)}" for name, value in claim.sides]
        if claim.message:
            lines.append(formats.visible(formats.shorten(claim.message, 1_000)))
        runs = f"in {', '.join(claim.failed_runs)}" if claim.failed_runs else ""  # and on which ranks
        yield Remark("failure", "This claim failed", "\n".join(lines), labelled(runs))
    elif failure is not None and not _passed_on(execution):
        message = formats.visible(formats.shorten(failure.message, 2_000))
        from_line = f"from line {failure.line}" if failure.line is not None and not failure.origin else ""
        where = "the lecture caught it" if failure.caught else f"nothing caught it: the {failure.ended} ended here"
        kind: Literal["caught", "failure"] = "caught" if failure.caught else "failure"
        waited = failure.waited_line
        launched = f"launched after the synchronisation at line {waited}" if waited is not None else ""
        raised = [rank for rank, of_rank in own.items() if of_rank.raised is not None]
        on = f"on {in_words(raised)}" if raised and len(raised) < len(own) else ""
        yield Remark(kind, formats.one_line(failure.type, 80), message, labelled(on, from_line, launched, where))

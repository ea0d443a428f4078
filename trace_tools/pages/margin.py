"""Build the notes next to a row of code and the blocks under it, in reading order.

Both writers use them, as a margin column or as comments. A note is one line of text; its facts and value are its
details.
To keep pages quiet, a statement without annotations that took less than a millisecond has no note on time.

    margin_notes(row)        [MarginNote("value", "x", "f32[4, 4] · 64 B", …), MarginNote("time", "", "11.2 ms ± 0.4%")]
    notes_under(row)         [MarginNote("call", call=call), MarginNote("stdout", "", "epoch 1", "execution 3")]
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import msgspec

from trace_tools.analysis.rates import (
    AT_ONCE_NS,
    AT_ONCE_WITHIN,
    WORTH_SHOWING_ANNOTATED_NS,
    WORTH_SHOWING_NS,
    flops_in_words,
    intensity_of,
    not_counted,
    why_no_rate,
)
from trace_tools.analysis.summaries import (
    LEFT_OUT_IN_WORDS,
    claim_summary,
    facts,
    is_frame,
    side_text,
    summary,
    tells_nothing_new,
)
from trace_tools.pages.document import Call, CodeRow, Execution, MarginNote, salient
from trace_tools.trace.model import Counts, Meters, Value
from trace_tools.util import formats

PRINTED = 6_000  # characters of output shown
WARNED = 5  # warnings of one execution
LONGEST = 130  # characters of a value
NAMED = 3  # most operators named on a line
UNLIKE = 2  # minimum ratio of times at which executions count as different work


# --- next to a row ---


def with_notes(row: CodeRow) -> CodeRow:
    """Return a row, whose calls are shown as they will be, with its notes."""
    return replace(row, beside=tuple(margin_notes(row)), under=tuple(notes_under(row)))


def counted_once(rows: Sequence[CodeRow]) -> Iterator[tuple[CodeRow, list[MarginNote]]]:
    """Yield consecutive rows with the notes next to them; the number of a loop's rounds is shown once."""
    before = 0
    for row in rows:
        counted = _times_run(row) if any(note.kind == "count" for note in row.beside) else 0
        yield row, [note for note in row.beside if note.kind != "count" or counted != before]
        before = 0 if len(row.executions) == 1 else counted or before  # a row outside loops: another loop may follow


def _times_run(row: CodeRow) -> int:
    """Return how often a row ran: the rounds of a loop's header, the executions of any other statement."""
    return len(row.executions) + row.omitted if row.rounds is None else row.rounds


def margin_notes(row: CodeRow) -> list[MarginNote]:
    """Return the notes next to a row: values and claims, its time, how often it ran, calls shown elsewhere."""
    shown = row.salient
    observations = observed(row)
    time = _time(row)
    count = []
    unseen = row.omitted or len(row.executions) > len(shown)
    if unseen and len(row.executions) > 1 and (observations or time):
        count = [
            MarginNote("count", "", formats.plural(_times_run(row), "execution" if row.rounds is None else "round"))
        ]
    # a statement that did not run in every timed run: one note if that holds for all executions
    numbers = {e.sometimes: f"{e.step.execution}" for e in reversed(shown) if e.sometimes}
    alike = len({e.sometimes for e in shown}) == 1
    partly = [MarginNote("runs", "", text, "" if alike else n) for text, n in reversed(numbers.items())]
    if any(execution.step.graph for execution in shown):
        partly.append(MarginNote("runs", "", "torch recorded a graph: these calls were not observed"))
    # operators without a FLOP formula, on a line that would otherwise show FLOPs
    all_counts = (_counts(it) for it in row.executions if it.step.annotated or it.step.measured)
    operators = dict.fromkeys(name for counts in all_counts if counts is not None for name in counts.uncounted or ())
    missing = not_counted(Meters(uncounted=[*operators]), NAMED)
    uncounted = [MarginNote("uncounted", "", missing)] if missing is not None else []
    return [*observations, *time, *uncounted, *_sent(row), *count, *partly, *_named(shown)]


def observed(row: CodeRow) -> list[MarginNote]:
    """Return the notes on a row's arguments, values, claims and exceptions."""
    shown = row.salient
    several = len(row.executions) > 1
    notes = list(_values(row.arguments))
    for execution in shown:
        label = f"{execution.step.execution}" if several else ""
        own = [*_values(execution.values)]
        if (claim := execution.step.claim) is not None:
            kind: Literal["held", "failed", "caught"] = "held" if claim.held else "failed"
            collapsed = tells_nothing_new(claim)
            own.append(MarginNote(kind, "", claim_summary(claim), collapsed=collapsed))
        failure = execution.failure
        if failure is not None and _passed_on(execution):  # its details are at its origin
            kind = "caught" if failure.caught else "failed"
            text = f"{failure.type} was raised in this call"
            own.append(MarginNote(kind, "", text))
        notes += [replace(note, label=label) for note in own] if label else own
    if several:  # notes that are equal in every shown execution are merged
        texts: dict[tuple[str, int | None, str], list[MarginNote]] = {}
        for note in notes:
            collapsed = note.kind == "held" and note.collapsed
            texts.setdefault((note.kind, note.index, "" if collapsed else note.text), []).append(note)
        notes = [same[0] if len(same) == 1 else replace(same[0], label="") for same in texts.values()]
    return notes


def _values(values: Sequence[tuple[str, Value]]) -> Iterator[MarginNote]:
    for index, (name, value) in enumerate(values):
        kind: Literal["error", "value"] = "error" if value.type == "error" else "value"
        details = tuple(facts(value))
        text = summary(three_digits(value), LONGEST)
        yield MarginNote(kind, formats.one_line(name, 60), text, value=value, facts=details, index=index)


def three_digits(value: Value, unit: str | None = None) -> Value:
    """Round measures to three digits, to remember, also in a container with this `unit` if they still differ there."""
    unit, number, items, entries = value.unit or unit, value.value, value.items or (), value.entries or ()
    inner = [*items, *(item for _, item in entries)]
    if inner and not is_frame(value):
        rounded = [three_digits(item, unit) for item in inner]
        rest = [(key, item) for (key, _), item in zip(entries, rounded[len(items) :], strict=True)]
        differ = len({item.value for item in rounded}) == len({item.value for item in inner})
        shown = msgspec.structs.replace(
            value, items=rounded[: len(items)] or value.items, entries=rest or value.entries
        )
        return shown if differ else value
    if not isinstance(number, int | float) or isinstance(number, bool) or value.varies or not 0 < abs(number) < 1e300:
        return value
    whole, scale = isinstance(number, int), 1.0
    if unit in formats.BYTE_UNITS and not formats.is_decimal([number]):
        scale = next((factor for factor, _ in formats.IEC if factor <= abs(number)), 1.0)
    exact = (unit not in formats.SI_UNITS) if whole else (unit is None and number == int(number) and abs(number) < 1e7)
    three = number if exact and scale == 1 else scale * float(f"{number / scale:.3g}")
    whole = whole or 100 <= abs(three) < 1e7  # 41,300, not 41,300.0
    return msgspec.structs.replace(value, value=int(three) if whole else three)


def _passed_on(execution: Execution) -> bool:
    return execution.failure is not None and not execution.failure.origin and bool(execution.calls)


def _named(shown: Sequence[Execution]) -> Iterator[MarginNote]:
    """Name the functions with code elsewhere on the page, one note each."""
    calls: dict[str, list[Call]] = {}
    for call in (call for execution in shown for call in salient(execution.calls) if call.shown == "named"):
        calls.setdefault(call.name, []).append(call)
    for function, named in calls.items():
        first, last, total = named[0].number, named[-1].number, named[0].total
        text = f"call {first} of {total}" if first == last else f"calls {first} to {last} of {total}"
        text = text if any(call.observed for call in named) else ""
        yield MarginNote("call", function, text, link=f"#{named[0].anchor}")


# --- time and counts ---


def _time(row: CodeRow) -> list[MarginNote]:
    """Return a note on the time of a statement if it is worth one, from the execution nearest to the median.

    A time that includes measuring, is short, or varied much between the runs teaches nothing: then the FLOPs remain,
    or the times of the calls that it measured.
    """
    typical = row.typical
    if typical is None or typical.timing is None or not worth_saying(typical):
        return []
    details, samples = tuple(execution_facts(typical)), typical.timing.samples_ns
    if typical.step.harness and typical.timing.clock != "call":
        calls = sorted(1e9 * statistics.median(call.seconds) for call in typical.step.measured or () if call.seconds)
        return [MarginNote("time", "", f"{_range_of(calls)} a call", facts=details)] if calls else []
    each = " a call" if typical.timing.clock == "call" else " each" if len(row.timed) > 1 else ""
    text = formats.spread(samples) + each
    least, most = row.timed[0].median_ns or 0.0, row.timed[-1].median_ns or 0.0
    if most > UNLIKE * least:  # no execution is representative
        text = _range_of([least, most]) + (each or " each")
    flops = _flops(typical) if typical.step.annotated and len({_flops(e) for e in row.timed}) == 1 else None
    if flops:
        text += f" · {flops}"
    if typical.step.compiled:
        text += " · with compilation"
    short = statistics.median(samples) < AT_ONCE_NS and not typical.step.measured
    if short or formats.half_range(samples) >= AT_ONCE_WITHIN:
        text = flops + (" each" if len(row.timed) > 1 else "") if flops else ""
    return [MarginNote("time", "", text, facts=details)] if text else []


def _range_of(times_ns: Sequence[float]) -> str:
    return f"{formats.duration(times_ns[0])} to {formats.duration(times_ns[-1])}"


def _sent(row: CodeRow) -> list[MarginNote]:
    """Return notes on the traffic between ranks in one execution: a line for each operation."""
    meters = [e.step.meters for e in row.executions if not e.calls]  # of a call, it is shown at the lines inside
    sent = [one.collectives for one in meters if one is not None and one.collectives]
    notes = []
    for one in sent[len(sent) // 2] if sent else ():
        text = one.operation.replace("_", "-") + (f" × {one.calls:,}" if one.calls > 1 else "")
        text += f" · {one.ranks} ranks"
        if one.bytes:
            text += f" · {formats.byte_size(one.bytes, 3)}"
        notes.append(MarginNote("sent", "", text))
    return notes


def _counts(execution: Execution) -> Counts | None:
    """Return the counts that belong to an execution's time: those of the one call that it measured, else its own."""
    step = execution.step
    if step.measured or step.harness:
        return step.measured[0] if step.measured and len(step.measured) == 1 else None
    return step.meters


def _flops(execution: Execution) -> str | None:
    """Return the FLOPs that belong to an execution's time: "2 MFLOP", "at least 2 MFLOP"; None without FLOPs."""
    counts = _counts(execution)
    return flops_in_words(counts) if counts is not None and counts.flops else None


def worth_saying(execution: Execution) -> bool:
    """Return whether the time of an execution is worth a note."""
    step = execution.step
    if step.measured or (step.annotated and _flops(execution)):
        return True
    annotated = step.annotated and step.claim is None
    return (execution.median_ns or 0.0) >= (WORTH_SHOWING_ANNOTATED_NS if annotated else WORTH_SHOWING_NS)


_CLOCKS = {"device": "device time", "host": "time", "launch": "launch time (host)", "call": "time a call"}


def execution_facts(execution: Execution) -> list[tuple[str, str]]:
    """Return everything measured and counted in one execution, as (name, text)."""
    step, timing, calls = execution.step, execution.timing, execution.step.measured or ()
    facts: list[tuple[str, str | None]] = []
    if timing is not None:
        first = timing.cold_ns if timing.cold_ns != timing.samples_ns else ()
        facts += [
            (_CLOCKS[timing.clock], formats.spread(timing.samples_ns)),
            ("first run", _spread(first)),
            ("all its calls, the whole statement", _spread(timing.whole_ns)),
        ]
    facts += [  # the host could continue after a launch; only the tracer waits for the device
        ("time until the host had launched it", _spread(step.launch_ns)),
        ("queued work before it, not in any step", _spread(step.queued_ns)),
    ]
    for number, call in enumerate(calls, start=1):
        samples_ns = [max(1, round(1e9 * seconds)) for seconds in call.seconds]
        own = [("time a call", formats.spread(samples_ns))] if len(calls) > 1 else []
        own += [*_count_facts(call), *_achieved(execution, number)]
        facts += [(f"{number}: {name}" if len(calls) > 1 else name, text) for name, text in own]
    if step.meters is not None and not calls:  # else they include every call and the warm-up
        counted = _count_facts(step.meters)
        facts += [fact for fact in counted if fact[0] != "intensity" or not step.harness]
        facts += _achieved(execution, None) if counted else []
    if (meters := step.meters) is not None:
        facts += [
            ("peak", _bytes(meters.peak_bytes, " of tensors")),
            ("live after", _bytes(meters.live_bytes, " of tensors")),
            ("not measured", formats.one_line(meters.why or "", 200)),
        ]
    facts.append(("allocated after", _bytes(step.allocated_bytes)))
    return [(name, text) for name, text in facts if text]


def _spread(samples_ns: Sequence[int] | None) -> str | None:
    return formats.spread(samples_ns) if samples_ns else None


def _bytes(size: int | None, of: str = "") -> str | None:
    return formats.byte_size(size) + of if size is not None else None


def _count_facts(counts: Counts) -> list[tuple[str, str]]:
    flops, intensity = flops_in_words(counts), intensity_of(counts)
    exactly = f" ({counts.flops:,})" if (counts.flops or 0) >= 10_000 else ""
    meta = formats.quantity(counts.meta_flops or 0, "FLOP")
    facts = [
        ("FLOPs", flops and flops + exactly),
        ("not computed", f"{meta}, on tensors without memory" if counts.meta_flops else None),
        ("no FLOP formula", not_counted(counts)),
        ("read", _bytes(counts.bytes_read)),
        ("written", _bytes(counts.bytes_written)),
        ("intensity", f"{formats.number(intensity, 3)} FLOP/byte" if intensity is not None else None),
    ]
    return [(name, text) for name, text in facts if text]


def _achieved(execution: Execution, call: int | None) -> list[tuple[str, str]]:
    """Return the rates of an execution, or of a call that it measured; without rates, the reason."""
    rates = []
    for rate in execution.rates:
        if rate.call == call:
            bound = formats.shorten(rate.roof or "", 120)
            share = f", {formats.percent(rate.share or 0.0)} of the {bound}"
            comparison = f"; {bound}" if rate.share is None else share
            rates.append(("achieved", formats.quantity(rate.per_second, rate.name) + comparison))
            rates += [("warning", rate.above)] if rate.above else []
    counts = execution.step.meters if call is None else (execution.step.measured or [])[call - 1]
    if counts is not None and counts.uncounted:  # shown with its FLOPs
        return rates
    why = (
        why_no_rate(execution.step, execution.timing) if call is None else (execution.step.measured or [])[call - 1].why
    )
    return rates or ([("rate", f"none: {why}")] if why else [])


# --- under a row ---


def notes_under(row: CodeRow) -> list[MarginNote]:
    """Return the blocks under a row, across the page, in order of execution."""
    notes = []
    shown = row.salient
    # the longest time that the GPU still worked for earlier lines; no step includes it
    waits = [round(statistics.median(e.step.queued_ns)) for e in row.executions if e.step.queued_ns]
    if (longest := max(waits, default=0)) >= WORTH_SHOWING_NS:
        most = f" (the longest of {len(row.executions):,} waits)" if len(row.executions) > 1 else ""
        label = f"queued work before this line: {formats.duration(longest)}{most}, not in any step"
        notes.append(MarginNote("more", label=label))
    for execution in shown:
        label = f"execution {execution.step.execution}" if len(row.executions) > 1 else ""
        calls = (call for call in salient(execution.calls) if call.shown != "named")
        notes += [*(MarginNote("call", call=call) for call in calls), *_happened(execution, label)]
    if more_printed := sum(bool(e.step.stdout) for e in row.executions if e not in shown):
        executions = formats.plural(more_printed, "more execution")
        notes.append(MarginNote("more", label=f"{executions} printed output (see the trace)"))
    notes += [MarginNote("call", call=call) for call in row.definitions]
    first = {note.text: note for note in reversed(notes) if note.kind == "warning"}
    return [note for note in notes if note.kind != "warning" or first[note.text] is note]  # a warning is shown once


def _happened(execution: Execution, label: str) -> Iterator[MarginNote]:
    """Yield output, warnings and exceptions; a failed claim shows its sides as the message."""
    step, claim, failure = execution.step, execution.step.claim, execution.failure

    left_out = {it.what: it for it in step.left_out or ()}
    if step.stdout:
        gone = left_out.pop("stdout", None)  # between the beginning and the end, which were kept
        at = gone.at or 0 if gone is not None else PRINTED // 2
        first, last = formats.on_terminal(step.stdout[:at]), formats.on_terminal(step.stdout[at:])
        text, more = first + last, gone.count if gone is not None else 0
        if more or len(text) > PRINTED:  # a part of both is shown
            first, last = first[: PRINTED // 2], last[-(PRINTED // 2) :]
            more += len(text) - len(first) - len(last)
            text = f"{first}\n… {more:,} more characters were printed …\n{last}"
        yield MarginNote("stdout", text=text.rstrip("\n"), label=label)
    for warning in (step.warnings or ())[:WARNED]:
        yield MarginNote("warning", text=formats.shorten(warning, 1_000), label=label)
    for part, gone in left_out.items():
        yield MarginNote("more", label=f"… {gone.count:,} {LEFT_OUT_IN_WORDS.get(part, 'more')}, only counted")
    if claim is not None and not claim.held:
        lines = [formats.shorten(claim.source, 1_000)]
        lines += [f"{formats.one_line(name, 80)} = {side_text(value)}" for name, value in claim.sides]
        if claim.message:
            lines.append(formats.shorten(claim.message, 1_000))
        runs = f"in {', '.join(claim.failed_runs)}" if claim.failed_runs else ""
        yield MarginNote("failure", "This claim failed", "\n".join(lines), ", ".join(filter(None, (label, runs))))
    elif failure is not None and not _passed_on(execution):
        message = formats.shorten(failure.message, 2_000)
        from_line = f"from line {failure.line}" if failure.line is not None and not failure.origin else ""
        ended = "section" if failure.survived else "run"
        outcome = "caught by the lecture" if failure.caught else f"not caught: the {ended} ended here"
        kind: Literal["caught", "failure"] = "caught" if failure.caught else "failure"
        sync_line = failure.waited_line
        launched = f"launched after the synchronisation at line {sync_line}" if sync_line is not None else ""
        label = ", ".join(filter(None, (label, from_line, launched, outcome)))
        yield MarginNote(kind, failure.type, message, label)

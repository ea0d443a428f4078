"""The part of `first_contact.py` that needs the project's own Python: measures a card's peaks and judges its trace.

    python -m tests.contact_figures roof [DEVICE]
    python -m tests.contact_figures trace TRACE.yaml

Prints one `Finding` per line, as JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.first_contact import Finding, write
from trace_tools.analysis.outcome import problems, violations
from trace_tools.machines import accelerators, devices
from trace_tools.machines.machine import LEAST_OF_DATASHEET, SIDE
from trace_tools.machines.peaks import known_machine, matrix_format, peak_of, table_peaks
from trace_tools.trace.model import Peak, Step, Trace
from trace_tools.trace.trace_file import load
from trace_tools.util import formats

ALIKE = 1.05  # the largest allowed ratio of a peak's two measurements


def roof(device_option: str | None) -> Iterator[Finding]:
    """Measure the card's peaks twice; they must agree, come from large matmuls and be near the datasheet's."""
    from trace_tools.machines.peak_benchmark import measured_peaks

    device = devices.chosen(device_option)
    gpu = accelerators.accelerator(device)
    if gpu is None:
        yield Finding(False, "a GPU", device)
        return
    card = gpu.properties()
    sheet = {peak.name: peak for peak in table_peaks(known_machine(card.name, card.multiprocessors))}
    for first, second in zip(measured_peaks(device), measured_peaks(device), strict=True):
        yield from measured_twice(first, second, sheet.get(first.name))


def measured_twice(first: Peak, second: Peak, sheet: Peak | None) -> Iterator[Finding]:
    """Judge a peak that was measured twice: yield one finding for each problem, or one that reports success."""
    name = first.name
    if first.per_second is None or second.per_second is None:
        reason = first.source if first.per_second is None else second.source
        yield Finding(False, f"a measured {name} peak", reason)
        return
    unit = "B/s" if name == "memory" else "FLOP/s"
    rates = [formats.quantity(rate, unit, 3) for rate in (first.per_second, second.per_second)]
    best, least = max(first.per_second, second.per_second), min(first.per_second, second.per_second)
    failures = []
    if best > ALIKE * least:
        failures.append(Finding(False, f"two {name} peaks within {formats.percent(ALIKE - 1)}", " and ".join(rates)))
    side = SIDE.search(second.source)
    if side is not None and int(side[1]) < devices.FILLING_SIDE:
        failures.append(Finding(False, f"the {name} peak at {devices.FILLING_SIDE}³ or more", f"{side[1]}³"))
    share = f", {formats.percent(best / sheet.per_second)} of the datasheet's" if sheet and sheet.per_second else ""
    if sheet and sheet.per_second and best < LEAST_OF_DATASHEET * sheet.per_second:
        promised = f"{formats.percent(LEAST_OF_DATASHEET)} of the datasheet's {name} peak or more"
        failures.append(Finding(False, promised, formats.percent(best / sheet.per_second)))
    yield from failures or [Finding(True, "", f"{name} {rates[1]}{share} ({second.source})")]


def of_trace(trace: Trace) -> Iterator[Finding]:
    """Judge the facts of a trace about its card, most important first."""
    ended = ", ".join(f"{process.name}: {process.ended}" for process in trace.run.processes)
    yield Finding(all(p.ended == "complete" for p in trace.run.processes), "all processes complete", ended)
    failures = problems(trace)
    yield from (Finding(False, "no claim, statement or expression to fail", line) for line in failures)
    yield from (Finding(False, "no impossible figure", line) for line in violations(trace))
    machine = trace.machine
    yield Finding(machine.device != "cpu", "a GPU's trace", f"{machine.name} ({machine.device})")
    peaks = {name: peak_of(machine, name) for name in ("float32", matrix_format(machine), "memory")}
    unknown = [name for name, peak in peaks.items() if peak is None or not peak.per_second]
    sources = ", ".join(f"{name} {'measured' if peak.measured else 'promised'}" for name, peak in peaks.items() if peak)
    yield Finding(
        not unknown,
        "a peak of each format that is used",
        f"none of {', '.join(unknown)}" if unknown else f"peaks: {sources}",
    )
    steps = [step for step in trace.steps if isinstance(step, Step)]
    timed = sum(bool(step.device_ns) for step in steps)
    yield Finding(
        timed > 0, "steps timed by the device's clock", f"it timed {timed:,} of {formats.plural(len(steps), 'step')}"
    )


def main(arguments: Sequence[str]) -> int:
    """Measure a card or judge a trace, print the findings, and return the exit code."""
    task, argument = arguments
    write(roof(argument or None) if task == "roof" else of_trace(load(Path(argument)).trace))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

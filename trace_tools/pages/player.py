"""Build the stops of a section's player, in order of execution, and pack them into one block of text for its page.

    section.stepping = stepping(lecture, "tensors", anchors)
    section.stepping.stops[41].anchor       "L216": the row to highlight
    section.stepping.stops[41].variables    the values observed after that statement
    step_block(section, machine)            "eNq1W…", for `player.js`

A stop shows the state after its statement. Values observed on the line of a call are therefore known at that line, and
not inside the call. If a statement is not on the page (its call is only named), its stop uses the row with the same
line, else the row of its caller.

A tensor that lies where it lay, with other elements, was written to, perhaps through another view of its storage.
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from trace_tools.analysis import summaries
from trace_tools.analysis.rates import timing_of
from trace_tools.pages.content.lecture import Lecture
from trace_tools.pages.document import Anchors, Section, Seen, Stepping, Stop
from trace_tools.pages.margin import three_digits
from trace_tools.presentation.page_shell import packed
from trace_tools.source.directives import RETURN
from trace_tools.trace.model import Frame, Machine, Step, Value
from trace_tools.util import formats

PRINTED = 600  # characters of output at a stop

# numbered in the block; "written": the tensor lies where it lay before, with other contents
CHANGES = ("same", "new", "changed", "written", "cleared")
NOTES = ("held", "failed", "raised", "caught", "printed", "warning")


def stepping(lecture: Lecture, function: str, anchors: Anchors) -> Stepping:
    """Return the stops of all calls of a section's function; `anchors` are the positions of its page."""
    tree = lecture.tree
    frames = [frame for frame, section in tree.section_of.items() if section == function and tree.steps_of(frame)]
    steps = [step for frame in frames for step in tree.steps_of(frame) if _stops_at(lecture, step)]
    steps.sort(key=lambda step: step.id)
    inside, variables = _observed(lecture, steps)
    index_of = {step.id: index for index, step in enumerate(steps)}
    number = {frame: index for index, frame in enumerate(frames)}
    lines = dict(anchors.lines)
    for step in steps:  # a line of narrative may be shown in another call only
        if step.id in anchors.narration_only:
            lines.setdefault(lecture.line(step), anchors.narration_only[step.id])

    def anchor(step: Step) -> tuple[str, bool]:
        """Return the anchor of a step, and whether it is its own line; else it belongs to its nearest caller."""
        at: Step | None = step
        while at is not None and at.frame in tree.frames:
            position = anchors.rows.get(at.id) or anchors.fallbacks.get(at.id)
            position = position or lines.get(lecture.line(at))
            if position is not None:
                return position, at is step
            caller = tree.frames[at.frame].of
            at = tree.by_id.get(caller) if caller is not None else None
        return "", False

    stops = []
    for index, step in enumerate(steps):
        where, own = anchor(step)
        directives = lecture.edition.source.directives.get(step.statement, ()) if step.narrative else ()
        animated = any(directive.name == "animate" for directive in directives)
        stops.append(
            Stop(
                frame=number[step.frame],
                anchor=where,
                line=lecture.line(step),
                code="" if own else formats.one_line(lecture.code(step), 120),
                inside=inside[index],
                outputs=len(step.narrative or ()) if animated else 0,
                variables=tuple(variables[index]),
                step=step,
                failure=lecture.failure(step),
            )
        )
    stack = []
    for frame in frames:
        called = tree.frames[frame]
        caller = index_of.get(called.of, -1) if called.of is not None else -1
        total = tree.call_total[function, called.function]
        stack.append((called.function, caller, tree.call_number[frame], total))
    narrations = ((number_on_page, index_of[step]) for number_on_page, step in anchors.narrations if step in index_of)
    return Stepping(tuple(stack), tuple(stops), tuple(narrations))


def _stops_at(lecture: Lecture, step: Step) -> bool:
    """Return whether the player stops at a step: it is on the page, or has text on the page."""
    source = lecture.edition.source
    shown = step.statement not in source.hidden and step.statement not in source.narrative
    said = any(narrative.kind != "note" for narrative in step.narrative or ())
    observed = step.values or said or step.claim or step.raised
    return shown or bool(observed) or bool(lecture.tree.calls(step.id))


def _observed(lecture: Lecture, steps: Sequence[Step]) -> tuple[list[int], list[list[Seen]]]:
    """Return for each step the number of steps inside it, and the variables known after it.

    Statements end in another order than they begin: a statement with a call ends after everything inside the call. A
    name's previous value comes from the last statement that ended. A call's arguments are known from its first step.
    """
    tree = lecture.tree
    inside = [0] * len(steps)
    variables: list[list[Seen]] = [[] for _ in steps]
    values: defaultdict[int, dict[str, Value]] = defaultdict(dict)  # by frame

    def all_noted(event: Step | Frame) -> Iterator[Seen]:
        """Record the values observed by a step, or the arguments of a call."""
        argument = isinstance(event, Frame)
        for name, value in (event.arguments if isinstance(event, Frame) else event.values) or ():
            if argument and name == RETURN:  # of a call that returned; not known at its first step
                continue
            yield noted(event.frame, name, value, argument=argument)

    def lies_at(value: Value) -> tuple[object, ...] | None:
        """Identify the view of memory that a tensor is: equal results mean the same view."""
        t = value.tensor
        return None if t is None or t.storage is None else (t.storage, t.shape, t.strides, t.offset, t.dtype)

    def noted(frame: int, name: str, value: Value, *, argument: bool) -> Seen:
        before = values[frame].get(name)
        values[frame][name] = value
        change = "new" if before is None else "same" if before == value else "changed"
        if before is not None and change == "changed" and lies_at(before) == lies_at(value) is not None:
            change = "written"
        return _seen(name, value, change, argument=argument)

    def done(index: int, following: int) -> None:
        step = steps[index]
        inside[index] = following - index - 1
        of_frame = values[step.frame]
        for directive in lecture.edition.source.directives.get(step.statement, ()):
            # and expressions that begin with the name
            for name in directive.names if directive.name == "clear" else ():
                for gone in [key for key in of_frame if re.match(rf"{re.escape(name)}(?!\w)", key)]:
                    del of_frame[gone]
                    variables[index].append(_seen(gone, None, "cleared"))
        if step.values:  # most steps have none
            variables[index] += all_noted(step)

    begun: set[int] = set()
    open_calls: list[int] = []  # indices of steps with calls that have not ended
    for index, step in enumerate(steps):
        while open_calls and tree.frames[step.frame].of != steps[open_calls[-1]].id:
            done(open_calls.pop(), index)
        if step.frame not in begun:
            begun.add(step.frame)
            variables[index] += all_noted(tree.frames[step.frame])
        if tree.calls(step.id):
            open_calls.append(index)
        else:
            done(index, index + 1)
    while open_calls:
        done(open_calls.pop(), len(steps))
    return inside, variables


# --- packed ---


def step_block(section: Section, machine: Machine) -> str:
    """Return the stops of a section as a text for the script of its page."""
    stepping = section.stepping
    return packed(
        {
            "frames": stepping.frames,
            "stops": [_written(stop, machine) for stop in stepping.stops],
            "shared": section.shared,
            "narrations": stepping.narrations,
        }
    )


def _written(stop: Stop, machine: Machine) -> dict[str, Any]:
    """Return a stop as plain data for the script, which needs no formulas and no formats."""
    step, timing, time = stop.step, timing_of(stop.step, machine), ""
    live = step.meters.live_bytes if step.meters is not None else None
    if timing is not None and timing.clock != "launch":
        time = formats.duration(statistics.median(timing.samples_ns)) + " a call" * (timing.clock == "call")
    return {
        "frame": stop.frame,
        "anchor": stop.anchor,
        "line": stop.line,
        "code": stop.code,
        "same": f"{stop.frame} {step.statement}",  # one statement in one call
        "execution": step.execution,
        "inside": stop.inside,
        "outputs": stop.outputs,
        "time": time,
        "memory": f"{formats.byte_size(live)} of tensors alive" if live is not None else "",
        "notes": list(_notes(stop)),
        "seen": stop.variables,
    }


def _seen(name: str, value: Value | None, change: str, *, argument: bool = False) -> Seen:
    tensor = value.tensor if value is not None else None
    text = summaries.summary(three_digits(value)) if value is not None else ""
    grid = ""  # a small matrix or a frame, as lines of cells separated by tabs
    if value is not None and summaries.is_small(value):
        [table] = summaries.tables(value)
        grid = "\n".join("\t".join(row) for row in table.rows)
    storage = tensor.storage or "" if tensor is not None else ""
    return name, text, grid, CHANGES.index(change) + 8 * argument, storage


def _notes(stop: Stop) -> Iterator[tuple[int, str]]:
    """Yield the notes of a stop: its claim's result, its exception, output and warnings."""
    step, failure = stop.step, stop.failure
    if step.claim is not None:
        yield NOTES.index("held" if step.claim.held else "failed"), summaries.claim_summary(step.claim)
    if failure is not None:
        text = formats.one_line(f"{failure.type}: {failure.message}", 200)
        yield NOTES.index("caught" if failure.caught else "raised"), text
    if step.stdout:
        text = formats.shorten(formats.on_terminal(step.stdout).rstrip("\n"), PRINTED)
        yield NOTES.index("printed"), text
    for warning in (step.warnings or ())[:3]:
        yield NOTES.index("warning"), formats.one_line(warning, 200)

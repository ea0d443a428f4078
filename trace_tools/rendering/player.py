"""A section's steps in order of execution → the stops of its player, and the text beside its page that carries them.

    section.stepping = stepping(lecture, "tensors", anchors)
    section.stepping.stops[41].anchor       "L216": the row to highlight
    section.stepping.stops[41].variables    what was observed once that statement was done
    block = step_block(section, budget=250_000)
    block.text                              "eNq1W…", for `player.js`
    block.kept, block.total                 stops in it, and in the trace

One rule for what a stop knows: the state when its statement has been executed. What a call's own line
observed is therefore known at that line, and not inside the call. Code that is not on the page (a call that is
only named) borrows the row where the same line stands, else the row of its caller.

A block is columns of numbers and texts: 10,000 stops are some 100 kB, and a browser has them again in a few
hundredths of a second. The same stops give the same bytes. Beyond the budget, stops are left out by what they
teach: first those that repeat what the execution before them showed, then all but the first and last executions,
then whatever comes last.
"""

from __future__ import annotations

import re
import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trace_tools import formats, summaries
from trace_tools.ranks import disagreeing, in_words
from trace_tools.rendering.document import Anchors, Section, StackFrame, Stepping, Stop, Variable
from trace_tools.rendering.lecture import Lecture
from trace_tools.rendering.packing import deltas, packed, table
from trace_tools.rendering.remarks import claim_told, told_apart
from trace_tools.rendering.storage_contents import StorageContents
from trace_tools.schema import Frame, Step, Value

BUDGET = 250_000  # characters of base64
PRINTED = 600  # characters of output beside a stop
APART = 160  # characters of a variable that is not the same on all ranks

CHANGES = ("same", "new", "changed", "written", "cleared")  # in the order of their numbers in the block
NOTES = ("held", "failed", "raised", "caught", "printed", "warning")


def stepping(lecture: Lecture, function: str, anchors: Anchors) -> Stepping:
    """Return the stops of all calls of a section's function, on the page where things stand at these anchors."""
    tree = lecture.tree
    frames = [frame for frame, of in tree.section_of.items() if of == function and tree.steps_of(frame)]
    steps = [step for frame in frames for step in tree.steps_of(frame) if _stops_at(lecture, step)]
    steps.sort(key=lambda step: step.id)
    inside, variables = _observed(lecture, steps)
    place = {step.id: index for index, step in enumerate(steps)}
    number = {frame: index for index, frame in enumerate(frames)}
    lines = dict(anchors.lines)
    for step in steps:  # a narrative line that another call shows stands for this one
        if step.id in anchors.said:
            lines.setdefault((lecture.source(step), lecture.lines[step.id]), anchors.said[step.id])

    def anchor(step: Step) -> tuple[str, bool]:
        """Return where a step stands, and whether that is its own line: else it is its nearest caller's."""
        at: Step | None = step
        while at is not None and at.frame in tree.frames:
            known = anchors.rows.get(at.id) or anchors.others.get(at.id)
            known = known or lines.get((lecture.source(at), lecture.lines[at.id]))
            if known is not None:
                return known, at is step
            of = tree.frames[at.frame].of
            at = tree.by_id.get(of) if of is not None else None
        return "", False

    stops = []
    for index, step in enumerate(steps):
        where, own = anchor(step)
        directives = lecture.edition(step).directives.get(lecture.edition(step).shown[step.statement], ())
        animated = any(directive.name == "animate" for directive in directives)
        stops.append(
            Stop(
                number=index + 1,
                frame=number[step.frame],
                anchor=where,
                line=lecture.lines[step.id],
                code="" if own else lecture.code(step),
                source=lecture.source(step),
                inside=inside[index],
                outputs=len(step.narrative or ()) if animated else 0,
                variables=tuple(variables[index]),
                execution=lecture.executions[step.id],
            )
        )
    stack = []
    for frame in frames:
        called = tree.frames[frame]
        name, of = ".".join(filter(None, (lecture.module(called), called.function))), called.of
        calls = tree.call_number[frame], tree.call_total[function, called.source, called.function]
        stack.append(StackFrame(name, place.get(of) if of is not None else None, *calls))
    return Stepping(
        frames=tuple(stack),
        stops=tuple(stops),
        said=tuple((said, place[step]) for said, step in anchors.narrations if step in place),
    )


def numbered_as(section: Section, whole: Section) -> Section:
    """Return a section of one rank whose stops have the numbers that they have among those of all ranks.

    So an address that names a step names the same one, whichever rank's page it is of.
    """
    numbers = {stop.execution.step.id: stop.number for stop in whole.stepping.stops}
    stops, number = [], 1
    for stop in section.stepping.stops:
        number = numbers.get(stop.execution.step.id, number)  # what only this rank shows is at the step before it
        stops.append(replace(stop, number=number))
    return replace(section, stepping=replace(section.stepping, stops=tuple(stops)))


def _stops_at(lecture: Lecture, step: Step) -> bool:
    """Whether the player stops here: not at what the page neither shows nor says anything of.

    Constant prose that was taken out since the trace has no step any more.
    """
    edition = lecture.edition(step)
    number = edition.shown.get(step.statement)
    if number is None:
        return False
    shown = number not in edition.source.hidden and number not in edition.source.narrative
    observed = step.values or step.narrative or step.claim or step.raised
    return shown or bool(observed) or bool(lecture.tree.calls(step.id))


def _observed(lecture: Lecture, steps: Sequence[Step]) -> tuple[list[int], list[list[Variable]]]:
    """Return for each step how many others happened during it, and what is known of variables once it is done.

    Statements are done in another order than that in which they began: one that calls is done after all that happens
    in its call. What a name was before, and what a storage held, is what the last statement done made of it. The
    arguments of a call are known from its first step on.
    """
    tree = lecture.tree
    inside = [0] * len(steps)
    variables: list[list[Variable]] = [[] for _ in steps]
    known: defaultdict[int, dict[str, Value]] = defaultdict(dict)  # by frame
    contents = StorageContents()

    def all_noted(event: Step | Frame) -> Iterator[Variable]:
        """Note what a step observed, or a call was given."""
        argument = isinstance(event, Frame)
        apart = dict(disagreeing(event, lecture.trace.run.ranks or 1))
        for name, value in (event.arguments if isinstance(event, Frame) else event.values) or ():
            one = noted(event.frame, name, value, argument=argument)
            yield replace(one, ranks=told_apart(apart[name])) if name in apart else one

    def noted(frame: int, name: str, value: Value, *, argument: bool) -> Variable:
        before = known[frame].get(name)
        known[frame][name] = value
        contradicts = contents.note(value)  # asked of each value, for it remembers them
        if contradicts or (before is not None and before != value and _same_storage(before, value)):
            return Variable(name, value, "written", argument)
        return Variable(name, value, "new" if before is None else "same" if before == value else "changed", argument)

    def done(index: int, following: int) -> None:
        step = steps[index]
        inside[index] = following - index - 1
        edition, of_frame = lecture.edition(step), known[step.frame]
        for directive in edition.directives.get(edition.shown[step.statement], ()):
            for name in directive.names if directive.name == "clear" else ():  # and expressions that begin with it
                for gone in [key for key in of_frame if re.match(rf"{re.escape(name)}(?!\w)", key)]:
                    del of_frame[gone]
                    variables[index].append(Variable(gone, None, "cleared"))
        variables[index] += all_noted(step)

    begun: set[int] = set()
    open_calls: list[int] = []  # places of the steps whose calls are under way
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


def _same_storage(one: Value, other: Value) -> bool:
    """Whether two values are the same window onto the same memory."""
    a, b = one.tensor, other.tensor
    if a is None or b is None or a.storage is None:
        return False
    return (a.storage, a.shape, a.strides, a.offset, a.dtype) == (b.storage, b.shape, b.strides, b.offset, b.dtype)


# --- packed ---


@dataclass(frozen=True, slots=True)
class StepBlock:
    """A section's stops as the script beside its page carries them."""

    text: str
    kept: int
    total: int
    last: int  # number of the last one: more than there are where other ranks made more


# A stop's texts, written once however often its block is packed: time; notes; name, text, grid, change and storage of
# each variable.
_Texts = tuple[str, list[tuple[int, str]], list[tuple[str, str, str, int, str]]]


def step_block(section: Section, budget: int = BUDGET) -> StepBlock:
    """Return the block of a section, of at most `budget` characters."""
    stops = section.stepping.stops
    texts = [(_time(stop), list(_notes(stop)), list(map(_variable, stop.variables))) for stop in stops]
    for keep in (None, _telling, _first_and_last):
        kept = keep(stops) if keep is not None else list(range(len(stops)))
        text = packed(_columns(section, kept, texts))
        if len(text) <= budget:
            break
    while kept and len(text) > budget:
        kept = kept[: min(len(kept) - 1, len(kept) * budget // len(text))]
        text = packed(_columns(section, kept, texts))
    return StepBlock(text, len(kept), len(stops), _last(stops))


def _last(stops: Sequence[Stop]) -> int:
    return stops[-1].number if stops else 0


def _telling(stops: Sequence[Stop]) -> list[int]:
    """Keep first and last executions, and those that changed something, said something or called."""
    kept = set(_first_and_last(stops))
    for index, stop in enumerate(stops):
        step = stop.execution.step
        changed = stop.inside or any(variable.change != "same" for variable in stop.variables)
        failed = step.claim is not None and not step.claim.held
        if changed or failed or step.raised or step.stdout or step.warnings or step.narrative:
            kept.add(index)
    return sorted(kept)


def _first_and_last(stops: Sequence[Stop]) -> list[int]:
    """Keep the first and the last execution of each statement in each call."""
    executed: dict[tuple[int, int, int], list[int]] = {}
    for index, stop in enumerate(stops):
        executed.setdefault((stop.frame, stop.source, stop.execution.step.statement), []).append(index)
    return sorted({place for places in executed.values() for place in (places[0], places[-1])})


def _columns(section: Section, kept: Sequence[int], texts: Sequence[_Texts]) -> dict[str, Any]:
    """Return the stops that are kept, column by column; names and addresses are places in tables."""
    stepping = section.stepping
    stops = [stepping.stops[index] for index in kept]
    place = {index: number for number, index in enumerate(kept)}
    used: set[int] = set()  # frames with a stop, and those that called them
    for stop in stops:
        at: int | None = stop.frame
        while at is not None and at not in used:
            used.add(at)
            of = stepping.frames[at].of
            at = stepping.stops[of].frame if of is not None else None
    frames = [stepping.frames[frame] for frame in sorted(used)]
    number = {frame: index for index, frame in enumerate(sorted(used))}

    def caller(frame: StackFrame) -> int:
        """Return the place of the stop that called a frame, -1 for none; where it was left out, of its statement."""
        if frame.of is None or frame.of in place:
            return -1 if frame.of is None else place[frame.of]
        left_out = stepping.stops[frame.of]
        statement = left_out.frame, left_out.execution.step.statement
        return next((p for p, s in enumerate(stops) if (s.frame, s.execution.step.statement) == statement), -1)

    written = [texts[index] for index in kept]
    variables = [(at, *variable) for at, (_, _, known) in enumerate(written) for variable in known]
    places, names, shown, grids, changes, storages = zip(*variables, strict=True) if variables else ((),) * 6
    return {
        "total": _last(stepping.stops),
        "frames": {
            "name": table(formats.one_line(frame.function, 60) for frame in frames),
            "of": [caller(frame) for frame in frames],
            "number": [frame.number for frame in frames],
            "total": [frame.total for frame in frames],
        },
        "stops": {
            "number": deltas([stop.number for stop in stops]),
            "frame": deltas([number[stop.frame] for stop in stops]),
            "anchor": table(stop.anchor for stop in stops),
            "line": deltas([stop.line for stop in stops]),
            "code": table(formats.one_line(stop.code, 120) for stop in stops),
            "statement": table(f"{stop.source}:{stop.execution.step.statement}" for stop in stops),
            "execution": deltas([stop.execution.step.execution for stop in stops]),
            "inside": [bisect_right(kept, kept[at] + stop.inside) - at - 1 for at, stop in enumerate(stops)],
            "time": [time for time, _, _ in written],
        },
        "outputs": [[at, stop.outputs] for at, stop in enumerate(stops) if stop.outputs > 1],
        "seen": {
            "stop": deltas(places),
            "name": table(names),
            "text": shown,
            "grid": grids,
            "change": changes,
            "storage": table(storages),
            "shared": [formats.one_line(label, 20) for label in section.shared],
        },
        "notes": [[at, *note] for at, (_, notes, _) in enumerate(written) for note in notes],
        "said": [[said, place[of]] for said, of in stepping.said if of in place],
    }


def _variable(variable: Variable) -> tuple[str, str, str, int, str]:
    value = variable.value
    tensor = value.tensor if value is not None else None
    text = summaries.summary(value) if value is not None else ""
    told = "; ".join(f"{ranks}: {there}" for ranks, there in variable.ranks)
    if len(told) > APART:  # the lowest one's: the others have pages of their own
        text, told = f"{text} on {variable.ranks[0][0]}", ""
    grid = ""  # a small matrix as lines of cells between tabs
    if not told and value is not None and tensor is not None and summaries.is_small(value):
        [(_, rows)] = summaries.grids(tensor)
        grid = "\n".join("\t".join(row) for row in rows)
    return (
        formats.one_line(variable.name, 60),
        told or text,
        grid,
        CHANGES.index(variable.change) + 8 * variable.argument,
        formats.one_line(tensor.storage, 20) if tensor is not None and tensor.storage else "",
    )


def _time(stop: Stop) -> str:
    timing = stop.execution.timing
    if timing is None or timing.clock == "launch":
        return ""
    return formats.duration(statistics.median(timing.samples_ns)) + (" a call" if timing.clock == "call" else "")


def _notes(stop: Stop) -> Iterator[tuple[int, str]]:
    """Yield what a stop has to say beside variables: how its claim stood, what it raised, printed and warned of."""
    step, failure = stop.execution.step, stop.execution.failure
    if step.claim is not None:
        yield NOTES.index("held" if step.claim.held else "failed"), claim_told(stop.execution)
    if failure is not None:
        text = formats.one_line(f"{failure.type}: {failure.message}", 200)
        yield NOTES.index("caught" if failure.caught else "raised"), text
    if step.stdout:
        apart = any(one.stdout is not None or "stdout" in (one.lacks or ()) for one in step.ranks or ())
        whose = f"{in_words([step.on[0] if step.on else 0])}:\n" if apart else ""
        yield NOTES.index("printed"), whose + formats.visible(formats.shorten(step.stdout.rstrip("\n"), PRINTED))
    for warning in (step.warnings or ())[:3]:
        yield NOTES.index("warning"), formats.one_line(warning, 200)

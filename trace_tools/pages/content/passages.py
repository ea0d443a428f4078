"""Join narrative in pieces, as edtrace's lectures emit it, into lines, and lines into passages of prose.

text("- Adam "), link(adam), text(", momentum")     one line: "- Adam [Kingma+ 2014](https://… "Adam: A Method …"), …"
text("- SGD")                                       the next item of the same list

telling(tree, parsed, shown)        the functions and statements that only emit narrative
flowing(blocks, steps)              the blocks of a call, with its pieces joined
with_places(blocks, places)         the same, with links to the functions on the pages
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest

from trace_tools.pages.document import Block, Call, CodeListing, CodeRow, Narration, visible
from trace_tools.presentation.markdown_text import code_span, escape
from trace_tools.presentation.prose import safe_url
from trace_tools.source.statements import FUNCTIONS, ParsedSource, calls_on_a_line
from trace_tools.source.vocabularies import is_a_line_of_calls
from trace_tools.trace.model import Image, Link, Step, Text
from trace_tools.trace.tree import Tree
from trace_tools.util import formats

LONGEST = 12_000  # characters of a passage
HOVER = 400  # characters of a link's tooltip

_ITEM = re.compile(r"\s*([-*+]|\d{1,9}[.)])\s")
_ITEM_OR_HEADING = re.compile(r"( {2,})?([-*+]|\d{1,9}[.)]|#{1,6})\s")  # " - " continues a sentence
_BEFORE_A_LINK = re.compile(r"""[ \t\n(\[{“‘„/\-–—]$|(^|[\s(])["']$""")  # no space is added after these
_NAME = re.compile(r"[\w.]+")
_TARGET = re.compile(r"\]\[f:([\w.]+)\]")


# --- functions that only emit narrative, found from the run ---


def telling(tree: Tree, parsed: ParsedSource, shown: Mapping[int, int]) -> tuple[frozenset[str], frozenset[int]]:
    """Return the functions that only show their arguments to the reader, and the statements that only emit narrative.

    `shown` maps statements of the trace to statements of the shown text, which are returned. This is for lectures in
    other vocabularies, where helpers such as `article_link(url)` are used like the vocabulary.
    """
    steps = [step for frame in tree.frames.values() if frame.source == 0 for step in tree.steps_of(frame.frame)]
    if not any(narrative.flows for step in steps for narrative in step.narrative or ()):
        return frozenset(), frozenset()
    helpers: set[str] = set()

    def tells(step: Step) -> bool:
        called = [frame.function for frame in tree.calls(step.id)]
        observed = step.values or step.claim or step.stdout or step.raised
        return not observed and bool(step.narrative or called) and helpers.issuperset(called)

    waiting = set()  # functions with parameters
    for name, statement in parsed.functions.items():
        if isinstance(statement.node, FUNCTIONS):
            parameters = statement.node.args
            if parameters.posonlyargs or parameters.args or parameters.kwonlyargs or parameters.vararg:
                waiting.add(name)
    ran: dict[str, list[Step]] = {}
    for step in steps:
        ran.setdefault(tree.frames[step.frame].function, []).append(step)
    while more := {name for name in waiting & ran.keys() if all(map(tells, ran[name]))}:
        helpers |= more
        waiting -= more
    by_statement: dict[int, list[Step]] = {}
    for step in steps:
        if step.statement in shown:
            by_statement.setdefault(shown[step.statement], []).append(step)
    statements = {
        number
        for number, executed in by_statement.items()
        if is_a_line_of_calls(parsed.statements[number].node) and all(map(tells, executed))
    }
    return frozenset(helpers), frozenset(statements)


def in_order(node: ast.stmt, own: Sequence[Narration], calls: Sequence[Call]) -> list[Narration]:
    """Return the narrative of a line and of its helpers, in the order of its code."""
    narrations, helper_calls, ordered = list(own), list(calls), list[Narration]()
    for call in calls_on_a_line(node):
        name = ast.unparse(call.func).rpartition(".")[2]
        if helper_calls and helper_calls[0].function.rpartition(".")[2] == name:
            ordered += _narrations(helper_calls.pop(0))
        elif narrations:
            ordered.append(narrations.pop(0))
    return [*ordered, *narrations, *(one for call in helper_calls for one in _narrations(call))]


def _narrations(call: Call) -> list[Narration]:
    """Return the narrative of a call, attributed to the step that made the call."""
    narrations = [block for block in call.blocks if isinstance(block, Narration)]
    if call.step is None:
        return narrations
    return [
        replace(it, step=call.step, steps=(*it.steps, *([it.step] if it.step is not None else []))) for it in narrations
    ]


def in_emitted_order(blocks: Iterable[tuple[int | None, Block]]) -> Iterator[Block]:
    """Yield blocks, given with the line that emitted them (None for code), in the order of their emission.

    Between two pieces of code, the lines of a loop are ordered by iteration. A line that repeats the same narrative,
    with nothing in between, is shown once: `text("Find the most common pair.")` in a loop.
    """
    for is_code, group in groupby(blocks, lambda it: it[0] is None):
        if is_code:
            yield from (block for _, block in group)
            continue
        emitted: list[tuple[int, int | None, int, Block]] = []  # step before it, line, number of the line's execution
        after = -1
        for index, (line, block) in enumerate(group):
            step = block.step if isinstance(block, (Narration, Call)) else None
            after = after if step is None else step  # new prose keeps its position
            emitted.append((after, line, ~index if step is None else step, block))
        emitted.sort(key=lambda it: it[0])
        last_line: int | None = None
        last: list[Block] = []
        for (line, _), execution in groupby(emitted, lambda it: it[1:3]):
            new = [block for *_, block in execution]
            again = _again(last, new) if line == last_line else None
            if again is None:
                yield from last
            last_line, last = line, new if again is None else again
        yield from last


def _again(first: Sequence[Block], second: Sequence[Block]) -> list[Block] | None:
    """Return two executions' narrative merged, if it is the same; else None."""
    merged: list[Block] = []
    for a, b in zip_longest(first, second):
        if not (isinstance(a, Narration) and isinstance(b, Narration)):
            return None
        if (a.narrative, a.sometimes) != (b.narrative, b.sometimes):
            return None
        further = () if b.step is None else (b.step, *b.steps)
        merged.append(replace(a, steps=(*a.steps, *further)))
    return merged


# --- pieces → lines → passages ---


def flowing(blocks: Iterable[Block], defined: Collection[str] = ()) -> list[Block]:
    """Return blocks with the pieces of each line joined, and consecutive lines merged to passages.

    `defined` are the lecture's functions and classes; links to them lead to their code.
    """
    flowed: list[Block] = []

    def joins(block: Block) -> bool:
        if not isinstance(block, Narration) or not isinstance(it := block.narrative, Text | Link):
            return False
        return it.flows and not (block.sometimes or block.cover or it.others or it.left_out)

    for flows, group in groupby(blocks, joins):
        some = list(group)
        if not flows:
            flowed += _beside_each_other(some)
            continue
        pieces = [block for block in some if isinstance(block, Narration)]
        passage: Narration | None = None
        alone = True  # the passage has one line
        for line in _lines(pieces, defined):
            joined = _joined(passage, line, alone=alone) if passage is not None else None
            if passage is not None and joined is None:
                flowed.append(passage)
            passage, alone = joined or line, joined is None
        if passage is not None:
            flowed.append(passage)
    return flowed


def _beside_each_other(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks; images of one line are marked so that they are placed side by side."""

    def step_of(block: Block) -> int | None:
        is_image = isinstance(block, Narration) and block.narrative.flows and isinstance(block.narrative, Image)
        return block.step if isinstance(block, Narration) and is_image else None

    for step, group in groupby(blocks, step_of):
        some = list(group)
        several = step is not None and len(some) > 1
        yield from (replace(it, beside=True) if several and isinstance(it, Narration) else it for it in some)


def _lines(pieces: Sequence[Narration], defined: Collection[str]) -> Iterator[Narration]:
    """Yield one narration for each line: the pieces of one step, unless they contain line breaks."""
    for step, group in groupby(pieces, lambda piece: piece.step):
        line: Narration | None = None
        some = list(group)
        if len({str(one.narrative.style) for one in some if isinstance(one.narrative, Text)}) > 1:
            some = [_emphasised(one) for one in some]
        for piece in (_as_text(one, defined) for one in some):
            if line is None:
                line = piece
                continue
            before = _text(line)
            # an item or heading after a finished line: a helper may emit several
            begins = _ITEM_OR_HEADING.match(_text(piece)) and not (before or " ")[-1].isspace()
            if step is None or "\n" in before + _text(piece) or begins:
                yield line
                line = piece
            else:
                is_link = _text(piece).startswith("[")  # edtrace also separates its links
                space = " " if is_link and before and not _BEFORE_A_LINK.search(before) else ""
                line = _together(line, piece, before + space)
        if line is not None:
            yield line


def _text(narration: Narration) -> str:
    return narration.narrative.text if isinstance(narration.narrative, Text) else ""


def _emphasised(piece: Narration) -> Narration:
    """Return a piece with its style as Markdown, as far as possible: bold, italic, code."""
    it, style = piece.narrative, {value.lower() for _, value in piece.narrative.style or ()}
    text = it.text.strip() if isinstance(it, Text) else ""
    if not isinstance(it, Text) or not text or it.varied or "\n" in text or re.search(r"[*`_$]", text):
        return piece
    mark = "**" if style & {"bold", "bolder", "600", "700"} else "*" if "italic" in style else ""
    marked = code_span(text) if "monospace" in style else f"{mark}{text}{mark}"
    return replace(piece, narrative=replace(it, text=it.text.replace(text, marked), style=None))


def _as_text(piece: Narration, defined: Collection[str]) -> Narration:
    """Return a piece as prose, with links in Markdown."""
    it = piece.narrative
    if not isinstance(it, Link):
        return piece
    label = formats.one_line(it.label or it.title or it.url or "?", 120)
    cited = (it,) if it.url and (it.authors or it.date or it.text or it.notes) else ()
    if it.target:
        is_here = it.target in defined and _NAME.fullmatch(it.target)
        text = f"[{code_span(label)}][f:{it.target}]" if is_here else code_span(label)
    elif url := safe_url(it.url or ""):
        title = it.title if it.title != it.label else None
        by = ", ".join(filter(None, (it.authors, it.date)))
        parts = [part.rstrip(".") for part in (title, by, it.notes) if part]
        tooltip = formats.one_line(". ".join(parts) + ".", HOVER).replace("&", "&amp;").replace("<", "&lt;")
        tooltip = ' "' + re.sub(r'(["\\])', r"\\\1", tooltip) + '"' if parts else ""
        text = f"[{escape(label)}](<{url}>{tooltip})"
    else:
        text = escape(label)
    return replace(piece, narrative=Text(text=text, flows=True, style=it.style), cited=cited)


def _joined(first: Narration, second: Narration, *, alone: bool) -> Narration | None:
    """Merge a line into a passage; None if it begins a new one."""
    a, b = _text(first), _text(second)
    if (
        second.begins_paragraph
        or (alone and "\n" in a)  # may be indented
        or first.narrative.style
        or second.narrative.style
        or len(a) + len(b) > LONGEST
        or "\n" in b
        or _open(a)
        or _open(b)
    ):
        return None
    last = a.rpartition("\n")[2]
    return _together(first, second, f"{a}\n" if _ITEM.match(last) and _ITEM.match(b) else f"{a}\n\n")


def _open(text: str) -> bool:
    """Return whether a text may begin a block of code or a formula of several lines, which must stay together."""
    return any(line.lstrip().startswith(("```", "~~~", "$$", "    ", "\t")) for line in text.split("\n"))


def _together(first: Narration, second: Narration, before: str) -> Narration:
    """Return two narrations as one; the text of the second follows `before`."""
    a, b, shift = first.narrative, second.narrative, len(before)
    assert isinstance(a, Text) and isinstance(b, Text)
    moved = [replace(one, start=(one.start or 0) + shift, end=(one.end or 0) + shift) for one in b.varied or ()]
    style = a.style if a.style == b.style else None
    joined = replace(a, text=before + b.text, varied=[*(a.varied or ()), *moved] or None, style=style)
    further = (second.step, *second.steps) if second.step is not None else second.steps
    steps = tuple(dict.fromkeys((*first.steps, *(step for step in further if step != first.step))))
    return replace(first, narrative=joined, steps=steps, cited=(*first.cited, *second.cited))


# --- known once the page is complete ---


def cited(blocks: Sequence[Block]) -> tuple[Link, ...]:
    """Return the references of a page, each once, in order."""
    shown = (it for block in visible(blocks) if isinstance(block, Narration) for it in block.cited)
    return tuple({it.url: it for it in reversed([*shown])}.values())[::-1]


def targets(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield the functions and classes that a page links to."""
    for block in visible(blocks):
        if isinstance(block, Narration) and block.narrative.flows:
            yield from _TARGET.findall(_text(block))


def with_places(blocks: Sequence[Block], places: Mapping[str, str]) -> tuple[Block, ...]:
    """Return blocks whose links to functions lead to these addresses."""

    def placed(narration: Narration) -> Narration:
        it = narration.narrative
        named = [name for name in dict.fromkeys(_TARGET.findall(_text(narration))) if it.flows and name in places]
        if not named or not isinstance(it, Text):
            return narration
        lines = "".join(f"\n[f:{name}]: <{places[name]}>" for name in named)
        return replace(narration, narrative=replace(it, text=f"{it.text}\n{lines}"))

    return tuple(_mapped(block, placed) for block in blocks) if set(targets(blocks)) else tuple(blocks)


def _mapped(block: Block, change: Callable[[Narration], Narration]) -> Block:
    if isinstance(block, Narration):
        return change(block)
    if isinstance(block, Call):
        return replace(block, blocks=tuple(_mapped(one, change) for one in block.blocks))

    def row_with(row: CodeRow) -> CodeRow:
        def calls(some: Collection[Call]) -> tuple[Call, ...]:
            return tuple(replace(call, blocks=tuple(_mapped(one, change) for one in call.blocks)) for call in some)

        executions = tuple(replace(e, calls=calls(e.calls)) if e.calls else e for e in row.executions)
        return replace(row, executions=executions)

    return CodeListing(tuple(map(row_with, block.rows)))

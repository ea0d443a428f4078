"""What is told in pieces, as edtrace's lectures tell it → lines, and lines → passages of prose.

text("- Adam "), link(adam), text(", momentum")     one line: "- Adam [Kingma+ 2014](https://… "Adam: A Method …"), …"
text("- SGD")                                       joins it: both are items of one list

telling(tree, parsed, shown)        which of the lecture's functions only tell something, and which statements
flowing(blocks, steps)              the blocks of a call, with its pieces joined
with_places(blocks, places)         the same, once it is known where on the pages each function stands
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest
from typing import TypeGuard

from trace_tools import formats
from trace_tools.call_tree import Tree
from trace_tools.rendering.document import Block, Call, CodeListing, CodeRow, Narration, visible
from trace_tools.rendering.markdown_text import code_span, escape
from trace_tools.rendering.prose import safe_url
from trace_tools.schema import Narrative, Step, Varied
from trace_tools.statements import FUNCTIONS, ParsedSource
from trace_tools.vocabularies import calls_on_a_line

LONGEST = 12_000  # characters of a passage
HOVER = 400  # characters that a link says on hover
REFERENCES = "references"  # kind of what stands at the end of a page: no word of a lecture makes it

_ITEM = re.compile(r"\s*([-*+]|\d{1,9}[.)])\s")
_ITEM_OR_HEADING = re.compile(r"( {2,})?([-*+]|\d{1,9}[.)]|#{1,6})\s")  # " - " goes on with a sentence
_BEFORE_A_LINK = " \t\n([{\"'“‘„/-–—"
_NAME = re.compile(r"[\w.]+")
_TARGET = re.compile(r"\]\[f:([\w.]+)\]")


# --- what only tells something: known from the run ---


def telling(tree: Tree, parsed: ParsedSource, shown: Mapping[int, int]) -> tuple[frozenset[str], frozenset[int]]:
    """Return the functions that only tell the reader what they are given, and the statements that only tell something.

    `shown` has for each statement of the trace its number in the shown text, whose statements are returned. For
    lectures in other tools' words, where helpers like `article_link(url)` stand beside the words themselves.
    """
    steps = [step for frame in tree.frames.values() if frame.source == 0 for step in tree.steps_of(frame.frame)]
    if not any(said.flows for step in steps for said in step.narrative or ()):
        return frozenset(), frozenset()
    helpers: set[str] = set()

    def tells(step: Step) -> bool:
        called = [frame.function for frame in tree.calls(step.id)]
        seen = step.values or step.claim or step.stdout or step.raised
        return not seen and bool(step.narrative or called) and helpers.issuperset(called)

    waiting = {name for name, statement in parsed.functions.items() if _takes_something(statement.node)}
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
    told = {
        number
        for number, executed in by_statement.items()
        if _is_a_line_of_calls(parsed.statements[number].node) and all(map(tells, executed))
    }
    return frozenset(helpers), frozenset(told)


def _takes_something(node: ast.stmt) -> bool:
    if not isinstance(node, FUNCTIONS):
        return False
    given = node.args
    return bool(given.posonlyargs or given.args or given.kwonlyargs or given.vararg)


def _is_a_line_of_calls(node: ast.stmt) -> bool:
    return bool(calls_on_a_line(node)) or (isinstance(node, ast.Return) and isinstance(node.value, ast.Call))


def in_order(node: ast.stmt, own: Sequence[Narration], calls: Sequence[Call]) -> list[Narration]:
    """Return what a line told itself and what its helpers told, in the order in which they stand on it."""
    told, helping, found = list(own), list(calls), list[Narration]()
    for call in calls_on_a_line(node):
        name = ast.unparse(call.func).rpartition(".")[2]
        if helping and helping[0].function.rpartition(".")[2] == name:
            found += _narrations(helping.pop(0))
        elif told:
            found.append(told.pop(0))
    return [*found, *told, *(one for call in helping for one in _narrations(call))]


def _narrations(call: Call) -> list[Narration]:
    """Return what a call told, as if the step that made it had."""
    told = [block for block in call.blocks if isinstance(block, Narration)]
    if call.step is None:
        return told
    return [replace(it, step=call.step, steps=(*it.steps, *([it.step] if it.step is not None else []))) for it in told]


def as_told(blocks: Iterable[tuple[int | None, Block]]) -> Iterator[Block]:
    """Yield blocks, each with the line that told it (code has None), in the order in which they were told.

    Between two pieces of code a loop's lines are told iteration by iteration. What a line tells again in the same
    words, with nothing between, joins the first: `text("Find the most common pair.")` in a loop is read once.
    """
    for is_code, group in groupby(blocks, lambda it: it[0] is None):
        if is_code:
            yield from (block for _, block in group)
            continue
        told: list[tuple[int, int | None, int, Block]] = []  # after which step, by which line, in which execution of it
        after = -1
        for place, (line, block) in enumerate(group):
            step = block.step if isinstance(block, (Narration, Call)) else None
            after = after if step is None else step  # what no run has told stays in its place
            told.append((after, line, ~place if step is None else step, block))
        told.sort(key=lambda it: it[0])
        executions = groupby(told, lambda it: it[1:3])
        yield from _once((line, [block for *_, block in some]) for (line, _), some in executions)


def _once(executions: Iterable[tuple[int | None, list[Block]]]) -> Iterator[Block]:
    last_line: int | None = None
    last: list[Block] = []
    for line, new in executions:
        again = _again(last, new) if line == last_line else None
        if again is None:
            yield from last
        last_line, last = line, new if again is None else again
    yield from last


def _again(first: Sequence[Block], second: Sequence[Block]) -> list[Block] | None:
    """Return what one execution of a line told as what another told, too; None where that is something else."""
    found: list[Block] = []
    for a, b in zip_longest(first, second):
        if not (isinstance(a, Narration) and isinstance(b, Narration)):
            return None
        if (a.narrative, a.sometimes) != (b.narrative, b.sometimes):
            return None
        further = () if b.step is None else (b.step, *b.steps)
        found.append(replace(a, steps=(*a.steps, *further)))
    return found


# --- pieces → lines → passages ---


def flowing(blocks: Iterable[Block], defined: Collection[str] = ()) -> list[Block]:
    """Return blocks with the pieces of each line joined, and lines that follow one another as one passage.

    `defined` are the lecture's functions and classes: links to these lead to their code.
    """
    found: list[Block] = []
    for flows, group in groupby(blocks, lambda block: isinstance(block, Narration) and _flows(block)):
        some = list(group)
        if not flows:
            found += _beside_each_other(some)
            continue
        pieces = [block for block in some if isinstance(block, Narration)]
        passage: Narration | None = None
        alone = True  # the passage is but one line
        for line in _lines(pieces, defined):
            joined = _joined(passage, line, alone=alone) if passage is not None else None
            if passage is not None and joined is None:
                found.append(passage)
            passage, alone = joined or line, joined is None
        if passage is not None:
            found.append(passage)
    return found


def _beside_each_other(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks, with images of one line marked as such."""
    for step, group in groupby(blocks, lambda block: block.step if _is_image(block) else None):
        some = list(group)
        several = step is not None and len(some) > 1
        yield from (replace(it, beside=True) if several and isinstance(it, Narration) else it for it in some)


def _is_image(block: Block) -> TypeGuard[Narration]:
    return isinstance(block, Narration) and block.narrative.flows and block.narrative.kind in ("image", "video")


def _flows(said: Narration) -> bool:
    it = said.narrative
    alone = said.sometimes or said.cover or it.others or it.left_out
    return it.flows and it.kind in ("text", "link") and not alone


def _lines(pieces: Sequence[Narration], defined: Collection[str]) -> Iterator[Narration]:
    """Yield one narration for each line: pieces that one step said, as far as none has lines of its own."""
    for step, group in groupby(pieces, lambda piece: piece.step):
        line: Narration | None = None
        some = list(group)
        if len({str(one.narrative.style) for one in some if one.narrative.kind == "text"}) > 1:
            some = [_emphasised(one) for one in some]
        for piece in (_as_text(one, defined) for one in some):
            if line is None:
                line = piece
            elif step is None or "\n" in f"{line.narrative.text}{piece.narrative.text}" or _begins(piece, line):
                yield line
                line = piece
            else:
                before = line.narrative.text or ""
                is_link = (piece.narrative.text or "").startswith("[")  # theirs have room around them, too
                apart = " " if is_link and before and before[-1] not in _BEFORE_A_LINK else ""
                line = _together(line, piece, before + apart)
        if line is not None:
            yield line


def _begins(piece: Narration, line: Narration) -> bool:
    """Whether a piece is an item or a heading after a line that has ended: a helper told several of them."""
    return bool(_ITEM_OR_HEADING.match(piece.narrative.text or "")) and not (line.narrative.text or " ")[-1].isspace()


def _emphasised(piece: Narration) -> Narration:
    """Return a piece that looks otherwise than its line, as far as Markdown has that: bold, slanted, as code."""
    it = piece.narrative
    text, style = (it.text or "").strip(), {value.lower() for _, value in it.style or ()}
    if it.kind != "text" or not text or it.varied or "\n" in text or re.search(r"[*`_$]", text):
        return piece
    mark = "**" if style & {"bold", "bolder", "600", "700"} else "*" if "italic" in style else ""
    told = code_span(text) if "monospace" in style else f"{mark}{text}{mark}"
    return replace(piece, narrative=replace(it, text=(it.text or "").replace(text, told), style=None))


def _as_text(piece: Narration, defined: Collection[str]) -> Narration:
    """Return a piece as prose: a link as Markdown has it."""
    it = piece.narrative
    if it.kind == "text":
        return piece
    label = formats.one_line(it.label or it.title or it.url or "?", 120)
    cited = (it,) if it.url and (it.authors or it.date or it.text or it.notes) else ()
    if it.target:
        is_here = it.target in defined and _NAME.fullmatch(it.target)
        text = f"[{code_span(label)}][f:{it.target}]" if is_here else code_span(label)
    elif url := safe_url(it.url or ""):
        text = f"[{escape(label)}](<{url}>{_hover(it)})"
    else:
        text = escape(label)
    return replace(piece, narrative=Narrative("text", text=text, flows=True, style=it.style), cited=cited)


def _hover(it: Narrative) -> str:
    """Return what a link says on hover, as the title of a Markdown link."""
    title = it.title if it.title != it.label else None
    by = ", ".join(filter(None, (it.authors, it.date)))
    parts = [part.rstrip(".") for part in (title, by, it.notes) if part]
    return f' "{_quoted(". ".join(parts) + ".")}"' if parts else ""


def _quoted(text: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", formats.one_line(text, HOVER)).replace("&", "&amp;").replace("<", "&lt;")


def _joined(first: Narration, second: Narration, *, alone: bool) -> Narration | None:
    """Return two lines as one passage, the first perhaps one already; None where they stand better apart."""
    a, b = (it.narrative.text or "" for it in (first, second))
    if (
        (alone and "\n" in a)  # perhaps indented
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
    """Whether a text may begin a block of code or a formula of several lines, into which others must not come."""
    return any(line.lstrip().startswith(("```", "~~~", "$$", "    ", "\t")) for line in text.split("\n"))


def _together(first: Narration, second: Narration, before: str) -> Narration:
    """Return what two say as one, in whose text the second's follows on `before`."""
    it = first.narrative
    moved = [_moved(one, len(before)) for one in second.narrative.varied or ()]
    style = it.style if it.style == second.narrative.style else None
    said = replace(
        it, text=before + (second.narrative.text or ""), varied=[*(it.varied or ()), *moved] or None, style=style
    )
    further = (second.step, *second.steps) if second.step is not None else second.steps
    steps = tuple(dict.fromkeys((*first.steps, *(step for step in further if step != first.step))))
    return replace(first, narrative=said, steps=steps, cited=(*first.cited, *second.cited))


def _moved(varied: Varied, by: int) -> Varied:
    start, end = (None if at is None else at + by for at in (varied.start, varied.end))
    return replace(varied, start=start, end=end)


# --- what is known of a page only once it is there ---


def references(blocks: Sequence[Block]) -> Narrative | None:
    """Return the references of a page, as what stands at its end; None where there are none."""
    found = cited(blocks)
    if not found:
        return None
    words = (" ".join(filter(None, (it.title, it.authors, it.date, it.notes))) for it in found)
    return Narrative(REFERENCES, text=" · ".join(words))


def cited(blocks: Sequence[Block]) -> tuple[Narrative, ...]:
    """Return what a page refers to, each once, in order."""
    shown = (it for block in visible(blocks) if isinstance(block, Narration) for it in block.cited)
    return tuple({it.url: it for it in reversed([*shown])}.values())[::-1]


def targets(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield the functions and classes that a page has links to."""
    for block in visible(blocks):
        if isinstance(block, Narration) and block.narrative.flows:
            yield from _TARGET.findall(block.narrative.text or "")


def with_places(blocks: Sequence[Block], places: Mapping[str, str]) -> tuple[Block, ...]:
    """Return blocks in which links to functions lead to these addresses."""

    def placed(said: Narration) -> Narration:
        it = said.narrative
        named = [name for name in dict.fromkeys(_TARGET.findall(it.text or "")) if it.flows and name in places]
        if not named:
            return said
        lines = "".join(f"\n[f:{name}]: <{places[name]}>" for name in named)
        return replace(said, narrative=replace(it, text=f"{it.text}\n{lines}"))

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

"""Match a trace with the text of its pages: the execution of each step, and its line in the text.

    lecture = lecture_of(trace, lecture_text)
    lecture.lines[step.id], lecture.code(step)      216, "y = x @ w"
    lecture.executions[step.id].rates               achieved rates, with the machine's roofline

The later stages read this instead of the trace.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import PurePosixPath
from typing import cast

from trace_tools.pages.content.passages import telling
from trace_tools.pages.document import Execution, Failure, execution
from trace_tools.source.catalogue import Words, title_and_rest
from trace_tools.source.layout import with_narrative
from trace_tools.source.messages import Message, filled_slots, has_words, message_of, strings_in
from trace_tools.source.statements import FUNCTIONS, Statement, parse_source, qualified_name
from trace_tools.source.versions import ShownSource, shown_source
from trace_tools.source.vocabularies import narrating
from trace_tools.source.wording import Change, in_other_words
from trace_tools.trace.model import MODULE, Ask, Frame, Narrative, Note, SourceFile, Step, Text, Trace
from trace_tools.trace.tree import Tree
from trace_tools.util import formats

NO_VALUES = "the words of an f-string have changed, and the trace lacks the values of its placeholders"


@dataclass(frozen=True, slots=True)
class Titles:
    """A function's title in the lecture's language and in the pages' language, and the rest of its docstring."""

    own: str
    shown: str
    summary: str | None


@dataclass(frozen=True, slots=True)
class Lecture:
    """A lecture's run, matched with the text to show."""

    trace: Trace
    tree: Tree
    editions: tuple[ShownSource, ...]  # by source
    executions: Mapping[int, Execution]  # by step; its calls are added where they are shown
    lines: Mapping[int, int]  # by step: its line in the text
    definitions: Mapping[int, Statement | None]  # by frame: the `def` in the text; None for the module
    helpers: frozenset[str] = frozenset()  # functions that only emit their arguments as narrative
    narrating: frozenset[tuple[int, int]] = frozenset()  # (source, statement of the trace): narrative calls only
    defined: Mapping[str, int] = field(default_factory=dict)  # of link targets: qualified name → line
    words: Words | None = None  # the translation of the pages
    own_questions: Mapping[str, str] = field(default_factory=dict)  # the lecture's own questions, by their translations

    def titled(self, definition: Statement | None, function: str, section: str | None) -> Titles:
        """Return a function's title, which is the first line of its docstring or its name as words, and the rest."""
        node = definition.node if definition is not None else None
        doc = ast.get_docstring(node) if isinstance(node, FUNCTIONS) else None
        title, summary = title_and_rest(doc) if doc else (formats.readable(function.rpartition(".")[2]), "")
        shown = (
            [self.words.translation(section, it) or it for it in (title, summary)] if self.words else [title, summary]
        )
        return Titles(title, shown[0], shown[1] or None)

    def source(self, step: Step) -> int:
        """Return the index of a step's source."""
        return self.tree.frames[step.frame].source

    def module(self, frame: Frame) -> str:
        """Return the module of a called function; "" for the lecture itself."""
        if not frame.source:
            return ""
        parts = PurePosixPath(self.trace.sources[frame.source].path).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def edition(self, step: Step) -> ShownSource:
        """Return the text that contains a step."""
        return self.editions[self.source(step)]

    def code(self, step: Step) -> str:
        """Return a step's line of code."""
        return self.edition(step).code(self.lines[step.id])


def lecture_of(trace: Trace, text: str | None = None, words: Words | None = None) -> Lecture:
    """Match a trace with its text; `text` is the current text of the first source, `words` its translation.

    Raises LectureError if a stored source is not valid Python.
    """
    questions: dict[str, str] = {}
    stored = trace.sources or [SourceFile(trace.run.lecture, "")]  # a run that never began has none
    editions = tuple(shown_source(source, None if index else text) for index, source in enumerate(stored))
    try:
        trace = _reworded(trace, editions[0])
    except KeyError:
        editions = (replace(shown_source(stored[0], None), stale=NO_VALUES), *editions[1:])
    if words is not None:
        own_trace = trace
        trace, own = _translated(trace, editions[0], words)
        editions = (own, *editions[1:])
        questions = {now.text: was.text for was, now in zip(_questions(own_trace), _questions(trace), strict=True)}
    tree = Tree(trace)
    executions: dict[int, Execution] = {}
    lines: dict[int, int] = {}
    definitions: dict[int, Statement | None] = {}

    def line_now(line: int | None) -> int | None:
        return line if line is None else editions[0].lines.get(line, line)

    for frame in tree.frames.values():
        edition, steps = editions[frame.source], tree.steps_of(frame.frame)
        first = edition.statement(steps[0]) if steps else None
        if frame.function == MODULE:
            definitions[frame.frame] = None
        elif first is not None:  # by executed code, because a name may have several definitions
            definitions[frame.frame] = edition.source.enclosing(first.number)
        else:
            definitions[frame.frame] = edition.source.parsed.function(frame.function)
        for step in steps:
            failure = None
            if step.raised is not None:
                raised = step.raised
                failure = Failure(
                    raised.type,
                    raised.message,
                    caught=tree.caught(step),
                    origin=tree.is_origin(step),
                    line=line_now(raised.origin_line),
                    survived=tree.survived(step),
                    waited_line=line_now(raised.waited_line),
                )
            executions[step.id] = execution(step, trace.machine, failure, trace.run.timed_runs, trace.run.ranks)
            lines[step.id] = edition.line(step)
    texts = [
        e.source.parsed if e.source.parsed.text == kept.text else parse_source(kept.text, kept.path)
        for e, kept in zip(editions, stored, strict=True)
    ]
    helpers, emitting = telling(tree, editions[0].source.parsed, editions[0].shown)
    if emitting:
        own = editions[0]
        editions = (replace(own, source=with_narrative(own.source, emitting)), *editions[1:])
    statements = editions[0].source.parsed.statements if emitting else ()
    defined = {qualified_name(s): s.line for s in statements if isinstance(s.node, (*FUNCTIONS, ast.ClassDef))}
    narrators = narrating(tree, texts)
    return Lecture(trace, tree, editions, executions, lines, definitions, helpers, narrators, defined, words, questions)


def _reworded(trace: Trace, edition: ShownSource) -> Trace:
    """Return a trace with the words of the current text. Raises KeyError if a placeholder's value is not recorded."""
    if not edition.reworded:
        return trace
    sources = {frame.frame: frame.source for frame in trace.steps if isinstance(frame, Frame)}

    def in_new_words(narrative: Narrative, statement: int) -> Narrative:
        filled = dict(narrative.filled or ())
        changes = []
        for one in edition.reworded[statement]:
            if one.was.slots and one.index not in filled and not narrative.filled:
                raise KeyError(one.was.text)
            if not one.was.slots or one.index in filled:
                values = filled_slots(one.was, filled.get(one.index, ()))
                changes.append(Change.of(one.was, one.now, values))
        return in_other_words(narrative, changes)

    def step_of(one: Step) -> Step:
        if sources.get(one.frame) or one.statement not in edition.reworded or not one.narrative:
            return one
        return replace(one, narrative=[in_new_words(narrative, one.statement) for narrative in one.narrative])

    return replace(trace, steps=[step_of(one) if isinstance(one, Step) else one for one in trace.steps])


def _questions(trace: Trace) -> list[Ask]:
    steps = (step for step in trace.steps if isinstance(step, Step))
    return [narrative for step in steps for narrative in step.narrative or () if isinstance(narrative, Ask)]


def _translated(trace: Trace, edition: ShownSource, words: Words) -> tuple[Trace, ShownSource]:
    """Return a trace and the edition of its text in translation; text without a translation is unchanged."""
    tree, source = Tree(trace), edition.source.parsed
    whole_text = cache(words.of_shown_text)
    shown = {traced: number for number, traced in edition.recorded.items()}

    @cache
    def translated(section: str | None, number: int) -> list[tuple[int, Message, Message]]:
        """Return the translated messages of a statement: position among its strings, message, translation."""
        translations = []
        for index, string in enumerate(strings_in(source.statements[number].node)):
            if has_words(string):
                message = message_of(string, source.text)
                if (wording := words.translation(section, message.text)) is not None:
                    translations.append((index, message, message.worded(wording)))
        return translations

    def step_of(one: Step) -> Step:
        if not one.narrative:
            return one
        number = None if tree.frames[one.frame].source else shown.get(one.statement)
        messages = translated(tree.section_of[one.frame], number) if number is not None else []
        narratives = []
        for narrative in one.narrative:
            filled = dict(narrative.filled or ())
            changes = [
                Change.of(message, wording, filled_slots(message, filled.get(index, ())), whole_text)
                for index, message, wording in messages
                if len(filled.get(index, ())) >= len(message.slots)
            ]
            narratives.append(in_other_words(narrative, changes, whole_text))
        return replace(one, narrative=narratives)

    prose = {
        number: replace(one, narrative=cast("Text | Note", in_other_words(one.narrative, [], whole_text)))
        for number, one in edition.prose.items()
    }
    steps = [step_of(one) if isinstance(one, Step) else one for one in trace.steps]
    title = words.translation(None, trace.title) or trace.title
    return replace(trace, title=title, steps=steps), replace(edition, prose=prose)

"""Comments → directives, each attached to the whole statement it stands on.

A source goes in, its directives in order of their lines come out; what is wrong in a directive's form
is a `LectureError` at its line, so nothing runs before every annotation is understood.

    source = parse_source("y = f(  # the input\\n    x)  # @inspect y [FLOP], x.shape\\n", "lecture.py")
    [directive] = parse_directives(source)
    directive.statement, directive.place                  # (0, "after")
    [(i.source, i.unit) for i in directive.inspected]     # [("y", "FLOP"), ("x.shape", None)]

A comment is read from left to right, in chunks that each begin at a `#`. Ordinary text may come before
a directive; after one, only what belongs to it, another directive, or a new chunk.
"""

from __future__ import annotations

import ast
import difflib
import io
import keyword
import re
import tokenize
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NoReturn, get_args

from trace_tools import formats
from trace_tools.errors import LectureError
from trace_tools.statements import FUNCTIONS, ParsedSource, Statement

DirectiveName = Literal["inspect", "clear", "stepover", "hide", "animate", "deeper", "cover"]
Place = Literal["after", "header", "before"]

NAMES: tuple[DirectiveName, ...] = get_args(DirectiveName)
RECORDED: frozenset[DirectiveName] = frozenset({"inspect", "clear", "stepover"})  # they decide what a trace holds

EXPECTED = "expected a name, an attribute, a call or a subscript (ordinary text goes behind another `#`)"
_KNOWN = ", ".join(f"`@{name}`" for name in NAMES)
_NEAR = 0.75  # difflib's ratio; a transposition in the shortest name ("hdie") has 0.75
_WORD = re.compile(r"@(?P<space>\s*)(?P<name>[^\W\d]\w*)")
_FIRST = re.compile(r"[#\s]*(?=@)")  # the comment's text begins with "@"
_UNIT = re.compile(r"\[((?:[^\W\d_]|%)(?:[^\W_]|[%/·])*)\]")
_STRING_OR_CHARACTER = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|.""")
# A decorator in code that is commented out: dotted, called, or above a `def`, a `class` or the next one.
_COMMENTED_DECORATOR = re.compile(r"[#\s]*@\w+(?:[.(]|[^\n]*\n[#\s]*(?:@|(?:def|class|async)\b))")
_OUTSIDE = (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)

_REFUSED: dict[type[ast.AST], str] = {
    ast.Await: "`await`",
    ast.Yield: "`yield`",
    ast.YieldFrom: "`yield from`",
    ast.NamedExpr: "`:=`",
    ast.Lambda: "a lambda",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
}


@dataclass(frozen=True, slots=True)
class Inspected:
    """One expression of an `@inspect`."""

    source: str  # as written
    node: ast.expr  # its line is the comment's
    unit: str | None = None  # "FLOP/s"


@dataclass(frozen=True, slots=True)
class Directive:
    """One directive and where it takes effect.

    `place` is "header" for the header of a compound statement (a call's arguments, a loop's evaluation),
    "before" for the line of an `except` or `case` (before the first statement of its body), else "after".
    """

    name: DirectiveName
    statement: int  # Statement.number
    place: Place
    line: int  # of the comment
    inspected: tuple[Inspected, ...] = ()
    names: tuple[str, ...] = ()  # of @clear


def parse_directives(source: ParsedSource, mistakes: list[LectureError] | None = None) -> tuple[Directive, ...]:
    """Return the directives of `source` in order of their lines.

    Raises LectureError for the first one that is misspelt, incomplete, unparsable or on no statement; with `mistakes`
    such errors are appended there, and what else is wrong is found as well.
    """
    lines = io.StringIO(source.text, newline=None).readlines()
    owners = _Owners(source)
    found = []
    for comment in _comments(source.path, lines):
        reader = _Reader(source.path, comment.line, comment.text)
        try:
            if comment.logical is None:
                reader.refuse_stray("".join(lines[comment.line : comment.line + 1]))
            elif _FIRST.match(comment.text) or not comment.alone:  # on its own line, text before "@" is code or prose
                for name, inspected, names in reader.directives():
                    owner, place = owners.find(comment, name)
                    found.append(Directive(name, owner.number, place, comment.line, inspected, names))
        except LectureError as error:
            if mistakes is None:
                raise
            mistakes.append(error)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _LogicalLine:
    """What Python reads as one line: simple statements, a header or a decorator, over `first` to `last`."""

    keyword: str  # its first token
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Comment:
    text: str  # from its "#"
    line: int
    alone: bool  # nothing before it on its physical line
    logical: _LogicalLine | None = None  # None between statements


def _comments(path: str, lines: list[str]) -> Iterator[_Comment]:
    """Yield the comments that contain an "@", in order."""
    waiting: list[_Comment] = []
    first: tokenize.TokenInfo | None = None
    code_end = 0
    for token in _tokens(path, lines):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            if "@" in token.string:
                waiting.append(_Comment(token.string, line, alone=line != code_end))
            if first is None:
                yield from waiting
                waiting = []
        elif token.type == tokenize.NEWLINE and first is not None:
            logical = _LogicalLine(first.string, first.start[0], line)
            yield from (replace(comment, logical=logical) for comment in waiting)
            waiting, first = [], None
        elif token.type not in _OUTSIDE:
            first = first or token
            code_end = token.end[0]


def _tokens(path: str, lines: list[str]) -> Iterator[tokenize.TokenInfo]:
    rest = iter(lines)
    try:
        yield from tokenize.generate_tokens(lambda: next(rest, ""))
    except (tokenize.TokenError, SyntaxError) as error:
        raise LectureError(path, None, f"its comments can't be read: {error.args[0]}") from None


class _Owners:
    """Finds the statement a comment stands on; statements are in order of their lines."""

    def __init__(self, source: ParsedSource) -> None:
        self._path = source.path
        self._statements = source.statements
        self._lines = [statement.line for statement in source.statements]

    def find(self, comment: _Comment, name: DirectiveName) -> tuple[Statement, Place]:
        """Return the statement and place of a directive; raise LectureError where there is none."""
        assert comment.logical is not None
        found = self._find(comment.logical, comment.line)
        if found is None:
            what = f"`@{name}` stands on `{comment.logical.keyword}:`, which is no statement"
            raise LectureError(self._path, comment.line, f"{what}; expected it on a statement")
        owner, place = found
        is_method = place == "header" and isinstance(owner.node, FUNCTIONS)
        if name != "hide" and not is_method and self._in_class_body(owner):
            what = f"`@{name}` stands inside a class body, which is one step"
            raise LectureError(self._path, comment.line, f"{what}; expected it on the `class` line or in a method")
        return owner, place

    def _find(self, logical: _LogicalLine, line: int) -> tuple[Statement, Place] | None:
        end = bisect_right(self._lines, logical.last)
        inside = self._statements[bisect_left(self._lines, logical.first) : end]
        if logical.keyword == "@":
            return _on_header(self._statements[end], inline=False)
        if inside and _is_compound(inside[0].node):  # never behind `else:` or `;`, so the line is its header
            return _on_header(inside[0], inline=len(inside) > 1)
        if not inside and logical.keyword in ("except", "case"):
            return self._statements[end], "before"
        begun = [statement for statement in inside if statement.line <= line]
        return (begun[-1], "after") if begun else None

    def _in_class_body(self, statement: Statement) -> bool:
        parent = statement.parent
        while parent is not None:
            outer = self._statements[parent]
            if isinstance(outer.node, (*FUNCTIONS, ast.ClassDef)):
                return isinstance(outer.node, ast.ClassDef)
            parent = outer.parent
        return False


def _is_compound(node: ast.stmt) -> bool:
    return hasattr(node, "body") or hasattr(node, "cases")


def _on_header(statement: Statement, *, inline: bool) -> tuple[Statement, Place] | None:
    """`inline`: the body begins on the header's line, as in `if x: y = 1`."""
    if isinstance(statement.node, FUNCTIONS):
        return statement, "header"  # the arguments, for a one-line `def` too
    if inline or isinstance(statement.node, ast.ClassDef):
        return statement, "after"
    if isinstance(statement.node, (ast.Try, ast.TryStar)):
        return None
    return statement, "header"


class _Reader:
    """Reads one comment from left to right."""

    def __init__(self, path: str, line: int, text: str) -> None:
        self._path = path
        self._line = line
        self._text = text
        self._at = 0

    def directives(self) -> Iterator[tuple[DirectiveName, tuple[Inspected, ...], tuple[str, ...]]]:
        """Yield each directive's name, the expressions of an `@inspect` and the names of a `@clear`."""
        while (name := self._next_name()) is not None:
            pieces = list(self._pieces())
            inspected = self._inspected(pieces) if name == "inspect" else ()
            names = self._names(pieces) if name == "clear" else ()
            if pieces and not inspected and not names:
                self._fail(f"`@{name}` takes no arguments, found `{pieces[0]}`; ordinary text goes behind another `#`")
            yield name, inspected, names

    def refuse_stray(self, next_line: str) -> None:
        """Raise for what begins like a directive but stands between statements; code commented out may."""
        begin = _FIRST.match(self._text)
        if begin is None:
            return
        is_code = _COMMENTED_DECORATOR.match(f"{self._text}\n{next_line}")
        if name := self._name_at(begin.end(), first=not is_code):
            self._fail(f"`@{name}` stands on no statement; expected it on a line of the statement it is about")

    def _next_name(self) -> DirectiveName | None:
        """Skip ordinary text up to a directive and step over its name; None at the end."""
        first = True
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == "@" and (name := self._name_at(self._at, first=first)):
                self._at += len("@" + name)
                return name
            first = character == "#" or (first and character.isspace())
            self._at += 1
        return None

    def _name_at(self, at: int, *, first: bool) -> DirectiveName | None:
        """Return the directive's name at an "@", None for ordinary text; raise for a misspelt one.

        `first`: nothing but a `#` or another directive is before it, so it can't be prose.
        """
        word = _WORD.match(self._text, at)
        if word is None:
            return None
        before, after = self._text[at - 1 : at], self._text[word.end() : word.end() + 1]
        ends = after in "#@," or after.isspace()  # "" is in every string
        known = next((name for name in NAMES if name == word["name"]), None)
        if known and ends and not word["space"] and before not in "`'\"":
            return known
        if before.isalnum() or before in "_`'\"":  # an e-mail address; a word in quotes
            return None
        near = difflib.get_close_matches(word["name"].lower(), NAMES, 1, _NEAR)
        if known and not ends and not word["space"]:
            self._fail(f"found `{word[0]}{after}`; expected a space after `@{known}`")
        if known or (near and (first or not word["space"])):
            self._fail(f"unknown directive `{word[0]}`; did you mean `@{(known or near[0])}`?")
        if first and not word["space"]:
            self._fail(f"unknown directive `{word[0]}`; expected one of {_KNOWN}")
        return None

    def _pieces(self) -> Iterator[str]:
        """Yield what follows a directive, split at spaces and commas outside brackets and strings."""
        while True:
            start = self._at
            character = self._text[start : start + 1]
            if character == "," or character.isspace():
                self._at += 1
                continue
            if character in "#":  # or at the end
                return
            if character == "@" and self._name_at(start, first=True):
                return
            yield self._piece()

    def _piece(self) -> str:
        start, depth = self._at, 0
        while part := _STRING_OR_CHARACTER.match(self._text, self._at):
            if depth <= 0 and (part[0] in ",#" or part[0].isspace()):
                break
            depth += (part[0] in "([{") - (part[0] in ")]}")
            self._at = part.end()
        if depth > 0:
            self._fail(f"`{self._text[start:]}` has an open bracket; expected it closed in the same comment")
        return self._text[start : self._at]

    def _inspected(self, pieces: list[str]) -> tuple[Inspected, ...]:
        found: list[Inspected] = []
        for piece in pieces:
            if found and piece[0] == "(" and piece[-1] == ")" and formats.is_unit(piece[1:-1]):
                self._fail(f"`{piece}` can't be inspected; a unit stands in brackets: did you mean `[{piece[1:-1]}]`?")
            if not piece.startswith("["):
                found.append(Inspected(piece, self._expression(piece)))
            elif (unit := _UNIT.fullmatch(piece)) and found and found[-1].unit is None:
                found[-1] = replace(found[-1], unit=unit[1])
            elif not found and not unit:
                self._fail(f"`{piece}` can't be inspected; {EXPECTED}")
            else:
                what = f"`{piece}` is not the unit of an expression"
                self._fail(f"{what}; expected one like `[FLOP/s]` after each, or no space before a subscript")
        if not found:
            self._fail("`@inspect` has nothing to inspect; expected an expression, as in `@inspect x`")
        return tuple(found)

    def _expression(self, piece: str) -> ast.expr:
        try:
            node = ast.parse(piece, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # messages differ between versions of Python
            self._fail(f"`{piece}` is not an expression; {EXPECTED}")
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) or node.col_offset > 0:
            self._fail(f"`{piece}` can't be inspected; {EXPECTED}")
        for part in ast.walk(node):
            if type(part) in _REFUSED:
                self._fail(f"`{piece}` contains {_REFUSED[type(part)]}; expected an expression without it")
        return ast.increment_lineno(node, self._line - 1)

    def _names(self, pieces: list[str]) -> tuple[str, ...]:
        for piece in pieces:
            parts = piece.split(".")  # an attribute that was inspected may be cleared as well
            if not all(part.isidentifier() and not keyword.iskeyword(part) for part in parts):
                self._fail(f"`@clear` can't clear `{piece}`; expected names of variables")
        if not pieces:
            self._fail("`@clear` has nothing to clear; expected names of variables, as in `@clear x`")
        return tuple(pieces)

    def _fail(self, message: str) -> NoReturn:
        raise LectureError(self._path, self._line, message)

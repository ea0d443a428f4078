r"""Parse comments into directives and attach each to a whole statement.

`parse_directives` returns the directives of a source in the order of their lines. A malformed directive raises
LectureError with its line, so a lecture runs only if every annotation was understood.

    source = parse_source("y = f(  # the input\n    x)  # @inspect y [FLOP], x.shape\n", "lecture.py")
    [directive] = parse_directives(source)
    directive.statement, directive.position               # (0, "after")
    [(i.source, i.unit) for i in directive.inspected]     # [("y", "FLOP"), ("x.shape", None)]

The parser reads a comment from left to right, in chunks that each begin at a `#`. Ordinary text may precede a
directive. After a directive, only its arguments, another directive or a new chunk may follow. In a comment on its own
line, text after "@ " is ordinary text.

In lectures for another tool, an unknown `@name` is ordinary text and malformed directives are skipped, as in that tool.
"""

from __future__ import annotations

import ast
import difflib
import io
import keyword
import re
import tokenize
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NoReturn, get_args

from trace_tools.errors import LectureError
from trace_tools.source.statements import FUNCTIONS, ParsedSource, Statement
from trace_tools.source.vocabularies import used
from trace_tools.util import formats

DirectiveName = Literal["inspect", "clear", "stepover", "hide", "animate", "deeper", "cover"]
Position = Literal["after", "header", "before"]

NAMES: tuple[DirectiveName, ...] = get_args(DirectiveName)
# directives that affect the content of a trace
RECORDED: frozenset[DirectiveName] = frozenset({"inspect", "clear", "stepover"})

RETURN = "return"  # as in `@inspect return`, which records the value of a `return` statement
EXPECTED = "expected a name, an attribute, a call or a subscript (ordinary text goes behind another `#`)"
_KNOWN = ", ".join(f"`@{name}`" for name in NAMES)
_NEAR = 0.75  # difflib's ratio; a transposition in the shortest name ("hdie") has 0.75
_WORD = re.compile(r"@(?P<space>\s*)(?P<name>[^\W\d]\w*)")
_FIRST = re.compile(r"[#\s]*(?=@)")  # the comment's text begins with "@"
_WITHOUT_AT = re.compile(r"#\s*(?=(?:inspect\s|(?:stepover|hide|animate|deeper|cover)\s*(?:[#@]|$)))")
_UNIT = re.compile(r"\[((?:[^\W\d_]|%)(?:[^\W_]|[%/·])*)\]")
_STRING_OR_CHARACTER = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|.""")
# A decorator in commented-out code: dotted, called, or above a `def`, a `class` or another decorator.
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
    """One expression of an `@inspect`. For `@inspect return`, `node` is a name that no lecture can write."""

    source: str  # as written
    node: ast.expr  # its line is the comment's
    unit: str | None = None  # "FLOP/s"

    @property
    def is_return(self) -> bool:
        """Return whether this is `@inspect return`, which records the value of a `return` statement."""
        return self.source == RETURN


@dataclass(frozen=True, slots=True)
class Directive:
    """One directive and the statement that it applies to.

    `position` is "header" for the header of a compound statement (the arguments of a call, the evaluation of a loop),
    "before" for the line of an `except` or `case` (before the first statement of its body), else "after".
    """

    name: DirectiveName
    statement: int  # Statement.number
    position: Position
    line: int  # line of the comment
    inspected: tuple[Inspected, ...] = ()
    names: tuple[str, ...] = ()  # the names in a `@clear`


def parse_directives(source: ParsedSource, mistakes: list[LectureError] | None = None) -> tuple[Directive, ...]:
    """Return the directives of `source` in order of their lines.

    Raises LectureError for the first directive that is misspelt, incomplete, unparsable or attached to no statement,
    except in lectures for another tool. With `mistakes`, all such errors of any lecture are appended to that list
    instead.
    """
    borrowed = bool(used(source))
    lines = io.StringIO(source.text, newline=None).readlines()
    owners = _Owners(source)
    directives = []
    for comment in _comments(source.path, lines):
        reader = _Reader(source.path, comment, borrowed=borrowed)
        try:
            if comment.logical is None:
                reader.refuse_stray("".join(lines[comment.line : comment.line + 1]))
            elif _FIRST.match(comment.text) or not comment.alone:  # on its own line, text before "@" is code or prose
                for name, inspected, names in reader.directives():
                    owner, position = owners.find(comment, name)
                    if any(one.is_return for one in inspected):
                        owners.check_returns(comment, owner, position)
                    directives.append(Directive(name, owner.number, position, comment.line, inspected, names))
        except LectureError as error:
            if mistakes is not None:
                mistakes.append(error)
            elif not borrowed:
                raise
    return tuple(directives)


def has_directives(source: ParsedSource) -> bool:
    """Return whether any comment contains a directive, or a misspelt one."""
    lines = io.StringIO(source.text, newline=None).readlines()
    words = (word["name"] for comment in _comments(source.path, lines) for word in _WORD.finditer(comment.text))
    return any(difflib.get_close_matches(word.lower(), NAMES, 1, _NEAR) for word in words)


def without_at(source: ParsedSource, names: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield the comments behind code that would be directives if they had an "@", with their lines.

    An `inspect` counts if all its names are among `names`; `clear` is left out, because "clear x" is also prose.
    """
    for comment in _comments(source.path, io.StringIO(source.text, newline=None).readlines()):
        begin = _WITHOUT_AT.match(comment.text)
        if begin is None or comment.alone:
            continue
        reader = _Reader(source.path, replace(comment, text=f"# @{comment.text[begin.end() :]}"), borrowed=False)
        try:
            inspected = [one.node for _, inspected, _ in reader.directives() for one in inspected]
        except LectureError:
            continue
        read = {node.id for one in inspected for node in ast.walk(one) if isinstance(node, ast.Name)}
        if read <= {*names, RETURN}:
            yield comment.line, comment.text[begin.end() :]


@dataclass(frozen=True, slots=True)
class _LogicalLine:
    """A logical line of Python: simple statements, a header or a decorator, from line `first` to line `last`."""

    keyword: str  # its first token
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Comment:
    text: str  # from its "#"
    line: int
    alone: bool  # no code before it on its physical line
    logical: _LogicalLine | None = None  # None between statements


def _comments(path: str, lines: list[str]) -> Iterator[_Comment]:
    """Yield the comments in order."""
    waiting: list[_Comment] = []
    first: tokenize.TokenInfo | None = None
    code_end = 0
    for token in _tokens(path, lines):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
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
    lines_left = iter(lines)
    try:
        yield from tokenize.generate_tokens(lambda: next(lines_left, ""))
    except (tokenize.TokenError, SyntaxError) as error:
        raise LectureError(path, None, f"its comments can't be read: {error.args[0]}") from None


class _Owners:
    """Finds the statement that a comment belongs to; statements are in the order of their lines."""

    def __init__(self, source: ParsedSource) -> None:
        self._path = source.path
        self._statements = source.statements
        self._lines = [statement.line for statement in source.statements]

    def find(self, comment: _Comment, name: DirectiveName) -> tuple[Statement, Position]:
        """Return the statement and position of a directive; raise LectureError if the comment belongs to no
        statement.
        """
        assert comment.logical is not None
        owner_and_position = self._find(comment.logical, comment.line)
        if owner_and_position is None:
            problem = f"`@{name}` is on `{comment.logical.keyword}:`, which is not a statement"
            raise LectureError(self._path, comment.line, f"{problem}; expected it on a statement")
        owner, position = owner_and_position
        is_method = position == "header" and isinstance(owner.node, FUNCTIONS)
        if name != "hide" and not is_method and self._in_class_body(owner):
            problem = f"`@{name}` is inside a class body, which is recorded as one step"
            raise LectureError(self._path, comment.line, f"{problem}; expected it on the `class` line or in a method")
        return owner, position

    def check_returns(self, comment: _Comment, owner: Statement, position: Position) -> None:
        """Raise LectureError if `@inspect return` is on neither a `return` nor a `def`."""
        inline = getattr(owner.node, "body", ()) if position == "after" else ()  # as in `if x: return y`
        if isinstance(owner.node, FUNCTIONS) or any(isinstance(node, ast.Return) for node in (owner.node, *inline)):
            return
        problem = f"`@inspect {RETURN}` is on a line without a `return`"
        raise LectureError(self._path, comment.line, f"{problem}; expected a `return` statement or a `def` line")

    def _find(self, logical: _LogicalLine, line: int) -> tuple[Statement, Position] | None:
        end = bisect_right(self._lines, logical.last)
        inside = self._statements[bisect_left(self._lines, logical.first) : end]
        if logical.keyword == "@":
            return _on_header(self._statements[end], inline=False)
        is_compound = inside and any(hasattr(inside[0].node, name) for name in ("body", "cases"))
        if is_compound:  # never after `else:` or `;`, so the line is its header
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


def _on_header(statement: Statement, *, inline: bool) -> tuple[Statement, Position] | None:
    """Return the statement and position of a directive on a header.

    `inline` is whether the body begins on the header's line, as in `if x: y = 1`.
    """
    if isinstance(statement.node, FUNCTIONS):
        return statement, "header"  # the arguments, also for a one-line `def`
    if inline or isinstance(statement.node, ast.ClassDef):
        return statement, "after"
    if isinstance(statement.node, (ast.Try, ast.TryStar)):
        return None
    return statement, "header"


class _Reader:
    """Reads one comment from left to right."""

    def __init__(self, path: str, comment: _Comment, *, borrowed: bool) -> None:
        self._path = path
        self._line = comment.line
        self._text = comment.text
        self._alone = comment.alone
        self._borrowed = borrowed
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
        """Raise LectureError for text between statements that begins like a directive, unless it is commented-out
        code.
        """
        begin = _FIRST.match(self._text)
        if begin is None:
            return
        is_code = _COMMENTED_DECORATOR.match(f"{self._text}\n{next_line}")
        if name := self._name_at(begin.end(), first=not is_code):
            self._fail(f"`@{name}` belongs to no statement; expected it at the end of a statement's line")

    def _next_name(self) -> DirectiveName | None:
        """Skip ordinary text up to the next directive and consume its name; return None at the end."""
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
        """Return the directive's name at an "@", or None for ordinary text; raise LectureError for a misspelt name.

        `first` is whether only a `#` or another directive comes before it, so that it cannot be prose.
        """
        word = _WORD.match(self._text, at)
        if word is None:
            return None
        before, after = self._text[at - 1 : at], self._text[word.end() : word.end() + 1]
        ends = after in "#@," or after.isspace()  # "" is in every string
        directive_name = next((name for name in NAMES if name == word["name"]), None)
        if directive_name and ends and not word["space"] and before not in "`'\"":
            return directive_name
        if before.isalnum() or before in "_`'\"":  # an e-mail address; a word in quotes
            return None
        if self._alone and word["space"]:
            return None
        near = difflib.get_close_matches(word["name"].lower(), NAMES, 1, _NEAR)
        if directive_name and not ends and not word["space"]:
            self._fail(f"found `{word[0]}{after}`; expected a space after `@{directive_name}`")
        if directive_name or (near and (first or not word["space"])):
            self._fail(f"unknown directive `{word[0]}`; did you mean `@{(directive_name or near[0])}`?")
        if first and not word["space"] and not self._borrowed:
            self._fail(f"unknown directive `{word[0]}`; expected one of {_KNOWN}")
        return None

    def _pieces(self) -> Iterator[str]:
        """Yield the arguments of a directive, split at spaces and commas outside brackets and strings."""
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
        inspected: list[Inspected] = []
        for piece in pieces:
            if inspected and piece[0] == "(" and piece[-1] == ")" and formats.is_unit(piece[1:-1]):
                self._fail(f"`{piece}` can't be inspected; did you mean a unit, `[{piece[1:-1]}]`?")
            if not piece.startswith("["):
                inspected.append(Inspected(piece, self._expression(piece)))
            elif (unit := _UNIT.fullmatch(piece)) and inspected and inspected[-1].unit is None:
                inspected[-1] = replace(inspected[-1], unit=unit[1])
            elif not inspected and not unit:
                self._fail(f"`{piece}` can't be inspected; {EXPECTED}")
            else:
                problem = f"`{piece}` is not the unit of an expression"
                self._fail(f"{problem}; expected one like `[FLOP/s]` after each, or no space before a subscript")
        if not inspected:
            self._fail("`@inspect` needs an expression, as in `@inspect x`")
        return tuple(inspected)

    def _expression(self, piece: str) -> ast.expr:
        if piece == RETURN:
            return ast.Name(RETURN, ast.Load(), lineno=self._line, col_offset=0)
        try:
            node = ast.parse(piece, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # messages differ between Python versions
            self._fail(f"`{piece}` is not an expression; {EXPECTED}")
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) or node.col_offset > 0:
            self._fail(f"`{piece}` can't be inspected; {EXPECTED}")
        for part in ast.walk(node):
            if type(part) in _REFUSED:
                self._fail(f"`{piece}` contains {_REFUSED[type(part)]}; remove it from the expression")
        return ast.increment_lineno(node, self._line - 1)

    def _names(self, pieces: list[str]) -> tuple[str, ...]:
        for piece in pieces:
            parts = piece.split(".")  # inspected attributes may be cleared
            if not all(part.isidentifier() and not keyword.iskeyword(part) for part in parts):
                self._fail(f"`@clear` can't clear `{piece}`; expected names of variables")
        if not pieces:
            self._fail("`@clear` needs names of variables, as in `@clear x`")
        return tuple(pieces)

    def _fail(self, message: str) -> NoReturn:
        raise LectureError(self._path, self._line, message)

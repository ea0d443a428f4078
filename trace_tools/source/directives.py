r"""Parse comments into directives and attach each to a whole statement.

    source = parse_source("y = f(  # the input\n    x)  # @inspect y [FLOP], x.shape\n", "lecture.py")
    [directive] = parse_directives(source)
    directive.statement, directive.position               # (0, "after")
    [(i.source, i.unit) for i in directive.inspected]     # [("y", "FLOP"), ("x.shape", None)]

Ordinary text may come before a directive, and behind another `#`. After a directive, only its arguments or another
directive may follow. A malformed or misspelt directive is an error with its line, so a lecture runs only if every
annotation was understood. In lectures for another tool it is skipped instead, as in that tool.
"""

from __future__ import annotations

import ast
import difflib
import io
import keyword
import re
import tokenize
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, get_args

from trace_tools.errors import LectureError
from trace_tools.source.statements import FUNCTIONS, ParsedSource, Statement
from trace_tools.source.vocabularies import borrows
from trace_tools.trace.model import MODULE

DirectiveName = Literal["inspect", "clear", "stepover", "hide", "animate", "deeper", "cover"]
Position = Literal["after", "header", "before"]

NAMES: tuple[DirectiveName, ...] = get_args(DirectiveName)
# directives that affect the content of a trace
RECORDED: frozenset[DirectiveName] = frozenset({"inspect", "clear", "stepover"})

RETURN = "return"  # as in `@inspect return`, which records the value of a `return` statement
EXPECTED = "expected a name, an attribute, a call or a subscript (ordinary text goes behind another `#`)"
_NEAR = 0.75  # difflib's ratio; a transposition in the shortest name ("hdie") has 0.75
_WORD = re.compile(r"@([^\W\d]\w*)")  # `# @ inspect x` is a comment: so edtrace's lectures switch a directive off
_UNIT = re.compile(r"\[((?:[^\W\d_]|%)(?:[^\W_]|[%/·])*)\]")
_STRING_OR_CHARACTER = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|.""")

# They would change the function that contains the probe: its variables, or that it is no generator.
_REFUSED = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Lambda, ast.comprehension)


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


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, and the logical line that contains it, such as a simple statement, a header or a decorator."""

    path: str
    text: str  # from its "#"
    line: int
    column: int
    alone: bool  # no code before it on its physical line
    keyword: str = ""  # first token of the logical line; "" between two of them
    first: int = 0  # first line of the logical line
    last: int = 0

    def wrong(self, message: str) -> LectureError:
        """Return an error at this line."""
        return LectureError(self.path, self.line, message)


def parse_directives(source: ParsedSource, mistakes: list[LectureError] | None = None) -> tuple[Directive, ...]:
    """Return the directives of `source` in order of their lines.

    Raises LectureError for the first directive that is misspelt, incomplete, unparsable or attached to no statement,
    except in lectures for another tool. With `mistakes`, all such errors of any lecture are appended to that list
    instead.
    """
    borrowed = borrows(source)
    directives = []
    for comment in comments(source.path, source.text, source.aside):
        try:
            # scripts have other tools' words behind code, such as Colab's `#@param`
            for name, pieces in _read(comment, borrowed=borrowed or bool(source.cells)):
                statement, position = _owner(source, comment, name)
                inspected = _inspected(comment, pieces) if name == "inspect" else ()
                names = _cleared(comment, pieces) if name == "clear" else ()
                if pieces and not inspected and not names:
                    found = f"`@{name}` takes no arguments, found `{pieces[0]}`"
                    raise comment.wrong(f"{found}; ordinary text goes behind another `#`")
                inline = getattr(statement.node, "body", ()) if position == "after" else ()  # as in `if x: return y`
                returns = any(isinstance(node, (*FUNCTIONS, ast.Return)) for node in (statement.node, *inline))
                if any(one.is_return for one in inspected) and not returns:
                    found = f"`@inspect {RETURN}` is on a line without a `return`"
                    raise comment.wrong(f"{found}; expected a `return` statement or a `def` line")
                directives.append(Directive(name, statement.number, position, comment.line, inspected, names))
        except LectureError as error:
            if mistakes is not None:
                mistakes.append(error)
            elif not borrowed:
                raise
    return tuple(directives)


@lru_cache(maxsize=8)  # pages need them three times
def comments(path: str, text: str, aside: frozenset[int]) -> tuple[Comment, ...]:
    """Return the comments of a source in order, except on the lines `aside`."""
    found, waiting = list[Comment](), list[Comment]()  # these until the end of their logical line is known
    first, code_end = None, 0  # first token of that line
    for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
        line, column = token.start
        if token.type == tokenize.COMMENT and line not in aside:
            comment = Comment(path, token.string, line, column, alone=line != code_end)
            (found if first is None else waiting).append(comment)
        elif token.type == tokenize.NEWLINE and first is not None:
            found += [replace(comment, keyword=first.string, first=first.start[0], last=line) for comment in waiting]
            waiting, first = [], None
        elif token.type not in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
            first = first or token
            code_end = token.end[0]
    return tuple(found)


# --- the statement of a directive -----------------------------------------------------------------


def _owner(source: ParsedSource, comment: Comment, name: str) -> tuple[Statement, Position]:
    """Return the statement and position of a directive; raise LectureError without a statement."""
    if not comment.keyword:
        raise comment.wrong(f"`@{name}` belongs to no statement; expected it at the end of a statement's line")
    after = bisect_right(source.statements, comment.last, key=lambda one: one.line)
    inside = source.statements[bisect_left(source.statements, comment.first, key=lambda one: one.line) : after]
    if comment.keyword == "@":
        inside = source.statements[after : after + 1]  # the decorated one
    owner: Statement | None = None
    position: Position = "after"
    if not inside and comment.keyword in ("except", "case"):
        owner, position = source.statements[after], "before"
    elif inside and any(hasattr(inside[0].node, field) for field in ("body", "cases")):  # never behind `else:` or `;`
        owner = inside[0] if comment.keyword != "try" or len(inside) > 1 else None
        # `def`: its arguments, also on one line. `if x: y = 1` on one line is one step, and so is a class.
        if isinstance(inside[0].node, FUNCTIONS) or not (len(inside) > 1 or isinstance(inside[0].node, ast.ClassDef)):
            position = "header"
    elif begun := [statement for statement in inside if statement.line <= comment.line]:
        owner = begun[-1]
    if owner is None:
        found = f"`@{name}` is on `{comment.keyword}:`, which is not a statement"
        raise comment.wrong(f"{found}; expected it on a statement")
    is_method = position == "header" and isinstance(owner.node, FUNCTIONS)
    if owner.function not in (MODULE, *source.functions) and not is_method and name != "hide":
        found = f"`@{name}` is inside a class body, which is recorded as one step"
        raise comment.wrong(f"{found}; expected it on the `class` line or in a method")
    return owner, position


# --- the text of a directive ----------------------------------------------------------------------


def _read(comment: Comment, *, borrowed: bool) -> Iterator[tuple[DirectiveName, list[str]]]:
    """Yield each directive's name and its arguments, split at spaces and commas outside brackets and strings."""
    text, at = comment.text, 0
    if comment.alone and not text.lstrip("# \t").startswith("@"):
        return  # on its own line, text before "@" is code or prose
    first = True  # nothing but "#" comes before, so that a word with "@" cannot be prose
    while at < len(text):
        name = _name_at(comment, at, first=first, borrowed=borrowed)
        first = text[at] == "#" or (first and text[at].isspace())
        at += 1 + len(name or "")
        pieces: list[str] = []
        while name and at < len(text) and text[at] != "#":
            if text[at] == "," or text[at].isspace():
                at += 1
            elif _name_at(comment, at, first=True, borrowed=borrowed):
                break
            else:
                pieces.append(_piece(comment, at))
                at += len(pieces[-1])
        if name:
            yield name, pieces


def _name_at(comment: Comment, at: int, *, first: bool, borrowed: bool) -> DirectiveName | None:
    """Return the directive's name at an "@", if it is no ordinary text; raise LectureError for a misspelt name."""
    word = _WORD.match(comment.text, at)
    before = comment.text[at - 1]
    if word is None or before.isalnum() or before in "_`'\"":  # an e-mail address; a word in quotes
        return None
    after = comment.text[word.end() : word.end() + 1]
    known = next((name for name in NAMES if name == word[1]), None)
    if known:
        if after in "#@," or after.isspace():  # "" is in every string
            return known
        raise comment.wrong(f"found `{word[0]}{after}`; expected a space after `@{known}`")
    near = difflib.get_close_matches(word[1].lower(), NAMES, 1, _NEAR)
    if near or (first and not comment.alone and not borrowed):
        expected = f"did you mean `@{near[0]}`?" if near else f"expected one of {', '.join(f'`@{n}`' for n in NAMES)}"
        raise comment.wrong(f"unknown directive `{word[0]}`; {expected}")
    return None


def _piece(comment: Comment, start: int) -> str:
    at, depth = start, 0
    while part := _STRING_OR_CHARACTER.match(comment.text, at):
        if depth <= 0 and (part[0] in ",#" or part[0].isspace()):
            break
        depth += (part[0] in "([{") - (part[0] in ")]}")
        at = part.end()
    if depth > 0:
        raise comment.wrong(f"`{comment.text[start:]}` has an open bracket; expected it closed in the same comment")
    return comment.text[start:at]


def _inspected(comment: Comment, pieces: Sequence[str]) -> tuple[Inspected, ...]:
    inspected: list[Inspected] = []
    for piece in pieces:
        if not piece.startswith("["):
            inspected.append(Inspected(piece, _expression(comment, piece)))
        elif (unit := _UNIT.fullmatch(piece)) and inspected and inspected[-1].unit is None:
            inspected[-1] = replace(inspected[-1], unit=unit[1])
        else:
            expected = "expected one like `[FLOP/s]` after each, or no space before a subscript"
            raise comment.wrong(f"`{piece}` is not the unit of an expression; {expected}")
    if not inspected:
        raise comment.wrong("`@inspect` needs an expression, as in `@inspect x`")
    return tuple(inspected)


def _expression(comment: Comment, piece: str) -> ast.expr:
    if piece == RETURN:
        return ast.Name(RETURN, ast.Load(), lineno=comment.line, col_offset=0)
    try:
        node = ast.parse(piece, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # messages differ between Python versions
        raise comment.wrong(f"`{piece}` is not an expression; {EXPECTED}") from None
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) or node.col_offset > 0:
        raise comment.wrong(f"`{piece}` can't be inspected; {EXPECTED}")
    if any(isinstance(part, _REFUSED) for part in ast.walk(node)):
        expected = "an expression without `:=`, `await`, `yield`, lambdas and comprehensions"
        raise comment.wrong(f"`{piece}` can't be inspected; expected {expected}")
    return ast.increment_lineno(node, comment.line - 1)


def _cleared(comment: Comment, pieces: Sequence[str]) -> tuple[str, ...]:
    for piece in pieces:  # inspected attributes may be cleared
        if not all(part.isidentifier() and not keyword.iskeyword(part) for part in piece.split(".")):
            raise comment.wrong(f"`@clear` can't clear `{piece}`; expected names of variables")
    if not pieces:
        raise comment.wrong("`@clear` needs names of variables, as in `@clear x`")
    return tuple(pieces)

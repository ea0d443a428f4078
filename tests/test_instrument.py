from collections.abc import Callable, Iterator, Sequence
import ast
from trace_tools.directives import Directive, DirectiveName, Inspected, Place, parse_directives
from trace_tools.statements import FUNCTIONS, ParsedSource, Statement

EXPRESSIONS = ("__name__", "undefined.attribute", "len(__name__)")


def everywhere(name: DirectiveName) -> Callable[[ParsedSource], list[Directive]]:
    """Return what makes a directive for each statement that may have one, wherever it may stand."""

    def directives(source: ParsedSource) -> list[Directive]:
        inspected = tuple(Inspected(text, ast.parse(text, mode="eval").body) for text in EXPRESSIONS)
        made = []
        for statement in source.statements:
            for place in _places(source, statement):
                made.append(
                    Directive(name, statement.number, place, statement.line, inspected if name == "inspect" else ())
                )
        return made

    return directives


def _places(source: ParsedSource, statement: Statement) -> Iterator[Place]:
    node = statement.node
    if isinstance(node, FUNCTIONS):
        yield "header"
    elif not _in_class_body(source, statement):
        if hasattr(node, "body") and not isinstance(node, (ast.ClassDef, ast.Try, ast.TryStar)) or hasattr(node, "cases"):
            yield "header"
        yield "after"
        if statement.parent is not None and not hasattr(node, "body"):
            yield "before"


def _in_class_body(source: ParsedSource, statement: Statement) -> bool:
    while statement.parent is not None:
        statement = source.statements[statement.parent]
        if isinstance(statement.node, (*FUNCTIONS, ast.ClassDef)):
            return isinstance(statement.node, ast.ClassDef)
    return False


VARIANTS: dict[str, Callable[[ParsedSource], Sequence[Directive]]] = {
    "as written": parse_directives,
    "bare": lambda source: (),
    "all inspected": everywhere("inspect"),
    "all stepped over": everywhere("stepover"),
    "both": lambda source: [*everywhere("inspect")(source), *everywhere("stepover")(source)],
}

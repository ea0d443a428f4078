"""A notebook, or a script in percent cells → a lecture: prose is said, each heading begins a section.

    lecture_of_cells(Path("notes.ipynb"))      'from trace_tools import text\\n\\n\\ndef main():\\n    begin()\\n…'

Imports, functions and classes stand at the top of the file, where what they are made of allows it; names that several
sections use are the module's. What a cell shows because it ends with a name is inspected. Magics become comments,
cells in other languages prose; outputs are left out, as a trace observes them again.
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_tools import borrowed, formats
from trace_tools.errors import UsageError
from trace_tools.exchange.notebook import needed
from trace_tools.statements import FUNCTIONS, parse_source, read_text

_HEADING = re.compile(r"(#{1,6})[ \t]+(.+?)[ \t#]*(?:\n|$)")
_MAGIC = re.compile(r"(?=[^#]*$|\s*[%!?])(\s*)([%!?].*|.*\?|[\w., ]+=\s*[%!].*)$")
INDENT = "    "


@dataclass
class _Section:
    """What becomes one function: its heading, and pieces of prose and code in order."""

    title: str
    pieces: list[str | _Written] = field(default_factory=list)

    def code(self) -> Iterator[_Written]:
        return (piece for piece in self.pieces if not isinstance(piece, str))


@dataclass(frozen=True)
class _Written:
    """A statement of a cell, and its lines as they were written."""

    node: ast.stmt
    lines: tuple[str, ...]
    shown: str | None = None  # what the cell showed because it ended with that

    @property
    def inside_strings(self) -> set[int]:
        """Lines, from 0, that begin inside a string."""
        first = self.node.end_lineno or 0
        found: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO("\n".join(self.lines) + "\n").readline):
            if token.type == tokenize.STRING:
                found |= {*range(token.start[0], token.end[0])}
        return found if first else set()


def lecture_of_cells(path: Path) -> str:
    """Return the text of a lecture. Raises UsageError for a file without cells, LectureError for no Python."""
    sections: list[_Section] = []
    title = ""
    for number, (kind, text) in enumerate(_cells(path), 1):
        magic = kind == "code" and text.startswith("%%")
        if kind != "code" or magic:
            said = borrowed.as_it_is(text, None).text or "" if magic or kind == "raw" else text.strip()
            heading = _HEADING.match(said)
            if heading is not None and heading[1] == "#" and not title and not sections:
                title, said = heading[2], said[heading.end() :].strip()
            elif heading is not None and len(heading[1]) <= 2:
                sections.append(_Section(heading[2]))
                said = said[heading.end() :].strip()
            if said:
                _last(sections, title).pieces.append(said)
        elif text.strip():
            _last(sections, title).pieces += _statements(text, path, number)
    if not sections:
        raise UsageError(f"{path}: holds no cell with anything in it")
    text = _written(title or formats.readable(path.stem), sections)
    parse_source(text, str(path))
    return text


def _cells(path: Path) -> list[tuple[str, str]]:
    """Return kind and text of each cell."""
    if path.suffix == ".py":
        text = read_text(path)
        if not re.search(r"(?m)^# ?%%", text):
            raise UsageError(f"{path}: has no cells; expected lines that begin with `# %%`")
        found = needed("jupytext").reads(text, fmt="py:percent")
    else:
        nbformat = needed("nbformat")
        try:
            found = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
            nbformat.validate(found)
        except OSError as error:
            raise UsageError(f"{path}: can't be read: {error.strerror or error}") from None
        except Exception as error:  # whatever nbformat, or the schema, raises of what is no notebook
            said = formats.one_line(str(error) or type(error).__name__, 200)
            raise UsageError(f"{path}: is no notebook: {said}") from None
    return [(cell.cell_type, cell.source) for cell in found.cells]


def _last(sections: list[_Section], title: str) -> _Section:
    """Return the section that is being filled; what comes before any heading is one, too."""
    if not sections:
        sections.append(_Section(title or "Beginning"))
    return sections[-1]


def _statements(text: str, path: Path, number: int) -> Iterator[_Written]:
    """Yield a cell's statements, each with the comments above it."""
    text = _without_magics(text)
    nodes = parse_source(text, f"{path}: cell {number}").tree.body
    lines, at = text.split("\n"), 0
    for place, node in enumerate(nodes):
        end = node.end_lineno or node.lineno
        if place + 1 == len(nodes):
            end = len(lines)  # comments at the end are its
        elif nodes[place + 1].lineno == end:
            end -= 1  # `a; b` on one line is written once, with the last of them
        own = lines[at:end]
        last = isinstance(node, ast.Expr) and place + 1 == len(nodes)
        shown = ast.unparse(node.value) if last and isinstance(node, ast.Expr) and _is_shown(node, own) else None
        if own or place + 1 == len(nodes):
            yield _Written(node, tuple(own), shown)
        else:
            yield _Written(node, ())
        at = max(at, end)
    if not nodes and text.strip():
        yield _Written(ast.Pass(lineno=1, end_lineno=1, col_offset=0), tuple(lines))


def _without_magics(text: str) -> str:
    """Return a cell's text with the lines that only IPython understands as comments: those where Python stops."""
    lines = text.split("\n")
    while True:
        try:
            ast.parse("\n".join(lines))
        except SyntaxError as error:
            at = (error.lineno or 0) - 1
            magic = _MAGIC.match(lines[at]) if 0 <= at < len(lines) else None
            if magic is not None:
                lines[at] = f"{magic[1]}{'pass  ' if magic[1] else ''}# {magic[2]}"
                continue
        except (ValueError, RecursionError, MemoryError):  # whoever parses it next says so
            pass
        return "\n".join(lines)


def _is_shown(node: ast.stmt, lines: Sequence[str]) -> bool:
    """Whether a cell's last statement shows something that can be inspected: a name, or what hangs on one."""
    value: Any = node.value if isinstance(node, ast.Expr) else None
    while isinstance(value, ast.Attribute | ast.Subscript):
        if isinstance(value, ast.Subscript) and not isinstance(value.slice, ast.Constant):
            return False
        value = value.value
    return isinstance(value, ast.Name) and "#" not in "".join(lines)


# --- the lecture ----------------------------------------------------------------------------------


def _written(title: str, sections: Sequence[_Section]) -> str:
    code = [one for section in sections for one in section.code()]
    counts = Counter(name for one in code for name in _bound(one.node))
    imports = [one for one in code if isinstance(one.node, (ast.Import, ast.ImportFrom)) and one.lines]
    above: list[_Written] = []
    known = {name for one in imports for name in _bound(one.node)} | set(dir(builtins))
    for one in code:
        made_of = _made_of(one.node)
        if made_of is not None and made_of <= known and counts[one.node.name] == 1 and one.lines:  # type: ignore[attr-defined]
            above.append(one)
            known |= {*_bound(one.node)}
    top = {id(one) for one in (*imports, *above)}
    sections = [one for one in sections if _has_own(one, top, title)]
    names = _function_names(sections, {*counts, *dir(builtins), "text", "main"})
    future = [one for one in imports if getattr(one.node, "module", None) == "__future__"]
    rest = [one for one in imports if one not in future]
    parts = [f'"""{title.replace(chr(92), chr(92) * 2).replace(chr(34), chr(39))}"""\n']
    parts += ["\n".join("\n".join(one.lines) for one in future) + "\n"] if future else []
    has_prose = any(isinstance(piece, str) for section in sections for piece in section.pieces)
    words = "from trace_tools import text\n" if has_prose and "text" not in known else ""
    parts += ["\n".join(["\n".join(one.lines).strip("\n") for one in rest] + [words]).rstrip() + "\n"]
    main = "def main():\n" + "".join(f"{INDENT}{name}()\n" for name in names)
    functions = ["\n".join(one.lines).strip("\n") + "\n" for one in above]
    shared = _shared(sections, above, top)
    bodies = [_body(name, section, shared, top) for name, section in zip(names, sections, strict=True)]
    start = 'if __name__ == "__main__":\n    main()\n'
    return "\n".join(part for part in parts if part.strip()) + "\n\n" + "\n\n".join([*functions, main, *bodies, start])


def _has_own(section: _Section, top: set[int], title: str) -> bool:
    """Whether anything of a section is left below what stands at the top of the file, if it be its heading."""
    if not section.pieces:
        return section.title != title
    return any(isinstance(piece, str) or id(piece) not in top for piece in section.pieces)


def _function_names(sections: Sequence[_Section], taken: set[str]) -> list[str]:
    found: list[str] = []
    for section in sections:
        name = re.sub(r"\W+", "_", section.title.lower()).strip("_")[:40].rstrip("_")
        name = name if name.isidentifier() and not keyword.iskeyword(name) else f"section_{name}".rstrip("_")
        while name in taken:
            name += "_"
        taken.add(name)
        found.append(name)
    return found


def _shared(sections: Sequence[_Section], above: Sequence[_Written], top: set[int]) -> set[str]:
    """Return the names that one section gives something and another, or a function above, uses."""
    own = [[one for one in section.code() if id(one) not in top] for section in sections]
    used = [{name for one in code for name in (*_loaded(one.node), *_bound(one.node))} for code in own]
    found: set[str] = set()
    for number, code in enumerate(own):
        bound = {name for one in code for name in _bound(one.node)}
        others = [names for other, names in enumerate(used) if other != number]
        others += [{*_loaded(one.node)} for one in (*above, *code) if isinstance(one.node, (*FUNCTIONS, ast.ClassDef))]
        found |= bound & {name for names in others for name in names}
    return found


def _body(name: str, section: _Section, shared: set[str], top: set[int]) -> str:
    code = [one for one in section.code() if id(one) not in top]
    mine = sorted({bound for one in code for bound in _bound(one.node)} & shared)
    title = section.title.replace("\\", "\\\\").replace('"', "'")
    lines = [f"def {name}():", f'{INDENT}"""{title}"""']
    lines += [f"{INDENT}global {', '.join(mine)}"] if mine else []
    for piece in section.pieces:
        if isinstance(piece, str):
            lines.append(f"{INDENT}text({_literal(piece)})")
        elif id(piece) not in top:
            inside = piece.inside_strings
            written = [one if at in inside or not one else INDENT + one for at, one in enumerate(piece.lines)]
            if piece.shown is not None:
                at = max(n for n, one in enumerate(written) if one.strip())
                written[at] += f"  # @inspect {piece.shown}"
            lines += written
    return "\n".join(lines).rstrip() + "\n"


def _literal(text: str) -> str:
    """Return a text as a string of Python, over several lines where it has them."""
    plain = "\n" in text and '"""' not in text and "\\" not in text and not text.endswith('"')
    return f'"""{text}"""' if plain else repr(text)


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement gives something in the scope in which it stands."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        yield node.name
        return
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node.id
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name
    if not isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        for child in ast.iter_child_nodes(node):
            yield from _bound(child)


def _loaded(node: ast.AST) -> Iterator[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))


def _made_of(node: ast.stmt) -> set[str] | None:
    """Return the names that a definition needs when it is executed; None for what is no definition."""
    if isinstance(node, ast.ClassDef):
        return {*_loaded(node)}
    if not isinstance(node, FUNCTIONS):
        return None
    outside = [*node.decorator_list, node.args, *([node.returns] if node.returns else [])]
    return {name for part in outside for name in _loaded(part)}

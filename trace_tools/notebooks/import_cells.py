r"""Convert a notebook, a script in percent cells, or a Sphinx-Gallery script to a lecture; each heading starts a
section.

    lecture_of_cells(Path("notes.ipynb")).text      'from trace_tools import text\n\n\ndef main():\n    begin()\n…'

The lecture does what the cells do in one namespace: a section is a function that declares the names it binds as
`global`, and only order-independent code moves to the top (`cell_code.hoisted`). The value that a cell shows at its end
is inspected. Stored outputs are omitted, because a trace observes them again. For code that cannot be converted, a
warning names its cell.
"""

from __future__ import annotations

import ast
import base64
import binascii
import builtins
import io
import keyword
import re
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from urllib.parse import unquote

from markdown_it import MarkdownIt

from trace_tools.errors import LectureError, UsageError
from trace_tools.notebooks.cell_code import (
    OPEN,
    Figures,
    Piece,
    helper,
    hoisted,
    in_function,
    pieces,
    show,
    without_show,
)
from trace_tools.notebooks.cell_files import SourceCell, read_cells
from trace_tools.notebooks.magics import fenced, lines_inside_strings, plain_python, string_literal
from trace_tools.source.directives import parse_directives
from trace_tools.source.statements import parse_source
from trace_tools.trace.model import MAIN
from trace_tools.util import formats
from trace_tools.util.files import why_not_inside

INDENT = "    "
WIDTH = 120
# Names that exist only in IPython.
_IPYTHON = re.compile(r"get_ipython|_{1,3}|_i{1,3}|_i?\d+|In|Out|_[iod]h")
_HIDING = {
    "hide",
    "hide-cell",
    "hide-input",
    "hide_input",
    "remove-cell",
    "remove-input",
    "remove_cell",
    "remove_input",
}
_LINK = re.compile(r"(!?\[[^\]]*\]\(\s*)<?([^)\s>]+)>?")
_TAG = re.compile(r"<img\b[^>]*?\bsrc=[\"']?([^\"'\s>]+)[\"']?[^>]*>")
_FORMULA = re.compile(
    r"(?ms)(?<!\$)(?<!\$\n)^(\\begin\{(equation|align|gather|multline|eqnarray)(\*?)\}.*?\\end\{\2\3\})"
)
_DISPLAY = '''def display(*values, **options):
    """Print what a notebook would show."""
    for value in values:
        print(repr(value))
'''


@dataclass(frozen=True, slots=True)
class ImportedLecture:
    """A lecture's text, the files for its folder, and a warning for everything that could not be converted."""

    text: str
    files: dict[str, bytes]  # by path relative to the lecture
    warnings: tuple[str, ...]


@dataclass
class _Section:
    """A future function: its heading, and its prose and code in order."""

    title: str
    parts: list[str | Piece] = field(default_factory=list)

    @property
    def code(self) -> list[Piece]:
        return [part for part in self.parts if isinstance(part, Piece)]


def lecture_of_cells(path: Path) -> ImportedLecture:
    """Return the lecture. Raises UsageError for a file without cells, LectureError for invalid Python."""
    cells = [cell for cell in read_cells(path) if cell.text.strip()]
    if not cells:
        raise UsageError(f"{path}: the notebook has no non-empty cell")
    with warnings.catch_warnings(action="ignore", category=SyntaxWarning):  # the run shows them
        return _Import(path, cells).lecture()


class _Import:
    """Reads the cells of one file in order."""

    def __init__(self, path: Path, cells: Sequence[SourceCell]) -> None:
        self.path = path
        self.cells = cells
        self.title = ""
        self.sections: list[_Section] = []
        self.files: dict[str, bytes] = {}
        self.warnings: list[str] = []
        self.measures = False
        self.executed: dict[str, bool] = {}  # by the name of an executed cell: whether it showed a value
        mentions_measure = any(re.search(r"\bmeasure\b", cell.text) for cell in cells if cell.kind == "code")
        self.measure = "lecture_measure" if mentions_measure else "measure"

    def lecture(self) -> ImportedLecture:
        passages = (one for cell in self.cells if cell.kind == "prose" for one in _passages(cell.text))
        levels = [level for level, _, _ in passages if level]
        deepest = max(2, min(levels[levels[:1] == [1] :], default=2))  # lowest level of headings that start sections
        for cell in self.cells:
            if cell.kind == "prose":
                self._prose(cell, deepest)
            elif cell.kind == "raw":
                self._current_section().parts.append(fenced(cell.text))
            else:
                self._code(cell)
        text = _Writing(self).text()
        return ImportedLecture(text, self.files, tuple(f"{self.path}: {one}" for one in self.warnings))

    def warn(self, where: str, text: str) -> None:
        self.warnings.append(f"{where}: {text}")

    def _current_section(self) -> _Section:
        """Return the current section; text before the first heading has one as well."""
        if not self.sections:
            self.sections.append(_Section(self.title or "Beginning"))
        return self.sections[-1]

    def _prose(self, cell: SourceCell, deepest: int) -> None:
        joined = ""  # text of one section
        for level, heading, text in _passages(self._with_images(cell)):
            if 0 < level <= deepest:
                self._add_prose(joined)
                joined = ""
                if level == 1 and not self.title and not any(section.code for section in self.sections):
                    self.title = heading
                    for section in self.sections[:1]:  # the part above the title
                        section.title = heading
                else:
                    self.sections.append(_Section(heading))
            elif level:
                text = f"{'#' * level} {heading}\n\n{text}"
            joined = f"{joined}\n\n{text}".strip()
        self._add_prose(joined)

    def _add_prose(self, text: str) -> None:
        if text:
            self._current_section().parts.append(text)

    def _with_images(self, cell: SourceCell) -> str:
        """Return prose with its images stored as files in the lecture's folder."""

        def as_image(tag: re.Match[str]) -> str:
            alternative = re.search(r"\balt=[\"']([^\"']*)", tag[0])
            return f"![{alternative[1] if alternative else ''}]({tag[1]})"

        text = _TAG.sub(as_image, cell.text)
        text = _LINK.sub(lambda link: link[1] + self._relative_target(cell, link[2], link[1].startswith("!")), text)
        return _FORMULA.sub(r"$$\n\1\n$$", text)

    def _relative_target(self, cell: SourceCell, url: str, is_image: bool) -> str:
        """Return the target of a link in prose as a path relative to the lecture; store an image in the notebook."""
        content: bytes | None = None
        path = unquote(url)
        if url.startswith("attachment:"):
            path = path.removeprefix("attachment:")
            kinds = cell.attachments.get(path) or cell.attachments.get(url.removeprefix("attachment:")) or {}
            content = next((_decoded(kind, text) for kind, text in kinds.items()), None)
        elif url.startswith("data:image/"):
            kind, _, text = url.removeprefix("data:").partition(";base64,")
            path, content = f"image.{kind.removeprefix('image/').partition('+')[0]}", _decoded(kind, text)
        elif (
            not is_image
            or re.match(r"\w+:|//", url)
            or ((self.path.parent / path).is_file() and why_not_inside(path) is None)  # beside the lecture
        ):
            return url
        else:  # relative to the root of a documentation, or to a parent folder
            folders = self.path.resolve().parents if path.startswith("/") else [self.path.parent]
            existing = [folder / path.lstrip("/") for folder in folders if (folder / path.lstrip("/")).is_file()]
            content = existing[0].read_bytes() if existing else None
        if content is None:
            self.warn(cell.where, f"the image `{formats.one_line(url, 80)}` was not found")
            return url
        # Store it for the lecture's folder, under a name that no other file has.
        name = re.sub(r"[^\w.-]+", "-", Path(path).name).lstrip(".") or "image"
        folder = re.sub(r"[^\w-]", "_", self.path.stem) + "_files"
        number = 0
        path = f"{folder}/{name}"
        while self.files.setdefault(path, content) != content:
            number += 1
            path = f"{folder}/{cell.where.replace(' ', '-')}-{number}-{name}"
        return path

    def _code(self, cell: SourceCell) -> None:
        if "skip-execution" in cell.tags:
            self.warn(cell.where, "tagged `skip-execution`; shown as prose")
            self._current_section().parts.append(fenced(cell.text, "python"))
            return
        for tag in sorted(cell.tags & _HIDING):
            self.warn(cell.where, f"tagged `{tag}`, but the page shows this cell; put `# @hide` on lines to hide")
        plain = plain_python(cell.text, self.measure)
        for warning in plain.warnings:
            self.warn(cell.where, warning)
        self.measures = self.measures or plain.measures
        if plain.prose.strip():
            self._current_section().parts.append(plain.prose.strip("\n"))
        if plain.code.strip():
            code = plain.code
            if "raises-exception" in cell.tags:
                [*_] = pieces(code, str(self.path), cell.where)  # reports errors in the original cell
                shown = "print(f'{type(_error).__name__}: {_error}')"
                code = f"try:\n{_indented(code)}\nexcept Exception as _error:\n{INDENT}{shown}"
            self._current_section().parts += pieces(code, str(self.path), cell.where)
            if cell.shows_value is not None:
                self.executed[cell.where] = cell.shows_value


def _passages(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the level, the words and the following text of each heading in a cell of prose; level 0 for text before
    it.
    """
    lines = text.split("\n")
    tokens = MarkdownIt().parse(text)
    heads = [
        (int(token.tag[1:]), tokens[n + 1].content, token.map[0], token.map[1])
        for n, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map and tokens[n + 1].content.strip()
    ]
    above = "\n".join(lines[: heads[0][2]] if heads else lines).strip()
    if above:
        yield 0, "", above
    ends = [*(head[2] for head in heads[1:]), len(lines)]
    for (level, title, _, begin), after in zip(heads, ends, strict=False):
        words = re.sub(r"<[^>]*>", "", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title))
        yield level, " ".join(words.split()) or title, "\n".join(lines[begin:after]).strip()


def _decoded(kind: str, text: str | Sequence[str]) -> bytes | None:
    """Return the bytes of an image in a notebook: base64, or text for SVG."""
    text = "".join(text)
    if kind == "image/svg+xml" and "<svg" in text:
        return text.encode()
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return None


# --- the lecture ----------------------------------------------------------------------------------


class _Writing:
    """Writes the sections as one file."""

    def __init__(self, read: _Import) -> None:
        self._read = read
        self._title = read.title or formats.readable(read.path.stem)
        code = [piece for section in read.sections for piece in section.code]
        self._top = hoisted(code)
        self._bound = {name for piece in code for name in piece.bound}
        self._names = self._bound | {name for piece in code for name in piece.used}
        self._star = any(piece.star for piece in code)
        ids = {id(piece) for piece in self._top}
        for section in read.sections:
            section.parts = [part for part in section.parts if isinstance(part, str) or id(part) not in ids]
        self._sections = [one for one in read.sections if one.parts or one.title != self._title] or read.sections[:1]
        self._word, self._plot = (
            f"lecture_{word}" if self._star or word in self._names else word for word in ("text", "plot")
        )
        self._result = self._free("result")
        self._figures = Figures.of(code)
        self._show = show(self._free("figure"), self._plot)
        self._draws = OPEN not in self._names and any(self._figures.drawn(piece) for piece in code)
        self._code = code

    def _free(self, name: str) -> str:
        while name in self._names:
            name += "_"
        return name

    def text(self) -> str:
        self._warn()
        functions = self._functions()
        is_async = {
            name: any(p.is_async for p in one.code) for name, one in zip(functions, self._sections, strict=True)
        }
        future = "\n".join(piece.text for piece in self._top if piece.future)
        title = self._title.replace("\\", "\\\\").replace('"""', "'''")
        title = title[:-1] + '\\"' if title.endswith('"') else title
        parts = [f'"""{title}"""\n' + (f"\n{future}\n" if future else "")]
        parts += [*self._imports_and_definitions(any(is_async.values()))]
        parts.append(self._main(is_async))
        parts += [
            self._function(name, section, is_async[name])
            for name, section in zip(functions, self._sections, strict=True)
        ]
        parts.append('if __name__ == "__main__":\n    main()\n')
        docstring, *blocks = parts
        text = docstring + ("\n" if blocks[0].startswith(("import ", "from ")) else "\n\n") + "\n\n".join(blocks)
        text = _without_false_directives(text, str(self._read.path))
        try:
            compile(text, str(self._read.path), "exec", dont_inherit=True)
        except SyntaxError as error:
            line = text.split("\n")[(error.lineno or 1) - 1].strip()
            raise UsageError(f"{self._read.path}: `{line}` is not allowed in a function: {error.msg}") from None
        return text

    def _warn(self) -> None:
        """Warn of names that exist only in IPython, and of `__future__` imports that would apply to earlier cells."""
        warned: set[tuple[str, str]] = set()
        for piece in self._code:
            if piece.future and any(
                other.nodes and not other.future for other in self._code[: self._code.index(piece)]
            ):
                self._read.warn(
                    piece.where, f"`{piece.text.strip()}` applies to the whole lecture, earlier cells included"
                )
            for name in sorted(piece.used - self._bound):
                if _IPYTHON.fullmatch(name) and (piece.where, name) not in warned:
                    warned.add((piece.where, name))
                    self._read.warn(piece.where, f"`{name}` exists only in IPython")

    def _imports_and_definitions(self, is_async: bool) -> Iterator[str]:
        """Yield the text above `main`: imports and moved definitions."""
        words = [self._word] if any(isinstance(part, str) for one in self._sections for part in one.parts) else []
        words += [self._read.measure] if self._read.measures else []
        words += [self._plot] if self._draws else []
        own = [word if not word.startswith("lecture_") else f"{word[8:]} as {word}" for word in words]
        ours = [f"from trace_tools import {', '.join(sorted(own))}"] if own else []
        ours = ["import asyncio", *ours] if is_async and "import asyncio" not in {p.text for p in self._top} else ours
        kept = [piece for piece in self._top if not piece.future]
        first = next((n for n, piece in enumerate(kept) if not piece.imports), len(kept))
        waiting = [self._moved_text(piece) for piece in kept[:first]] + ours
        if waiting:
            yield "\n".join(waiting) + "\n"
        together: list[str] = []
        for piece in kept[first:]:
            if piece.imports:
                together.append(self._moved_text(piece))
                continue
            if together:
                yield "\n".join(together) + "\n"
                together = []
            yield self._moved_text(piece) + "\n"
        if together:
            yield "\n".join(together) + "\n"
        if "display" in self._names - self._bound and not self._star:
            yield _DISPLAY
        if self._draws:
            yield helper(min(self._figures.pyplot))

    def _moved_text(self, piece: Piece) -> str:
        return without_show(piece.text, self._figures.pyplot, self._show) if self._draws else piece.text

    def _functions(self) -> list[str]:
        """Return a function name for each section that the cells do not use."""
        used_names = {*self._names, *dir(builtins), MAIN, "asyncio", "display", "text", "measure", self._word}
        functions: list[str] = []
        for section in self._sections:
            name = re.sub(r"\W+", "_", section.title.lower()).strip("_")
            name = name if len(name) <= 40 else name[:41].rpartition("_")[0] or name[:40]
            usable = name.isidentifier() and not keyword.iskeyword(name) and not self._star
            name = name if usable else f"section_{name}".rstrip("_")
            while name in used_names:
                name += "_"
            used_names.add(name)
            functions.append(name)
        return functions

    def _main(self, is_async: dict[str, bool]) -> str:
        if sum(is_async.values()) < 2:
            calls = [f"asyncio.run({name}())" if wait else f"{name}()" for name, wait in is_async.items()]
            return f"def {MAIN}():\n" + "".join(f"{INDENT}{call}\n" for call in calls)
        calls = [f"loop.run({name}())" if wait else f"{name}()" for name, wait in is_async.items()]
        opened = f"{INDENT}with asyncio.Runner() as loop:  # one event loop for all sections, as in a notebook\n"
        return f"def {MAIN}():\n" + opened + "".join(f"{INDENT}{INDENT}{call}\n" for call in calls)

    def _function(self, name: str, section: _Section, is_async: bool) -> str:
        title = section.title.replace("\\", "\\\\").replace('"""', "'''")
        title = title[:-1] + '\\"' if title.endswith('"') else title
        lines = [f"{'async ' * is_async}def {name}():", f'{INDENT}"""{title}"""']
        names = sorted({bound for piece in section.code for bound in piece.bound})
        for row in wrap(", ".join(names), WIDTH - len(f"{INDENT}global   # @hide"), break_long_words=False):
            lines.append(f"{INDENT}global {row.rstrip(',')}  # @hide")
        draws = False  # the cell may have open figures
        for part, after in zip(section.parts, [*section.parts[1:], None], strict=False):
            if isinstance(part, str):
                lines.append(f"{INDENT}{self._word}({string_literal(part)})")
                continue
            code = self._shown(in_function(part.text), part)
            if self._draws:
                code = without_show(code, self._figures.pyplot, self._show)
                draws = f"{OPEN}()" not in code and (draws or self._figures.drawn(part))
            lines += [""] if part.is_spaced and lines[-1] and not lines[-1].endswith("# @hide") else []
            lines.append(_indented(code))
            if isinstance(after, Piece) and after.where == part.where:
                continue
            lines += [_indented(self._show)] if draws else []
            lines += [""] if isinstance(after, Piece) else []  # between cells
            draws = False
        return "\n".join(lines).rstrip() + "\n"

    def _shown(self, text: str, piece: Piece) -> str:
        """Return a piece's text with an `@inspect` of the value that the cell shows."""
        shows = self._read.executed.get(piece.where)
        draws = self._draws and self._figures.drawn(piece)
        if piece.shown is None or shows is False or draws:
            return text
        node = ast.parse(text).body[-1]
        assert isinstance(node, ast.Expr) and node.end_lineno is not None
        lines = text.split("\n")
        inspected = piece.shown
        if not self._is_inspectable(node.value):
            runs = isinstance(node.value, (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr))
            if shows is None and runs:
                return text
            line = lines[node.lineno - 1].encode()
            lines[node.lineno - 1] = (
                line[: node.col_offset] + f"{self._result} = ".encode() + line[node.col_offset :]
            ).decode()
            inspected = self._result
        lines[node.end_lineno - 1] = f"{lines[node.end_lineno - 1]}  # @inspect {inspected}"
        return "\n".join(lines)

    def _is_inspectable(self, shown: ast.expr) -> bool:
        """Return whether `@inspect` can evaluate an expression: names that a cell binds, and their parts."""
        value = shown
        while isinstance(value, ast.Attribute | ast.Subscript):
            if isinstance(value, ast.Subscript):
                plain = (ast.Constant, ast.Name, ast.Slice, ast.Tuple, ast.UnaryOp, ast.expr_context, ast.unaryop)
                if not all(isinstance(part, plain) for part in ast.walk(value.slice)):
                    return False
            value = value.value
        names = {node.id for node in ast.walk(shown) if isinstance(node, ast.Name)}
        return isinstance(value, ast.Name) and (self._star or names <= self._bound | vars(builtins).keys())


def _indented(text: str) -> str:
    verbatim = lines_inside_strings(text)
    lines = enumerate(text.split("\n"))
    return "\n".join(line if n in verbatim or not line else INDENT + line for n, line in lines)


def _without_false_directives(text: str, path: str) -> str:
    """Return a lecture in which no comment of the cells, such as `#@title`, is read as a misspelt directive."""
    while True:
        source = parse_source(text, path)
        mistakes: list[LectureError] = []
        parse_directives(source, mistakes)
        wrong = {error.line for error in mistakes}
        lines = text.split("\n")
        for token in tokenize.generate_tokens(io.StringIO(text + "\n").readline):
            if token.type == tokenize.COMMENT and token.start[0] in wrong and "@" in token.string:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column] + token.string.replace("@", "", 1)
        changed = "\n".join(lines)
        if changed == text:
            return text
        text = changed

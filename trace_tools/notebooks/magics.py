r"""Convert a code cell with IPython's magics to plain Python, with warnings for what cannot run.

    plain_python("%%time\nx = 1\n!ls")      PlainCell("# %%time\nx = 1\n# !ls", warnings=("`!ls` does not run",))

Code that a magic runs in the notebook's namespace (`%%time`, `%time`, `%prun`, `%%capture`) remains code. `%timeit`
becomes `measure`, `%%writefile` writes the file, `%env` and `%cd` call `os`. Cells in another language become prose.
Other IPython syntax becomes a comment. IPython is not needed.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

# Magics without an effect on later code.
_HARMLESS = {
    "autoreload", "colors", "conda", "config", "doctest_mode", "load_ext", "lsmagic", "magic", "matplotlib",
    "notebook", "pdb", "pinfo", "pip", "precision", "psource", "pwd", "quickref", "reload_ext", "tensorboard", "who",
    "who_ls", "whos", "xmode",
}  # fmt: skip
# Cell magics for another language or another process, which do not use the notebook's names.
_FOREIGN = {
    "!", "bash", "bigquery", "cmd", "cypher", "cython", "fortran", "gcloud", "gams", "html", "javascript", "js",
    "julia", "latex", "manim", "mermaid", "node", "octave", "perl", "pypy", "python", "python2", "python3", "r", "R",
    "rpy2", "ruby", "rust", "script", "sh", "SQL", "sql", "stan", "svg", "svg_html", "sx", "system",
}  # fmt: skip
_SHOWN_ONLY = {
    "html", "javascript", "js", "latex", "svg",
}  # fmt: skip
_TIMEIT_OPTIONS = re.compile(r"(?:-(?:[nrt]\s*\d+|[tcqov]+|p\s*\d+)\s+)*")
_PRUN_OPTIONS = re.compile(r"(?:-(?:[lsTD]\s*\S+|[rq])\s+)*")
_ASSIGNED = re.compile(r"\s*([A-Za-z_][\w., ]*(?:\[[^\]=]*\])?)(?<! )\s*=\s*([%!].*)$", re.DOTALL)
_HELP = re.compile(r"\s*(?:\?{1,2}\s*%{0,2}[\w.*]+|%{0,2}[A-Za-z_*][\w.*]*(?:\[[^\]]*\])?\?{1,2})\s*$")
_SHELL_VARIABLE = re.compile(r"[${}]")


@dataclass(frozen=True, slots=True)
class PlainCell:
    """A code cell as plain Python, or as the prose that replaces it, with a warning for everything lost."""

    code: str = ""
    prose: str = ""
    warnings: tuple[str, ...] = ()
    measures: bool = False  # the code calls `measure`


def plain_python(text: str, measure: str = "measure") -> PlainCell:
    """Return a code cell as plain Python; `measure` is the lecture's name for that function."""
    # Like IPython, remove the indentation of the first line from all lines.
    first = next((line for line in text.split("\n") if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    text = re.sub(rf"(?m)^{indent}", "", text) if indent else text
    match _arguments(text):  # as nbconvert writes a cell magic
        case "run_cell_magic", [str(magic), str(line), str(content)]:
            text = f"%%{magic} {line}".rstrip() + "\n" + content
    if not text.lstrip("\n").startswith("%%"):
        return _LogicalLines(measure).plain(text)
    first, _, body = text.lstrip("\n").partition("\n")
    name, _, argument = first[2:].strip().partition(" ")
    argument = argument.strip()
    if name in ("time", "prun", "capture"):
        inner = plain_python(body, measure)
        lost = [word for word in argument.split() if name == "capture" and not word.startswith("-")]
        warnings = tuple(f"`{first}`: output is not captured, and `{word}` has no value" for word in lost)
        code = f"# {first}\n{inner.code}" if not inner.prose else ""
        return PlainCell(code, inner.prose, (*warnings, *inner.warnings), inner.measures)
    if name == "timeit":
        setup = argument[_end(_TIMEIT_OPTIONS, argument + " ") :].strip()
        inner = plain_python("\n".join([setup, body] if setup else [body]), measure)
        if inner.prose or not _is_python(inner.code) or not ast.parse(inner.code).body:
            return PlainCell(prose=fenced(f"{first}\n{body}"), warnings=(f"`{first}`: this cell does not run",))
        verbatim = lines_inside_strings(inner.code)
        lines = [
            line if number in verbatim or not line else f"    {line}"
            for number, line in enumerate(inner.code.split("\n"))
        ]
        code = "\n".join(["def _timed():", f"    # {first}", *lines, "", f"{measure}(_timed)"])
        return PlainCell(code, warnings=inner.warnings, measures=True)
    if name in ("writefile", "file"):
        appends = argument.startswith(("-a ", "--append "))
        path = argument.partition(" ")[2].strip() if appends else argument
        path = path.strip("\"'")
        if not path or _SHELL_VARIABLE.search(path):
            return PlainCell(prose=fenced(f"{first}\n{body}"), warnings=(f"`{first}`: no file is written",))
        content = body if body.endswith("\n") else body + "\n"
        literal = string_literal(content)
        mode = "a" if appends else "w"
        opened = f"with open({path!r}, {mode!r}, encoding='utf-8') as _file:  # {first}"
        return PlainCell(f"{opened}\n    _file.write({literal})")
    if name == "markdown":
        return PlainCell(prose=body)
    if name in _FOREIGN or not _is_python(plain_python(body, measure).code):
        shown = name in _SHOWN_ONLY
        warnings = (f"`{first}`: this cell is shown as prose" + ("" if shown else " and does not run"),)
        return PlainCell(prose=fenced(text), warnings=warnings)
    inner = plain_python(body, measure)
    return PlainCell(
        f"# {first}\n{inner.code}",
        inner.prose,
        (f"`{first}` is ignored; the rest of the cell runs", *inner.warnings),
        inner.measures,
    )


def fenced(text: str, language: str = "") -> str:
    """Return text as a Markdown code block, with any fences in it."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}"


@dataclass
class _LogicalLines:
    """Walks the logical lines of a cell; IPython syntax occurs only at their beginning."""

    measure: str
    warnings: list[str] = field(default_factory=list)
    measures: bool = False

    def plain(self, text: str) -> PlainCell:
        lines = text.split("\n")
        written: list[str] = []
        at = 0
        while at < len(lines):
            if _begins_magic(lines[at]):
                end = at + 1
                while lines[end - 1].rstrip().endswith("\\") and end < len(lines):
                    end += 1
                written += self._replaced(lines[at:end])
            else:
                end = at + _logical_length(lines, at)
                magic = _called_magic("\n".join(lines[at:end]))
                written += lines[at:end] if magic is None else self._replaced([magic])
            at = end
        return PlainCell("\n".join(written), warnings=tuple(self.warnings), measures=self.measures)

    def _replaced(self, lines: list[str]) -> Iterator[str]:
        """Yield the replacement of a magic and its continuation lines."""
        indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
        joined = " ".join(line.strip().removesuffix("\\").strip() for line in lines)
        code = self._code(joined)
        if code is None:
            yield f"{indent}{'pass  ' if indent else ''}# {lines[0].strip()}"
            yield from (f"{indent}# {line.strip()}" for line in lines[1:])
        else:
            yield from (indent + line for line in code.split("\n"))

    def _code(self, magic: str) -> str | None:
        """Return the Python equivalent of a magic, or None; warn if an effect is lost."""
        assigned = _ASSIGNED.match(magic)
        if assigned is not None:
            return self._assigned(magic, assigned[1], assigned[2])
        if _HELP.match(magic):
            return None
        name, _, argument = magic.lstrip("%").partition(" ")
        argument = argument.strip()
        code: str | None = None
        if magic.startswith("%%"):
            pass  # valid only in a cell's first line
        elif magic.startswith("%") and name in ("time", "prun"):
            options = _PRUN_OPTIONS if name == "prun" else re.compile("(?:--no-raise-error\\s+)?")
            code = self._statement(argument[_end(options, argument) :], f"%{name}")
        elif magic.startswith("%") and name == "timeit":
            timed = argument[_end(_TIMEIT_OPTIONS, argument) :]
            if _is_expression(timed):
                self.measures = True
                code = f"{self.measure}(lambda: {timed})  # %timeit"
        elif magic.startswith("%") and name in ("env", "set_env"):
            variable, _, value = argument.replace("=", " ", 1).partition(" ")
            if variable and not value and name == "env":
                return None  # prints it
            if variable and not _SHELL_VARIABLE.search(value):
                code = f"import os; os.environ[{variable!r}] = {value.strip()!r}  # %{name}"
        elif magic.startswith("%") and name == "cd" and re.fullmatch(r"[^-~${}][^${}]*", argument):
            code = f"import os; os.chdir({argument.strip(chr(34) + chr(39))!r})  # %cd"
        elif magic.startswith("%") and name in _HARMLESS:
            return None
        if code is None:
            self.warnings.append(f"`{magic}` does not run and becomes a comment in the lecture")
        return code

    def _assigned(self, magic: str, target: str, value: str) -> str | None:
        name, _, argument = value.lstrip("%").partition(" ")
        if value.startswith("%") and name == "time" and _is_expression(argument):
            return f"{target} = {argument.strip()}  # %time"
        if value.startswith("%") and name == "env" and re.fullmatch(r"\w+", argument.strip()):
            return f"import os; {target} = os.environ[{argument.strip()!r}]  # %env"
        if value.strip() == "%pwd":
            return f"import os; {target} = os.getcwd()  # %pwd"
        self.warnings.append(f"`{magic}` does not run and becomes a comment in the lecture; `{target}` has no value")
        return None

    def _statement(self, text: str, magic: str) -> str | None:
        """Return the statement that a magic runs in the notebook's namespace; it may be a magic itself."""
        if _begins_magic(text):
            return self._code(text)
        return f"{text.strip()}  # {magic}" if text.strip() and _is_python(text.strip()) else None


def _begins_magic(line: str) -> bool:
    stripped = line.strip()
    return stripped[:1] in ("%", "!", "?") or bool(_HELP.match(stripped)) or bool(_ASSIGNED.match(stripped))


def _logical_length(lines: list[str], at: int) -> int:
    """Return the number of lines of the logical line at `lines[at]`, including comments and blank lines."""
    lines_left = iter(line + "\n" for line in lines[at:])
    try:
        for token in tokenize.generate_tokens(lambda: next(lines_left, "")):
            # NL follows a blank line or a comment, and any line that ends inside brackets.
            is_open = token.type == tokenize.NL and lines[at].strip() and not lines[at].strip().startswith("#")
            if token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER) and not is_open:
                return max(token.end[0] if token.end[1] else token.end[0] - 1, 1)
    except (tokenize.TokenError, SyntaxError):  # the parser of the cell reports it
        pass
    return len(lines) - at


def _called_magic(text: str) -> str | None:
    """Return the magic behind a call of `get_ipython()`, such as `get_ipython().run_line_magic('time', 'f()')`."""
    indent = text[: len(text) - len(text.lstrip())]
    match _arguments(text):
        case "run_line_magic", [str(name), str(line)]:
            return f"{indent}%{name} {line}".rstrip()
        case "magic", [str(line)]:
            return f"{indent}%{line}"
        case "system" | "getoutput", [str(line)]:
            return f"{indent}!{line}"
    return None


def _arguments(text: str) -> tuple[str, list[object]] | None:
    """Return the method of `get_ipython()` that is a text's only call, and its arguments if they are constant."""
    if not text.lstrip().startswith("get_ipython()."):
        return None
    try:
        body = ast.parse(textwrap.dedent(text).strip()).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    match body:
        case [ast.Expr(ast.Call(ast.Attribute(ast.Call(ast.Name("get_ipython")), name), arguments, []))]:
            return name, [getattr(argument, "value", None) for argument in arguments]
    return None


def string_literal(text: str) -> str:
    """Return a text as a Python string literal, with one line per line."""
    raw = "r" if "\\" in text else ""
    if all(c.isprintable() or c == "\n" for c in text) and not text.endswith("\\"):
        for fence in ('"""', "'''") if "\n" in text else ('"',):
            if fence not in text and not text.endswith(fence[0]):
                return f"{raw}{fence}{text}{fence}"
    return repr(text)


def lines_inside_strings(code: str) -> set[int]:
    """Return the line numbers, from 0, of lines that begin inside a string, which must not be indented."""
    inside: set[int] = set()
    begun: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(code + "\n").readline):
        kind = tokenize.tok_name[token.type]
        if kind == "STRING":
            inside |= {*range(token.start[0], token.end[0])}
        elif kind.endswith("STRING_START"):
            begun.append(token.start[0])
        elif kind.endswith("STRING_END"):
            inside |= {*range(begun.pop(), token.end[0])}
    return inside


def _end(options: re.Pattern[str], text: str) -> int:
    match = options.match(text)
    return match.end() if match is not None else 0


def _is_python(text: str) -> bool:
    return _parses(lambda: ast.parse(text))


def _is_expression(text: str) -> bool:
    return _parses(lambda: compile(f"(lambda: {text.strip()}\n)", "magic", "eval")) and not text.strip().startswith("#")


def _parses(parse: Callable[[], object]) -> bool:
    try:
        parse()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True

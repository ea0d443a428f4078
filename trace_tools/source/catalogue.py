"""Translate a lecture's words: find its messages, keep their translations in a gettext catalogue, look them up.

    messages = messages_of(parse_source(text, "lecture.py"), shown)      the messages that readers see, in order
    catalogue = updated(Path("lecture.zh_CN.po"), messages, "lecture.py", "zh_CN")      with the earlier translations
    write(catalogue, Path("lecture.zh_CN.po"))
    words = Words.read(Path("lecture.zh_CN.po"))
    words.translation("napkin_math", "{x:.1f} GB in all")             "共 {x:.1f} GB", or None

A message is one string of a narrative call, the docstring of the module, of `main` or of a function that has narrative,
or a string elsewhere that a trace shows in full, such as a label of a figure. Its context is the section that it
belongs to. Placeholders of f-strings, formulas, code and links of a translation are those of the message.
"""

from __future__ import annotations

import ast
import html
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from babel import Locale, UnknownLocaleError
from babel.messages.catalog import Catalog
from babel.messages.catalog import Message as Entry
from babel.messages.pofile import PoFileError, read_po, write_po

from trace_tools.errors import UsageError
from trace_tools.source.messages import Message, Piece, Slot, String, has_words, message_of, pieces_of, rendered
from trace_tools.source.statements import FUNCTIONS, ParsedSource, reached, sections, title_of
from trace_tools.source.vocabularies import narrative_calls
from trace_tools.source.wording import DRAWN
from trace_tools.trace.model import MAIN, MODULE, Step, Trace
from trace_tools.trace.structure import to_plain
from trace_tools.util import formats
from trace_tools.util.files import replace as replace_file
from trace_tools.util.languages import N_, _, in_language

HEADER = "# Translations for LECTURE, updated by `trace-tools translate`.\n"
# Labels that the vocabulary's own figures draw (`lecture.drawings`).
LABELS = (
    N_("sign"),
    N_("exponent"),
    N_("mantissa"),
    N_("CPU's memory"),
    N_("only the input is kept"),
    N_("both tensors are there"),
    N_("GPU: {n} multiprocessors"),
    N_("roof: {name}"),
    N_("shape {shape}, stride {stride}"),
    N_("{name}: shape {shape}, stride {stride}"),
)
MEASURED = " ✓"  # after a label
_WORDS = re.compile(r"[^\W\d_]{2}")
LEAST_LITERAL = 5  # least characters of a template outside its placeholders
# arguments of narrative calls whose values are names that the tools know
_SETTINGS = {"across", "curve", "limit", "stack", "style", "width", "x_scale", "y_scale"}
_WHOLES = (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.BinOp, ast.BoolOp, ast.Starred, ast.keyword)
_CODE = re.compile(r"`[^`]+`")
_CHOICE = re.compile(r"([\w ]+)\?.*\|.*", re.DOTALL)  # in the sentence of an exploration: `{fits?yes|no}`
_FORMULA = re.compile(r"\$\$.+?\$\$|\$[^$\n]+\$", re.DOTALL)
_TARGET = re.compile(r"\]\(([^()\s]*(?:\([^()\s]*\))?[^()\s]*)\)")


@dataclass(frozen=True, slots=True)
class LectureMessage:
    """A message with its section; None if it does not belong to a single section."""

    message: Message
    section: str | None
    line: int


@dataclass(frozen=True, slots=True)
class Template:
    """An f-string's form, to find the values of its placeholders in a text, and its translation."""

    start: str
    end: str
    form: re.Pattern[str]
    slots: Sequence[str]
    wording: Sequence[Piece]

    @classmethod
    def of(cls, pieces: Sequence[Piece], wording: Sequence[Piece]) -> Template | None:
        """Return the template of a message; None without placeholders, or with hardly any text around them."""
        slots = [piece.source for piece in pieces if isinstance(piece, Slot)]
        literal = "".join(piece for piece in pieces if isinstance(piece, str))
        if not slots or len(literal) < LEAST_LITERAL:
            return None
        form = re.compile("".join("(.+?)" if isinstance(piece, Slot) else re.escape(piece) for piece in pieces))
        start, end = (piece if isinstance(piece, str) else "" for piece in (pieces[0], pieces[-1]))
        return cls(start, end, form, slots, wording)

    def worded(self, text: str, words: Mapping[str, str]) -> str | None:
        """Return the translation of a text with this form; values that are messages are translated as well."""
        if not (text.startswith(self.start) and text.endswith(self.end)):
            return None
        match = self.form.fullmatch(text)
        if match is None:
            return None
        values: dict[str, list[str]] = {}
        for slot, value in zip(self.slots, match.groups(), strict=True):
            values.setdefault(slot, []).append(words.get(value, value))
        return "".join(shown for _, shown in rendered(self.wording, values))


@dataclass(frozen=True, slots=True)
class Words:
    """The translations of a catalogue, by section and message, without fuzzy entries."""

    language: str  # "zh_CN"
    of_section: Mapping[tuple[str | None, str], str]
    anywhere: Mapping[str, str]
    templates: Sequence[Template]  # of f-strings, for texts without recorded values of placeholders

    @classmethod
    def read(cls, path: Path) -> Words:
        """Read a catalogue. Raises UsageError, with path and line, for a file or a translation that is not valid."""
        catalogue = read(path)
        problems = mistakes(catalogue, path)
        if problems:
            raise UsageError("\n".join(problems))
        entries = [(entry.context, _text(entry), str(entry.string)) for entry in catalogue if _is_translated(entry)]
        by_section = {(context, text): string for context, text, string in entries}
        language = path.name.split(".")[-2]
        with in_language(language):
            labels = {label: shown for label in LABELS if (shown := _(label)) != label}
        anywhere = labels | {text: string for _context, text, string in reversed(entries)}
        templates = (Template.of(_pieces(text), _pieces(string)) for text, string in anywhere.items())
        return cls(language, by_section, anywhere, [template for template in templates if template is not None])

    def of_shown_text(self, text: str) -> str | None:
        """Return the translation of a text that is shown, which is a message, or an f-string's value."""
        words = self.anywhere
        if (translation := words.get(text) or words.get(text.replace(" ", "_"))) is not None:
            return translation  # a label may be a name, without its underscores
        if text.endswith(MEASURED) and (translation := words.get(text.removesuffix(MEASURED))) is not None:
            return translation + MEASURED
        translations = (template.worded(text, words) for template in self.templates)
        return next((translation for translation in translations if translation is not None), None)

    def translation(self, section: str | None, message: str) -> str | None:
        """Return the translation of a message in a section, else of the same message anywhere."""
        return self.of_section.get((section, message)) or self.anywhere.get(message)


def catalogues(lecture: Path) -> dict[str, Path]:
    """Return the catalogues beside a lecture by language: `lecture.zh_CN.po`."""
    paths = {path.name.split(".")[-2]: path for path in sorted(lecture.parent.glob(f"{lecture.stem}.*.po"))}
    return {language: path for language, path in paths.items() if _locale(language) is not None}


def catalogue_of(lecture: Path, language: str) -> Path:
    """Return the path of a lecture's catalogue. Raises UsageError for an unknown language."""
    if _locale(language) is None:
        raise UsageError(f"{language!r} is not a language that Babel knows; expected de, zh_CN, pt_BR, …")
    return lecture.with_name(f"{lecture.stem}.{language}.po")


def _locale(language: str) -> Locale | None:
    try:
        return Locale.parse(language)
    except (ValueError, UnknownLocaleError):
        return None


# --- the messages of a lecture --------------------------------------------------------------------


def messages_of(source: ParsedSource, shown: Collection[str] = (), main: str = MAIN) -> list[LectureMessage]:
    """Return the messages of a lecture in order of their lines, each once for a section.

    `shown` are strings that traces of the lecture show in full (`shown_in`).
    """
    own = dict.fromkeys(sections(source, main)).keys()
    uses: dict[str, set[str]] = defaultdict(set)
    for statement in source.statements:
        if not isinstance(statement.node, FUNCTIONS):
            names = {node.id for node in ast.walk(statement.node) if isinstance(node, ast.Name)}
            uses[statement.function] |= names & source.functions.keys() - own
    callers: dict[str, list[str]] = defaultdict(list)
    for section in own:
        for name in reached([section], uses):
            callers[name].append(section)
    # of each function that a single section calls, directly or indirectly
    section_of = {name: of[0] for name, of in callers.items() if len(of) == 1}
    telling = narrative_calls(source)
    messages: list[LectureMessage] = []

    def add(message: Message, function: str) -> None:
        messages.append(LectureMessage(message, section_of.get(function), message.line))

    add(Message(title := title_of(source, source.path), (title,), 1, is_formatted=False), MODULE)
    for name in dict.fromkeys([main, *section_of, *(source.statements[number].function for number in telling)]):
        definition = source.function(name)
        doc = ast.get_docstring(definition.node) if definition and isinstance(definition.node, FUNCTIONS) else None
        title, body = title_and_rest(doc or "")
        for part in (title, body if name == main or name in section_of.values() else ""):
            if part and definition is not None:
                add(Message(part, (part,), definition.line + 1, is_formatted=False), name)
    for statement in source.statements:
        for string, is_argument in _strings(statement.node, outermost=statement.number in telling):
            message = message_of(string, source.text)
            if has_words(string) and (is_argument or _is_shown(message, shown)):
                add(message, statement.function)
            elif "\n" in message.text and not any("\n" in slot for slot in message.slots):
                for line in map(message.worded, message.text.split("\n")):  # a drawing stores each line separately
                    if _WORDS.search(line.text) and "://" not in line.text and _is_shown(line, shown):
                        add(line, statement.function)
    by_section = {(one.section, one.message.text): one for one in reversed(messages)}
    return sorted(by_section.values(), key=lambda one: one.line)


def _is_shown(message: Message, shown: Collection[str]) -> bool:
    """Return whether a string outside prose is shown in full, with any values of its placeholders."""
    if not message.is_formatted:
        return message.text in shown
    template = Template.of(message.pieces, message.pieces)
    return template is not None and any(template.worded(text, {}) is not None for text in shown)


def title_and_rest(doc: str) -> tuple[str, str]:
    """Return a function's title, which is the first line of its docstring without a number, and the other lines."""
    first, _, body = doc.partition("\n")
    return re.sub(r"^\d+[.:]?\s+", "", first.strip()), body.strip()


def shown_in(trace: Trace) -> set[str]:
    """Return the strings that the narrative of a trace shows in full: labels, cells, values of placeholders."""
    texts: set[str] = set()

    def walk(plain: object) -> None:
        if isinstance(plain, str):
            is_drawing = plain.startswith(("<svg", "<?xml"))
            texts.update(map(html.unescape, DRAWN.findall(plain)) if is_drawing else [plain])
        elif isinstance(plain, dict):
            for part in plain.values():
                walk(part)
        elif isinstance(plain, (list, tuple)):
            for part in plain:
                walk(part)

    for step in trace.steps:
        if isinstance(step, Step):
            walk([to_plain(narrative) for narrative in step.narrative or ()])
    return texts


def _strings(node: ast.AST, *, outermost: bool, is_argument: bool = False) -> Iterator[tuple[String, bool]]:
    """Yield the strings of one statement, and whether each is the complete prose of a narrative call.

    Such a string is an argument of the statement's `outermost` calls, or a value in it that a condition chooses. Keys,
    comparisons and arguments of other calls are not prose.
    """
    match node:
        case ast.Expr(value=ast.Constant()):  # a docstring
            return
        case ast.Expr(value=value):
            yield from _strings(value, outermost=outermost)
        case ast.Return() | ast.Assign() | ast.AnnAssign():
            for child in ast.iter_child_nodes(node):
                yield from _strings(child, outermost=False)
        case ast.For(iter=value):
            yield from _strings(value, outermost=False)
        case ast.stmt() | ast.Compare():
            return
        case ast.Constant(value=str()):
            yield node, is_argument
        case ast.JoinedStr(values=values):
            yield node, is_argument
            for value in values:
                if isinstance(value, ast.FormattedValue):
                    yield from _strings(value.value, outermost=False, is_argument=is_argument)
        case ast.Subscript(value=value):
            yield from _strings(value, outermost=False)
        case ast.IfExp(body=body, orelse=orelse):
            for part in (body, orelse):
                yield from _strings(part, outermost=outermost, is_argument=is_argument)
        case ast.Call():
            for argument in (*node.args, *(one for one in node.keywords if not outermost or one.arg not in _SETTINGS)):
                yield from _strings(argument, outermost=False, is_argument=outermost)
        case _:
            keeps = isinstance(node, _WHOLES)
            for child in ast.iter_child_nodes(node):
                yield from _strings(child, outermost=outermost and keeps, is_argument=is_argument and keeps)


# --- the catalogue --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress:
    """Numbers of messages of one section, or of the messages outside sections."""

    section: str | None
    translated: int
    fuzzy: int
    missing: int


def read(path: Path) -> Catalog:
    """Read a catalogue. Raises UsageError with path and line."""
    language = path.name.split(".")[-2]
    try:
        with path.open("rb") as file:
            return read_po(file, locale=language, abort_invalid=True)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except PoFileError as error:
        raise UsageError(f"{path}:{error.lineno + 1}: {error}; expected a gettext catalogue") from None
    except (ValueError, UnknownLocaleError) as error:
        raise UsageError(f"{path}: {error}; expected a gettext catalogue") from None


def updated(path: Path, messages: Iterable[LectureMessage], lecture: str, language: str) -> Catalog:
    """Return a catalogue with these messages, with the translations of the file at `path` if there is one.

    A translation of a message that changed a little is kept as fuzzy; others that are no longer used, as obsolete.
    """
    template = Catalog(header_comment=HEADER.replace("LECTURE", lecture), project=lecture, fuzzy=False)
    for one in messages:
        entry = template.add(one.message.text, locations=[(lecture, one.line)], context=one.section)
        entry.flags -= {"python-format", "python-brace-format"}  # placeholders are expressions: `mistakes` checks them
    catalogue = read(path) if path.exists() else Catalog(locale=language, project=lecture, fuzzy=False)
    catalogue.header_comment = template.header_comment
    catalogue.update(template, update_creation_date=False)
    return catalogue


def write(catalogue: Catalog, path: Path) -> None:
    """Write a catalogue; an earlier file is replaced at once."""
    content = BytesIO()
    write_po(content, catalogue, width=110)
    replace_file(path, content.getvalue())


def progress_of(catalogue: Catalog) -> list[Progress]:
    """Return the numbers of translated, fuzzy and missing messages by section, in order."""
    counts: dict[str | None, Counter[str]] = defaultdict(Counter)
    for entry in catalogue:
        if entry.id:
            state = "translated" if _is_translated(entry) else "fuzzy" if entry.fuzzy and entry.string else "missing"
            counts[entry.context][state] += 1
    return [Progress(name, count["translated"], count["fuzzy"], count["missing"]) for name, count in counts.items()]


def mistakes(catalogue: Catalog, path: Path) -> list[str]:
    """Return a line for each translation with other placeholders, formulas, code or links than its message."""
    lines = []
    for entry in catalogue:
        if not _is_translated(entry):
            continue
        for (kind, before), after in zip(_fixed(_text(entry)).items(), _fixed(str(entry.string)).values(), strict=True):
            problems = [f"lacks the {kind} {part}" for part in (before - after).elements()][:1]
            problems += [f"has the {kind} {part}" for part in (after - before).elements()][:1]
            if problems:
                start = formats.one_line(_text(entry), 60)
                lines.append(f"{path}:{entry.lineno}: the translation of {start!r} {' and '.join(problems)}")
    return lines


def wrong_translations(path: Path) -> list[str]:
    """Return the mistakes of a catalogue's file. Raises UsageError if it is no catalogue."""
    return mistakes(read(path), path)


def _fixed(text: str) -> dict[str, Counter[str]]:
    """Return the parts that a translation must keep. Formulas are compared without their placeholders' text."""
    return {
        "placeholder": Counter(_CHOICE.sub(r"\1?", piece.source) for piece in _pieces(text) if isinstance(piece, Slot)),
        "formula": Counter(_FORMULA.findall(text)),
        "code": Counter(_CODE.findall(text)),
        "link": Counter(_TARGET.findall(text)),
    }


def _pieces(text: str) -> list[Piece]:
    """Return the pieces of a message; if its braces do not match, as in a plain string, return the text."""
    try:
        return [*pieces_of(text)]
    except ValueError:
        return [text]


def _text(entry: Entry) -> str:
    return entry.id if isinstance(entry.id, str) else entry.id[0]


def _is_translated(entry: Entry) -> bool:
    return bool(entry.id and entry.string and not entry.fuzzy)

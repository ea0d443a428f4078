"""The pages' own words in other languages: gettext catalogues in `trace_tools/locales`, and the current language.

    with in_language("zh_CN"):
        _("Show me")                          "展开"
        ngettext("result", "results", 3)      "个结果"
        worded_script('say(_(`step ${n}`))')  'say(`第 ${n} 步`)'

Words without a translation stay in English, which is also the language outside of `in_language`. The terminal's words
are not translated. `python -m tests.checks.words` collects new words into the catalogues.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

LOCALES = Path(__file__).parents[1] / "locales"
ENGLISH = "en"
SCRIPT_WORDS = re.compile(r'(?<![\w.$])_\((`[^`]*`|"(?:[^"\\]|\\.)*")\)')  # words in a script
STYLE_WORDS = re.compile(r'(content:\s*)"([A-Z][^"\\]*)"')
_SLOT = re.compile(r"\$\{((?:[^{}]|\{[^{}]*\})*)\}")

_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


def current_language() -> str:
    """Return the language in which pages are written now: "en", "zh_CN"."""
    return _language.get()


@contextmanager
def in_language(code: str | None) -> Iterator[None]:
    """Write pages in a language in the `with` block; None is English."""
    before = _language.set(code or ENGLISH)
    try:
        yield
    finally:
        _language.reset(before)


def _(message: str) -> str:
    """Return the translation of words into the current language; untranslated words are returned unchanged."""
    code = _language.get()
    return message if code == ENGLISH else _words(code).get(message, message)


def N_(message: str) -> str:
    """Mark words that are translated where they are shown."""
    return message


def ngettext(one: str, many: str, n: int) -> str:
    """Return the translation of words that follow a number; in English the form for that number."""
    own = one if n == 1 else many
    code = _language.get()
    return own if code == ENGLISH else _words(code).get(one, own)


def worded_script(script: str) -> str:
    """Return a script with its words, `_("…")` and `_(`…`)`, in the current language; values keep their positions."""

    def worded(match: re.Match[str]) -> str:
        literal = match[1]
        if literal.startswith('"'):
            words = _(json.loads(literal))
            return literal if words == json.loads(literal) else json.dumps(words, ensure_ascii=False)
        message, values = script_message(literal)
        words = _(message)
        if words == message:
            return literal
        parts = re.split(r"\{(\d+)\}", words.replace("`", "\\`"))
        parts[1::2] = [f"${{{values[int(number)]}}}" for number in parts[1::2]]
        return f"`{''.join(parts)}`"

    return SCRIPT_WORDS.sub(worded, script)


def worded_style(style: str) -> str:
    """Return a style with the words that it writes, `content: "…"`, in the current language."""
    return STYLE_WORDS.sub(lambda match: f"{match[1]}{json.dumps(_(match[2]), ensure_ascii=False)}", style)


def script_message(literal: str) -> tuple[str, list[str]]:
    """Return the message of a literal in a script and its values: "step {0}" and ["n"] for `step ${n}`."""
    if literal.startswith('"'):
        return json.loads(literal), []
    values = _SLOT.findall(literal[1:-1])
    numbers = iter(range(len(values)))
    return _SLOT.sub(lambda match: f"{{{next(numbers)}}}", literal[1:-1]), values


@cache
def _words(code: str) -> Mapping[str, str]:
    """Return the translations of a language; empty without a catalogue."""
    from babel.messages.pofile import read_po  # late: a run of a lecture, here or on a remote machine, needs no babel

    path = LOCALES / code / "LC_MESSAGES" / "messages.po"
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        entries = [entry for entry in read_po(file, locale=code) if entry.id and entry.string and not entry.fuzzy]
    return {_first(entry.id): _first(entry.string or "") for entry in entries}


def _first(forms: str | Sequence[str]) -> str:
    """Return a message's only form, or its form for one."""
    return forms if isinstance(forms, str) else forms[0]

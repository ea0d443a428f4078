"""Collect the texts of pages and reports into the catalogues of `trace_tools/locales`: `python -m tests.checks.words`.

Texts are marked `_("…")` or `N_("…")` in Python and templates, and `_("…")` or `_(`…`)` in scripts. In style sheets,
they are values of `content: "…"`. Nouns after a number are arguments of `plural`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_python
from babel.messages.pofile import read_po, write_po
from jinja2.ext import babel_extract

from trace_tools.util.languages import LOCALES, SCRIPT_WORDS, STYLE_WORDS, script_message

TOOLS = LOCALES.parent
NOUN = re.compile(r"""plural\((?:[^"'\n]*, )?["']([a-z ]+)["']\)""")
JINJA = {"extensions": "jinja2.ext.i18n", "newstyle_gettext": "true", "trim_blocks": "true"}


def words() -> Iterator[tuple[str, Path, int]]:
    """Yield the marked texts with their file and line."""
    for path in sorted(TOOLS.rglob("*")):
        if path.suffix == ".js":
            text = path.read_text(encoding="utf-8")
            for match in SCRIPT_WORDS.finditer(text):
                yield script_message(match[1])[0], path, text.count("\n", 0, match.start()) + 1
        elif path.suffix == ".css":
            yield from ((match[2], path, 1) for match in STYLE_WORDS.finditer(path.read_text(encoding="utf-8")))
        elif path.suffix in (".py", ".j2"):
            with path.open("rb") as file:
                extracted = (
                    extract_python(file, ["_", "N_"], (), {})
                    if path.suffix == ".py"
                    else babel_extract(file, ["_"], (), JINJA)
                )
                for line, _, message, _ in extracted:
                    words_found = [message] if isinstance(message, str) else [part for part in message or () if part]
                    yield from ((part, path, line) for part in words_found[:1])
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                yield from ((noun, path, number) for noun in NOUN.findall(line))


def template() -> Catalog:
    """Return all texts as a catalogue without translations."""
    catalogue = Catalog(project="trace-tools", header_comment="# The words of the pages.", fuzzy=False)
    for message, path, line in words():
        entry = catalogue.add(message, locations=[(path.relative_to(TOOLS.parent).as_posix(), line)])
        entry.flags -= {"python-format", "python-brace-format"}
    return catalogue


def main() -> None:
    """Update every catalogue."""
    for path in sorted(LOCALES.glob("*/LC_MESSAGES/messages.po")):
        with path.open("rb") as file:
            catalogue = read_po(file, locale=path.parts[-3])
        catalogue.update(template(), update_creation_date=False)
        with path.open("wb") as file:
            write_po(file, catalogue, width=110, ignore_obsolete=True)
        missing = [entry.id for entry in catalogue if entry.id and (not entry.string or entry.fuzzy)]
        print(f"{path}: {len(catalogue)} words, {len(missing)} without a translation", *missing, sep="\n  ")


if __name__ == "__main__":
    main()

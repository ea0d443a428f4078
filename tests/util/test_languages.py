from __future__ import annotations

import re

from babel.messages.pofile import read_po

from tests.checks.words import words
from trace_tools.util.languages import LOCALES, _, current_language, in_language, ngettext, worded_script

PLACEHOLDER = re.compile(r"\{\w*\}|%\(\w+\)s|<[^>]+>")


def test_all_page_texts_are_translated_with_their_placeholders() -> None:
    messages = {message for message, *location in words()}
    assert {"Show me", "step {0} / {1}", "all {n} claims hold", "claim"} <= messages
    for path in LOCALES.glob("*/LC_MESSAGES/messages.po"):
        with path.open("rb") as file:
            entries = {str(entry.id): entry for entry in read_po(file) if entry.id}
        assert messages - entries.keys() == set(), "python -m tests.checks.words"
        faulty = [
            message
            for message, entry in entries.items()
            if not entry.string
            or entry.fuzzy
            or sorted(PLACEHOLDER.findall(message)) != sorted(PLACEHOLDER.findall(str(entry.string)))
        ]
        assert faulty == []


def test_texts_follow_the_current_language() -> None:
    with in_language("zh_CN"):
        assert (current_language(), _("Show me"), _("no such words")) == ("zh_CN", "显示", "no such words")
        assert ngettext("claim", "claims", 3) == "条断言"
    assert (current_language(), _("Show me"), ngettext("claim", "claims", 3)) == ("en", "Show me", "claims")
    with in_language("xx"):
        assert _("Show me") == "Show me"


def test_scripts_are_translated_and_keep_their_expressions() -> None:
    script = 'say(_("Copied.") + _(`step ${a.of(1)} / ${b}`)); _(x)'
    assert worded_script(script) == 'say("Copied." + `step ${a.of(1)} / ${b}`); _(x)'
    with in_language("zh_CN"):
        assert worded_script(script) == 'say("已复制。" + `步骤 ${a.of(1)} / ${b}`); _(x)'

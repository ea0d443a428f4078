"""Remove the home folder and secrets from a text: what identifies the person, or gives access to accounts.

redact = Redactor.of_this_machine()
redact("/home/ann/lecture.py")  # "~/lecture.py"
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

MARGIN = 4_096  # characters after a cut that are searched for secrets, because the cut could halve a secret
SHORTEST_SECRET = 8

# A part of a variable's name, between underscores, that marks its value as a secret: HF_TOKEN, apikey, MYSQL_PWD.
_SECRET_NAME = re.compile(
    r"(?:TOKEN|JWT|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH|COOKIE|(?<=_)PWD|(?<=_)PAT)S?\d*(?=_|$)",
    re.IGNORECASE,
)

_NOT_SECRET = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "SSH_AGENT_PID"})


class Redactor:
    """Replaces one account's home folder and secrets; fast on texts without them."""

    def __init__(self, home: str, environment: Mapping[str, str], private: tuple[str, str] | None = None) -> None:
        """Take what to hide; paths in the copy of a `private` pair become the original."""
        self._private = private
        sought = [*_secrets(environment), *_folders(home)]
        self._written = [written for _, _, written in sought]
        # A first search for plain strings is several times faster than a search with their surroundings.
        self._quick = re.compile("|".join(re.escape(text) for text, _, _ in sought) or r"(?!)").search
        self._exact = re.compile("|".join(f"({pattern})" for _, pattern, _ in sought))

    @classmethod
    def of_this_machine(cls, private: tuple[str, str] | None = None) -> Redactor:
        """Make the redactor for the account and environment this process runs in."""
        return cls(os.path.expanduser("~"), dict(os.environ), private)

    def __call__(self, text: str) -> str:
        """Return `text` with the home folder as `~`, and secrets as `<VARIABLE>`."""
        if self._private is not None:
            text = text.replace(*self._private)
        if self._quick(text) is None:
            return text
        return self._exact.sub(lambda match: self._written[(match.lastindex or 0) - 1], text)


# Each of these yields (string to find, pattern that also checks its surroundings, replacement).
_Sought = tuple[str, str, str]


def _secrets(environment: Mapping[str, str]) -> Iterator[_Sought]:
    values: dict[str, str] = {}
    for name, value in sorted(environment.items()):
        if len(value) >= SHORTEST_SECRET and _SECRET_NAME.search(name) and name not in _NOT_SECRET:
            for written in (value, repr(value)[1:-1]):  # a repr escapes line ends
                values.setdefault(written, f"<{name}>")
    for value in sorted(values, key=len, reverse=True):
        pattern = re.escape(value)
        yield value, rf"\b{pattern}\b" if value.isalpha() else pattern, values[value]  # a word may be part of another


def _folders(home: str) -> Iterator[_Sought]:
    for folder in sorted({home, os.path.realpath(home)}, key=len, reverse=True):
        folder = folder.rstrip("/")
        if os.path.isabs(folder):
            yield folder, rf"(?<![\w.~-]){re.escape(folder)}(?![\w-])", "~"

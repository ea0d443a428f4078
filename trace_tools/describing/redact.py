"""Remove names and secrets from a text: whatever identifies the person or the machine, or gives access to accounts.

redact = Redactor.of_this_machine()
redact("/home/ann/lecture.py")  # "~/lecture.py"
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import socket
from collections.abc import Iterator, Mapping

SHORTEST_NAME = 3  # characters; shorter user and host names occur inside too many other words
MARGIN = 4_096  # characters after a cut that are searched for secrets, because the cut could halve a secret
SHORTEST_SECRET = 8

# A part of a variable's name, between underscores, that marks its value as a secret: HF_TOKEN, apikey, MYSQL_PWD.
_SECRET_NAME = re.compile(
    r"(?:TOKEN|JWT|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTH|COOKIE|(?<=_)PWD|(?<=_)PAT)S?\d*(?=_|$)",
    re.IGNORECASE,
)

_NOT_SECRET = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "SSH_AGENT_PID"})

# User and host names that are ordinary words, of the language or of the subject: replacing them would garble text.
_COMMON = frozenset(
    """
    adam admin administrator alpha app april art august bash batch beta bill bob build chance chase chip class cloud
    cluster code colab core cpu cuda data deep default demo dense desktop dev docker drew eve faith frank gamma grace
    grad grant guest home hope host input jack jax joy jupyter june kernel lab lance laptop learner lecture lin linear
    local localhost loss main mark mask master matrix max may mean min model name nan nobody node none norm notebook
    numpy office output pat pod pip python query rank rich rob root rose runner scale sean server shape sky state step
    student sue sum system teacher temp tensor test tester tmp torch trace train trainer ubuntu unknown user value var
    vector vocab wade warm will win work worker workspace
    """.split()  # noqa: SIM905
)


class Redactor:
    """Replaces one machine's names and secrets; fast on texts without them."""

    def __init__(
        self, home: str, user: str, host: str, environment: Mapping[str, str], private: tuple[str, str] | None = None
    ) -> None:
        """Take secrets and names to hide; paths in the copy of a `private` pair become the original."""
        self._private = private
        sought = [*_secrets(environment), *_names(home, user, host)]
        self._written = [written for _, _, written in sought]
        # A first search for plain strings is several times faster than a search with their surroundings.
        self._quick = re.compile("|".join(re.escape(text) for text, _, _ in sought) or r"(?!)").search
        self._exact = re.compile("|".join(f"({pattern})" for _, pattern, _ in sought))

    @classmethod
    def of_this_machine(cls, private: tuple[str, str] | None = None) -> Redactor:
        """Make the redactor for the account, machine and environment this process runs in."""
        user = ""
        with contextlib.suppress(KeyError, OSError, ImportError):  # an account without a name
            user = getpass.getuser()
        return cls(os.path.expanduser("~"), user, socket.gethostname(), dict(os.environ), private)

    def __call__(self, text: str) -> str:
        """Return `text` with the home folder as `~`, names as `<user>` and `<host>`, and secrets as `<VARIABLE>`."""
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
            both_quotes = repr(value + "'\"")[1:-4]
            for written in (value, repr(value)[1:-1], both_quotes):  # a repr escapes quotes and line ends
                values.setdefault(written, f"<{name}>")
    for value in sorted(values, key=len, reverse=True):
        pattern = re.escape(value)
        yield value, rf"\b{pattern}\b" if value.isalpha() else pattern, values[value]  # a word may be part of another


def _names(home: str, user: str, host: str) -> Iterator[_Sought]:
    for folder in sorted({home, os.path.realpath(home)}, key=len, reverse=True):
        folder = folder.rstrip("/\\")
        if os.path.isabs(folder) and len(folder) > SHORTEST_NAME:
            yield folder, rf"(?<![\w.~-]){re.escape(folder)}(?![\w-])", "~"
    hosts = dict.fromkeys((host, host.partition(".")[0]))
    for name, after, written in [*((name, r"\w", "<host>") for name in hosts), (user, r"[\w-]", "<user>")]:
        # Only a name that is rare enough in ordinary text is replaced there.
        if len(name) >= SHORTEST_NAME and name.lower() not in _COMMON and not name.isdigit():
            yield name, rf"(?<![\w-]){re.escape(name)}(?!{after})", written

"""References of a lecture to papers and pages: their fields, their short names, and arXiv's data about a paper.

    short_name(Reference(title="A title", authors=["Ann Lee", "Bo Wu"], date="2020-05-28"))      "Lee+ 2020"
    Library(Path("fetched")).paper("https://arxiv.org/abs/2005.14165").authors                   asks arXiv once

Answers are cached in a folder, so that all runs of a trace get the same. If a host cannot be reached, there is one
warning and the host is not asked again.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element, ParseError, fromstring

from trace_tools.errors import UsageError
from trace_tools.util import formats
from trace_tools.util.files import replace as replace_file

ARXIV = re.compile(r"https?://(?:www\.)?arxiv\.org/(?:abs|pdf|html)/(\d{4}\.\d{4,5})(?:v\d+)?(?:\.pdf)?/?")
ASKED = "https://export.arxiv.org/api/query?id_list="  # arXiv API User's Manual, 3.1.1
WAIT_S = 10.0  # longest wait for an answer
LARGEST = 1 << 20  # characters of an answer
_ATOM = "{http://www.w3.org/2005/Atom}"
_TEAM = re.compile(r"\b(Team|Group|Collaboration|Consortium)\b")

# No answer, or an unexpected one: error pages are parsed as if they described a paper.
_UNANSWERED = (OSError, ParseError, LookupError, ValueError, AttributeError, TypeError)

Fetch = Callable[[str], bytes]


class NotFetchedWarning(UserWarning):
    """Something on the network could not be fetched; the lecture continues without it."""


@dataclass(frozen=True)
class Reference:
    """A reference to a paper or a page, with the fields of edtrace's class `Reference`."""

    title: str | None = None
    authors: list[str] | None = None
    organization: str | None = None
    date: str | None = None
    url: str | None = None
    description: str | None = None  # of a paper: its abstract
    notes: str | None = None

    @property
    def label(self) -> str:
        """Return the short name in brackets, as edtrace does."""
        return f"[{short_name(self)}]"


def short_name(reference: Any) -> str:
    """Return the text for a reference: first author and year, else the title, else the address."""
    authors, date = (getattr(reference, name, None) for name in ("authors", "date"))
    if authors:
        first = authors if isinstance(authors, str) else str(next(iter(authors), ""))
        name = first if _TEAM.search(first) else " ".join(first.split()[-1:])
        more = not isinstance(authors, str) and len(list(authors)) > 1 and not _TEAM.search(first)
        return " ".join(filter(None, (name + "+" * more, str(date)[:4] if date else "")))
    title, url = (getattr(reference, name, None) for name in ("title", "url"))
    return str(title).strip() if title else short_address(str(url)) if url else "?"


def short_address(url: str) -> str:
    """Return an address shortened for a text: arXiv:2005.14165, or the host and the end of the path."""
    if paper := ARXIV.fullmatch(url):
        return f"arXiv:{paper[1]}"
    with suppress(ValueError):
        parts = urlsplit(url)
        end = parts.path.rstrip("/").rpartition("/")[2]
        return f"{parts.netloc.removeprefix('www.')}{'/…/' if parts.path.count('/') > 1 else '/' if end else ''}{end}"
    return url


def is_paper(url: str) -> bool:
    """Return whether an address is a paper on arXiv."""
    return ARXIV.fullmatch(url) is not None


@dataclass
class Library:
    """Fetches data about papers, once for all runs that share the folder, and remembers hosts that do not answer."""

    kept: Path | None = None  # folder of cached answers
    fetch: Fetch = field(default_factory=lambda: fetched)
    silent: set[str] = field(default_factory=set)  # hosts that did not answer

    def paper(self, url: str, **more: Any) -> Reference:
        """Return arXiv's data about a paper, or only its address, with a warning; `more` are further fields."""
        paper = ARXIV.fullmatch(url)
        if paper is None:
            return Reference(url=url, **more)
        reference, path = None, self.kept / f"{paper[1]}.json" if self.kept is not None else None
        if path is not None:
            with suppress(OSError, ValueError, TypeError):
                reference = Reference(**json.loads(path.read_text(encoding="utf-8")))
        if reference is None:
            answer = self.asking(url, lambda: _parsed(self.fetch(ASKED + paper[1])))
            reference = answer or Reference()
            if answer is not None and path is not None:
                with suppress(OSError, UsageError):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    replace_file(path, json.dumps(asdict(reference)))  # at once, because other processes read it
        return replace(reference, **{"url": url, **{name: value for name, value in more.items() if value is not None}})

    def asking(self, url: str, question: Callable[[], Any]) -> Any:
        """Return the result of a request to a host; None, with a warning, if it fails."""
        host = urlsplit(url).netloc or url
        if host in self.silent:
            return None
        try:
            return question()
        except _UNANSWERED as error:
            if isinstance(error, OSError):
                self.silent.add(host)
            reason = formats.one_line(f"{type(error).__name__}: {error}".rstrip(": "), 200)
            message = f"{url} was not fetched ({reason}); references to it show only the address"
            if isinstance(error, OSError):
                message += f", and {host} is not asked again in this run"
            warnings.warn(message, NotFetchedWarning, stacklevel=2)
            return None


def fetched(url: str) -> bytes:
    """Fetch the content of an address. Raises OSError."""
    import urllib.request  # slower to import than the rest of this module

    request = urllib.request.Request(url, headers={"User-Agent": "trace-tools"})
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        return bytes(answer.read(LARGEST))


def _parsed(answer: bytes) -> Reference:
    """Parse arXiv's answer, an Atom feed with one entry. Raises ParseError, LookupError."""
    entry = fromstring(answer).find(f"{_ATOM}entry")
    if entry is None or entry.find(f"{_ATOM}title") is None or entry.find(f"{_ATOM}published") is None:
        raise LookupError("arXiv has no such paper")
    return Reference(
        title=_line(entry, "title"),
        authors=[_line(author, "name") for author in entry.iter(f"{_ATOM}author")],
        date=_line(entry, "published")[:10],
        description=_line(entry, "summary"),
    )


def _line(entry: Element, name: str) -> str:
    return " ".join((entry.findtext(f"{_ATOM}{name}") or "").split())


def people(authors: str | Iterable[str] | None, organization: str | None = None) -> str | None:
    """Return the authors of a reference in one line, with their organization."""
    names = authors if authors is None or isinstance(authors, str) else ", ".join(map(str, authors))
    return f"{names} ({organization})" if names and organization else names or organization or None

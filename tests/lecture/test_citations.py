from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases_in_one import each
from trace_tools.lecture.citations import (
    Library,
    NotFetchedWarning,
    Reference,
    is_paper,
    people,
    short_address,
    short_name,
)

ANSWER = b"""<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><entry>
<title>A Method
  for Tests</title><published>2014-12-22T13:54:29Z</published><summary> It  works. </summary>
<author><name>Ada Example</name></author><author><name>Bo Sample</name></author></entry></feed>"""
PAPER = "https://arxiv.org/abs/1412.6980"


def fetching(answer: bytes | Exception) -> tuple[list[str], Callable[[str], bytes]]:
    requests: list[str] = []

    def fetch(url: str) -> bytes:
        requests.append(url)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return requests, fetch


@each(
    ("reference", "name"),
    [
        (Reference(authors=["Ada B. Example", "Bo Sample"], date="2014-12-22"), "Example+ 2014"),
        (Reference(authors=["Claude Example"], date="1950"), "Example 1950"),
        (Reference(authors=["A Team", "Ada Example"], title="T", date="2025"), "A Team 2025"),
        (Reference(authors=["Ada Example"]), "Example"),
        (Reference(title=" [article]", url="https://example.org"), "[article]"),
        (Reference(url="https://arxiv.org/pdf/2005.14165v2.pdf"), "arXiv:2005.14165"),
        (Reference(url="https://www.example.org/a/b/index.html"), "example.org/…/index.html"),
        (Reference(url="https://example.org/"), "example.org"),
        (Reference(), "?"),
    ],
)
def test_a_reference_has_a_short_name(reference: Reference, name: str) -> None:
    assert short_name(reference) == name and reference.label == f"[{name}]"


def test_addresses_and_people_are_abbreviated() -> None:
    assert short_address("https://example.org/paper.pdf") == "example.org/paper.pdf"
    assert people(["A", "B"], "An Institute") == "A, B (An Institute)" and people(None, "X") == "X" and not people(None)
    assert is_paper("https://arxiv.org/pdf/1412.6980") and not is_paper("https://arxiv.org/list/cs")


def test_paper_is_fetched_once_for_all_runs(tmp_path: Path) -> None:
    requests, fetch = fetching(ANSWER)
    first = Library(tmp_path / "kept", fetch).paper(PAPER, notes="N", organization=None)
    second = Library(tmp_path / "kept", fetch).paper("https://arxiv.org/pdf/1412.6980v9")
    assert requests == ["https://export.arxiv.org/api/query?id_list=1412.6980"]
    assert first == Reference(
        "A Method for Tests", ["Ada Example", "Bo Sample"], None, "2014-12-22", PAPER, "It works.", "N"
    )
    assert (second.title, second.notes) == (first.title, None)


def test_unreachable_host_warns_and_is_not_asked_again() -> None:
    requests, fetch = fetching(OSError("no network"))
    library = Library(None, fetch)
    with pytest.warns(
        NotFetchedWarning, match=r"1412\.6980 was not fetched \(OSError: no network\).*arxiv\.org is not"
    ):
        assert library.paper(PAPER, notes="N") == Reference(url=PAPER, notes="N")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert library.paper("https://arxiv.org/abs/2005.14165") == Reference(url="https://arxiv.org/abs/2005.14165")
    assert len(requests) == 1


@pytest.mark.parametrize("answer", [b"<feed/>", b"no feed", b""])
def test_invalid_answer_is_a_warning(answer: bytes) -> None:
    requests, fetch = fetching(answer)
    library = Library(None, fetch)
    for _ in range(2):
        with pytest.warns(NotFetchedWarning, match="was not fetched"):
            assert library.paper(PAPER).title is None
    assert len(requests) == 2  # the host answers, so it may have another paper


def test_addresses_of_other_pages_are_not_fetched() -> None:
    requests, fetch = fetching(ANSWER)
    assert Library(None, fetch).paper("https://example.org/a", title="T") == Reference("T", url="https://example.org/a")
    assert not requests

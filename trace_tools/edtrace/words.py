"""Record lectures written for edtrace, or for the modules of Stanford's course CS336 that edtrace was made from.

    adopt_words(root)                            # in the process that runs the lecture, before it imports anything
    from edtrace import text, link               # the real module, with functions that also record what they show
    text("- Adam "), link("https://arxiv.org/abs/1412.6980")         # the calls of one line make one Markdown text

A function of edtrace appends a `Rendering` to a list, which edtrace reads after each line. Here the function itself
empties that list, and emits a narrative for each `Rendering`.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from typing import Any

from trace_tools.lecture.vocabulary import aside, emit, table
from trace_tools.trace.model import WIDTH, Image, Note, Text, Video
from trace_tools.util.files import why_not_inside
from trace_tools.util.formats import one_line, plural, short_address
from trace_tools.util.interpreter import OnceImported

WORDS = ("text", "note", "link", "image", "video", "plot", "graph")  # `system_text` calls `text`
HOVER = 2_000  # characters of a link's tooltip

_ITEM_OR_HEADING = re.compile(r"( {2,})?([-*+]|\d{1,9}[.)]|#{1,6})\s+")  # " - " continues a sentence
_BEFORE_A_LINK = re.compile(r"""[ \t\n(\[{“‘„/\-–—]$|(^|[\s(])["']$""")  # no space is added after these


class NotFetchedWarning(UserWarning):
    """A paper could not be looked up; the lecture continues with its address."""


class NotShownWarning(UserWarning):
    """Something that a page cannot show."""


# --- from a module of the lecture to its recorded words -------------------------------------------


def adopt_words(root: str) -> None:
    """Record the words of edtrace and of CS336's `execute_util`, from their next import on; `root` has the lecture."""
    real = sys.gettrace

    def ignored(*event: Any) -> None: ...

    def gettrace() -> Any:
        # CS336's lectures on parallelism run the function of a rank in this process if they are traced, and in
        # processes of their own, which are not recorded, if they are not.
        return real() or (ignored if sys._getframe(1).f_code.co_filename.startswith(root) else None)

    def loaded_words(name: str) -> None:
        names = vars(sys.modules[name])
        if {"Rendering", "pop_renderings"} <= names.keys():  # else a module of the lecture's own with that name
            names.update({word: _recorded(names[word], names) for word in WORDS if word in names})
            if "cached" in names:
                names["cached"] = _copy_or_address(names["cached"])
            sys.gettrace = gettrace

    def loaded_papers(name: str) -> None:
        names = vars(sys.modules[name])
        if {"Reference", "arxiv_reference"} <= names.keys():
            names["arxiv_reference"] = _or_address(names["arxiv_reference"], names["Reference"])

    for package in ("", "edtrace."):
        OnceImported(f"{package}execute_util", partial(loaded_words, f"{package}execute_util")).begin()
        OnceImported(f"{package}arxiv_util", partial(loaded_papers, f"{package}arxiv_util")).begin()


def _recorded(word: Callable[..., Any], names: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a function of edtrace that also emits its renderings."""

    @aside
    @wraps(word)
    def recorded(*args: Any, **fields: Any) -> Any:
        result = word(*args, **fields)
        _emit(names["pop_renderings"]())
        return result

    return recorded


def _copy_or_address(cached: Callable[..., str]) -> Callable[..., str]:
    """Return a function that finds the lecture's copy of an image on the web, without a download."""
    names = cached.__globals__

    @wraps(cached)
    def found(url: str, prefix: str) -> str:
        download, names["download_file"] = names.get("download_file"), lambda url, path: None
        try:
            path = cached(url, prefix)
        except OSError:  # CS336's makes no folder for its copies inside a missing one
            return url
        finally:
            names["download_file"] = download
        return path if os.path.exists(path) else url

    return found


def _or_address(arxiv_reference: Callable[..., Any], reference: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that looks up a paper on arXiv; without a network, its reference has only the address."""
    is_unreachable = False

    @aside
    @wraps(arxiv_reference)
    def looked_up(url: str, **fields: Any) -> Any:
        nonlocal is_unreachable
        if not is_unreachable:
            try:
                return arxiv_reference(url, **fields)
            except Exception as error:  # no network, or an error page that was parsed as if it described a paper
                is_unreachable = isinstance(error, OSError)  # not asked again, because each try may wait for minutes
                reason = one_line(f"{type(error).__name__}: {error}", 200)
                shown = "references to papers on arXiv show only their address"
                warnings.warn(f"{url} was not fetched ({reason}); {shown}", NotFetchedWarning, stacklevel=3)
        return reference(url=url, **fields)

    return looked_up


# --- from a rendering to a narrative --------------------------------------------------------------


class Piece(Text, frozen=True, kw_only=True, tag="text"):
    """A piece of a line of Markdown."""


def join_pieces(before: dict[str, Any], piece: dict[str, Any]) -> dict[str, Any] | None:
    """Return a recorded narrative with a piece of the same step after it; None if the piece begins a new text.

    - Adam [Kingma+ 2014](<…>)        and ", momentum"       are one line
    - Adam                            and "- SGD"            are two: an item or a heading follows a finished line
    """
    first, second = before.get("text") or "", piece["text"]
    if before["kind"] != "text" or "left_out" in before | piece or "\n" in first + second:
        return None
    if _ITEM_OR_HEADING.match(second) and not (first or " ")[-1].isspace():
        return None
    is_link = second.startswith("[") and first and not _BEFORE_A_LINK.search(first)
    return {**before, "text": f"{first}{' ' if is_link else ''}{second}"}


def _emit(renderings: list[Any]) -> None:
    """Emit the renderings of one call, which are several lines for a verbatim text."""
    style = next((it.style for it in renderings if isinstance(it.style, Mapping)), {})
    lines = [it.data for it in renderings if it.type == "markdown" and style.get("whiteSpace") == "pre"]
    if lines:
        text = "\n".join(lines).rstrip()
        fence = "`" * (1 + max((len(run) for run in re.findall("`{3,}", text)), default=2))
        emit(Text(text=f"{fence}\n{text}\n{fence}"))
        return
    for it in renderings:
        match it.type:
            case "markdown":
                emit(Piece(text=str(it.data)))
            case "note":
                emit(Note(text=str(it.data)))
            case "link":
                emit(Piece(text=f"`{it.data}`" if it.external_link is None else cited(it.external_link)))
            case "image" | "video":
                path = os.path.relpath(it.data) if os.path.isabs(it.data) else str(it.data)
                if not path.startswith("http") and (why := why_not_inside(path)):
                    warnings.warn(f"{it.type}: {why}; it is not shown", NotShownWarning, stacklevel=4)
                else:
                    shown = Video if it.type == "video" else Image
                    emit(shown(url=path, width=_width(style.get("width"))))
            case "plot":
                _tabulate(it.data)
            case "graph":
                emit(Text(text=_literal(_described(it.data))))
            case _:
                warnings.warn(f"{it.type!r} of edtrace is not shown", NotShownWarning, stacklevel=4)


def cited(reference: Any) -> str:
    """Return a link to a `Reference` as Markdown: first author and year, else title or address; the rest on hover."""

    def text_of(name: str) -> str:
        return str(getattr(reference, name, None) or "").strip()

    authors, title, url = getattr(reference, "authors", None) or [], text_of("title"), text_of("url")
    authors = [authors] if isinstance(authors, str) else [str(author) for author in authors]
    date = text_of("date")[:10]  # edtrace's may include the time of day
    label = title or short_address(url) or "?"
    if authors:
        is_team = re.search(r"\b(Team|Group|Collaboration|Consortium)\b", authors[0])
        first = authors[0] if is_team else "".join(authors[0].split()[-1:]) + "+" * (len(authors) > 1)
        label = f"{first} {date[:4]}".strip()
    label = one_line(label, 120)
    by = ", ".join(filter(None, (*authors, text_of("organization"), date)))
    fields = (title if title != label else "", by, text_of("notes"), text_of("description"))
    parts = [part.rstrip(".") for part in fields if part]
    tooltip = one_line(". ".join(parts) + ".", HOVER).replace("&", "&amp;").replace("<", "&lt;")
    tooltip = ' "' + re.sub(r'(["\\])', r"\\\1", tooltip) + '"' if parts else ""
    return f"[{_literal(label)}](<{url}>{tooltip})" if re.fullmatch(r"[^\s<>]+", url) else _literal(label)


def _width(width: Any) -> int | str | None:
    """Return a width in pixels, or as a share of the text's: 400, "400px", "50%", 0.5; None for other values."""
    if isinstance(width, float) and 0 < width <= 1:
        return f"{100 * width:g}%"
    text = str(width).removesuffix("px")
    if not WIDTH.fullmatch(text):
        return None
    return text if text.endswith("%") else int(text)


def _literal(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>$|~])", r"\\\1", text)


def _tabulate(spec: Any) -> None:
    """Emit the data of a Vega-Lite specification as tables; only Vega could draw it."""
    spec = spec.to_dict() if hasattr(spec, "to_dict") else spec
    title = spec.get("title") if isinstance(spec, Mapping) else None
    title = title.get("text") if isinstance(title, Mapping) else title
    title = " ".join(map(str, title)) if isinstance(title, list) else str(title or "A figure")
    data = [rows for rows in _data_in(spec) if rows]
    if not data:
        emit(Text(text=_literal(title)))
    for rows in data:
        records = [row if isinstance(row, Mapping) else {"data": row} for row in rows]
        columns = list(dict.fromkeys(name for record in records for name in record))
        table([[record.get(name) for name in columns] for record in records], columns, title=title)


def _data_in(part: Any) -> Iterator[list[Any]]:
    """Yield the rows of each data set in a specification, at any depth."""
    match part:
        case {"values": list(rows)}:
            yield rows
        case Mapping():
            for name, inner in part.items():
                if name == "datasets":
                    yield from inner.values()
                else:
                    yield from _data_in(inner)
        case list():
            for inner in part:
                yield from _data_in(inner)


def _described(graph: Mapping[str, Any]) -> str:
    """Describe a graph of `make_graph`: "A graph of 3 nodes: a → b (label), c."."""
    nodes = {node["data"]["id"]: node["data"].get("label", node["data"]["id"]) for node in graph.get("nodes") or ()}
    parts, linked = [], set[str]()
    for edge in (edge["data"] for edge in graph.get("edges") or ()):
        linked |= {edge["source"], edge["target"]}
        label = f" ({edge['label']})" if edge.get("label") else ""
        parts.append(f"{nodes.get(edge['source'], '?')} → {nodes.get(edge['target'], '?')}{label}")
    parts += [str(shown) for name, shown in nodes.items() if name not in linked]
    return f"A graph of {plural(len(nodes), 'node')}{': ' if parts else ''}{', '.join(parts)}."

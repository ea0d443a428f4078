"""The vocabulary of edtrace and of its predecessors, for lectures written for them.

    context = EdtraceContext(Library(Path("fetched")))
    words(context)["text"]("- Adam "), words(context)["link"]("https://arxiv.org/abs/1412.6980")   # one line of a page
    stand_ins(context)["reference"]["Reference"]                                                   # without edtrace

Each function accepts edtrace's arguments and emits one `Narrative`. `text` and `link` emit pieces, which
`join_pieces` puts together while they are recorded: the calls on one line of the lecture make one text.
"""

from __future__ import annotations

import os
import re
import subprocess
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trace_tools.edtrace import figures
from trace_tools.lecture.citations import Library, Reference, fetched, is_paper, people, short_name
from trace_tools.lecture.vocabulary import as_data, aside, emit, plot
from trace_tools.trace.model import WIDTH, Image, Narrative, Note, Text, Video
from trace_tools.util.files import paths_in_cache, why_not_inside
from trace_tools.util.formats import one_line

HOVER = 2_000  # characters of a link's tooltip

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_ITEM_OR_HEADING = re.compile(r"( {2,})?([-*+]|\d{1,9}[.)]|#{1,6})\s+")  # " - " continues a sentence
_BEFORE_A_LINK = re.compile(r"""[ \t\n(\[{“‘„/\-–—]$|(^|[\s(])["']$""")  # no space is added after these

Word = Callable[..., Any]
Resolve = Callable[..., Any]  # (address, fields of a reference) → the reference


class NotShownWarning(UserWarning):
    """An argument that cannot be shown on a page."""


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


@dataclass
class EdtraceContext:
    """The state that the functions share in one run."""

    library: Library
    # the original of the lecture's private folder: files that are not in it were made by the run
    real: Path | None = None


def words(context: EdtraceContext, resolve: Resolve | None = None) -> dict[str, Word]:
    """Return the functions by name; `resolve` turns an address into a reference (default: the context's library)."""

    @aside
    def text(message: Any, style: Mapping[str, Any] | None = None, verbatim: bool = False) -> None:
        """Show a line of Markdown; with `verbatim`, plain text in monospace."""
        if style is not None and not isinstance(style, Mapping):
            raise TypeError(f"style is a {type(style).__name__}; expected a dict of CSS properties")
        emit(as_it_is(str(message)) if verbatim else Piece(text=emphasised(str(message), style or {})))

    def system_text(command: list[str]) -> None:
        """Run a command and show its output."""
        text(_ESCAPES.sub("", subprocess.check_output(command).decode("utf-8")), verbatim=True)

    @aside
    def note(message: Any) -> None:
        """Show a note to the presenter."""
        emit(Note(text=str(message)))

    @aside
    def link(arg: Any = None, style: Mapping[str, Any] | None = None, **fields: Any) -> None:
        """Link to a function or class of the lecture, a reference, an address, or a reference made of `fields`."""
        if isinstance(arg, str) and isinstance(style, str):  # edtrace has no `link(title, url)`
            raise TypeError(f"link: found {arg[:80]!r} and {style[:80]!r}; expected link(title=…, url=…)")
        if arg is None:
            arg = Reference(**fields)
        elif isinstance(arg, str):
            arg = (resolve or _resolve(context))(url=arg, **fields)
        if isinstance(arg, type) or callable(arg):
            name = str(getattr(arg, "__qualname__", None) or getattr(arg, "__name__", None) or type(arg).__qualname__)
            emit(Piece(text=f"`{name.rpartition('.')[2]}`"))
        elif hasattr(arg, "url") and hasattr(arg, "title"):
            emit(Piece(text=cited(arg)))
        else:
            raise ValueError(f"link: found a {type(arg).__name__}; expected a reference, an address or a function")

    @aside
    def image(url: Any, style: Mapping[str, Any] | None = None, width: int | str | None = None) -> None:
        """Show an image from the lecture's folder or the web."""
        _show("image", context, url, style, width)

    @aside
    def video(url: Any, style: Mapping[str, Any] | None = None, width: int | str | None = None) -> None:
        """Show a video from the lecture's folder or the web."""
        _show("video", context, url, style, width)

    def figure(spec: Any) -> None:
        """Draw a Vega-Lite specification, an Altair chart, or a matplotlib figure."""
        if hasattr(spec, "get_axes"):
            plot(spec)
        else:
            chart(spec)

    @aside
    def chart(spec: Any) -> None:
        for one in figures.drawn(spec.to_dict() if hasattr(spec, "to_dict") else spec):
            emit(one)

    @aside
    def graph(spec: Mapping[str, Any] | None, style: Mapping[str, Any] | None = None) -> None:
        """Describe a graph from `make_graph`; ignore None."""
        if spec is not None:
            emit(Text(text=_literal(figures.words(spec))))

    made = (text, system_text, note, link, image, video, graph)
    return {**{word.__name__: word for word in made}, "plot": figure}


def words_of_2024(context: EdtraceContext) -> dict[str, Word]:
    """Return the functions of CS336's lectures of 2024: `note` addresses the reader, `see` links to anything."""
    newer = words(context)

    def note(
        message: Any, style: Mapping[str, Any] | None = None, verbatim: bool = False, pop_stack: bool = False
    ) -> None:
        """Show a line of Markdown, or with `verbatim` a text in monospace."""
        newer["text"](message, style, verbatim)

    def see(obj: Any, pop_stack: bool = False) -> None:
        """Show a link to an address, to a record with a name and an address, or to code."""
        name, url = getattr(obj, "name", None), getattr(obj, "url", None)
        if isinstance(obj, str) and is_on_the_web(obj):
            newer["link"](Reference(url=obj))
        elif isinstance(name, str) and (isinstance(url, str) or url is None):
            description, author = getattr(obj, "description", None), getattr(obj, "author", None)
            reference = Reference(
                title=name,
                authors=[str(author)] if author else None,
                organization=getattr(obj, "organization", None),
                date=getattr(obj, "date", None),
                url=url,
                notes="\n".join(map(str, description)) if isinstance(description, list) else description,
            )
            newer["link"](reference)
        elif isinstance(obj, type) or callable(obj):
            newer["link"](obj)
        else:
            newer["text"](obj)

    def image(path: Any, style: Mapping[str, Any] | None = None, width: float = 1.0, pop_stack: bool = False) -> None:
        """Show an image; `width` is a share of the text's width. A missing file is only a warning."""
        if is_on_the_web(str(path)) or os.path.exists(path):
            newer["image"](path, style, float(width))
        else:
            warnings.warn(f"image: {str(path)!r} does not exist and is not shown", NotShownWarning, stacklevel=2)

    return {"note": note, "see": see, "image": image}


def stand_ins(context: EdtraceContext) -> dict[str, dict[str, Any]]:
    """Return the contents of edtrace's modules for use without edtrace, by module name without the prefix."""
    vocabulary = words(context)
    resolve = _resolve(context)
    helpers = {
        "Reference": Reference,
        "make_graph": aside(figures.make_graph),
        "url_reference": lambda url, **fields: resolve(url=url, **fields),
    }
    return {
        "": {**vocabulary, **helpers},
        "execute_util": {**vocabulary, **helpers, "is_url": is_on_the_web, "pop_renderings": list},
        "reference": {"Reference": Reference, "join": lambda *points: "\n".join(map(str, points))},
        "arxiv_util": {
            "is_arxiv_link": _is_arxiv,
            "arxiv_reference": aside(papers_of(context)),
            "canonicalize": _in_a_line,
        },
        "file_util": {
            "cached": cached,
            "download_file": download_file,
            "relativize": lambda path: os.path.relpath(path, os.getcwd()),
            "ensure_directory_exists": lambda path: os.makedirs(path, exist_ok=True),
        },
    }


def papers_of(context: EdtraceContext) -> Resolve:
    """Return a function that asks the context's library for a paper."""

    def arxiv_reference(url: str, **fields: Any) -> Reference:
        return context.library.paper(url, **fields)

    return arxiv_reference


def guarded(context: EdtraceContext, real: Resolve, reference: Resolve) -> Resolve:
    """Wrap edtrace's `arxiv_reference` so that a failure gives a reference with only an address."""

    def arxiv_reference(url: str, **fields: Any) -> Any:
        reference_found = context.library.asking(url, lambda: real(url, **fields))
        return reference_found if reference_found is not None else reference(url=url, **fields)

    return aside(arxiv_reference)


def cached(url: str, prefix: str) -> str:
    """Return the path of the cached content of an address, as edtrace does. Raises OSError."""
    *_, path = paths_in_cache(url, prefix)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    download_file(url, path)
    return path


def download_file(url: str, filename: str) -> None:
    """Download an address unless the file exists. Raises OSError."""
    if not os.path.exists(filename):
        content = fetched(url)
        with open(filename, "wb") as file:
            file.write(content)


def _resolve(context: EdtraceContext) -> Resolve:
    def resolve(url: str, **fields: Any) -> Reference:
        return context.library.paper(url, **fields) if is_paper(url) else Reference(url=url, **fields)

    return resolve


def as_it_is(text: str) -> Narrative:
    """Return unformatted text in monospace."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return Text(text=f"{fence}\n{text.rstrip()}\n{fence}")


def emphasised(text: str, style: Mapping[str, Any]) -> str:
    """Return a text with its style as Markdown, as far as possible: bold, italic, code. Other styles are dropped."""
    marker = _ITEM_OR_HEADING.match(text)
    lead = marker[0] if marker else ""
    words = text.removeprefix(lead).strip()
    if not words or "\n" in words or re.search(r"[*`_$]", words):
        return text
    looks = {str(value).lower() for value in style.values()}
    mark = "`" if "monospace" in looks else "**" if looks & {"bold", "bolder", "600", "700"} else ""
    mark = mark or ("*" if looks & {"italic", "oblique"} else "")
    return lead + text.removeprefix(lead).replace(words, f"{mark}{words}{mark}")


def cited(it: Any) -> str:
    """Return a link to the target of a reference, edtrace's or ours, as Markdown; its tooltip has the other fields."""

    def text_of(name: str) -> str | None:
        value = getattr(it, name, None)
        return None if value is None else str(value).strip()

    url, title = text_of("url") or "", text_of("title")
    shown = one_line(short_name(it) or title or url or "?", 120)
    label = _literal(shown)
    date = (text_of("date") or "")[:10]  # edtrace's may include the time of day
    by = ", ".join(filter(None, (people(getattr(it, "authors", None), text_of("organization")), date)))
    fields = (title if title != shown else None, by, text_of("notes"), text_of("description"))
    parts = [part.rstrip(".") for part in fields if part]
    tooltip = one_line(". ".join(parts) + ".", HOVER).replace("&", "&amp;").replace("<", "&lt;")
    tooltip = ' "' + re.sub(r'(["\\])', r"\\\1", tooltip) + '"' if parts else ""
    return f"[{label}](<{url}>{tooltip})" if re.fullmatch(r"[^\s<>]+", url) else label


def _literal(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>$|~])", r"\\\1", text)


def pictured(kind: str, path: str, style: Mapping[str, Any] | None, width: int | str | None = None) -> Image:
    """Return an image or video for a path or an address; `style` may include its width."""
    properties = style or {}
    asked = width if width is not None else properties.get("width", properties.get("maxWidth"))
    made = Video if kind == "video" else Image
    return made(url=path, width=_width(asked))


def _show(
    kind: str, context: EdtraceContext, url: Any, style: Mapping[str, Any] | None, width: int | str | None
) -> None:
    path = str(url)
    shown = pictured(kind, path, style, width)
    if is_on_the_web(path):
        emit(shown)
        return
    if not os.path.exists(path):
        raise ValueError(f"{kind}: {path!r} does not exist; expected a file next to the lecture, or an address")
    if os.path.isabs(path):
        path = os.path.relpath(path)
    if why := why_not_inside(path):
        warnings.warn(f"{kind}: {why}; it is not shown", NotShownWarning, stacklevel=3)
        return
    if kind == "image" and context.real is not None and not (context.real / path).exists():
        try:
            path = as_data(path)  # the run has made this image, and its file is deleted after the run
        except ValueError as error:
            warnings.warn(f"image: {error}", NotShownWarning, stacklevel=3)
    emit(replace(shown, url=path))


def _width(width: Any) -> int | str | None:
    """Return a width for pages: pixels, or a share of the text's; None for other values."""
    if width is None or isinstance(width, bool):
        return None
    if isinstance(width, float) and 0 < width <= 1:
        return f"{100 * width:g}%"
    text = str(width).strip()
    if relative := re.fullmatch(r"(\d+(?:\.\d+)?)(px|em|rem|ch|vw)?", text):
        pixels = float(relative[1]) * {"em": 16, "rem": 16, "ch": 9}.get(relative[2] or "px", 1)
        text = f"{min(pixels, 100):g}%" if relative[2] == "vw" else f"{pixels:.0f}"
    if not WIDTH.fullmatch(text):
        return None
    return text if text.endswith("%") else int(text)


def is_on_the_web(url: str) -> bool:
    """Return whether an address is a URL on the web and not a path."""
    return url.startswith(("http://", "https://"))


def _is_arxiv(url: str) -> bool:
    return url.startswith("https://arxiv.org/")


def _in_a_line(text: str) -> str:
    return " ".join(text.split())

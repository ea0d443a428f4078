"""The words of edtrace, and of the modules it was made of, as a lecture written for these calls them.

    desk = Desk(Library(Path("fetched")))
    words(desk)["text"]("- Adam "), words(desk)["link"]("https://arxiv.org/abs/1412.6980")     # one line of a page
    stand_ins(desk)["reference"]["Reference"]                                                  # where none is installed

Each word takes what theirs takes, hands one `Narrative` to whoever is listening, and nothing to nobody. `text` and
`link` flow: what one line of the lecture says with them is one line of the page.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import subprocess
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from trace_tools import graphs, vega
from trace_tools.citations import Library, Reference, fetched, is_paper, people, short_name
from trace_tools.files import why_not_inside
from trace_tools.narrative import WIDTH, as_data, aside, plot, tell
from trace_tools.schema import Narrative

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")

Word = Callable[..., Any]
Resolve = Callable[..., Any]  # an address and fields of a reference → the reference


class NotShownWarning(UserWarning):
    """Something that a word was given can't be on a page."""


@dataclass
class Desk:
    """What the words work with in one run."""

    library: Library
    real: Path | None = None  # the folder of which the lecture runs in a copy: what is not in it, the run has made


def words(desk: Desk, resolve: Resolve | None = None) -> dict[str, Word]:
    """Return the words by name; `resolve` makes a reference of an address, if not the desk's library does."""

    @aside
    def text(message: Any, style: Mapping[str, Any] | None = None, verbatim: bool = False) -> None:
        """Show a line of Markdown; `verbatim`: text as it is, in the letters of code."""
        if verbatim:
            tell(as_it_is(str(message), style))
        else:
            tell(Narrative("text", text=str(message), style=look(style), flows=True))

    def system_text(command: list[str]) -> None:
        """Run a command, and show what it prints."""
        text(_ESCAPES.sub("", subprocess.check_output(command).decode("utf-8")), verbatim=True)

    @aside
    def note(message: Any) -> None:
        """Say something to the presenter."""
        tell(Narrative("note", text=str(message)))

    @aside
    def link(arg: Any = None, style: Mapping[str, Any] | None = None, **fields: Any) -> None:
        """Refer to a function or class of the lecture, to a reference, to an address, or to what the fields say."""
        if arg is None:
            arg = Reference(**fields)
        elif isinstance(arg, str):
            arg = (resolve or _resolve(desk))(url=arg, **fields)
        if isinstance(arg, type) or callable(arg):
            tell(_to_code(arg, style))
        elif hasattr(arg, "url") and hasattr(arg, "title"):
            tell(cited(arg, style))
        else:
            raise ValueError(f"link: found a {type(arg).__name__}; expected a reference, an address or a function")

    @aside
    def image(url: Any, style: Mapping[str, Any] | None = None, width: int | str | None = None) -> None:
        """Show an image beside the lecture, or on the web."""
        _show("image", desk, url, style, width)

    @aside
    def video(url: Any, style: Mapping[str, Any] | None = None, width: int | str | None = None) -> None:
        """Show a video beside the lecture, or on the web."""
        _show("video", desk, url, style, width)

    def figure(spec: Any) -> None:
        """Draw a Vega-Lite specification; also an Altair chart, or a figure of matplotlib."""
        if hasattr(spec, "get_axes"):
            plot(spec)
        else:
            chart(spec)

    @aside
    def chart(spec: Any) -> None:
        for one in vega.drawn(spec.to_dict() if hasattr(spec, "to_dict") else spec):
            tell(one)

    @aside
    def graph(spec: Mapping[str, Any] | None, style: Mapping[str, Any] | None = None) -> None:
        """Draw a graph that `make_graph` made; nothing of None."""
        if spec is not None:
            tell(graph_figure(spec, style))

    made = (text, system_text, note, link, image, video, graph)
    return {**{word.__name__: word for word in made}, "plot": figure}


def stand_ins(desk: Desk) -> dict[str, dict[str, Any]]:
    """Return what stands in the modules of edtrace where it is not installed, by module, without its prefix."""
    known = words(desk)
    resolve = _resolve(desk)
    helpers = {
        "Reference": Reference,
        "make_graph": aside(graphs.make_graph),
        "url_reference": lambda url, **fields: resolve(url=url, **fields),
    }
    return {
        "": {**known, **helpers},
        "execute_util": {**known, **helpers, "is_url": is_on_the_web, "pop_renderings": list},
        "reference": {"Reference": Reference, "join": lambda *points: "\n".join(map(str, points))},
        "arxiv_util": {
            "is_arxiv_link": _is_arxiv,
            "arxiv_reference": aside(desk_papers(desk)),
            "canonicalize": _in_a_line,
        },
        "file_util": {
            "cached": cached,
            "download_file": download_file,
            "relativize": lambda path: os.path.relpath(path, os.getcwd()),
            "ensure_directory_exists": lambda path: os.makedirs(path, exist_ok=True),
        },
    }


def desk_papers(desk: Desk) -> Resolve:
    """Return what asks the desk's library for a paper."""

    def arxiv_reference(url: str, **fields: Any) -> Reference:
        return desk.library.paper(url, **fields)

    return arxiv_reference


def guarded(desk: Desk, real: Resolve, reference: Resolve) -> Resolve:
    """Return another's `arxiv_reference`, which the lecture goes on without: a reference then has its address alone."""

    def arxiv_reference(url: str, **fields: Any) -> Any:
        found = desk.library.asking(url, lambda: real(url, **fields))
        return found if found is not None else reference(url=url, **fields)

    return aside(arxiv_reference)


def cached(url: str, prefix: str) -> str:
    """Return where a copy of what lies at an address is kept, in `var/files` as edtrace names it. Raises OSError."""
    name = re.sub(r"[^\w_-]+", "_", url)
    digest = hashlib.md5(url.encode("utf-8"), usedforsecurity=False).hexdigest()
    path = os.path.join("var", "files", f"{prefix}-{digest}-{name}{os.path.splitext(urlsplit(url).path)[1]}")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    download_file(url, path)
    return path


def download_file(url: str, filename: str) -> None:
    """Fetch what lies at an address, unless the file is there. Raises OSError."""
    if not os.path.exists(filename):
        content = fetched(url)
        with open(filename, "wb") as file:
            file.write(content)


def _resolve(desk: Desk) -> Resolve:
    def resolve(url: str, **fields: Any) -> Reference:
        return desk.library.paper(url, **fields) if is_paper(url) else Reference(url=url, **fields)

    return resolve


def as_it_is(text: str, style: Mapping[str, Any] | None) -> Narrative:
    """Return text as it is, in the letters of code."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return Narrative("text", text=f"{fence}\n{text.rstrip()}\n{fence}", style=look(style))


def cited(it: Any, style: Mapping[str, Any] | None) -> Narrative:
    """Return a link to what a reference, theirs or ours, refers to."""

    def said(name: str) -> str | None:
        value = getattr(it, name, None)
        return None if value is None else str(value).strip()

    date = said("date")
    return Narrative(
        "link",
        url=said("url"),
        title=said("title"),
        authors=people(getattr(it, "authors", None), said("organization")),
        date=date[:10] if date else None,  # theirs may have the time of day
        text=said("description") or None,
        notes=said("notes") or None,
        label=short_name(it),
        style=look(style),
        flows=True,
    )


def _to_code(it: Any, style: Mapping[str, Any] | None) -> Narrative:
    """Return a link to where a function or class is defined, as far as that has a name."""
    name = str(getattr(it, "__qualname__", None) or getattr(it, "__name__", None) or type(it).__qualname__)
    code = getattr(inspect.unwrap(it) if callable(it) else it, "__code__", None)
    where = f"{os.path.basename(code.co_filename)}, line {code.co_firstlineno}" if code is not None else None
    return Narrative("link", label=name.rpartition(".")[2], target=name, title=where, style=look(style), flows=True)


def graph_figure(spec: Mapping[str, Any], style: Mapping[str, Any] | None) -> Narrative:
    """Return the drawing of a graph that `make_graph` made."""
    told: dict[str, Any] = {"text": graphs.words(spec), "svg": graphs.drawing(spec)}
    return Narrative("plot", series=[], style=look(style), **told)


def pictured(kind: str, path: str, style: Mapping[str, Any] | None, width: int | str | None = None) -> Narrative:
    """Return an image or a video at a path or an address; `style` may say how wide it is, too."""
    rest = dict(style or {})
    asked = width if width is not None else rest.pop("width", rest.pop("maxWidth", None))
    return Narrative(kind, url=path, width=_width(asked), style=look(rest), title=_alt(path), flows=True)


def _show(kind: str, desk: Desk, url: Any, style: Mapping[str, Any] | None, width: int | str | None) -> None:
    path = str(url)
    shown = pictured(kind, path, style, width)
    if is_on_the_web(path):
        tell(shown)
        return
    if not os.path.exists(path):
        raise ValueError(f"{kind}: {path!r} is not there; expected a file beside the lecture, or an address")
    if os.path.isabs(path):
        path = os.path.relpath(path)
    if why := why_not_inside(path):
        warnings.warn(f"{kind}: {why}; it is not shown", NotShownWarning, stacklevel=3)
        return
    if kind == "image" and desk.real is not None and not (desk.real / path).exists():
        path = _made(path) or path
    tell(replace(shown, url=path))


def _made(path: str) -> str | None:
    """Return an image that the run has made as a data address: its file is gone once the run is over."""
    try:
        return as_data(path)
    except ValueError as error:
        warnings.warn(f"image: {error}", NotShownWarning, stacklevel=4)
        return None


def _width(width: Any) -> int | str | None:
    """Return a width as pages take it: pixels, or a share of the text's; None for what is neither."""
    if width is None or isinstance(width, bool):
        return None
    if isinstance(width, float) and 0 < width <= 1:
        return f"{100 * width:g}%"
    said = str(width).strip()
    if relative := re.fullmatch(r"(\d+(?:\.\d+)?)(px|em|rem|ch|vw)?", said):
        pixels = float(relative[1]) * {"em": 16, "rem": 16, "ch": 9}.get(relative[2] or "px", 1)
        said = f"{min(pixels, 100):g}%" if relative[2] == "vw" else f"{pixels:.0f}"
    if not WIDTH.fullmatch(said):
        return None
    return said if said.endswith("%") else int(said)


def _alt(path: str) -> str:
    """Return an image's name in words: what stands for it where it is not seen."""
    name = unquote(os.path.basename(urlsplit(path).path.rstrip("/")))
    return re.sub(r"[-_.\s]+", " ", os.path.splitext(name)[0]).strip()[:100]


def look(style: Mapping[str, Any] | None) -> list[tuple[str, str]] | None:
    """Return a style as a `Narrative` has it."""
    return [(str(name), str(value)) for name, value in style.items()] if style else None


def is_on_the_web(url: str) -> bool:
    """Whether an address leads there, and is no path."""
    return url.startswith(("http://", "https://"))


def _is_arxiv(url: str) -> bool:
    return url.startswith("https://arxiv.org/")


def _in_a_line(text: str) -> str:
    return " ".join(text.split())

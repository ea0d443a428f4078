"""The words of a lecture, which collect what is to be shown, with the interface of CS336's `execute_util`."""

from dataclasses import dataclass

from arxiv_util import arxiv_reference, is_arxiv_link
from file_util import cached
from reference import Reference


@dataclass(frozen=True)
class Rendering:
    type: str
    data: str | None = None
    style: dict | None = None
    external_link: Reference | None = None


_shown: list[Rendering] = []


def text(message: str, style: dict | None = None, verbatim: bool = False):
    look = {"fontFamily": "monospace", "whiteSpace": "pre"} if verbatim else {}
    for line in message.split("\n") if verbatim else [message]:
        _shown.append(Rendering("markdown", line, look | (style or {})))


def image(url: str, style: dict | None = None, width: int | str | None = None):
    path = cached(url, "image") if url.startswith("http") else url
    _shown.append(Rendering("image", path, (style or {}) | {"width": width}))


def link(arg=None, style: dict | None = None, **kwargs):
    if arg is None:
        arg = Reference(**kwargs)
    elif isinstance(arg, str):
        arg = arxiv_reference(arg) if is_arxiv_link(arg) else Reference(url=arg)
    if isinstance(arg, Reference):
        _shown.append(Rendering("link", style=style or {}, external_link=arg))
    else:
        _shown.append(Rendering("link", arg.__name__, style or {}))


def pop_renderings() -> list[Rendering]:
    shown = _shown[:]
    _shown.clear()
    return shown

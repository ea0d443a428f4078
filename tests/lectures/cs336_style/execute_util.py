"""The words of a lecture, which collect what is to be shown: an interface as CS336's older lectures have it."""

from dataclasses import dataclass

from arxiv_util import arxiv_reference, is_arxiv_link
from reference import Reference


@dataclass(frozen=True)
class Rendering:
    type: str
    data: object


_shown: list[Rendering] = []


def text(message: str, style: dict | None = None, verbatim: bool = False):
    _shown.append(Rendering("text", message))


def image(url: str, style: dict | None = None, width: int | str | None = None):
    _shown.append(Rendering("image", url))


def link(arg=None, style: dict | None = None, **kwargs):
    if arg is None:
        arg = Reference(**kwargs)
    elif isinstance(arg, str):
        arg = arxiv_reference(arg) if is_arxiv_link(arg) else Reference(url=arg)
    _shown.append(Rendering("link", arg))


def pop_renderings() -> list[Rendering]:
    shown = _shown[:]
    _shown.clear()
    return shown

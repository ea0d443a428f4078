"""The words of a lecture, which collect what is to be shown, with the interface of CS336's `execute_util`."""

from dataclasses import dataclass

from arxiv_util import arxiv_reference, is_arxiv_link
from reference import Reference

_shown = []


@dataclass(frozen=True)
class Rendering:
    type: str
    data: str | None = None
    style: dict | None = None
    external_link: Reference | None = None


def text(message: str, style: dict | None = None, verbatim: bool = False):
    _shown.append(Rendering("markdown", message, style))


def image(url: str, style: dict | None = None, width: int | str | None = None):
    _shown.append(Rendering("image", url, style))


def link(arg=None, style: dict | None = None, **kwargs):
    if isinstance(arg, str):
        arg = arxiv_reference(arg) if is_arxiv_link(arg) else Reference(url=arg)
    _shown.append(Rendering("link", None, style, arg or Reference(**kwargs)))


def pop_renderings() -> list[Rendering]:
    shown = _shown[:]
    _shown.clear()
    return shown

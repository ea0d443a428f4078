"""A path that a lecture names → the image or video beside the lecture, or in the trace; or nothing.

Only files inside the lecture's own folder (links resolved) that begin like an image or a video are read. What a
lecture made itself is kept in the trace, as a data address.

    picture = read_picture(Path("lectures"), "images/loss.png")
    picture.name, picture.media        ("loss-1f3a9c2e.png", "image/png")
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from trace_tools.rendering.prose import slug

LARGEST = 8 * 2**20  # bytes of an image
LARGEST_VIDEO = 64 * 2**20
INLINE = 100 * 2**10  # bytes that may stand in a page itself

_KEPT = re.compile(r"data:image/[a-z+]{3,9};base64,")
_SIGNATURES = (
    (rb"\x89PNG\r\n\x1a\n", "image/png", "png"),
    (rb"\xff\xd8\xff", "image/jpeg", "jpg"),
    (rb"GIF8", "image/gif", "gif"),
    (rb"RIFF", "image/webp", "webp"),
    (rb".{4}ftyp", "video/mp4", "mp4"),
    (rb"\x1aE\xdf\xa3", "video/webm", "webm"),
    (rb"OggS", "video/ogg", "ogv"),
    (rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*(<!DOCTYPE[^>]*>\s*)?<svg[\s>]", "image/svg+xml", "svg"),
)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image's bytes, with a name of its own for a copy of it."""

    name: str
    media: str
    content: bytes

    @property
    def address(self) -> str:
        """The image as a data address."""
        return f"data:{self.media};base64,{base64.b64encode(self.content).decode('ascii')}"

    @property
    def inline(self) -> str | None:
        """The same when it is small; None where a copy has to lie beside the page."""
        return self.address if len(self.content) <= INLINE else None


def read_picture(folder: Path | None, address: str) -> Picture | None:
    """Return the image at a relative address below `folder`; None when it isn't one, or isn't there."""
    if kept := _KEPT.match(address):
        try:
            return _recognised("made", base64.b64decode(address[kept.end() :], validate=True))
        except ValueError:
            return None
    if folder is None or re.match(r"[a-zA-Z][\w+.-]*:|/", address):
        return None
    path = unquote(address)
    if ".." in path.replace("\\", "/").split("/") or "\0" in path:
        return None
    try:
        place = (folder / path).resolve()
        if not place.is_relative_to(folder.resolve()) or not place.is_file() or place.stat().st_size > LARGEST_VIDEO:
            return None
        content = place.read_bytes()
    except (OSError, ValueError):  # a ValueError: no file can have such a name
        return None
    return _recognised(place.stem, content)


def _recognised(name: str, content: bytes) -> Picture | None:
    """Return these bytes as what they begin like; None where that is neither an image nor a video."""
    for signature, media, ending in _SIGNATURES:
        if re.match(signature, content[:4096], re.DOTALL):
            if len(content) > LARGEST and media.startswith("image/"):
                return None
            digest = hashlib.sha256(content).hexdigest()[:8]
            return Picture(f"{slug(name)}-{digest}.{ending}", media, content)
    return None

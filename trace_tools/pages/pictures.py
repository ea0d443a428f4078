"""Read the image or video that a lecture names, from its folder or from the trace.

Only files inside the lecture's own folder (links resolved) that begin like an image or a video are read. Files that the
lecture made itself are in the trace, as data addresses.

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

from trace_tools.presentation.prose import slug

LARGEST = 8 * 2**20  # bytes of an image
LARGEST_VIDEO = 64 * 2**20
INLINE = 100 * 2**10  # bytes that are a part of any page

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
    """An image's bytes, with a unique name for its copy."""

    name: str
    media: str
    content: bytes

    @property
    def address(self) -> str:
        """The image as a data address."""
        return f"data:{self.media};base64,{base64.b64encode(self.content).decode('ascii')}"


def read_picture(folder: Path | None, address: str) -> Picture | None:
    """Return the image at a relative address below `folder`; None if the file is missing or is not an image."""
    if kept := _KEPT.match(address):
        try:
            return _recognised("made", base64.b64decode(address[kept.end() :], validate=True))
        except ValueError:
            return None
    if folder is None:
        return None
    try:
        file = (folder / unquote(address)).resolve()
        if not file.is_relative_to(folder.resolve()) or not file.is_file() or file.stat().st_size > LARGEST_VIDEO:
            return None
        return _recognised(file.stem, file.read_bytes())
    except (OSError, ValueError):  # a ValueError: no file can have such a name
        return None


def _recognised(name: str, content: bytes) -> Picture | None:
    """Return the picture in these bytes, recognised by their beginning; None if they are neither an image nor a
    video.
    """
    for signature, media, ending in _SIGNATURES:
        if re.match(signature, content[:4096], re.DOTALL):
            if len(content) > LARGEST and media.startswith("image/"):
                return None
            digest = hashlib.sha256(content).hexdigest()[:8]
            return Picture(f"{slug(name)}-{digest}.{ending}", media, content)
    return None

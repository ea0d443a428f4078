"""A path that a lecture names → the image file beside the lecture, or nothing.

Only files inside the lecture's own folder (links resolved) that begin like an image are read.

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

from trace_tools.rendering.prose import safe_url, slug

LARGEST = 8 * 2**20  # bytes
INLINE = 100 * 2**10  # bytes that may stand in a page itself

_SIGNATURES = (
    (rb"\x89PNG\r\n\x1a\n", "image/png", "png"),
    (rb"\xff\xd8\xff", "image/jpeg", "jpg"),
    (rb"GIF8", "image/gif", "gif"),
    (rb"RIFF", "image/webp", "webp"),
    (rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*(<!DOCTYPE[^>]*>\s*)?<svg[\s>]", "image/svg+xml", "svg"),
)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image's bytes, with a name of its own for a copy of it."""

    name: str
    media: str
    content: bytes

    @property
    def inline(self) -> str | None:
        """Return the image as a data address when it is small."""
        if len(self.content) > INLINE:
            return None
        return f"data:{self.media};base64,{base64.b64encode(self.content).decode('ascii')}"


def read_picture(folder: Path | None, address: str) -> Picture | None:
    """Return the image at a relative address below `folder`; None when it isn't one, or isn't there."""
    if folder is None or safe_url(address) is None or re.match(r"[a-zA-Z][\w+.-]*:|/", address):
        return None
    path = unquote(address)
    if ".." in path.replace("\\", "/").split("/") or "\0" in path:
        return None
    try:
        place = (folder / path).resolve()
        if not place.is_relative_to(folder.resolve()) or not place.is_file() or place.stat().st_size > LARGEST:
            return None
        content = place.read_bytes()
    except OSError:
        return None
    for signature, media, ending in _SIGNATURES:
        if re.match(signature, content[:4096], re.DOTALL):
            digest = hashlib.sha256(content).hexdigest()[:8]
            return Picture(f"{slug(place.stem)}-{digest}.{ending}", media, content)
    return None

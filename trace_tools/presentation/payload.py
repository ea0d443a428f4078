"""Pack plain data into a text for a page's script (`page.js`: unpack): deflated JSON in base64."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any


def packed(plain: Any) -> str:
    """Return the text of plain data; equal data gives equal bytes."""
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")

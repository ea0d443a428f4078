r"""Write files and folders atomically, and check that paths stay in their folder.

replace_file(Path("report.md"), "# Differences …")
update_folder(Path("rendered/cpu"), {"index.html": b"…"}, made_here=re.compile(r"[a-z-]+\.html"))
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from trace_tools.errors import UsageError

_OUTSIDE = re.compile(r"[/~]|[A-Za-z][A-Za-z0-9+.-]*:")  # the start of a path that is not relative, or of a URL
_NOT_A_NAME = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")  # control characters, and what no file can encode
_FRESH = re.compile(r"\..+\.[0-9a-f]{8}")  # a file that is being written
DEAD_S = 3600
MANIFEST = ".pages"  # in a folder of pages: the names of the files written there


def replace_file(path: Path, content: bytes | str, *, durable: bool = False) -> None:
    """Replace a file in one rename; `durable` waits until it is on disk.

    The folder must exist. Raises `UsageError` if the file cannot be written (disk full, read-only, missing folder); the
    old content is then unchanged and no other file remains.
    """
    temporary = path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
            file.write(content if isinstance(content, bytes) else content.encode("utf-8"))
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise UsageError(f"{path}: can't be written: {error.strerror or error}") from None
        raise


def sweep(folder: Path) -> None:
    """Remove temporary files of a `replace_file` that was killed, except those written a moment ago."""
    for path in folder.glob(".*"):
        with suppress(OSError):
            if _FRESH.fullmatch(path.name) and path.stat().st_mtime < time.time() - DEAD_S:
                path.unlink()


def update_folder(folder: Path, files: Mapping[str, bytes], made_here: re.Pattern[str]) -> list[Path]:
    """Make a folder contain these files; return the paths of those that changed.

    A file is written only if its bytes change. A file that an earlier call wrote and this call does not is removed, if
    its name matches `made_here`. Raises `UsageError` if that fails.
    """
    changed: list[Path] = []
    sweep(folder)
    try:
        for name, content in files.items():
            changed += _write_changed(folder / name, content)
        try:
            listed = (folder / MANIFEST).read_text(encoding="utf-8").splitlines()
        except (FileNotFoundError, UnicodeDecodeError):
            listed = []
        earlier = {name for name in listed if made_here.fullmatch(name) and not (folder / name).is_symlink()}
        for name in earlier - set(files):
            (folder / name).unlink(missing_ok=True)
            changed.append(folder / name)
        _write_changed(folder / MANIFEST, manifest(files))
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: can't be written: {error.strerror or error}") from None
    return changed


def manifest(files: Iterable[str]) -> bytes:
    """Return the content of the file that lists the files written by `update_folder`."""
    return "".join(f"{name}\n" for name in sorted(files)).encode("utf-8")


def _write_changed(path: Path, content: bytes) -> list[Path]:
    try:
        if path.read_bytes() == content:
            return []
    except (FileNotFoundError, IsADirectoryError):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content)
    return [path]


def why_not_inside(path: str) -> str | None:
    """Return why a relative path could leave its folder, if it can."""
    plain = unquote(path).strip()  # as a browser reads it
    if not plain or _NOT_A_NAME.search(plain):
        return f"found {path[:80]!r}; expected a file's path"
    if _OUTSIDE.match(plain) or "\\" in plain or ".." in plain.split("/"):
        return f"found {path[:80]!r}; expected a path that stays in the folder, with forward slashes"
    return None

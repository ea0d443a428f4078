"""Files that are whole at every moment: what was there before, or all of the new; paths that stay in their folder.

replace(Path("report.md"), "# Differences …")
update_folder(Path("rendered/cpu"), {"index.html": b"…"}, made_here=re.compile(r"[a-z-]+\\.html"))
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

_OUTSIDE = re.compile(r"[/~]|[A-Za-z][A-Za-z0-9+.-]*:")  # how a path begins that is not relative, or a URL
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")  # no file can hold one
_FRESH = re.compile(r"\..+\.[0-9a-f]{8}")  # a file that is being written
DEAD_S = 3600
MANIFEST = ".pages"  # in a folder of pages: the names of what was made there


def replace(path: Path, content: bytes | str | Iterable[str], *, durable: bool = False) -> None:
    """Write a file in one rename; `durable` waits until the disk has it.

    The folder must exist. Raises `UsageError` when the file can't be written (full, read-only, missing); what was
    there before is then untouched, and nothing else is left behind.
    """
    fresh = path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}")
    try:
        try:
            with open(fresh, "xb") as file:
                if isinstance(content, bytes):
                    file.write(content)
                else:
                    for text in (content,) if isinstance(content, str) else content:
                        file.write(text.encode("utf-8"))
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(fresh, path)
        except BaseException:
            with suppress(OSError):
                fresh.unlink()
            raise
        if durable:
            _keep_name(path.parent)
    except OSError as error:
        raise UsageError(f"{path}: can't be written: {error.strerror or error}") from None


def sweep(folder: Path) -> None:
    """Remove what a `replace` left in a folder that was killed in the middle; one at work has just written."""
    for path in folder.glob(".*"):
        with suppress(OSError):
            if _FRESH.fullmatch(path.name) and path.stat().st_mtime < time.time() - DEAD_S:
                path.unlink()


def _keep_name(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def update_folder(folder: Path, files: Mapping[str, bytes], made_here: re.Pattern[str]) -> list[Path]:
    """Make a folder hold these files; return the paths of those that changed.

    A file is written only when its bytes change. One that an earlier call made and this one does not is removed,
    as far as its name is one that could have been made here. Raises `UsageError` when that can't be done.
    """
    changed: list[Path] = []
    manifest = "".join(f"{name}\n" for name in sorted(files)).encode("utf-8")
    sweep(folder)
    try:
        for name, content in files.items():
            changed += _write_changed(folder / name, content)
        for name in _made_before(folder, made_here) - set(files):
            (folder / name).unlink(missing_ok=True)
            changed.append(folder / name)
        _write_changed(folder / MANIFEST, manifest)
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: can't be written: {error.strerror or error}") from None
    return changed


def _write_changed(path: Path, content: bytes) -> list[Path]:
    try:
        if path.read_bytes() == content:
            return []
    except (FileNotFoundError, IsADirectoryError):
        path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, content)
    return [path]


def _made_before(folder: Path, made_here: re.Pattern[str]) -> set[str]:
    try:
        listed = (folder / MANIFEST).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return set()
    return {name for name in listed if made_here.fullmatch(name) and not (folder / name).is_symlink()}


def why_not_inside(path: str) -> str | None:
    """Say why a relative path could lead out of the folder it starts from; None when it can't."""
    plain = unquote(path).strip()  # as a browser reads it
    if not plain or _CONTROL.search(plain) or _SURROGATE.search(path):
        return f"found {path[:80]!r}; expected a file's path"
    if _OUTSIDE.match(plain):
        return f"found {path[:80]!r}; expected a relative path"
    if "\\" in plain or ".." in plain.split("/"):
        return f"found {path[:80]!r}; expected a path that stays in the folder, with forward slashes"
    return None

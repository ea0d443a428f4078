"""Pack what a machine needs into one tar: the tools, PyYAML, the lecture, and the modules in its folder that it
imports.

parcel = pack(Path("lecture.py"), files=["data/*.csv"])
parcel.archive        # gzipped; the same files give the same bytes
parcel.digest         # of the whole content

    tools/__main__.py, tools/trace_tools/…, tools/yaml/…      `python tools` runs `trace_tools.remote.worker`
    lecture/lecture.py, lecture/data/…                        the lecture and its files
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

import trace_tools
from trace_tools.errors import UsageError
from trace_tools.source.imports import OURS, modules
from trace_tools.source.statements import ParsedSource, read_source
from trace_tools.util import formats

MOST_BYTES = 256 << 20  # largest archive, the tools included
TOOLS = frozenset({".py", ".yaml", ".txt"})
# Code that only makes pages and reports is not sent, so changing it does not require a new trace.
STAYS = frozenset({"bench", "commands", "diff", "export", "live", "notebooks", "pages", "presentation", "store"})
# Must run on any Python, even one that is too old for the tools.
MAIN = """\
import sys
if sys.version_info < (3, 11):
    sys.exit("trace-tools: found Python %d.%d; 3.11 or newer is needed" % sys.version_info[:2])
from trace_tools.remote.worker import main
main()
"""


@dataclass(frozen=True, slots=True)
class Parcel:
    """The archive, with the lecture's name and text."""

    archive: bytes
    digest: str
    lecture: str
    text: str


def pack(lecture: Path, files: Sequence[str] = ()) -> Parcel:
    """Pack a lecture with the tools. Raises UsageError for missing or too large files, LectureError for an invalid
    lecture.
    """
    source = read_source(lecture)
    folder = lecture.resolve().parent
    sent = {f"lecture/{path.relative_to(folder).as_posix()}": path for path in _beside(folder, source, files)}
    contents = {**_tools(), **{name: b"" for name in sent}}
    size = sum(map(len, contents.values()))
    for name, path in sent.items():
        size += path.stat().st_size
        if size > MOST_BYTES:
            limit = formats.byte_size(MOST_BYTES)
            raise UsageError(f"{path}: with this file, more than {limit} would be sent; list fewer in `files`")
        contents[name] = path.read_bytes()
    contents[f"lecture/{lecture.name}"] = source.text.encode("utf-8")
    digest = hashlib.sha256()
    for name, content in sorted(contents.items()):
        digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\0".encode(errors="surrogateescape"))
    return Parcel(_archive(contents), digest.hexdigest(), lecture.name, source.text)


def _beside(folder: Path, source: ParsedSource, files: Sequence[str]) -> Iterator[Path]:
    """Yield the files of the lecture's folder to send; links in `files` that lead out of the folder are skipped."""
    roots = {name.partition(".")[0] for name in modules(source, folder)} - {OURS}
    for root in sorted(roots):
        if (single := folder / f"{root}.py").is_file():
            yield single
        package = folder / root
        everything = any(package.glob("*.py"))  # else a namespace package, or a data folder with the name of a module
        yield from filter(_is_sent, sorted(package.rglob("*" if everything else "*.py")))
    for pattern in files:
        yield from _matching(folder, pattern)


def _matching(folder: Path, pattern: str) -> list[Path]:
    """Return the files that match a pattern; as in a shell, hidden files only if the pattern names them."""
    try:
        found = sorted(folder.glob(pattern))
    except (ValueError, IndexError):
        raise UsageError(f"files: {pattern}: expected a file pattern such as data/*.csv") from None
    hidden = any(part.startswith(".") for part in Path(pattern).parts)
    named = [path for path in found if hidden or not any(p.startswith(".") for p in path.relative_to(folder).parts)]
    inside = [path for path in named if path.resolve().is_relative_to(folder)]
    if named and not inside:
        raise UsageError(f"files: {pattern}: is a link to a file outside {folder.name}/; expected files inside it")
    if not (sent := [path for path in inside if path.is_file() and "__pycache__" not in path.parts]):
        raise UsageError(f"files: {pattern}: no such file in {folder.name}/")
    return sent


def _is_sent(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts


@cache
def _tools() -> dict[str, bytes]:
    """Return the tools and PyYAML in plain Python, by path in the archive."""
    found = {"tools/__main__.py": MAIN.encode()}
    for package, name, endings in ((trace_tools, OURS, TOOLS), (yaml, "yaml", {".py"})):
        root = Path(str(package.__file__)).parent
        paths = (path for path in sorted(root.rglob("*")) if path.suffix in endings and _is_sent(path))
        inside = ((path.relative_to(root), path) for path in paths)
        found |= {f"tools/{name}/{at.as_posix()}": path.read_bytes() for at, path in inside if at.parts[0] not in STAYS}
    return found


def _archive(contents: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=6) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in sorted(contents.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o600
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()

"""Find the pages of a folder that differ from a fresh rendering of its traces.

    list(stale_files(Path("rendered")))     ["rendered/cpu/03-tensors.html: differs", "rendered/index.md: missing"]

All pages are rendered in memory and compared byte by byte, in both directions, so that pages of no trace are found as
well. Other files in the folder (such as a picture) are ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePath

from trace_tools.errors import UsageError
from trace_tools.pages.site import REPORTS, in_languages, site_files, traces_in
from trace_tools.util.files import MANIFEST, manifest

TRACE = "trace.yaml"
_AT_THE_TOP = re.compile(r"[\w-]+\.(?:html|md)|\.pages")


def stale_files(folder: Path, lecture: Path | None = None) -> Iterator[str]:
    """Yield a line for each file that differs, is missing, or belongs to no trace, in order.

    `lecture` is the current lecture; without it, or if its name differs, the file with the traces' name next to the
    folder is used. Raises UsageError without a trace, TraceFileError for an unreadable one.
    """
    site, compared = traces_in(folder, lecture)
    if not any(not one.partial for one in site):
        raise UsageError(f"{folder}: no traces; expected */{TRACE}")
    files_by_folder: dict[str, dict[str, bytes]] = {}
    for language, translated in in_languages(site).items():
        reports = compared if (folder / REPORTS).is_dir() else ()
        files_of = site_files(translated, folder / language, reports)
        files_by_folder |= {str(PurePath(language, inner)): files for inner, files in files_of.items()}
    expected = {
        str(PurePath(inner, name)): content
        for inner, files in files_by_folder.items()
        for name, content in {**files, MANIFEST: manifest(files)}.items()
    }
    existing = set()  # all that rendering can make: everything in its folders, and pages at the top level
    for root, folders, names in os.walk(folder):
        inside = Path(root).relative_to(folder)
        folders[:] = [name for name in folders if not name.startswith(".")]
        existing |= {str(inside / name) for name in names if inside.parts or _AT_THE_TOP.fullmatch(name)}
    existing -= {f"{one.folder}/{TRACE}" for one in site}
    for name in sorted(existing | expected.keys()):
        if name not in existing:
            yield f"{folder / name}: missing"
        elif name not in expected:
            yield f"{folder / name}: made from no trace"
        elif (folder / name).read_bytes() != expected[name]:
            yield f"{folder / name}: differs"

"""A folder of traces and pages → what of it is not what rendering these traces makes now.

    list(stale_files(Path("rendered")))     ["rendered/cpu/03-tensors.html: differs", "rendered/index.md: missing"]

Everything is made anew in a folder of its own and compared byte by byte, names both ways: a page that nothing
makes any more is found, too. What people put there besides (a picture at its top, say) is left alone.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from trace_tools.comparing.compare import compare
from trace_tools.comparing.difference import Side
from trace_tools.comparing.reports.folder import write_reports
from trace_tools.errors import UsageError
from trace_tools.file_format.trace_file import load
from trace_tools.garbage import collector_paused
from trace_tools.publishing.site import REPORTS, render_folder

TRACE = "trace.yaml"
_AT_THE_TOP = re.compile(r"[\w-]+\.(?:html|md)|\.pages")


def stale_files(folder: Path, lecture: Path | None = None) -> Iterator[str]:
    """Yield a line for each file that differs, is missing, or is made from no trace, in order.

    `lecture` is the lecture as it is now; without it, or where it has another name, the file of the traces'
    name beside the folder. Raises
    UsageError where there is no trace, TraceFileError for one that can't be read.
    """
    traces = sorted(folder.glob(f"*/{TRACE}"), key=lambda path: path.parent.name)
    if not traces:
        raise UsageError(f"{folder}: no traces; expected */{TRACE}")
    named = load(traces[0]).trace.run.lecture
    if lecture is None or lecture.name != Path(named).name:
        lecture = folder.resolve().parent / named
    with tempfile.TemporaryDirectory(prefix="check-") as made:
        fresh = Path(made) / folder.resolve().name
        _make(fresh, folder, traces, lecture)
        there, expected = _files(folder), _files(fresh)
        for name in sorted(there | expected):
            if name not in there:
                yield f"{folder / name}: missing"
            elif name not in expected:
                yield f"{folder / name}: made from no trace"
            elif (folder / name).read_bytes() != (fresh / name).read_bytes():
                yield f"{folder / name}: differs"


@collector_paused()
def _make(fresh: Path, folder: Path, traces: Sequence[Path], lecture: Path) -> None:
    """Render copies of the traces; the reports between them, too, where there are some."""
    for path in [*traces, *folder.glob(f"*/partial/{TRACE}")]:
        copy = fresh / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    (fresh / "index.html").touch()  # reports link to it, and it to them, whichever was made first
    if (folder / REPORTS).is_dir():
        found = [(str(path), load(path)) for path in traces]  # reports say where the traces lie
        compared = compare([Side(path, one.trace, one.notes) for path, one in found])
        write_reports(fresh / REPORTS, compared, "../index.html")
    render_folder(fresh, lecture)


def _files(folder: Path) -> set[str]:
    """Return the names of what rendering makes or could have made: all in its folders, and pages at the top."""
    found = set()
    for root, folders, names in os.walk(folder):
        inner = Path(root).relative_to(folder)
        folders[:] = [name for name in folders if not name.startswith(".")]
        found |= {str(inner / name) for name in names if inner.parts or _AT_THE_TOP.fullmatch(name)}
    return found

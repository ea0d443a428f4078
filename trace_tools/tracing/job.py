"""Define the task of a trace's processes. The tracer writes it to `job.json` in the run's folder, and everything else
about a run is read from there, also by `recover`.

    job = Job("/course/lecture.py", text, TraceOptions(), torch=True)
    job.write(folder)
    Job.read(folder) == job                  # True
    job.name, job.passes                     # "lecture.py", [ProcessId("pass", 1), …]
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from trace_tools.errors import TraceFileError
from trace_tools.trace.records import PASS, ProcessId
from trace_tools.tracing.options import TraceOptions
from trace_tools.util.files import replace_file

JOB = "job.json"
WRITTEN = "written.json"  # file in the run's folder: names of files that the last run wrote in its private copy


@dataclass(frozen=True, slots=True)
class Job:
    """The user's request, and the facts that the text of the lecture and the machine add to it."""

    lecture: str  # absolute path
    text: str  # source as the tracer read it
    options: TraceOptions
    torch: bool = False  # whether the lecture needs torch; else it is not loaded
    skipped: tuple[str, ...] = ()  # functions that the main function must not call
    device: str = "cpu"  # device type: "cpu", "cuda"
    started: str = ""  # time in UTC, to the second
    commit: str | None = None
    root: str = ""  # private copy of the lecture's folder, where it runs
    parent: int = 0  # process id of the tracer

    @classmethod
    def read(cls, folder: Path) -> Job:
        """Read the job in a run's folder. Raises TraceFileError if it is damaged."""
        try:
            return msgspec.convert(json.loads((folder / JOB).read_text(encoding="utf-8")), cls)
        except (ValueError, RecursionError) as error:
            raise TraceFileError(JOB, None, f"is damaged: {error}") from None

    def write(self, folder: Path) -> None:
        """Write the job into a run's folder. A run without it has recorded nothing."""
        replace_file(folder / JOB, json.dumps(asdict(self)))

    @property
    def folder(self) -> Path:
        """The folder of the lecture, or the folder that contains its outermost package."""
        package = self.options.package
        above = package.count(".") + 1 if package else 0
        return Path(self.lecture).parents[above]

    @property
    def name(self) -> str:
        """The path of the lecture in its folder."""
        return Path(self.lecture).relative_to(self.folder).as_posix()

    @property
    def path(self) -> str:
        """The path of the lecture in its private copy, where it runs."""
        return str(Path(self.root) / self.name)

    @property
    def passes(self) -> list[ProcessId]:
        """The processes that run the lecture."""
        return [ProcessId(PASS, number) for number in range(1, self.options.passes + 1)]

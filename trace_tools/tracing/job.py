"""The task of one process of a trace, which its parent writes as JSON and the process reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trace_tools.trace.identities import COLD, COUNTED, WARM
from trace_tools.tracing.options import TraceOptions

WRITTEN = "written.json"  # file in the run's folder: names of files that the last run wrote in its private copy
LOADED_TORCH = "loaded-torch"  # file in the run's folder: torch was loaded unexpectedly


@dataclass(frozen=True, slots=True)
class Job:
    """The task of one process."""

    name: str  # "pass 1"
    lecture: str  # absolute path
    root: str  # private copy of the lecture's folder, where it runs
    text: str  # source as the parent read it
    journal: str
    options: TraceOptions
    device: str  # device type: "cpu", "cuda"
    torch: bool  # whether the lecture needs torch; else it is not loaded
    counts: bool  # whether another run counts operators
    skipped: list[str]  # functions that `main` must not call
    progress: int  # file descriptor
    parent: int  # process id

    @property
    def path(self) -> str:
        """The path of the lecture in its private copy, where it runs."""
        return str(Path(self.root) / Path(self.lecture).relative_to(self.folder))

    @property
    def folder(self) -> Path:
        """The folder of the lecture, or the folder that contains its outermost package."""
        package = self.options.package
        above = package.count(".") + 1 if package else 0
        return Path(self.lecture).parents[above]

    @property
    def run_folder(self) -> Path:
        """The folder of the run."""
        return Path(self.journal).parent

    @property
    def runs(self) -> tuple[str, ...]:
        """The names of this process's runs, in order."""
        return COLD, *(() if self.options.draft else (WARM,)), *((COUNTED,) if self.counts else ())

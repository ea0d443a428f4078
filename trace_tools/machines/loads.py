"""Describe the load by other processes during each recorded process.

    load_text(Process("pass 1", "complete", other_cores=0.97))     "other processes used 0.97 cores"
    is_loaded(Process("pass 1", "complete", other_cores=0.02))     False
    load_average_of(trace.run)                                     1.1: a load average of 2.2 on 2 cores

Load makes a run longer, never shorter. The CPU time of other processes shows how much else ran at the same time. If the
system does not report it, and in traces older than that record, the load average is used instead. It lags by a minute,
and it counts the lecture's own threads.
"""

from __future__ import annotations

import re
from statistics import median

from trace_tools.machines.host import LOADED_CORES
from trace_tools.trace.identities import PASS
from trace_tools.trace.model import Process, Run
from trace_tools.util import formats

_NOTED = re.compile(r"load average (\d+\.\d+) on ([1-9]\d*) cores")  # as written by `machines.host`


def timed(run: Run) -> list[Process]:
    """Return the processes that have times in the trace."""
    return [process for process in run.processes if process.id.kind == PASS]


def is_loaded(process: Process) -> bool:
    """Return whether other processes used so much of the machine that they may have slowed this one."""
    if process.other_cores is not None:
        return process.other_cores >= LOADED_CORES
    return _noted(process) is not None


def load_text(process: Process) -> str | None:
    """Describe the load during a process; None without load."""
    if not is_loaded(process):
        return None
    if process.other_cores is not None:
        return f"other processes used {formats.number(process.other_cores, 2)} cores"
    noted = _noted(process)
    return noted and noted[0]


def loads_text(run: Run) -> str | None:
    """Describe the load of all timed processes in one line, the heaviest first; None without load."""
    loaded = [process for process in timed(run) if is_loaded(process)]
    if not loaded:
        return None
    heaviest = max(loaded, key=lambda process: (process.other_cores or 0.0, _average(process)))
    more = len(loaded) - 1
    others = f" and there was load in {more} more pass{'es' * (more > 1)}" if more else ""
    return f"{load_text(heaviest)} in {heaviest.name}{others}"


def is_run_loaded(run: Run) -> bool:
    """Return whether at least half of the timed processes ran under load."""
    processes = timed(run)
    return bool(processes) and 2 * sum(map(is_loaded, processes)) >= len(processes)


def load_average_of(run: Run) -> float:
    """Return the median over timed processes of the load average per core, counting processes without load as 0.

    The median, because a load average lags: the first process may still report earlier programs.
    """
    return median([_average(process) if is_loaded(process) else 0.0 for process in timed(run)] or [0.0])


def loaded_passes(run: Run, count: int) -> list[bool]:
    """Return for each of `count` durations, one per pass, whether it was measured under load.

    If some pass has no duration, the durations can't be assigned to passes; then all count as loaded if any pass was.
    """
    loaded = {process.id.pass_ for process in timed(run) if is_loaded(process)}
    if count != run.passes:
        return [bool(loaded)] * count
    return [number in loaded for number in range(1, count + 1)]


def _noted(process: Process) -> re.Match[str] | None:
    """Return the match for the largest load average in the notes."""
    noted = [match for note in process.notes or () if (match := _NOTED.match(note))]
    return max(noted, key=lambda match: float(match[1]), default=None)


def _average(process: Process) -> float:
    noted = _noted(process)
    return float(noted[1]) / int(noted[2]) if noted else 0.0

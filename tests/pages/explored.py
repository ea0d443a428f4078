"""A lecture with calculators (calls of `explore`), for tests of pages."""

from __future__ import annotations

from tests.pages.recording import Recording
from trace_tools import explore
from trace_tools.lecture.vocabulary import listening
from trace_tools.trace.model import Narrative, Text, Trace

GPUS = {"H100": {"peak": 1e15, "memory": 80e9}, "A100 <b>": {"peak": 312e12, "memory": 40e9}}
STAGES = {"none": {"stage": 0}, "all": {"stage": 3}}


def training(parameters: float, gpus: float, mfu: float, peak: float) -> dict[str, float]:
    """Days"""
    days = 6 * parameters * 1e12 / (gpus * mfu * peak) / 86_400
    return {"days": days, "quick": days < 10}


def holding(billions: float, gpus: float, stage: float, memory: float) -> dict[str, float]:
    """Bytes"""
    weights = 2 * billions * 1e9 / (gpus if stage >= 3 else 1.0)
    states = 8 * billions * 1e9 / (gpus if stage >= 1 else 1.0)
    return {"weights": weights, "states": states, "share": (weights + states) / memory, "memory": memory}


def explored() -> list[Narrative]:
    """Return the narratives of two calls of `explore`."""
    narratives: list[Narrative] = []
    with listening(narratives.append):
        explore(
            training,
            "It takes {days} on {gpus} {GPU}s, {quick?which is quick|more than ten (an MFU of {mfu})}.",
            title="How long",
            inputs={"parameters": (70e9, 1e6, 1e13), "gpus": (1024, 1, 100_000), "mfu": (0.5, 0.05, 1.0)},
            menus={"GPU": GPUS},
            names={"mfu": "MFU", "gpus": "GPUs"},
            units={"days": "days", "peak": "FLOP/s"},
            curve=("mfu", "days"),
            across="GPU",
        )
        explore(
            holding,
            "{share} of the memory.",
            inputs={"billions": (7.0, 0.1, 1000.0), "gpus": (8, 1, 1024)},
            menus={"sharded": STAGES, "GPU": GPUS},
            units={"weights": "B", "states": "B", "memory": "B", "share": "%"},
            stack=("weights", "states"),
            limit="memory",
            across="sharded",
        )
    return narratives


EXPLORED = explored()


def explored_lecture() -> Trace:
    """Return a trace of a section with both calculators between prose."""
    recording = Recording("def main():\n    f()\ndef f():\n    explore(training)  # @cover\n")
    narratives = [Text(text="Before.\n\n" * 30), *EXPLORED, Text(text="## After\n\nIt.")]
    recording.step(recording.call(recording.frame("main"), "f()", "f"), "explore(", narrative=narratives)
    return recording.trace()

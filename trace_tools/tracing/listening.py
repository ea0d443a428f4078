"""Record the output of a lecture while it runs: narrative calls, printed text and warnings."""

from __future__ import annotations

import base64
import inspect
import os
import re
import threading
import timeit
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from sys import _getframe
from types import FrameType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from trace_tools.describing.redact import MARGIN
from trace_tools.edtrace.words import Piece, join_pieces
from trace_tools.lecture import vocabulary
from trace_tools.metering.measurement import NOTHING_COUNTED, Call, Measurement, called_once
from trace_tools.trace.model import Image, Narrative, Video
from trace_tools.trace.records import to_plain
from trace_tools.tracing.instrument import is_generated
from trace_tools.tracing.isolation.output_capture import printing
from trace_tools.tracing.recorder.limits import ROOMS, TEXT, thinned
from trace_tools.tracing.recorder.recorder import Recorder
from trace_tools.util.interpreter import replaced

if TYPE_CHECKING:
    from trace_tools.metering.meters import Meter


MADE_BYTES = 1 << 20  # largest image that the lecture itself makes, because the trace stores it
MEDIA = {"png": "png", "jpg": "jpeg", "jpeg": "jpeg", "gif": "gif", "webp": "webp", "svg": "svg+xml"}
_ENDS = 32 * ROOMS["stdout"]  # characters at each end of a long print that are searched for secrets


@contextmanager
def listening(recorder: Recorder, redact: Callable[[str], str], real: Path | None = None) -> Iterator[None]:
    """Record narrative calls, printed text, warnings, and the frame that started each thread.

    `real` is the lecture's folder if the lecture runs in a copy of it.
    """
    start, timeit_before, arguments_of = threading.Thread.start, timeit.Timer.timeit, inspect.getargvalues

    def recorded_start(self: threading.Thread) -> None:
        if not recorder.timed:
            recorder.starts(self, _getframe(1))
        start(self)

    def record_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = f"{category.__name__}: {message}"[: TEXT + MARGIN]
        recorder.emit("warnings", redact(text)[:TEXT])

    def record_narrative(narrative: Narrative) -> None:
        path = narrative.url if isinstance(narrative, Image) else ""  # or a video
        made = real is not None and os.path.isfile(path) and not os.path.exists(os.path.join(real, path))
        if isinstance(narrative, Image) and not isinstance(narrative, Video) and made:
            try:
                narrative = replace(narrative, url=_as_data(path))
            except (OSError, ValueError) as error:
                recorder.emit("warnings", redact(f"NotShown: image: {error}"))
        elif path and not re.match(r"[a-zA-Z][a-zA-Z0-9+.-]+:", path):  # no address
            names = {path, unquote(path)}
            if not any(os.path.isfile(os.path.join(folder, name)) for folder in ("", real or "") for name in names):
                problem = f"NotShown: {narrative.kind}: {path!r} is not in the lecture's folder"
                recorder.emit("warnings", redact(problem))
        joined = join_pieces if isinstance(narrative, Piece) else None
        recorder.emit("narrative", _redacted(to_plain(thinned(narrative)), redact), joined)

    def record_text(text: str) -> None:
        if len(text) <= 2 * _ENDS:
            text = redact(text)
        else:  # only the ends may be kept: as many dots replace the middle, because its length is counted
            first, last = redact(text[:_ENDS])[:-MARGIN], redact(text[-_ENDS:])[MARGIN:]  # a cut could halve a secret
            text = first + "." * (len(text) - 2 * _ENDS + 2 * MARGIN) + last
        recorder.printed(text)

    def timeit_as_written(self: timeit.Timer, number: int = 1_000_000) -> float:
        with recorder.as_written():
            return timeit_before(self, number)

    def own_arguments(frame: FrameType) -> inspect.ArgInfo:
        info = arguments_of(frame)
        return info._replace(locals={name: info.locals[name] for name in info.locals if not is_generated(name)})

    with ExitStack() as stack:
        stack.enter_context(replaced(warnings, "showwarning", record_warning))
        stack.enter_context(replaced(threading.Thread, "start", recorded_start))
        stack.enter_context(replaced(timeit.Timer, "timeit", timeit_as_written))  # torch.utils.benchmark calls it
        stack.enter_context(replaced(inspect, "getargvalues", own_arguments))  # Lightning's save_hyperparameters does
        stack.enter_context(printing(record_text))
        stack.enter_context(vocabulary.listening(record_narrative, recorder.clock.excluded))
        yield


def _redacted(plain: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(plain, str):
        return plain if plain.startswith("data:image/") else redact(plain)  # encoded data has no words to redact
    if isinstance(plain, list | tuple):
        return [_redacted(item, redact) for item in plain]
    if isinstance(plain, dict):
        return {key: _redacted(value, redact) for key, value in plain.items()}
    return plain


def _as_data(path: str) -> str:
    """Return an image that the lecture has made as a data URL, because its file is deleted after the run.

    Raises ValueError for an image that is too large for a trace, or a name without an image's extension.
    """
    media, size = MEDIA.get(Path(path).suffix[1:].lower()), os.path.getsize(path)
    if media is None or size > MADE_BYTES:
        why = f"{size:,} bytes; at most {MADE_BYTES:,} are kept" if media else "of an unknown kind"
        raise ValueError(f"{path} was made by the lecture and is {why}")
    return f"data:image/{media};base64,{base64.b64encode(Path(path).read_bytes()).decode('ascii')}"


# --- measurements ---------------------------------------------------------------------------------


class MeasureWitness:
    """Marks the steps that run `measure` or `count`, and records each measurement.

    A timed run records its seconds. The counted run records the counts of one call of the function, between two
    readings of the meter. `merge` combines both, so a rate refers to one call. The time and operators of the step
    itself cover hundreds of calls, which its mark states.
    """

    def __init__(self, recorder: Recorder, meter: Meter | None) -> None:
        self.recorder = recorder
        self.meter = meter

    def on_count(self, f: Callable[..., Any]) -> Callable[..., Any]:
        self.recorder.mark("harness")
        return self.recorder.as_written()(f)

    def on_measure(self, functions: Sequence[Call], sample: Callable[[], list[Measurement]]) -> list[Measurement]:
        self.recorder.mark("harness")
        if self.meter is not None:
            return [self._count_one_call(f, self.meter) for f in functions]
        with self.recorder.as_written():
            measurements = sample()
        for measurement in measurements:
            self.recorder.emit("measured", {"seconds": [measurement.seconds]})
        return measurements

    def _count_one_call(self, f: Call, meter: Meter) -> Measurement:
        """Call `f` once, and record its counts."""
        before = meter.reading()
        with self.recorder.as_written():
            measurement = called_once(f)
        counts = (meter.reading() - before).plain()
        figures = ("flops", "bytes_read", "bytes_written", "dtype", "operators", "work", "why")
        plain = {name: counts[name] for name in figures if counts[name] is not None}
        plain |= {name: counts[name] for name in ("collectives", "uncounted", "meta_flops") if counts[name]}
        if not counts["operators"]:
            plain = {"why": NOTHING_COUNTED}
        self.recorder.emit("measured", {"seconds": [measurement.seconds], **plain})
        return measurement

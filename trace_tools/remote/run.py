"""Trace on all machines of a fleet at once, into OUT/<name>/; existing traces are kept.

    fleet = Fleet(inventory, beside, Path("lecture.py"), Path("rendered"), TraceOptions(passes=3))
    for outcome in fleet.run():           # as they finish
        outcome.path or outcome.why       # rendered/h200/trace.yaml, or one line

A machine that fails does not stop the others. Received files are not trusted: their size is bounded, they are
validated, must be of this lecture, request and name, and are written again from the parsed content.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from trace_tools import __version__
from trace_tools.errors import TraceToolsError, UsageError, is_refusal
from trace_tools.errors import in_words as error_in_words
from trace_tools.remote.inventory import Entry, Inventory, devices_of, folder_of
from trace_tools.remote.transports import GRACE_S, command_for, environment, host_of, in_words, pack, sky_task
from trace_tools.remote.worker import MARK
from trace_tools.source.imports import imported
from trace_tools.source.statements import read_source
from trace_tools.trace.model import Trace
from trace_tools.trace.trace_file import load, write
from trace_tools.tracing.options import TraceOptions
from trace_tools.tracing.plan import refuse_options
from trace_tools.tracing.progress import Progress
from trace_tools.tracing.run_folder import refuse_other_lecture
from trace_tools.util import formats
from trace_tools.util.files import replace

STAMPS = ".fleet.json"  # in OUT: for each folder, the request that its trace answers, and the file's identity
LINE_BYTES = 1 << 17  # longest line from a machine
PACKED_BYTES = 192 << 20  # largest packed trace
TRACE_BYTES = 256 << 20  # far above the tracer's own size limit
OUTPUT_BYTES = 64 << 20  # most output besides the trace
ENDLESS = "the host keeps sending unexpected output"
ERROR_LINES = 40  # last lines of standard error that are kept
MINUTE_S = 60
DONE = b"ok\n"  # tells a batch job's script that its files are no longer needed
SHOWN = 300  # characters of a machine's message that are shown

OnProgress = Callable[[str, Progress], None]  # takes a machine's folder and its message


class NotTracedError(TraceToolsError):
    """One machine's failure, in one line."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one machine: its trace with its path, or the reason why it has no trace."""

    folder: str
    path: Path | None = None
    trace: Trace | None = None
    why: str | None = None
    fresh: bool = True  # False: it existed before


class Fleet:
    """Traces one lecture on all machines of an inventory. Raises UsageError or LectureError before anything is sent."""

    def __init__(
        self,
        inventory: Inventory,
        beside: Path,
        lecture: Path,
        out: Path,
        options: TraceOptions,
        on_progress: OnProgress = lambda folder, message: None,
        *,
        again: bool = False,
    ) -> None:
        """Take the inventory's folder as `beside`; each machine has its own device, name and nodes."""
        source = read_source(lecture)
        refuse_options(source, options)
        self.bundle = pack(lecture, inventory.files)
        self.needs = imported(source, lecture.resolve().parent)
        self.beside, self.out, self.options, self._on_progress, self._again = beside, out, options, on_progress, again
        self._stopped = threading.Event()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        # Entries on one machine run in turn, because they would slow each other's clocks.
        self._lanes: dict[str, list[tuple[Entry, str | None]]] = defaultdict(list)
        for entry in inventory.machines:
            for device in devices_of(entry):
                lane = f"{entry.name} {device}" if entry.engine == "slurm" else host_of(entry) or ""
                self._lanes[lane].append((entry, device))
        for entry, device in self._all():
            if entry.nodes is not None and (not options.ranks or options.ranks % entry.nodes):
                raise UsageError(f"{entry.name}: expected --ranks, a multiple of its {entry.nodes} nodes")
            if not options.force:
                refuse_other_lecture(out / folder_of(entry, device) / "trace.yaml", lecture.name)

    def _all(self) -> list[tuple[Entry, str | None]]:
        return [one for lane in self._lanes.values() for one in lane]

    def __len__(self) -> int:
        return len(self._all())

    def run(self) -> Generator[Outcome, None, None]:
        """Yield the result of each machine as it ends. Ctrl-C, or closing the generator, ends all remaining runs."""
        done: queue.Queue[Outcome] = queue.Queue()
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.out}: can't be written: {error.strerror}") from None
        threads = [threading.Thread(target=self._lane, args=(lane, done)) for lane in self._lanes.values()]
        try:
            for thread in threads:
                thread.start()
            for _ in self._all():
                yield done.get()
        finally:
            self._stopped.set()
            with self._lock:
                running = [*self._running]
            for process in running:
                _hang_up(process)
            for thread in threads:
                if thread.ident is not None:
                    thread.join()

    def _lane(self, lane: list[tuple[Entry, str | None]], done: queue.Queue[Outcome]) -> None:
        for entry, device in lane:
            if self._stopped.is_set():  # the others are no longer needed
                return
            folder = folder_of(entry, device)
            try:
                outcome = self._existing(entry, device) or self._traced(entry, device)
            except TraceToolsError as error:
                outcome = Outcome(folder, why=_shown(str(error)))
            except Exception as error:  # the caller waits for each machine's result
                ours = "" if is_refusal(error) else f"trace-tools failed: {type(error).__name__}: "
                outcome = Outcome(folder, why=_shown(ours + error_in_words(error)))
            done.put(outcome)

    # --- existing traces ------------------------------------------------------------------------------------------

    def _options(self, entry: Entry, device: str | None) -> dict[str, Any]:
        """Return one machine's options, without `force`, which applies only to the trace on this machine."""
        own = {"device": device, "name": folder_of(entry, device), "nodes": entry.nodes, "force": False}
        return {**asdict(self.options), **own}

    def _key(self, entry: Entry, device: str | None) -> str:
        left_out = ("minutes", "folder", "devices")
        machine = {name: value for name, value in asdict(entry).items() if name not in left_out}
        request = json.dumps([machine, self._options(entry, device), self.bundle.lecture], sort_keys=True)
        return hashlib.sha256(f"{self.bundle.digest} {request}".encode()).hexdigest()

    def _existing(self, entry: Entry, device: str | None) -> Outcome | None:
        folder = folder_of(entry, device)
        path = self.out / folder / "trace.yaml"
        stamp = _stamps(self.out).get(folder)
        if self._again or stamp is None or not path.is_file():
            return None
        if stamp != [self._key(entry, device), hashlib.sha256(path.read_bytes()).hexdigest()]:
            return None
        self._on_progress(folder, Progress("exists already"))
        return Outcome(folder, path, load(path).trace, fresh=False)

    def _stamp(self, entry: Entry, device: str | None, path: Path) -> None:
        """Note the request that a trace answers, after other fleets that update the stamps."""
        with self._lock:
            descriptor = os.open(self.out, os.O_RDONLY)
            try:
                with suppress(OSError):  # NFS cannot lock folders
                    fcntl.flock(descriptor, fcntl.LOCK_EX)  # the lock ends with its process
                stamps = _stamps(self.out)
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                stamps[folder_of(entry, device)] = [self._key(entry, device), digest]
                replace(self.out / STAMPS, json.dumps(stamps, indent=1, sort_keys=True) + "\n")
            finally:
                os.close(descriptor)

    # --- remote tracing -------------------------------------------------------------------------------------------

    def _traced(self, entry: Entry, device: str | None) -> Outcome:
        folder = folder_of(entry, device)
        if entry.engine == "sky":
            task = self.out.parent / f"{entry.name}.sky.yaml"
            content = sky_task(entry, self.bundle, sorted(self.needs)).encode()
            if not task.is_file() or task.read_bytes() != content:
                replace(task, content)
            self._on_progress(entry.name, Progress(f"its task is {task}"))
        options = self._options(entry, device)
        request = {"lecture": f"lecture/{self.bundle.lecture}", "torch": entry.torch, "options": options}
        key = self._key(entry, device)
        command = command_for(entry, len(self.bundle.archive), request, self.beside, key, again=self._again)
        content = self._fetched(entry, folder, command)
        with tempfile.TemporaryDirectory(prefix="fleet-") as temporary:
            arrived = Path(temporary) / "trace.yaml"
            arrived.write_bytes(content)
            try:
                loaded = load(arrived)
            except TraceToolsError as error:
                raise NotTracedError(f"sent no trace: {str(error).replace(str(arrived), 'trace.yaml')}") from None
        trace = loaded.trace
        if (why := self._why_other(trace, folder)) is not None or loaded.notes:
            raise NotTracedError(f"sent the wrong trace: {why or loaded.notes[0]}")
        is_whole = trace.run.complete and trace.run.only is None
        path = self.out / folder / ("trace.yaml" if is_whole else "partial/trace.yaml")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{path.parent}: can't be written: {error.strerror}") from None
        write(trace, path)
        if is_whole:
            shutil.rmtree(path.with_name("partial"), ignore_errors=True)
            self._stamp(entry, device, path)
        return Outcome(folder, path, trace)

    def _why_other(self, trace: Trace, folder: str) -> str | None:
        """Return how a trace differs from this lecture, its options and name, or None."""
        run = trace.run
        texts = {source.path: source.text for source in trace.sources}
        expected = {"name": (trace.machine.slug, folder), "lecture": (run.lecture, self.bundle.lecture)}
        expected |= {name: (getattr(run, name), value) for name, value in self.options.recorded().items()}
        for name, (actual, wanted) in expected.items():
            if actual != wanted:
                return f"its {name} is {actual!r}, not {wanted!r}"
        same = texts.get(self.bundle.lecture) == self.bundle.text
        return None if same else "it is from another version of the lecture"

    def _fetched(self, entry: Entry, folder: str, command: list[str]) -> bytes:
        """Run the command, send the archive, and return the trace that it sends back."""
        self._on_progress(folder, Progress("here" if entry.engine == "local" else "connecting"))
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(entry, os.environ),
            start_new_session=True,  # so that a terminal's Ctrl-C reaches only this process
        )
        assert process.stdin and process.stdout and process.stderr
        errors: deque[str] = deque(maxlen=ERROR_LINES)
        beside = [
            threading.Thread(target=_send, args=(process.stdin, self.bundle.archive), daemon=True),
            threading.Thread(target=self._listen, args=(process, process.stderr, errors, folder), daemon=True),
        ]
        late = threading.Event()

        def end() -> None:
            late.set()
            _hang_up(process)

        timer = threading.Timer(entry.minutes * MINUTE_S, end)
        timer.daemon = True
        with self._lock:
            self._running.add(process)
        try:
            for thread in (*beside, timer):
                thread.start()
            if self._stopped.is_set():
                _hang_up(process)
            received = _Received(lambda message: self._on_progress(folder, message))
            last = b""
            try:
                received.read(process.stdout)
                last = DONE if received.ended or received.why else b""
            except NotTracedError:  # further output does not matter
                last = DONE
                raise
            finally:
                _hang_up(process, last if entry.batch else b"")
                status = process.wait()
                for thread in beside:
                    thread.join(1.0)
        finally:
            timer.cancel()
            with self._lock:
                self._running.discard(process)
            for stream in (process.stdin, process.stdout, process.stderr):
                with suppress(OSError, ValueError):
                    stream.close()
        goes_on = "; its job is still running, and the same command fetches its trace" if entry.batch else ""
        if self._stopped.is_set() and not received.ended:
            raise NotTracedError(f"interrupted{goes_on or '; the folder on that host was removed'}")
        if late.is_set() and not received.ended:
            raise NotTracedError(f"took longer than {formats.plural(entry.minutes, 'minute')} (`minutes`){goes_on}")
        if received.why is not None:
            raise NotTracedError(received.why)
        if received.ended is None:
            why = in_words(entry, status, errors)
            if entry.engine == "sky" and status == 255:
                why += (
                    f"; `sky launch -c {entry.name} {entry.name}.sky.yaml` starts it, `sky down {entry.name}` ends it"
                )
            raise NotTracedError(f"{why} (the run stopped before it finished)" if received.began else why)
        return received.content()

    def _listen(self, process: subprocess.Popen[bytes], stream: IO[bytes], errors: deque[str], folder: str) -> None:
        length = 0
        with suppress(OSError, ValueError):  # the stream is closed
            while line := stream.readline(LINE_BYTES):
                length += len(line)
                if length > OUTPUT_BYTES:  # keep reading, or the remote process could not finish writing and would wait
                    if errors[-1] != ENDLESS:
                        errors.append(ENDLESS)
                        _hang_up(process)
                    continue
                text = line.decode("utf-8", "replace").strip()
                errors.append(text)
                by, _, where = text.partition(": ")
                if (by == "srun" and ("queued" in where or "allocated" in where)) or by == "sbatch":
                    self._on_progress(folder, Progress(_shown(where)))


class _Received:
    """The output of a machine so far. Raises NotTracedError if it is invalid or too long."""

    def __init__(self, on_progress: Callable[[Progress], None]) -> None:
        self._on_progress = on_progress
        self.began = False
        self.why: str | None = None
        self.ended: str | None = None
        self._pieces: list[str] = []
        self._packed = self._other = 0

    def read(self, stream: IO[bytes]) -> None:
        """Read to the end of the stream, or to the last line."""
        at_line_start = True  # the previous piece ended a line
        while self.ended is None and self.why is None and (line := stream.readline(LINE_BYTES)):
            has_mark = at_line_start and line.startswith(MARK.encode())
            at_line_start = line.endswith(b"\n")
            if has_mark and at_line_start:  # a whole line
                self._take(line[len(MARK) :])
            else:
                self._count(len(line))

    def _count(self, length: int) -> None:
        self._other += length
        if self._other > OUTPUT_BYTES:
            raise NotTracedError(ENDLESS)

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        progress = Progress.read(message.pop("at")) if isinstance(message, dict) and "at" in message else None
        texts = isinstance(message, dict) and all(isinstance(value, str | None) for value in message.values())
        if not texts or (not message and progress is None):
            raise NotTracedError(f"sent unexpected output: {_shown(line.decode('utf-8', 'replace'))}")
        if "trace" in message:
            self._pieces.append(message["trace"] or "")
            self._packed += len(self._pieces[-1])
            if self._packed > PACKED_BYTES:
                raise NotTracedError(f"sends more than {formats.byte_size(PACKED_BYTES)}; no trace is that large")
            return
        self._count(len(line))
        if "version" in message:
            self.began = True
            if message["version"] != __version__:
                raise NotTracedError(f"has trace-tools {_shown(str(message['version']))}, not {__version__}")
            versions = f"Python {message.get('python')}, torch {message.get('torch') or 'none'}"
            self._on_progress(Progress(_shown(versions)))
        elif progress is not None:
            self._on_progress(Progress(_shown(progress.process), _shown(progress.where)))
        elif "why" in message:
            self.why = _shown(message["why"] or "")
        elif "end" in message:
            self.ended = message["end"] or ""

    def content(self) -> bytes:
        """Return the received file, unpacked with a size limit."""
        unpacking = zlib.decompressobj()
        try:
            content = unpacking.decompress(base64.b64decode("".join(self._pieces), validate=True), TRACE_BYTES)
        except (zlib.error, binascii.Error, ValueError):
            raise NotTracedError("sent a trace that can't be unpacked") from None
        if unpacking.unconsumed_tail:
            raise NotTracedError(f"sends more than {formats.byte_size(TRACE_BYTES)}; no trace is that large")
        if hashlib.sha256(content).hexdigest() != self.ended:
            raise NotTracedError("sent a damaged trace (wrong checksum)")
        return content


def _send(stream: IO[bytes], archive: bytes) -> None:
    """Send the archive; the stream stays open to keep the connection."""
    with suppress(OSError, ValueError):  # the remote side reports why it stopped reading
        stream.write(archive)
        stream.flush()


def _hang_up(process: subprocess.Popen[bytes], last: bytes = b"") -> None:
    """End the connection and the remote run; kill a process that does not end."""
    # First, because closing waits for data in flight. The thread ends with the process, so that it does not prevent
    # forks.
    threading.Thread(target=_kill_late, args=(process,), daemon=True).start()
    if process.stdin is not None:
        with suppress(OSError, ValueError):
            process.stdin.write(last)
            process.stdin.close()


def _kill_late(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(GRACE_S + 5)
    except subprocess.TimeoutExpired:
        process.kill()


def _stamps(out: Path) -> dict[str, Any]:
    try:
        stamps = json.loads((out / STAMPS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return stamps if isinstance(stamps, dict) else {}


def _shown(text: str) -> str:
    """Return a machine's message as one line without control characters."""
    return formats.visible(formats.one_line(text, SHOWN))

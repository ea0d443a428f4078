"""A fleet's machines → one trace of each in OUT/<name>/, all at once; what is there already is not traced again.

    fleet = Fleet(inventory, beside, Path("lecture.py"), Path("rendered"), {"passes": 3}, told)
    for outcome in fleet.run():           # as they finish
        outcome.path or outcome.why       # rendered/h200/trace.yaml, or one line

A machine that fails costs only itself. What arrives is a file of a stranger: its size is bounded, it is checked as any
trace is, it must be of this lecture, this request and this name, and it is written anew from what was read.
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
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from trace_tools import __version__, formats
from trace_tools.errors import TraceToolsError, UsageError, is_refusal
from trace_tools.errors import in_words as error_in_words
from trace_tools.file_format.trace_file import load, write
from trace_tools.files import replace
from trace_tools.fleet.engines import GRACE_S, command_for, environment, host_of, in_words, sky_task
from trace_tools.fleet.inventory import Entry, Inventory, devices_of, folder_of
from trace_tools.fleet.parcel import pack
from trace_tools.fleet.there import MARK
from trace_tools.imports import imported
from trace_tools.schema import Trace
from trace_tools.statements import read_source
from trace_tools.tracing.run_folder import refuse_other_lecture
from trace_tools.tracing.tracer import Request, refuse_request

STAMPS = ".fleet.json"  # in OUT: of each folder, which request its trace answers, and which file that is
LINE_BYTES = 1 << 17  # of what a machine says, one line
PACKED_BYTES = 192 << 20  # of a trace on its way
TRACE_BYTES = 256 << 20  # the tracer's size cap lies far below
SAID_BYTES = 64 << 20  # of what is no trace
ENDLESS = "answers with rubbish without end"
SAID_LINES = 40  # of standard error, the end that is kept
MINUTE_S = 60
DONE = b"ok\n"  # to a batch job's script: nothing there is needed any more
SHOWN = 300  # characters of what a machine says, on one line

Told = Callable[[str, str], None]  # (folder, where it is)


class NotTracedError(TraceToolsError):
    """One machine's failure, in a line."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one machine: a trace and where it lies, or why there is none."""

    folder: str
    path: Path | None = None
    trace: Trace | None = None
    why: str | None = None
    fresh: bool = True  # False: it was there already


class Fleet:
    """Traces one lecture on all machines of an inventory. Raises UsageError or LectureError before anything is sent."""

    def __init__(
        self,
        inventory: Inventory,
        beside: Path,
        lecture: Path,
        out: Path,
        request: Mapping[str, Any],
        told: Told = lambda folder, where: None,
        *,
        again: bool = False,
    ) -> None:
        """Take the folder that the inventory lies `beside`, and what `Request` is given on every machine."""
        source = read_source(lecture)
        refuse_request(source, Request(lecture=lecture, **request))
        self.parcel = pack(lecture, inventory.files)
        self.needs = imported(source, lecture.resolve().parent)
        self.beside, self.out, self.request, self._told, self._again = beside, out, dict(request), told, again
        self._stopped = threading.Event()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        # What shares a machine runs there in turn, or each would slow the others' clocks.
        self._lanes: dict[str, list[tuple[Entry, str | None]]] = defaultdict(list)
        for entry in inventory.machines:
            for device in devices_of(entry):
                lane = f"{entry.name} {device}" if entry.engine == "slurm" else host_of(entry) or ""
                self._lanes[lane].append((entry, device))
        for entry, device in self._all():
            if entry.nodes is not None and (not request.get("ranks") or request["ranks"] % entry.nodes):
                raise UsageError(f"{entry.name}: expected --ranks, as many on each of its {entry.nodes} nodes")
            if not request.get("force"):
                refuse_other_lecture(out / folder_of(entry, device) / "trace.yaml", lecture.name)

    def _all(self) -> list[tuple[Entry, str | None]]:
        return [one for lane in self._lanes.values() for one in lane]

    def __len__(self) -> int:
        return len(self._all())

    def run(self) -> Generator[Outcome, None, None]:
        """Yield what came of each machine as it ends. Ctrl-C, or `close` of it, ends what still runs, there as well."""
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
            self._stop()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()

    def _stop(self) -> None:
        self._stopped.set()
        with self._lock:
            running = [*self._running]
        for process in running:
            _hang_up(process)

    def _lane(self, lane: list[tuple[Entry, str | None]], done: queue.Queue[Outcome]) -> None:
        for entry, device in lane:
            if self._stopped.is_set():  # nobody waits for the others
                return
            folder = folder_of(entry, device)
            try:
                outcome = self._there_already(entry, device) or self._traced(entry, device)
            except TraceToolsError as error:
                outcome = Outcome(folder, why=_shown(str(error)))
            except Exception as error:  # its machine's outcome is waited for
                ours = "" if is_refusal(error) else f"a fault of the tools: {type(error).__name__}: "
                outcome = Outcome(folder, why=_shown(ours + error_in_words(error)))
            done.put(outcome)

    # --- what is there already ------------------------------------------------------------------------------------

    def _asked(self, device: str | None) -> dict[str, Any]:
        return {"device": device, **{name: value for name, value in self.request.items() if name != "force"}}

    def _key(self, entry: Entry, device: str | None) -> str:
        how = {name: value for name, value in asdict(entry).items() if name not in ("minutes", "folder", "devices")}
        asked = json.dumps([how, self._asked(device), self.parcel.lecture], sort_keys=True)
        return hashlib.sha256(f"{self.parcel.digest} {asked}".encode()).hexdigest()

    def _there_already(self, entry: Entry, device: str | None) -> Outcome | None:
        folder = folder_of(entry, device)
        path = self.out / folder / "trace.yaml"
        stamp = _stamps(self.out).get(folder)
        if self._again or stamp is None or not path.is_file():
            return None
        if stamp != [self._key(entry, device), hashlib.sha256(path.read_bytes()).hexdigest()]:
            return None
        self._told(folder, "is there already")
        return Outcome(folder, path, load(path).trace, fresh=False)

    def _stamp(self, entry: Entry, device: str | None, path: Path) -> None:
        with self._lock, _alone(self.out):
            stamps = _stamps(self.out)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            stamps[folder_of(entry, device)] = [self._key(entry, device), digest]
            replace(self.out / STAMPS, json.dumps(stamps, indent=1, sort_keys=True) + "\n")

    # --- tracing there --------------------------------------------------------------------------------------------

    def _traced(self, entry: Entry, device: str | None) -> Outcome:
        folder = folder_of(entry, device)
        if entry.engine == "sky":
            self._write_task(entry)
        asked = self._asked(device)
        what = {"lecture": f"lecture/{self.parcel.lecture}", "name": folder, "torch": entry.torch}
        told = {**what, "nodes": entry.nodes, "request": asked}
        key = self._key(entry, device)
        command = command_for(entry, len(self.parcel.archive), told, self.beside, key, again=self._again)
        content = self._fetched(entry, folder, command)
        with tempfile.TemporaryDirectory(prefix="fleet-") as apart:
            arrived = Path(apart) / "trace.yaml"
            arrived.write_bytes(content)
            try:
                loaded = load(arrived)
            except TraceToolsError as error:
                raise NotTracedError(f"sent no trace: {str(error).replace(str(arrived), 'it')}") from None
        trace = loaded.trace
        if (why := self._is_another(trace, folder)) is not None or loaded.notes:
            raise NotTracedError(f"sent another trace than was asked for: {why or loaded.notes[0]}")
        whole = trace.run.complete and trace.run.only is None
        path = self.out / folder / ("trace.yaml" if whole else "partial/trace.yaml")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{path.parent}: can't be written: {error.strerror}") from None
        write(trace, path)
        if whole:
            shutil.rmtree(path.with_name("partial"), ignore_errors=True)
            self._stamp(entry, device, path)
        return Outcome(folder, path, trace)

    def _write_task(self, entry: Entry) -> None:
        task = self.out.parent / f"{entry.name}.sky.yaml"
        content = sky_task(entry, self.parcel, sorted(self.needs))
        if not task.is_file() or task.read_bytes() != content.encode():
            replace(task, content)
        self._told(entry.name, f"its task is {task}")

    def _is_another(self, trace: Trace, folder: str) -> str | None:
        """Say in what a trace is not that of this lecture, request and name."""
        run, asked = trace.run, self.request
        texts = {source.path: source.text for source in trace.sources}
        expected = {"name": (trace.machine.slug, folder), "lecture": (run.lecture, self.parcel.lecture)}
        for name in ("passes", "seed", "limit", "only", "keep_going", "inspect_all", "ranks"):
            if name in asked:
                expected[name] = (getattr(run, name), asked[name])
        for name, (found, wanted) in expected.items():
            if found != wanted:
                return f"its {name} is {found!r}, not {wanted!r}"
        return None if texts.get(self.parcel.lecture) == self.parcel.text else "it is of another text of the lecture"

    def _fetched(self, entry: Entry, folder: str, command: list[str]) -> bytes:
        """Run the command, send the archive, and return the trace that it writes back."""
        self._told(folder, "here" if entry.engine == "local" else "connecting")
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(entry, os.environ),
            start_new_session=True,  # a terminal's Ctrl-C is ours to pass on
        )
        assert process.stdin and process.stdout and process.stderr
        said: deque[str] = deque(maxlen=SAID_LINES)
        beside = [
            threading.Thread(target=_send, args=(process.stdin, self.parcel.archive), daemon=True),
            threading.Thread(target=self._listen, args=(process, process.stderr, said, folder), daemon=True),
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
            heard = _Heard(lambda where: self._told(folder, _shown(where)))
            last = b""
            try:
                heard.read(process.stdout)
                last = DONE if heard.ended or heard.why else b""
            except NotTracedError:  # nobody wants what else it has to say
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
        goes_on = "; its job goes on, and the same command brings its trace" if entry.batch else ""
        if self._stopped.is_set() and not heard.ended:
            raise NotTracedError(f"interrupted{goes_on or '; nothing of it is kept there'}")
        if late.is_set() and not heard.ended:
            raise NotTracedError(f"took longer than {formats.plural(entry.minutes, 'minute')} (`minutes`){goes_on}")
        if heard.why is not None:
            raise NotTracedError(heard.why)
        if heard.ended is None:
            why = in_words(entry, status, said)
            if entry.engine == "sky" and status == 255:
                why += (
                    f"; `sky launch -c {entry.name} {entry.name}.sky.yaml` starts it, `sky down {entry.name}` ends it"
                )
            raise NotTracedError(f"{why} (it stopped in the middle)" if heard.began else why)
        return heard.content()

    def _listen(self, process: subprocess.Popen[bytes], stream: IO[bytes], said: deque[str], folder: str) -> None:
        length = 0
        with suppress(OSError, ValueError):  # it is closed
            while line := stream.readline(LINE_BYTES):
                length += len(line)
                if length > SAID_BYTES:  # read on, or what ends there could not say so, and would wait
                    if said[-1] != ENDLESS:
                        said.append(ENDLESS)
                        _hang_up(process)
                    continue
                text = line.decode("utf-8", "replace").strip()
                said.append(text)
                by, _, where = text.partition(": ")
                if (by == "srun" and ("queued" in where or "allocated" in where)) or by == "sbatch":
                    self._told(folder, _shown(where))


class _Heard:
    """What a machine has said so far. Raises NotTracedError where that is rubbish, or has no end."""

    def __init__(self, told: Callable[[str], None]) -> None:
        self._told = told
        self.began = False
        self.why: str | None = None
        self.ended: str | None = None
        self._pieces: list[str] = []
        self._packed = self._other = 0

    def read(self, stream: IO[bytes]) -> None:
        """Read to the end, or to the line that is the last."""
        whole = True  # the piece before was the end of a line
        while self.ended is None and self.why is None and (line := stream.readline(LINE_BYTES)):
            mine = whole and line.startswith(MARK.encode())
            whole = line.endswith(b"\n")
            if mine and whole:
                self._take(line[len(MARK) :])
            else:
                self._count(len(line))

    def _count(self, length: int) -> None:
        self._other += length
        if self._other > SAID_BYTES:
            raise NotTracedError(ENDLESS)

    def _take(self, line: bytes) -> None:
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict) or not all(isinstance(value, str | None) for value in told.values()):
            raise NotTracedError(f"answers with rubbish: {_shown(line.decode('utf-8', 'replace'))}")
        if "trace" in told:
            self._pieces.append(told["trace"] or "")
            self._packed += len(self._pieces[-1])
            if self._packed > PACKED_BYTES:
                raise NotTracedError(f"sends more than {formats.byte_size(PACKED_BYTES)}; no trace is that large")
            return
        self._count(len(line))
        if "version" in told:
            self.began = True
            if told["version"] != __version__:
                raise NotTracedError(f"has the tools of version {_shown(str(told['version']))}, not {__version__}")
            self._told(f"Python {told.get('python')}, torch {told.get('torch') or 'none'}")
        elif "at" in told:
            self._told(told["at"] or "")
        elif "why" in told:
            self.why = _shown(told["why"] or "")
        elif "end" in told:
            self.ended = told["end"] or ""

    def content(self) -> bytes:
        """Return the file that was sent, unpacked within bounds."""
        unpacking = zlib.decompressobj()
        try:
            content = unpacking.decompress(base64.b64decode("".join(self._pieces), validate=True), TRACE_BYTES)
        except (zlib.error, binascii.Error, ValueError):
            raise NotTracedError("sent no trace: what arrived can't be unpacked") from None
        if unpacking.unconsumed_tail:
            raise NotTracedError(f"sends more than {formats.byte_size(TRACE_BYTES)}; no trace is that large")
        if hashlib.sha256(content).hexdigest() != self.ended:
            raise NotTracedError("sent a damaged trace: its checksum is another")
        return content


def _send(stream: IO[bytes], archive: bytes) -> None:
    """Send the archive; the stream stays open, as long as this connection is wanted."""
    with suppress(OSError, ValueError):  # why it takes no more, it says itself
        stream.write(archive)
        stream.flush()


def _hang_up(process: subprocess.Popen[bytes], last: bytes = b"") -> None:
    """End the connection, and what runs there with it; a process that does not end is killed."""
    # First: closing waits for what is being sent. It ends with the process, not to be in the way of forks.
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


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Wait for another fleet that writes down what is there; the system ends that with its process."""
    descriptor = os.open(out, os.O_RDONLY)
    try:
        with suppress(OSError):  # no lock for folders: NFS has none
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _stamps(out: Path) -> dict[str, Any]:
    try:
        found = json.loads((out / STAMPS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _shown(text: str) -> str:
    """Return what a machine says as it may be shown: one line, and nothing that a terminal obeys."""
    return formats.visible(formats.one_line(text, SHOWN))

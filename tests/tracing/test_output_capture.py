"""Captured standard output behaves like a file in plain Python; a separate plain process is the oracle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import require
from trace_tools.tracing.isolation.output_capture import OwnFile

STREAM = '''
import io, os, sys
def kind(stream):
    """The name of the type that plain Python has: there may be subclasses of it."""
    return next(t.__name__ for t in type(stream).__mro__ if t.__module__ in ("io", "_io"))
def main():
    out = sys.stdout
    print(kind(out), out.name, out.mode, out.encoding, out.errors, out.isatty(), out.line_buffering, out.fileno())
    print(out is sys.__stdout__, out.newlines, out.writable(), out.readable(), repr(out), out.closed)
    streams = [out.buffer, *([out.buffer.raw] if hasattr(out.buffer, "raw") else [])]
    for stream in streams:
        print(kind(stream), stream.name, stream.mode, stream.isatty(), stream.fileno(), stream.closed)
    out.reconfigure(errors="replace")
    print("a\\ud800b", end="\\r\\n")
    out.reconfigure(encoding="latin-1", errors="strict")
    print("é")
    try:
        print("€")
    except UnicodeEncodeError as error:
        print(error.encoding)
    out.reconfigure(encoding="utf-8", line_buffering=True)
    out.buffer.write("€".encode()[:2])
    out.buffer.write(bytearray("€\\n".encode()[2:]))
    out.writelines(["1", "2\\n"])
    try:
        out.write(b"bytes")
    except TypeError as error:
        print(error)
    detached = out.detach()
    detached.write(b"detached\\n")
    detached.flush()
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(detached, write_through=True)
    print("again")
    sys.stdout.flush()
'''

CAPTURED = """
import sys
sys.path.insert(0, ".")
import stream
from tests.programs import require
from trace_tools.tracing.isolation.output_capture import printing
told = []
with printing(told.append):
    stream.main()
print("and behind it", flush=True)
open("told", "w", encoding="utf-8", newline="").write("".join(told))
"""


@pytest.mark.slow
@pytest.mark.parametrize("variables", [{}, {"PYTHONUNBUFFERED": "1"}, {"PYTHONIOENCODING": "utf-8:backslashreplace"}])
def test_stdout_behaves_as_in_plain_python(
    variables: dict[str, str], tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "stream.py").write_text(STREAM, encoding="utf-8")
    environment = {**environment, "PYTHONUNBUFFERED": "", **variables}
    results = []
    for name, code in (("plain", "import stream; stream.main()"), ("printed", CAPTURED)):
        with (tmp_path / name).open("wb") as out:
            completed = subprocess.run(
                [sys.executable, "-c", code], cwd=tmp_path, env=environment, stdout=out, stderr=subprocess.PIPE
            )
        assert completed.returncode == 0, completed.stderr.decode()
        results.append((tmp_path / name).read_bytes())
    captured = (tmp_path / "told").read_bytes().decode()
    assert captured.replace("é", "\udce9").encode(errors="surrogateescape") == results[0]
    assert results[1] == b"and behind it\n"


OTHERS = """
import ctypes, os, subprocess, sys
from pathlib import Path
from trace_tools.tracing.isolation.output_capture import CHUNK_BYTES, OutputFile
output = OutputFile(Path("out"), redact=lambda text: text.replace("me", "you"))
def said():
    sys.stderr.write(repr((output.grown(), output.take())) + "\\n")
said()
os.write(1, b"tell me\\n")
said()
os.system("echo a shell")
subprocess.run(["echo", "a program"])
said()
libc = ctypes.CDLL(None)
libc.printf(b"a line of C, ")
libc.printf(b"whole\\n")
said()
os.write(1, "é".encode()[:1])
said()
os.closerange(3, 4096)
os.close(1)
os.dup2(os.open("theirs", os.O_WRONLY | os.O_CREAT), 1)
output.grown()
os.write(1, "theirs".encode())
said()
output.connect()
os.write(1, "é".encode()[1:])
said()
libc.printf(b"unfinished")
sys.stderr.write(repr(output.finish()) + "\\n")
os.write(1, b"x" * (3 * CHUNK_BYTES) + b"end")
text = output.take()
sys.stderr.write(repr((len(text) - 2 * CHUNK_BYTES, text[CHUNK_BYTES:][:40], text[-4:])))
sys.stderr.write(f" {os.stat('out').st_blocks < 100}")
"""


LEFT_OUT = "\n… 1,048,579 bytes more were printed …\n"


def test_output_of_c_and_subprocesses_is_captured_in_little_space(tmp_path: Path, environment: dict[str, str]) -> None:
    require("echo")
    completed = subprocess.run(
        [sys.executable, "-c", OTHERS], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert completed.stderr.splitlines() == [
        "(False, '')",
        "(True, 'tell you\\n')",
        "(True, 'a shell\\na program\\n')",
        "(True, 'a line of C, whole\\n')",
        "(True, '')",
        "(False, '')",
        "(True, 'é')",
        "'unfinished'",
        f"({len(LEFT_OUT)}, {LEFT_OUT + 'x'!r}, 'xend') True",
    ]
    assert (tmp_path / "theirs").read_text() == "theirs" and completed.stdout == ""


CLOSING = """
import os, resource, sys
from pathlib import Path
from trace_tools.tracing.isolation.output_capture import OwnFile
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
file = OwnFile(Path("ours"))
number = file.descriptor()
os.write(number, b"first ")
os.closerange(3, 4096)
theirs = os.open("theirs", os.O_WRONLY | os.O_CREAT)
os.dup2(theirs, number)
os.write(file.descriptor(), b"second ")
file.close()
os.write(number, b"only this")
print(theirs)
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", [4096, 1024, 32])
def test_a_closed_file_is_reopened_and_no_other_is_written(
    limit: int, tmp_path: Path, environment: dict[str, str]
) -> None:
    completed = subprocess.run(
        [sys.executable, "-c", CLOSING, str(limit)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert completed.stdout == "3\n", completed.stderr
    assert (tmp_path / "ours").read_text() == "first second "
    assert (tmp_path / "theirs").read_text() == "only this"


def test_a_file_is_reopened_after_a_directory_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = OwnFile(Path("ours"))
    os.close(file.descriptor())
    monkeypatch.chdir("/")
    os.write(file.descriptor(), b"x")
    assert file.is_open and (tmp_path / "ours").read_bytes() == b"x"
    file.close()
    assert not file.is_open

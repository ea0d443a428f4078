"""Captured standard output behaves like a file in plain Python; a separate plain process is the oracle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import require

STREAM = '''
import sys
def kind(stream):
    """The name of the type that plain Python has: there may be subclasses of it."""
    return next(t.__name__ for t in type(stream).__mro__ if t.__module__ in ("io", "_io"))
def main():
    out = sys.stdout
    print(out is sys.__stdout__, out.encoding, out.errors, out.newlines, out.line_buffering, repr(out))
    for stream in (out, out.buffer, getattr(out.buffer, "raw", None)):
        print(stream and (kind(stream), stream.name, stream.mode, stream.isatty(), stream.fileno(), stream.closed))
    out.reconfigure(errors="replace")
    print("a\\ud800b", end="\\r\\n")
    out.reconfigure(encoding="latin-1", errors="strict")
    try:
        print("€")
    except UnicodeEncodeError as error:
        print(error.encoding)
    out.reconfigure(encoding="utf-8", line_buffering=True)
    out.writelines(["1", "2\\n"])
    try:
        out.write(b"bytes")
    except TypeError as error:
        print(error)
'''

CAPTURED = """
import stream
from trace_tools.tracing.isolation.output_capture import printing
told = []
with printing(told.append):
    stream.main()
print("and behind it", flush=True)
open("told", "w", encoding="utf-8", newline="").write("".join(told))
"""


@pytest.mark.slow
def test_stdout_behaves_as_in_plain_python(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "stream.py").write_text(STREAM, encoding="utf-8")
    variables = {**environment, "PYTHONUNBUFFERED": "", "PYTHONIOENCODING": "utf-8:backslashreplace"}
    for name, code in (("plain", "import stream; stream.main()"), ("printed", CAPTURED)):
        with (tmp_path / name).open("wb") as out:
            subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=variables, stdout=out, check=True)
    assert (tmp_path / "told").read_bytes() == (tmp_path / "plain").read_bytes() != b""
    assert (tmp_path / "printed").read_bytes() == b"and behind it\n"


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
os.dup2(os.open("theirs", os.O_WRONLY | os.O_CREAT), 1)
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
"""


LEFT_OUT = "\n… 1,048,579 bytes more were printed …\n"


def test_output_of_c_and_subprocesses_is_captured_(tmp_path: Path, environment: dict[str, str]) -> None:
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
        f"({len(LEFT_OUT)}, {LEFT_OUT + 'x'!r}, 'xend')",
    ]
    assert (tmp_path / "theirs").read_text() == "theirs" and completed.stdout == ""

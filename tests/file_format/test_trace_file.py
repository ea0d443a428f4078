"""The trace file as a whole; PyYAML's own loaders say what a file holds."""

from __future__ import annotations

import errno
import gc
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.traces import big_trace, example_trace
from trace_tools.errors import TraceFileError, UsageError
from trace_tools.file_format import plain_yaml
from trace_tools.file_format.structure import to_plain
from trace_tools.file_format.trace_file import dump, load, write
from trace_tools.schema import SCHEMA_VERSION, Frame, Step, Value

CASES = Path(__file__).parent / "cases"
GOOD = (CASES / "good.yaml").read_text()
REFUSED = yaml.safe_load((CASES / "refused.yaml").read_text())
LOADERS = [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)]


def saved(folder: Path, contents: str | bytes) -> Path:
    path = folder / "trace.yaml"
    path.write_bytes(contents.encode() if isinstance(contents, str) else contents)
    return path


def message_of(path: Path) -> str:
    with pytest.raises(TraceFileError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message.removeprefix(f"{path}: ")


# --- writing and reading back ---------------------------------------------------------------------


def test_a_trace_comes_back_as_it_was(tmp_path: Path) -> None:
    write(example_trace(), tmp_path / "trace.yaml")
    loaded = load(tmp_path / "trace.yaml")
    assert repr(loaded.trace) == repr(example_trace())  # repr: nan is not equal to itself
    assert loaded.notes == ()


@pytest.mark.parametrize("loader", LOADERS)
def test_any_stock_loader_reads_the_same_data(loader: type[yaml.SafeLoader]) -> None:
    trace = example_trace()
    expected = {"schema": SCHEMA_VERSION, **to_plain(trace)}
    assert repr(yaml.load(dump(trace), loader)) == repr(expected)


def test_what_is_loaded_is_written_as_it_stood(tmp_path: Path) -> None:
    assert dump(load(CASES / "good.yaml").trace) == GOOD


def test_a_trace_without_steps_or_sources(tmp_path: Path) -> None:
    empty = example_trace(steps=[], sources=[])
    write(empty, tmp_path / "trace.yaml")
    assert load(tmp_path / "trace.yaml").trace == empty


def test_a_lone_surrogate_is_spelled_out(tmp_path: Path) -> None:
    frame, step = Frame(0, "f"), Step(0, 0, 0, 1, stdout="\ud800 \U0001f600")
    write(example_trace(steps=[frame, step]), tmp_path / "trace.yaml")
    assert load(tmp_path / "trace.yaml").trace.steps == [frame, replace(step, stdout="\\ud800 \U0001f600")]


def test_a_step_costs_at_most_200_bytes_beyond_its_values() -> None:
    trace = big_trace(2_000)
    values = sum(len(str(to_plain(event).get("values", ""))) for event in trace.steps)
    assert (len(dump(trace)) - values) / 2_000 < 200


def test_a_large_trace_is_written_and_read_without_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, careful, read = big_trace(20_000), plain_yaml.careful, []
    monkeypatch.setattr(plain_yaml, "careful", lambda text, path: read.append(text) or careful(text, path))
    start = time.process_time()
    write(trace, tmp_path / "trace.yaml")
    assert load(tmp_path / "trace.yaml").trace == trace
    assert time.process_time() - start < 20  # seconds: a 40th of that where this was written, PyYAML takes 30
    assert len(read) == 1 and read[0].endswith("\nsteps:\n")  # the head alone


# --- the folder it is written to ------------------------------------------------------------------


def test_the_file_gets_the_mode_any_new_file_gets(tmp_path: Path) -> None:
    write(example_trace(), tmp_path / "trace.yaml")
    (tmp_path / "other").touch()
    assert (tmp_path / "trace.yaml").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    path = saved(tmp_path, "old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(failure))
    with pytest.raises((UsageError, KeyboardInterrupt)) as caught:
        write(example_trace(), path)
    if isinstance(caught.value, UsageError):
        assert str(caught.value) == f"{path}: can't be written: No space left on device"
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["trace.yaml"]


def test_a_file_system_that_takes_no_more(tmp_path: Path) -> None:
    path, tests = saved(tmp_path, "old"), Path(__file__).parents[2]
    program = (
        "import resource, sys; from pathlib import Path; from tests.traces import big_trace;"
        "from trace_tools.file_format.trace_file import write; from trace_tools.errors import UsageError\n"
        "trace = big_trace(1000); resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "try: write(trace, Path(sys.argv[1]))\n"
        "except UsageError as error: print(error)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent)])}
    ran = subprocess.run(
        [sys.executable, "-c", program, path], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"{path}: can't be written: File too large\n"
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 50_000  # only in that process
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["trace.yaml"]


def test_a_place_where_no_file_can_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing/trace\.yaml: can't be written: No such file or directory"):
        write(example_trace(), tmp_path / "missing" / "trace.yaml")
    (tmp_path / "trace.yaml").mkdir()
    with pytest.raises(UsageError, match="can't be written: Is a directory"):
        write(example_trace(), tmp_path / "trace.yaml")
    assert os.listdir(tmp_path) == ["trace.yaml"]


# --- files that were cut short, or edited by hand -------------------------------------------------


def test_a_file_cut_short_anywhere_keeps_its_finished_steps(tmp_path: Path) -> None:
    contents = GOOD.replace('"unit": "s"', '"unit": "é"').encode()
    whole = load(saved(tmp_path, contents)).trace
    first_step = contents.index(b"\nsteps:") + len(b"\nsteps:")
    for end in range(first_step, len(contents)):
        loaded = load(saved(tmp_path, contents[:end]))
        kept = contents[first_step:end].count(b"\n- ")
        line = contents[:end].count(b"\n") + 1
        finished = contents[end - 1 : end] == b"\n" or contents[end : end + 1] == b"\n"
        if end <= first_step + 1:
            assert loaded.notes == ("no step follows `steps:`: the file was cut short",)
        elif finished:
            assert loaded.notes == ()
        else:
            kept = contents[first_step : end - len(contents[:end].rpartition(b"\n")[2])].count(b"\n- ")
            assert loaded.notes == (f"line {line} is unfinished and was left out: the file was cut short",)
        assert repr(loaded.trace) == repr(replace(whole, steps=whole.steps[:kept]))


@pytest.mark.parametrize("end", range(0, GOOD.index("\nsteps:"), 23))
def test_a_file_cut_short_in_its_head_is_refused(tmp_path: Path, end: int) -> None:
    message_of(saved(tmp_path, GOOD[:end]))


@pytest.mark.parametrize(
    "edited",
    [
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,
        GOOD.removesuffix("\n"),
        "# A comment\n" + GOOD.replace("\n- ", "  # and another\n\n# one more\n- "),
        "---\n" + GOOD + "...\n",
        GOOD.replace("\n- {", "\n  - {"),
        GOOD.replace('{"id": 1, ', "{id: 1, "),
        GOOD.replace('{"id": 1, ', '{"id": 1,\n  '),
        "{steps: []}\n",
        yaml.safe_dump(yaml.safe_load(GOOD)),
    ],
    ids=["CRLF", "BOM", "no-newline", "comments", "markers", "indented", "bare-key", "two-lines", "flow", "block"],
)
def test_a_file_edited_by_hand_holds_what_a_stock_loader_finds(tmp_path: Path, edited: str) -> None:
    plain, notes = plain_yaml.parse(edited, tmp_path)
    assert repr(plain) == repr(yaml.safe_load(edited.encode())) and notes == []
    if "title" in edited:
        assert repr(load(saved(tmp_path, edited))) == repr(load(CASES / "good.yaml"))


# --- files that are no trace ----------------------------------------------------------------------


@pytest.mark.parametrize("case", REFUSED, ids=[case["says"][:60] for case in REFUSED])
@pytest.mark.parametrize("loader", LOADERS)
def test_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loader: type[yaml.SafeLoader], case: dict[str, str]
) -> None:
    monkeypatch.setattr(plain_yaml, "_LOADER", loader)
    assert GOOD.count(case["cut"]) == 1, "the case must say where"
    message = message_of(saved(tmp_path, GOOD.replace(case["cut"], case["put"])))
    if "not YAML: " in case["says"]:  # the words, and at times the line, are the loader's own
        assert "not YAML: " in message
    if "not YAML: " not in case["says"] or loader is LOADERS[1]:
        assert message == case["says"]


LAUGHS = "a: &a [x]\n" + "".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
BINARY = bytes(range(256)) * 100


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        (b"", "is empty; expected a trace"),
        (b" \n\n", "is empty; expected a trace"),
        (BINARY, "line 2: not a trace: found bytes that are not UTF-8"),
        (b"\0" * 1000, "not YAML: control characters are not allowed"),
        (b"\xff\xfe" + GOOD.encode("utf-16-le"), "line 1: not a trace: found bytes that are not UTF-8"),
        (b"import torch\n\nx = 1\n", "not a trace: expected a mapping, found str 'import torch\\nx = 1'"),
        (b"- 1\n- 2\n", "not a trace: expected a mapping, found a list of 2"),
        (b"# nothing\n", "not a trace: expected a mapping, found null"),
        (b'{"a": 1}', "schema: expected the number of a trace's schema, found null"),
        (LAUGHS, "line 1: found an anchor, &a; a trace has none"),
        ("a: " + "[" * 1_000, "line 1: nested too deeply for a trace"),
        ("a: " + "[" * 10**6, "line 1: nested too deeply for a trace"),
        (GOOD.replace('"n", {', '"n", ' + "[" * 10**6), None),
        (
            GOOD.replace('"n", {', '"n", ' + '{"type": "list", "items": [' * 60 + "{").replace(
                '}], ["m"', "}" + "]}" * 60 + '], ["m"'
            ),
            None,
        ),
        (GOOD.replace("1100", "9" * 5_000), "line 32: found a number of thousands of digits"),
        (GOOD.replace("1100", "1" + ":59" * 5_000), "line 32: found a number of thousands of digits"),
        (GOOD.replace("1100", "0x" + "f" * 5_000), "line 32: found a number of thousands of digits"),
    ],
)
def test_refused_as_a_whole(tmp_path: Path, contents: bytes | str, says: str | None) -> None:
    message = message_of(saved(tmp_path, contents))
    assert message == says if says else "nested" in message


def test_refused_before_it_is_read(tmp_path: Path) -> None:
    assert message_of(tmp_path) == "is a folder; expected a trace file"
    assert message_of(tmp_path / "missing.yaml") == "can't be read: No such file or directory"
    with open(tmp_path / "huge.yaml", "wb") as file:
        file.truncate(2**40)
    assert message_of(tmp_path / "huge.yaml") == "is larger than 1 GiB; no trace is"
    os.mkfifo(tmp_path / "pipe.yaml")  # reading it would wait for a writer
    assert message_of(tmp_path / "pipe.yaml") == "is no regular file; expected a trace file"


def test_the_longest_number_python_prints(tmp_path: Path) -> None:
    steps = [Frame(0, "f"), Step(0, 0, 0, 1, values=[("x", Value("int", 10**4299))], stdout="\\ud800")]
    write(example_trace(steps=steps), tmp_path / "trace.yaml")
    assert load(tmp_path / "trace.yaml").trace.steps == steps


def test_the_collector_runs_again_afterwards(tmp_path: Path) -> None:
    load(CASES / "good.yaml")
    message_of(saved(tmp_path, "a: b"))
    assert gc.isenabled()


# --- schemas --------------------------------------------------------------------------------------


def test_an_older_trace_is_upgraded(tmp_path: Path) -> None:
    old = saved(tmp_path, GOOD.replace("schema: 1", "schema: 0").replace("title:", "name:"))
    seen = []

    def upgrade(plain: dict[str, object]) -> dict[str, object]:
        seen.append(plain["schema"])
        return {("title" if key == "name" else key): value for key, value in plain.items()}

    assert repr(load(old, upgrades={0: upgrade})) == repr(load(CASES / "good.yaml"))
    assert seen == [0]

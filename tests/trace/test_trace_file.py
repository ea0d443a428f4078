"""Writing and reading trace files; PyYAML's own loaders must read the same data."""

from __future__ import annotations

import contextlib
import errno
import gc
import gzip
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces import big_trace, example_trace
from trace_tools.errors import TraceFileError, UsageError
from trace_tools.trace import plain_yaml, trace_file
from trace_tools.trace.model import SCHEMA_VERSION, Frame, Step, Value
from trace_tools.trace.structure import to_plain
from trace_tools.trace.trace_file import dump, load, load_head, write

CASES = Path(__file__).parent / "cases"
GOOD = (CASES / "good.yaml").read_text()  # as older versions wrote it: its head has no number of events
COUNTED = GOOD.replace("schema: 1\n", "schema: 1\nevents: 7\n")
LOADERS = [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)]


def saved(folder: Path, contents: str | bytes) -> Path:
    folder.mkdir(exist_ok=True)
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


def test_traces_survive_a_round_trip(tmp_path: Path) -> None:
    write(example_trace(), tmp_path / "trace.yaml")
    loaded = load(tmp_path / "trace.yaml")
    assert repr(loaded.trace) == repr(example_trace())  # repr: nan is not equal to itself
    assert loaded.notes == ()


@pytest.mark.parametrize("loader", LOADERS)
def test_pyyaml_loaders_read_the_same_data(loader: type[yaml.SafeLoader]) -> None:
    trace = example_trace()
    expected = {"schema": SCHEMA_VERSION, "events": len(trace.steps), **with_lists(to_plain(trace))}
    assert repr(yaml.load(dump(trace), loader)) == repr(expected)


def with_lists(plain: Any) -> Any:
    """Return plain data with lists instead of tuples, as a loader returns it."""
    if isinstance(plain, dict):
        return {key: with_lists(value) for key, value in plain.items()}
    return [with_lists(item) for item in plain] if isinstance(plain, (list, tuple)) else plain


def test_rewriting_a_trace_adds_only_the_event_count(tmp_path: Path) -> None:
    assert dump(load(CASES / "good.yaml").trace) == COUNTED
    assert dump(load(saved(tmp_path, COUNTED)).trace) == COUNTED


def test_traces_without_steps_or_sources(tmp_path: Path) -> None:
    empty = example_trace(steps=[], sources=[])
    write(empty, tmp_path / "trace.yaml")
    assert load(tmp_path / "trace.yaml").trace == empty


def test_lone_surrogates_are_escaped(tmp_path: Path) -> None:
    frame, step = Frame(0, "f"), Step(0, 0, 0, 1, stdout="\ud800 \U0001f600")
    write(example_trace(steps=[frame, step]), tmp_path / "trace.yaml")
    assert load(tmp_path / "trace.yaml").trace.steps == [frame, replace(step, stdout="\\ud800 \U0001f600")]


def test_a_step_costs_at_most_200_bytes_beyond_its_values() -> None:
    trace = big_trace(2_000)
    values = sum(len(str(to_plain(event).get("values", ""))) for event in trace.steps)
    assert (len(dump(trace)) - values) / 2_000 < 200


def test_a_large_trace_is_written_and_read_without_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, careful, texts = big_trace(20_000), plain_yaml.careful, []
    monkeypatch.setattr(trace_file, "careful", lambda text, path: texts.append(text) or careful(text, path))
    start = time.process_time()
    write(trace, tmp_path / "trace.yaml")
    assert load(tmp_path / "trace.yaml").trace == trace
    assert time.process_time() - start < 20  # seconds; it takes about 0.5, with PyYAML 30
    assert len(texts) == 1 and texts[0].endswith("\nsteps:\n")  # only the head


# --- the folder of the file -----------------------------------------------------------------------


def test_the_file_gets_the_default_mode(tmp_path: Path) -> None:
    write(example_trace(), tmp_path / "trace.yaml")
    (tmp_path / "other").touch()
    assert (tmp_path / "trace.yaml").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_only_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    path = saved(tmp_path, "old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(failure))
    with pytest.raises((UsageError, KeyboardInterrupt)) as caught:
        write(example_trace(), path)
    if isinstance(caught.value, UsageError):
        assert str(caught.value) == f"{path}: can't be written: No space left on device"
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["trace.yaml"]


def test_a_file_size_limit_leaves_only_the_old_file(tmp_path: Path) -> None:
    path, root = saved(tmp_path, "old"), Path(__file__).parents[2]
    program = (
        "import resource, sys; from pathlib import Path; from tests.traces import big_trace;"
        "from trace_tools.trace.trace_file import write; from trace_tools.errors import UsageError\n"
        "trace = big_trace(1000); resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "try: write(trace, Path(sys.argv[1]))\n"
        "except UsageError as error: print(error)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(root.parent)])}
    completed = subprocess.run(
        [sys.executable, "-c", program, path], env=environment, capture_output=True, text=True, check=True
    )
    assert completed.stdout == f"{path}: can't be written: File too large\n"
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 50_000  # only in that process
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["trace.yaml"]


def test_impossible_paths_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing/trace\.yaml: can't be written: No such file or directory"):
        write(example_trace(), tmp_path / "missing" / "trace.yaml")
    (tmp_path / "trace.yaml").mkdir()
    with pytest.raises(UsageError, match="can't be written: Is a directory"):
        write(example_trace(), tmp_path / "trace.yaml")
    assert os.listdir(tmp_path) == ["trace.yaml"]


# --- files that were cut short, or edited by hand -------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("text", [GOOD, COUNTED], ids=["older", "counted"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_truncated_files_are_partial_and_keep_complete_steps(
    tmp_path: Path, text: str, newline: str, *, packed: bool
) -> None:
    contents = text.replace('"unit": "s"', '"unit": "é"').replace("\n", newline).encode()
    counted, complete = text is COUNTED, load(saved(tmp_path, contents)).trace
    assert complete.run.complete
    first_step = contents.index(b"\nsteps:") + len(b"\nsteps:")
    path = tmp_path / ("trace.yaml.gz" if packed else "trace.yaml")
    for end in range(first_step, len(contents), 1 if counted and newline == "\n" and not packed else 7):
        cut = contents[:end]
        path.write_bytes(gzip.compress(cut) if packed else cut)
        lines = contents[first_step:].decode().splitlines()[1:]
        cut_lines = cut[first_step:].decode(errors="replace").replace("\r\n", "\n").split("\n")[1:]
        kept = sum(line == cut_line.rstrip("\r") for line, cut_line in zip(lines, cut_lines, strict=False))
        loaded = load(path)
        assert repr(loaded.trace.steps) == repr(complete.steps[:kept])
        ends_in_a_line = kept < len([line for line in cut_lines if line.rstrip("\r")])
        lost = kept < 7 if counted else ends_in_a_line or kept == 0
        assert (not loaded.trace.run.complete, len(loaded.notes)) == (lost, int(lost))
        assert loaded.trace.run.ended == (loaded.notes[0] if lost else "complete")
        if counted and lost:
            assert f" {kept} of 7 events" in loaded.notes[0]
        head_only = load_head(path)
        assert head_only.steps == [] and head_only.run == loaded.trace.run
        again = load(saved(tmp_path / "again", dump(loaded.trace)))  # as a store writes it
        assert repr(again.trace) == repr(loaded.trace) and again.notes == ()


def test_truncated_compressed_files_are_partial_or_refused(tmp_path: Path) -> None:
    trace = big_trace(300)
    packed = gzip.compress(dump(trace).encode(), mtime=0)
    path = tmp_path / "trace.yaml.gz"
    kept = []
    for end in range(0, len(packed), len(packed) // 97):
        path.write_bytes(packed[:end])
        try:
            loaded = load(path)
        except TraceFileError as error:
            assert not kept, error  # only a cut in the head is refused
        else:
            assert not loaded.trace.run.complete and loaded.notes
            kept.append(len(loaded.trace.steps))
            assert loaded.trace.steps == trace.steps[: kept[-1]]
    assert len(kept) > 50 and kept == sorted(kept)
    path.write_bytes(packed[:-1])
    assert not load(path).trace.run.complete  # its trailer with the checksum is incomplete
    path.write_bytes(packed + b"more")
    assert "more data follows" in message_of(path)


def test_a_truncated_file_of_a_partial_run_reports_both(tmp_path: Path) -> None:
    trace = example_trace(run=replace(example_trace().run, complete=False, ended="ValueError at line 3"))
    run = load(saved(tmp_path, dump(trace).rpartition("\n- ")[0] + "\n")).trace.run
    assert not run.complete and run.ended.startswith("ValueError at line 3; ") and "cut short" in run.ended


@pytest.mark.parametrize("number", ["6", "0", "-7", "7.0", '"7"', "true", "[7]", ".nan", "9" * 5_000])
def test_wrong_event_counts_are_refused(tmp_path: Path, number: str) -> None:
    edited = saved(tmp_path, COUNTED.replace("events: 7", f"events: {number}"))
    message = message_of(edited)
    assert message.startswith("events: " if len(number) < 100 else "line 2: ") and len(message) < 200
    with pytest.raises(TraceFileError, match=r"events: |line 2: "):
        load_head(edited)


@pytest.mark.parametrize("end", range(0, GOOD.index("\nsteps:"), 23))
def test_files_truncated_in_the_head_are_refused(tmp_path: Path, end: int) -> None:
    message = message_of(saved(tmp_path, GOOD[:end]))
    assert "cut short" in message or end < len("schema: 1\n")


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
        yaml.safe_dump(yaml.safe_load(GOOD), sort_keys=False),
    ],
    ids=["CRLF", "BOM", "no-newline", "comments", "markers", "indented", "bare-key", "two-lines", "block"],
)
def test_files_edited_by_hand_are_read_like_pyyaml(tmp_path: Path, edited: str) -> None:
    assert repr(yaml.safe_load(edited.encode())) == repr(yaml.safe_load(GOOD))
    assert repr(load(saved(tmp_path, edited))) == repr(load(CASES / "good.yaml"))


# --- lines that JSON and YAML read, or only one of them -------------------------------------------

ODD = [
    *("1e5", "1e-06", "1E400", "1.5e3", "1.5E+3", "-0", "-0.0", "007", "0x1F", "1_000", ".nan", "-.inf", "NaN"),
    *(
        "Infinity",
        ".NaN",
        "+.inf",
        "1.inf",
        "yes",
        "~",
        "12:30:00",
        "2025-01-31",
        "'it'",
        '"it\'s"',
        '"\\ud83d\\ude00"',
    ),
    *('"\\ud83d"', '"\\\\ud83d"', '"\x7f"', '"\u2028"', '"\x85"', '"\ufeff"', '"\ufffe"', '"\\/"', '"\\x41"', "[1]"),
    *("{}", "1,2", "1,", '"a""b"', "1]}", "*a", "&a", "!!str", "#", "<<"),
]
BETWEEN = ["- ", "\n- ", "\n  ", "- {}\n", "---\n", "...\n", "\n# ", "\nsteps:\n", '"id": 0,']
DAMAGE = st.tuples(
    st.integers(0, len(GOOD)),
    st.integers(0, 2),
    st.sampled_from([*ODD, *BETWEEN, *' \n\t\r\x85\u2028"\\{}[],:#é']),
)


@pytest.mark.parametrize(
    "after",
    [
        "",
        "more: 1\n",
        "- [1]\n",
        *(pytest.param(text, marks=pytest.mark.slow) for text in ("# end\n\n", "...\n", "  \n")),
    ],
)
def test_odd_lines_are_read_correctly_or_refused(tmp_path: Path, after: str) -> None:
    for odd in ODD:
        for line in (odd, f" {odd}\t", f"0.5, {odd}"):
            text = GOOD.replace('"value": 1.0e-06', f'"samples": [{line}]')
            assert_read_correctly_or_refused(text + after, tmp_path)


@pytest.mark.slow
@settings(deadline=None, derandomize=True, database=None, max_examples=400)
@given(st.lists(DAMAGE, min_size=1, max_size=3))
def test_damaged_files_are_read_correctly_or_refused(damage: list[tuple[int, int, str]]) -> None:
    text = GOOD
    for position, removed, inserted in damage:
        text = text[:position] + inserted + text[position + removed :]
    with tempfile.TemporaryDirectory() as folder:
        assert_read_correctly_or_refused(text, Path(folder))


def assert_read_correctly_or_refused(text: str, folder: Path) -> None:
    """Assert that the text is refused, or read as PyYAML reads it, or as `json` reads each line of `steps:`."""
    try:
        loaded = load(saved(folder, text))
    except TraceFileError:
        return
    if loaded.notes:
        return
    front, mark, body = text.partition("\nsteps:\n")
    expected = []
    for steps in (body, re.sub(r"(?m)^- (.*)$", line_as_yaml, body)):
        with contextlib.suppress(yaml.YAMLError):
            plain = yaml.load((front + mark + steps).encode(), LOADERS[1])
            expected.append(repr(load(saved(folder, yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False))).trace))
    assert repr(loaded.trace) in expected, text


def line_as_yaml(line: re.Match[str]) -> str:
    try:
        return f"- {plain_yaml.flow(json.loads(line[1]))}"
    except ValueError:
        return line[0]


# --- files that are not traces ------------------------------------------------------------------


@pytest.mark.parametrize("loader", LOADERS)
def test_invalid_traces_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loader: type[yaml.SafeLoader]
) -> None:
    monkeypatch.setattr(plain_yaml, "_LOADER", loader)
    for case in yaml.safe_load((CASES / "refused.yaml").read_text()):
        assert GOOD.count(case["cut"]) == 1, "`cut` must occur once"
        message = message_of(saved(tmp_path, GOOD.replace(case["cut"], case["put"])))
        if "not YAML: " in case["says"]:  # the loaders differ in wording, sometimes in the line
            assert "not YAML: " in message
        if "not YAML: " not in case["says"] or loader is LOADERS[1]:
            assert message == case["says"]


LAUGHS = "a: &a [x]\n" + "".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
BINARY = bytes(range(256)) * 100


@pytest.mark.parametrize(
    ("contents", "expected"),
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
        (GOOD.replace("1100", "9" * 5_000), "line 32: found a number with thousands of digits"),
        (GOOD.replace("1100", "1" + ":59" * 5_000), "line 32: found a number with thousands of digits"),
        (GOOD.replace("1100", "0x" + "f" * 5_000), "line 32: found a number with thousands of digits"),
    ],
)
def test_files_that_are_not_traces_are_refused(tmp_path: Path, contents: bytes | str, expected: str | None) -> None:
    message = message_of(saved(tmp_path, contents))
    assert message == expected if expected else "nested" in message


def test_unreadable_and_huge_files_are_refused(tmp_path: Path) -> None:
    assert message_of(tmp_path) == "is a folder; expected a trace file"
    assert message_of(tmp_path / "missing.yaml") == "can't be read: No such file or directory"
    with open(tmp_path / "huge.yaml", "wb") as file:
        file.truncate(2**40)
    assert message_of(tmp_path / "huge.yaml") == "is larger than 1 GiB, more than any trace"
    os.mkfifo(tmp_path / "pipe.yaml")  # reading it would wait for a writer
    assert message_of(tmp_path / "pipe.yaml") == "is not a regular file; expected a trace file"


def test_the_longest_printable_integer_survives(tmp_path: Path) -> None:
    steps = [Frame(0, "f"), Step(0, 0, 0, 1, values=[("x", Value("int", 10**4299))], stdout="\\ud800")]
    write(example_trace(steps=steps), tmp_path / "trace.yaml")
    assert load(tmp_path / "trace.yaml").trace.steps == steps


def test_loading_leaves_the_garbage_collector_enabled(tmp_path: Path) -> None:
    load(CASES / "good.yaml")
    message_of(saved(tmp_path, "a: b"))
    assert gc.isenabled()


# --- schemas --------------------------------------------------------------------------------------


def test_older_traces_are_upgraded(tmp_path: Path) -> None:
    old = saved(tmp_path, GOOD.replace("schema: 1", "schema: 0").replace("title:", "name:"))
    upgraded_schemas = []

    def upgrade(plain: dict[str, object]) -> dict[str, object]:
        upgraded_schemas.append(plain["schema"])
        return {("title" if key == "name" else key): value for key, value in plain.items()}

    assert repr(load(old, upgrades={0: upgrade})) == repr(load(CASES / "good.yaml"))
    assert upgraded_schemas == [0]

"""Writing and reading trace files; PyYAML's own loaders must read the same data."""

from __future__ import annotations

import gc
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases_in_one import each
from tests.traces import big_trace, example_trace
from trace_tools.errors import TraceFileError
from trace_tools.trace.file import _visible, dump, flow, load, load_head, write
from trace_tools.trace.model import SCHEMA_VERSION, Frame, SourceFile, Step, Trace, Value
from trace_tools.trace.records import to_plain

CASES = Path(__file__).parent / "cases"
GOOD = (CASES / "good.yaml").read_text()
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
    assert repr(load(tmp_path / "trace.yaml")) == repr(example_trace())  # repr: nan is not equal to itself


@each("loader", LOADERS)
def test_pyyaml_loaders_read_the_same_data(loader: type[yaml.SafeLoader]) -> None:
    trace = example_trace()
    expected = {"schema": SCHEMA_VERSION, "events": len(trace.steps), **in_file(trace)}
    assert repr(yaml.load(dump(trace), loader)) == repr(expected)


def in_file(trace: Trace) -> Any:
    """Return a trace as plain data as its file has it: the source in a list."""
    return with_lists(
        {"sources" if k == "source" else k: [v] if k == "source" else v for k, v in to_plain(trace).items()}
    )


def with_lists(plain: Any) -> Any:
    """Return plain data with lists instead of tuples, as a loader returns it."""
    if isinstance(plain, dict):
        return {key: with_lists(value) for key, value in plain.items()}
    return [with_lists(item) for item in plain] if isinstance(plain, (list, tuple)) else plain


def test_a_trace_is_rewritten_as_it_was() -> None:
    assert dump(load(CASES / "good.yaml")) == GOOD


def test_empty_traces_lone_surrogates_and_the_longest_printable_integer(tmp_path: Path) -> None:
    path, frame, step = tmp_path / "trace.yaml", Frame(0, "f"), Step(0, 0, 0, 1, values=[("x", Value("int", 10**4299))])
    for trace, expected in (
        (example_trace(steps=[]), []),
        (example_trace(steps=[frame, step]), [frame, step]),
        (
            example_trace(steps=[frame, replace(step, stdout="\ud800 \U0001f600")]),
            [frame, replace(step, stdout="\\ud800 \U0001f600")],
        ),
    ):
        write(trace, path)
        assert load(path) == replace(trace, steps=expected)


def test_a_step_costs_at_most_200_bytes_beyond_its_values() -> None:
    trace = big_trace(2_000)
    values = sum(len(str(to_plain(event).get("values", ""))) for event in trace.steps)
    assert (len(dump(trace)) - values) / 2_000 < 200


# Characters and words that JSON, YAML 1.1, PyYAML or libyaml treat specially.
NASTY = [*map(chr, [*range(0x21), 0x7F, 0x85, 0x9F, 0xA0, 0x2028, 0xD7FF, 0xE000, 0xFEFF, 0xFFFE, 0x1F600, 0x10FFFF])]
WORDS = [*"\"'\\/:#-?,[]{}&*!|>%@`~=<.e+0", "yes", "null", "on", "1e5", "1e-06", "0x1F", "12:30:00", ".nan", "NaN"]
WORDS += ["2025-01-31", "---\n", "...\n", "- {", "\\ud800", '": "', "# no", "!!str", "&a", "*a", "\nsteps:\n", "\r\n"]
texts = st.lists(st.sampled_from([*NASTY, *WORDS]) | st.characters(exclude_categories=["Cs"]), max_size=8).map("".join)
numbers = st.integers() | st.floats() | st.sampled_from([1e-06, 1e16, 5e-324, math.nan, -math.inf, 2**64, 10**400])


@pytest.mark.slow
@settings(deadline=None, derandomize=True, database=None, max_examples=300)
@given(texts, texts, st.lists(numbers | texts, max_size=4))
def test_every_loader_reads_the_written_data(title: str, source: str, items: list[Any]) -> None:
    values = [(title, Value("list", items=[Value(type(one).__name__, one, text=source) for one in items]))]
    steps = [Frame(0, title), Step(0, 0, 0, 1, stdout=source, values=values)]
    trace = example_trace(title=title, source=SourceFile("a.py", source), steps=steps)
    expected = {"schema": SCHEMA_VERSION, "events": 2, **in_file(trace)}
    for loader in LOADERS:  # `repr` distinguishes 1, 1.0, True and 0.0, -0.0; nan equals nan
        assert repr(yaml.load(dump(trace).encode(), loader)) == repr(expected)
    with tempfile.TemporaryDirectory() as folder:
        loaded = in_file(load(saved(Path(folder), dump(trace))))
    assert repr({**expected, **loaded}) == repr(_visible(expected))


@each(
    ("plain", "line"),
    [
        (1e-06, "1.0e-06"),
        (-1e16, "-1.0e+16"),
        ([math.nan, math.inf, -math.inf], "[.nan, .inf, -.inf]"),
        (["1e-06", "NaN", 'a "1e-06" b'], '["1e-06", "NaN", "a \\"1e-06\\" b"]'),
        ("\x00\x7f\u2028\ufeff\uffff", '"\\u0000\\u007f\\u2028\\ufeff\\uffff"'),
        ("é/\U0001f600 \udcff", '"é/\U0001f600 \\\\udcff"'),
    ],
)
def test_spelling_of_values(plain: Any, line: str) -> None:
    assert flow(plain) == line


# --- files that were cut short, or edited by hand -------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_truncated_files_are_partial_and_keep_complete_steps(tmp_path: Path, newline: str) -> None:
    contents = GOOD.replace('"unit": "s"', '"unit": "é"').replace("\n", newline).encode()
    complete = load(saved(tmp_path, contents))
    assert complete.run.complete
    first_step = contents.index(b"\nsteps:") + len(b"\nsteps:")
    path = tmp_path / "trace.yaml"
    for end in range(first_step, len(contents), 1 if newline == "\n" else 7):
        cut = contents[:end]
        path.write_bytes(cut)
        lines = contents[first_step:].decode().splitlines()[1:]
        cut_lines = cut[first_step:].decode(errors="replace").replace("\r\n", "\n").split("\n")[1:]
        kept = sum(line == cut_line.rstrip("\r") for line, cut_line in zip(lines, cut_lines, strict=False))
        trace = load(path)
        assert repr(trace.steps) == repr(complete.steps[:kept])
        lost = kept < 7
        assert (trace.run.complete, trace.run.ended == "complete") == (not lost, not lost)
        assert trace.run.cut_short == bool(lost) and (not lost or f"{kept} of 7 events" in trace.run.ended)
        assert load_head(path).run == complete.run
        assert repr(load(saved(tmp_path / "again", dump(trace)))) == repr(trace)


def test_a_truncated_file_of_a_partial_run_reports_both(tmp_path: Path) -> None:
    trace = example_trace(run=replace(example_trace().run, complete=False, ended="ValueError at line 3"))
    run = load(saved(tmp_path, dump(trace).rpartition("\n- ")[0] + "\n")).run
    assert not run.complete and run.ended.startswith("ValueError at line 3; ") and "cut short" in run.ended


@each("number", ["6", "0", "-7", "7.0", '"7"', "true", "[7]", ".nan", "9" * 5_000])
def test_wrong_event_counts_are_refused(tmp_path: Path, number: str) -> None:
    edited = saved(tmp_path, GOOD.replace("events: 7", f"events: {number}"))
    message = message_of(edited)
    assert ("events" in message or len(number) > 100) and len(message) < 400


@each("end", range(0, GOOD.index("\nsteps:"), 23))
def test_files_truncated_in_the_head_are_refused(tmp_path: Path, end: int) -> None:
    message_of(saved(tmp_path, GOOD[:end]))


# --- files that are not traces ------------------------------------------------------------------


def test_invalid_traces_are_refused(tmp_path: Path) -> None:
    for case in yaml.safe_load((CASES / "refused.yaml").read_text()):
        assert GOOD.count(case["cut"]) == 1, "`cut` must occur once"
        with pytest.raises(TraceFileError) as caught:
            load(saved(tmp_path, GOOD.replace(case["cut"], case["put"])))
        line, _, field = case["where"].partition(", ")
        assert caught.value.args[1] == (line or None), case
        assert not field or f"`$.{field}`" in str(caught.value), (case, str(caught.value))


BINARY = bytes(range(256)) * 100


@each(
    ("contents", "expected"),
    [
        (b"", "not a trace: "),
        (BINARY, "not a trace: "),
        (b"\xff\xfe" + GOOD.encode("utf-16-le"), "not a trace: "),
        (b"import torch\n\nx = 1\n", "not a trace: "),
        (b"- 1\n- 2\n", "not a trace: "),
        (GOOD.replace('"A trace', '"\\ud800 A trace'), "line 3: not a trace: "),
        (GOOD.replace('"n", {', '"n", ' + "[" * 10**6), "line 35: "),
        (GOOD.replace("1100", "9" * 5_000), "line 33: "),
        (GOOD.replace("seed: 0", "seed: " + "9" * 5_000), "not a trace: "),
        (yaml.safe_dump(yaml.safe_load(GOOD), sort_keys=False), "line 34: "),  # laid out in another way
    ],
)
def test_files_that_are_not_traces_are_refused(tmp_path: Path, contents: bytes | str, expected: str) -> None:
    message = message_of(saved(tmp_path, contents))
    assert message.startswith(expected) and len(message) < 400


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    assert message_of(tmp_path) == "can't be read: Is a directory"
    assert message_of(tmp_path / "missing.yaml") == "can't be read: No such file or directory"


def test_loading_leaves_the_garbage_collector_enabled(tmp_path: Path) -> None:
    load(CASES / "good.yaml")
    message_of(saved(tmp_path, "a: b"))
    assert gc.isenabled()


def test_texts_become_visible_except_sources_and_output(tmp_path: Path) -> None:
    text = "a\x1b[31m\u202e\u2028\x7f\r\u009f"
    values = [(text, Value("str", text))]
    trace = example_trace(
        title=text,
        source=SourceFile("a.py", text),
        steps=[Frame(0, "f"), Step(0, 0, 0, 1, values=values, stdout=text, warnings=[text, '"stdout": "\\x1b"'])],
    )
    write(trace, tmp_path / "trace.yaml")
    loaded, shown = load(tmp_path / "trace.yaml"), r"a\u001b[31m\u202e\u2028\u007f\u000d\u009f"
    step = loaded.steps[1]
    assert isinstance(step, Step)
    assert (loaded.title, step.values, step.warnings) == (
        shown,
        [(shown, Value("str", shown))],
        [shown, '"stdout": "\\x1b"'],
    )
    assert (loaded.source.text, step.stdout) == (text, text)

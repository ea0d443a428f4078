"""Define the records of a trace.

A `Trace` records what happened when one lecture ran on one machine, as plain data: `tracing` makes it, `file`
writes it as YAML and reads it back, `pages` and `diff` read it. A field that is `None` was not measured; if the
reason is not obvious, another field next to it gives the reason. Durations are integer nanoseconds, sizes bytes, rates
per second. msgspec checks types and bounds while it reads a file; mypy checks Python code that makes records.

    Trace(title="…", source=SourceFile(path="lecture.py", text="…"),
          steps=[Frame(frame=0, function="<module>"), Step(id=0, frame=0, statement=3, line=12, …)], …)
"""

from __future__ import annotations

import math
import re
from collections.abc import Sized
from typing import Annotated, Any, Literal, TypeGuard

from msgspec import Meta, field
from msgspec.structs import force_setattr

from trace_tools.trace import explorations
from trace_tools.trace.explorations import Exploration, Scale
from trace_tools.trace.records import Ending, ProcessId, Struct
from trace_tools.util import formats
from trace_tools.util.files import why_not_inside

WIDTH = re.compile(r"0*[1-9]\d{0,4}|0*[1-9]\d{0,2}(\.\d+)?%")  # of an image: pixels, or a share of the text's

MODULE = "<module>"
MAIN = "main"
CUT_SHORT = "the trace file was cut short"  # in `Run.ended`, if the end of the file is missing

SCHEMA_VERSION = 1
LARGEST_INT = 2**63 - 1  # msgspec's largest bound
LARGEST_FLOAT = 2**1023  # a larger int may be no float

Natural = Annotated[int, Meta(ge=0, le=LARGEST_INT)]
Positive = Annotated[int, Meta(ge=1, le=LARGEST_INT)]
Integer = Annotated[int, Meta(ge=-LARGEST_INT, le=LARGEST_INT)]
Total = Annotated[int, Meta(ge=0)]  # FLOPs and bytes of operators on tensors without memory can need more than 64 bits
Seconds = Annotated[float, Meta(ge=0, le=1e40)]

_ELSEWHERE = re.compile(r"https?://|data:image/", re.IGNORECASE)  # not in the lecture's folder

Style = Literal["line", "points", "bars", "stacked", "steps"]
Scalar = bool | int | float | str | None
Element = bool | int | float | str | None | list[float]  # a complex element is [real, imaginary]


def why_no_folder(name: str) -> str | None:
    """Return why a machine's folder in a site can't have this name, if it can't.

    `diff` holds the reports, `partial` in each folder a run that did not finish, and names with a dot are files.
    """
    fits = re.fullmatch(r"(?i)(?!(?:diff|partial)\Z)[^\W_][\w-]{0,99}", name)
    return None if fits else f"found {name[:80]!r}; expected a folder's name: letters, digits, -, not diff or partial"


def _keep_on_one_line(record: Any, **longest: int) -> None:
    """Make texts of a new record visible, one line, and at most so long: whoever shows them need not look again."""
    for name, most in longest.items():
        text = getattr(record, name)
        if isinstance(text, str) and (len(text) > most or not text.isprintable()):
            force_setattr(record, name, formats.one_line(text, most))


def _is_huge(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and abs(number) >= LARGEST_FLOAT


def _check_float_range(*figures: float | None) -> None:
    if any(map(_is_huge, figures)):
        raise ValueError("found a whole number beyond the range of floats, with which rates are computed")


def _check_length(name: str, items: Sized | None, length: int) -> None:
    if items is not None and len(items) != length:
        raise ValueError(f"{name} has {len(items)} entries; expected {length}")


class Statistics(Struct, frozen=True):
    """Statistics of a large tensor's elements; min, max, mean and std cover the finite elements."""

    min: int | float | None = None
    max: int | float | None = None
    mean: float | None = None
    std: float | None = None
    nan: Natural = 0
    inf: Natural = 0
    zero: Natural = 0
    histogram: list[Natural] | None = None  # finite elements in equal bins from min to max

    def __post_init__(self) -> None:
        _check_float_range(self.min, self.max)


class Tensor(Struct, frozen=True):
    """A tensor or array: its metadata, and its elements if they are few.

    `elements` holds all elements in row-major order. For larger tensors `corner` holds the block at the origin, with
    the shape `corner_shape` (same rank as `shape`), and `statistics` covers all elements. Tensors with equal `storage`
    labels share memory. `strides` and `offset` count elements.
    """

    dtype: str  # "float32", without the "torch."
    shape: list[Natural]
    device: str  # "cpu", "cuda:0", "meta"
    bytes: Natural | None = None  # numel × element size
    strides: list[Integer] | None = None
    offset: Natural | None = None
    contiguous: bool | None = None
    requires_grad: bool = False
    layout: str = "strided"
    storage: str | None = None
    storage_bytes: Natural | None = None
    elements: list[Element] | None = None
    corner: list[Element] | None = None
    corner_shape: list[Natural] | None = None
    statistics: Statistics | None = None

    def __post_init__(self) -> None:
        _check_length("strides", self.strides, len(self.shape))
        _check_length("elements", self.elements, math.prod(self.shape))
        if (self.corner is None) != (self.corner_shape is None):
            raise ValueError("found only corner or only corner_shape; expected both or neither")
        _check_length("corner_shape", self.corner_shape, len(self.shape))
        _check_length("corner", self.corner, math.prod(self.corner_shape or ()))
        _keep_on_one_line(self, dtype=40, device=30, storage=30, layout=30)


class Value(Struct, frozen=True):
    """The value of an expression, as plain data with its type.

    type        fields that go with it
    bool int float str none      value; of an integer that is an address in the process, its label as `text`
    complex     value as text, `text`
    list tuple set frozenset     items (the first ones), length
    dict        entries (the first ones), length
    tensor parameter ndarray     tensor; its repr as `text`, if its elements are in no strided memory
    DataFrame (pandas, polars)   entries (its first columns), length, labels
    Series                       tensor, or items and length with its dtype as `note`; labels
    error       text: the exception, when the expression could not be evaluated
    cycle       a container that contains itself, at this position
    anything else (a class name) text: its repr; entries: its attributes, where they are worth showing
    """

    type: str
    value: Scalar = None
    text: str | None = None
    length: Natural | None = None  # length of a container, or of a string that was cut short
    items: list[Value] | None = None
    entries: list[tuple[Value, Value]] | None = None
    tensor: Tensor | None = None
    labels: list[Value] | None = None  # labels of the first rows of a pandas object, if its index is not 0, 1, 2 …
    unit: str | None = None  # from the directive: FLOP, B, s …
    note: str | None = None  # why something is missing
    varies: bool = False  # it differed between timed runs with the same seeds
    samples: list[Scalar] | None = None  # values of a varying scalar, one per warm run
    cold_samples: list[Scalar] | None = None  # the same, one per cold run

    def __post_init__(self) -> None:
        _keep_on_one_line(self, type=60, unit=30)


Observed = tuple[str, Value]  # an expression and its value

# The work of all calls of one operator in one dtype: the operator ("aten.mm"), the dtype of its FLOPs (None without
# FLOPs; for a float32 product the format that it may be rounded to: "tf32", "tf32_or_bfloat16"), FLOPs without those
# that a program may leave out (under a causal mask, around the input of a convolution), and the sum of bytes read and
# written. Not recorded: operators that moved no bytes and did no arithmetic, tensors without memory (device "meta"),
# and the bytes of compiled code, which moves fewer than its operators would.
Work = tuple[str, str | None, Total, Total]


class Collective(Struct, frozen=True):
    """Calls of one operation between ranks, in one step, on groups of one size.

    `bytes` is the payload of all calls together as nccl-tests define it, see `metering.collectives`.
    """

    operation: str  # "all_reduce"
    ranks: Positive  # number of ranks in the group
    calls: Positive
    bytes: Total


class Meters(Struct, frozen=True):
    """The work of the operators inside one step, counted in a run of its own (children included)."""

    flops: Total | None = None
    bytes_read: Total | None = None
    bytes_written: Total | None = None
    live_bytes: Natural | None = None  # tensor bytes alive after the step (a lower bound: no workspaces)
    peak_bytes: Natural | None = None  # the most alive at once during the step
    operators: list[tuple[str, Natural]] | None = None  # ("aten.mm", 3)
    uncounted: list[str] | None = None  # operators without a FLOP formula
    meta_flops: Total | None = None  # part of the FLOPs: those on tensors without memory, never computed
    dtype: str | None = None  # dtype of nearly all FLOPs; None if they are divided among dtypes
    collectives: list[Collective] | None = None  # traffic between ranks
    work: list[Work] | None = None  # of operators on tensors that have memory
    # reason for a figure of None: "fused", "no counterpart in the counted run"
    why: str | None = None
    device_operators: int | None = None  # number of operators that moved bytes of the accelerator; None for 0

    def __post_init__(self) -> None:
        _check_counts(self)


class Measured(Struct, frozen=True):
    """One call of `measure` in a step, with the time and the work of one call of its function.

    `seconds` are the medians of the measurement, one per warm run (without warm runs, one per cold run). The work of
    one call was counted in the counted run.
    """

    seconds: list[Seconds]
    flops: Total | None = None
    bytes_read: Total | None = None
    bytes_written: Total | None = None
    dtype: str | None = None  # as in `Meters`
    operators: list[tuple[str, Natural]] | None = None
    uncounted: list[str] | None = None  # as in `Meters`
    meta_flops: Total | None = None  # as in `Meters`
    collectives: list[Collective] | None = None
    work: list[Work] | None = None
    why: str | None = None  # reason for a count of None: "no torch operator ran in it", "fused"

    def __post_init__(self) -> None:
        _check_counts(self)


Counts = Meters | Measured  # operations of a step, or of one call that it measured


def _check_counts(counts: Counts) -> None:
    work = (figure for *_, flops, moved in counts.work or () for figure in (flops, moved))
    _check_float_range(counts.flops, counts.bytes_read, counts.bytes_written, counts.meta_flops, *work)


class Claim(Struct, frozen=True):
    """An `assert`: its source, the values of both sides, and whether it held in every timed run.

    A claim failed if its AssertionError left its section; an AssertionError that the lecture itself caught is not
    recorded.
    """

    source: str
    held: bool
    sides: list[Observed] = field(default_factory=list)
    message: str | None = None  # message of the AssertionError
    failed_runs: list[str] | None = None  # "pass 2, warm"


class NarrativeKind(Struct, frozen=True, kw_only=True, tag_field="kind", tag=str.lower):
    """The base of the kinds of narrative. Each is one call of the vocabulary; a file names its class as `kind`."""

    @property
    def kind(self) -> str:
        """The kind's name in a file: "text" for `Text`."""
        return type(self).__name__.lower()

    @property
    def others(self) -> list[tuple[str, Natural]] | None:
        """The alternative texts, each with the number of timed runs with it, for kinds that have text."""
        return None


class Text(NarrativeKind, frozen=True, kw_only=True):
    """Prose in Markdown."""

    text: str
    choice: Choice | None = None  # if `decide` chose it
    varied: list[Varied] | None = None  # numbers that differed in other runs
    others: list[tuple[str, Natural]] | None = None
    left_out: Natural | None = None  # characters that are not in the trace


class Note(NarrativeKind, frozen=True, kw_only=True):
    """A note for the presenter, in Markdown."""

    text: str
    varied: list[Varied] | None = None
    others: list[tuple[str, Natural]] | None = None
    left_out: Natural | None = None  # characters; also in the classes below, unless a comment says otherwise


class Link(NarrativeKind, frozen=True, kw_only=True):
    """A reference on the web."""

    text: str | None = None  # description
    url: str
    title: str | None = None
    authors: str | None = None
    date: str | None = None
    left_out: Natural | None = None

    def __post_init__(self) -> None:
        _keep_on_one_line(self, title=300, authors=200, date=60)


class Image(NarrativeKind, frozen=True, kw_only=True):
    """An image next to the lecture, on the web, or as data."""

    url: str
    title: str | None = None  # alternative text
    width: int | str | None = None  # pixels, or "50%" of the text's
    left_out: Natural | None = None

    def __post_init__(self) -> None:
        if self.url and not _ELSEWHERE.match(self.url) and (problem := why_not_inside(self.url)):
            raise ValueError(problem)
        if self.width is not None and not WIDTH.fullmatch(str(self.width)):
            raise ValueError(f"found the width {self.width!r:.80}; expected pixels above 0, or a percentage")


class Video(Image, frozen=True, kw_only=True):
    """A video next to the lecture, on the web, or as data."""


class Table(NarrativeKind, frozen=True, kw_only=True):
    """A table of plain cells."""

    title: str | None = None
    columns: list[str]
    rows: list[list[Scalar]]
    varied: list[Varied] | None = None
    others: list[tuple[str, Natural]] | None = None
    left_out: Natural | None = None  # rows

    def __post_init__(self) -> None:
        """Write whole numbers that are beyond floats as text, so that all numbers of a table compare and align."""
        for number, row in enumerate(self.rows):
            _check_length(f"row {number}", row, len(self.columns))
        if any(_is_huge(cell) for row in self.rows for cell in row):
            rows = [[formats.number(cell) if _is_huge(cell) else cell for cell in row] for row in self.rows]
            force_setattr(self, "rows", rows)


class Plot(NarrativeKind, frozen=True, kw_only=True):
    """A plot of series; a plot that another tool drew has an `svg`, and may have a second one for a phone."""

    text: str | None = None  # the drawing in words
    title: str | None = None
    x_label: str | None = None
    y_label: str | None = None
    x_scale: Scale | None = None
    y_scale: Scale | None = None
    series: list[Series]
    svg: str | None = None
    narrow: str | None = None  # the svg for a phone, if it is another one
    left_out: Natural | None = None  # points, or characters of the svg


class Ask(NarrativeKind, frozen=True, kw_only=True):
    """A question in Markdown, with its answer."""

    text: str
    answer: Answer
    varied: list[Varied] | None = None
    others: list[tuple[str, Natural]] | None = None
    left_out: Natural | None = None


class Explore(NarrativeKind, frozen=True, kw_only=True):
    """A figure with inputs that a reader can change."""

    text: str  # a sentence with slots for results, see `explorations.places`
    title: str | None = None
    exploration: Exploration
    left_out: Natural | None = None

    def __post_init__(self) -> None:
        explorations.check(self.exploration, self.text)


Narrative = Text | Note | Link | Image | Video | Table | Plot | Ask | Explore


class Answer(Struct, frozen=True):
    """The computed answer to a question, and the replies to other answers.

    A number is right within a relative error of `within`; if runs computed different answers, any of these counts.
    """

    value: int | float | str
    unit: str | None = None
    within: Annotated[float, Meta(ge=0, le=1e40)] | None = None  # for a numeric answer
    choices: list[str] | None = None  # including the answer
    hint: str | None = None  # Markdown, as in the fields below
    why: str | None = None
    slips: list[tuple[int | float | str, str]] | None = None  # a known wrong answer, and its cause
    samples: list[Scalar] | None = None  # the answers of all timed runs, where they differ

    def __post_init__(self) -> None:
        given = [self.value, *(slip for slip, _ in self.slips or ())]
        for answer in (*given, *(self.samples or ())):
            if isinstance(answer, bool) or (isinstance(answer, float) and not math.isfinite(answer)):
                raise ValueError(f"found {answer}; expected a finite number or a text")
        if self.choices is not None and (unknown := [answer for answer in given if answer not in self.choices]):
            raise ValueError(f"found {unknown[0]!r:.80}; expected one of {', '.join(self.choices)}")
        if isinstance(self.value, str) != (self.within is None):
            raise ValueError(f"found {self.within}; expected a tolerance for a number, none for a text")


class LeftOut(Struct, frozen=True):
    """The amount of a step's output or values beyond the limit."""

    what: str  # "stdout", "narrative", "warnings", "measured": the incomplete field
    count: Natural  # characters printed, calls of the vocabulary, warnings, measurements
    at: Natural | None = None  # position of the cut in `stdout`, which keeps the first and the last output


class Choice(Struct, frozen=True):
    """The reason for a sentence: `samples` were all above `high`, all below `low`, all between them, or undecided.

    A run records its own samples and all sentences; a trace records the samples of all timed runs, and the
    sentence that fits.
    """

    low: float
    high: float
    samples: list[float]
    answer: str | None = None  # "above", "below", "undecided", "equal": between `low` and `high`
    sentences: list[str] | None = None  # for above, below, undecided and equal, in a run


class Varied(Struct, frozen=True):
    """A number in the narrative that differed between timed runs.

    In a text, `text[start:end]` is the number in the narrative; in a table, it is a cell.
    """

    samples: list[Scalar]  # one per warm run: the digits as written in a text, or the cell of a table
    cold_samples: list[Scalar] | None = None
    start: Natural | None = None
    end: Natural | None = None
    row: Natural | None = None
    column: Natural | None = None


class Series(Struct, frozen=True):
    """One line (or row of bars, or set of points) of a plot."""

    name: str
    x: list[Scalar]
    y: list[Scalar]
    style: Style = "line"

    def __post_init__(self) -> None:
        _check_length("y", self.y, len(self.x))
        _keep_on_one_line(self, name=60)


class Raised(Struct, frozen=True):
    """An exception that left a statement."""

    type: str
    message: str
    origin_line: Positive | None = None  # the lecture's line the traceback ends at or nearest to
    survived: bool = False  # it ended a section, and the next section still ran because of `--keep-going`
    waited_line: Positive | None = None  # of a device error: the failed work was launched after the tracer waited here

    def __post_init__(self) -> None:
        _keep_on_one_line(self, type=80)


class Frame(Struct, frozen=True):
    """One call of a lecture function (or the module itself, the first frame)."""

    frame: Natural
    function: str  # qualified name; "<module>" for the module body
    of: Natural | None = None  # the step that called it
    arguments: list[Observed] | None = None  # when its `def` line is inspected
    thread: str | None = None  # when it ran in another thread than its caller

    def __post_init__(self) -> None:
        _keep_on_one_line(self, function=200)


class Step(Struct, frozen=True):
    """One execution of one statement.

    `host_ns` are the warm run's durations, one per timed pass; `cold_ns` the first run's. They exclude the time spent
    recording. On CUDA the host time of an unannotated statement is launch time, because work may still be under way; an
    annotated statement was synchronised, and also has `device_ns`.
    """

    id: Natural
    frame: Natural
    statement: Natural  # number in its source, see `statements`
    line: Positive
    execution: Positive = 1  # the n-th time in this frame
    host_ns: list[Natural] | None = None
    cold_ns: list[Natural] | None = None
    device_ns: list[Natural] | None = None
    launch_ns: list[Natural] | None = None  # with `device_ns`: host time until the work was launched, without the wait
    # Before it began, the host waited so long for work that was queued earlier; no step includes this time.
    queued_ns: list[Natural] | None = None
    annotated: bool = False
    values: list[Observed] | None = None
    claim: Claim | None = None
    narrative: list[Narrative] | None = None
    stdout: str | None = None
    warnings: list[str] | None = None
    left_out: list[LeftOut] | None = None  # omitted output, narrative, warnings and measurements
    allocated_bytes: Natural | None = None  # bytes in the device's caching allocator after the step
    meters: Meters | None = None
    measured: list[Measured] | None = None  # the calls of `measure` in it, in order
    harness: bool = False  # `measure` or `count` ran in it or below: its own time is that of many calls
    raised: Raised | None = None
    suspended: bool = False  # it yielded or awaited: no duration
    compiled: bool = False  # dynamo compiled during it
    graph: bool = False  # torch recorded a graph during it; the calls for that were neither observed nor counted
    runs: Natural | None = None  # in how many of `Run.timed_runs` it ran, if not in all


class Omitted(Struct, frozen=True):
    """Executions of one statement in one frame that the limit left out, as totals."""

    omitted: Positive  # number of executions
    frame: Natural
    statement: Natural
    line: Positive
    host_ns: Natural  # total time of these executions in the run that the trace shows


Event = Frame | Step | Omitted


class Peak(Struct, frozen=True):
    """A rate that a machine can't exceed, from a table or measured; `source` records which."""

    name: str  # a dtype ("bfloat16", "tf32", "float8"), or "memory"
    per_second: Annotated[float, Meta(ge=1, le=1e40)] | None  # FLOP/s (integer OP/s for int8), bytes/s for memory
    source: str  # title of the datasheet; "measured: …"; or the reason why it is unknown: "not in the table"
    measured: bool = False

    def __post_init__(self) -> None:
        _keep_on_one_line(self, name=40, source=200)


class Machine(Struct, frozen=True):
    """The machine that ran the lecture."""

    name: str  # as the driver names it; a CPU by its model name
    slug: str  # the folder under rendered/: "nvidia-h200", "amd-epyc-2-cores"
    device: str  # "cpu" or "cuda"
    memory_bytes: Natural | None = None  # of the device
    multiprocessors: Positive | None = None
    compute_capability: str | None = None
    driver: str | None = None
    cuda: str | None = None
    l2_bytes: Natural | None = None
    cache_bytes: Natural | None = None  # of a CPU: its largest cache
    tf32: str | None = None  # torch.get_float32_matmul_precision(): "highest", "high", "medium"
    cpu: str | None = None
    cores: Positive | None = None  # number of cores that the process may use
    threads: Positive | None = None  # torch's intra-op threads
    ram_bytes: Natural | None = None
    os: str | None = None
    emulated: bool = False  # software emulates the device for tests; its times are meaningless
    peaks: list[Peak] = field(default_factory=list)

    def __post_init__(self) -> None:
        if problem := why_no_folder(self.slug):
            raise ValueError(problem)
        _keep_on_one_line(self, name=60, device=20, driver=40, cuda=20, tf32=20, cpu=60, os=200)


class Process(Struct, frozen=True):
    """One process that ran the lecture."""

    name: str  # "pass 1"
    ended: str  # "complete", "ValueError at line 12", "killed by SIGKILL"
    cold_ns: Natural | None = None  # the whole lecture, first run
    warm_ns: Natural | None = None
    why_no_warm: str | None = None
    restored: list[str] | None = None  # state that the lecture left behind between cold and warm
    notes: list[str] | None = None  # clocks, temperature, throttling, other users of the GPU
    peak_ram_bytes: Natural | None = None  # the most memory that it held at once, Python, torch and the tracer included
    peak_device_bytes: Natural | None = None  # peak of torch's allocator on one device, without its context
    floor_ns: Natural | None = None  # the device's clock for an empty step
    other_cores: Annotated[float, Meta(ge=0)] | None = None  # average number of cores that other processes kept busy

    def __post_init__(self) -> None:
        _keep_on_one_line(self, name=40, ended=200)

    @property
    def id(self) -> ProcessId:
        """The identity that `name` describes."""
        return ProcessId.parse(self.name)

    @property
    def ending(self) -> Ending:
        """The ending that `ended` describes."""
        return Ending.parse(self.ended)


class Run(Struct, frozen=True):
    """How the trace was made."""

    lecture: str  # file name
    started: str  # UTC, ISO 8601
    seed: Integer
    passes: Positive
    limit: Positive
    complete: bool
    ended: str = "complete"  # or the first thing that went wrong
    timed_runs: Natural | None = None  # cold and warm runs of all passes
    only: str | None = None
    main: str | None = None  # the function that ran the lecture, if it is not `main`
    commit: str | None = None
    keep_going: bool = False
    inspect_all: bool = False
    processes: list[Process] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)  # left out by the size cap or a limit

    @property
    def ending(self) -> Ending:
        """The first ending that `ended` describes."""
        return Ending.of_trace(self.ended)

    @property
    def cut_short(self) -> bool:
        """Whether the end of the trace file is missing."""
        return CUT_SHORT in self.ended

    def lasted(self, name: str) -> list[int]:
        """Return how long `main` took in each pass, in nanoseconds; `name` is "cold_ns" or "warm_ns"."""
        passes = (getattr(process, name) for process in self.processes if process.id.kind == "pass")
        return [ns for ns in passes if ns is not None]


class SourceFile(Struct, frozen=True):
    """The text that ran."""

    path: str  # relative to the lecture's folder
    text: str

    def __post_init__(self) -> None:
        if problem := why_not_inside(self.path):
            raise ValueError(problem)


class Trace(Struct, frozen=True):
    """One lecture on one machine."""

    title: str
    run: Run
    machine: Machine
    versions: list[tuple[str, str]]  # ("torch", "2.13.0")
    source: SourceFile
    steps: list[Event]
    schema: int = SCHEMA_VERSION

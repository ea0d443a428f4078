"""What a trace is: documented dataclasses, no logic.

A `Trace` is what happened when one lecture ran on one machine. Everything in it is plain data:
`trace_file` writes it as YAML and reads it back, `tracer` makes it, `document` and the diff read it.
A field that is `None` was not measured; where that is not obvious, a field beside it says why.
Durations are integer nanoseconds, sizes bytes, rates per second.

    Trace(title="…", sources=[SourceFile(path="lecture.py", text="…")],
          steps=[Frame(frame=0, function="<module>"), Step(id=0, frame=0, statement=3, line=12, …)], …)
"""

from __future__ import annotations

from dataclasses import dataclass, field

SCHEMA_VERSION = 1

Scalar = bool | int | float | str | None
Element = bool | int | float | str | None | list[float]  # a complex element is [real, imaginary]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of a large tensor's elements; min, max, mean and std are over the finite ones."""

    min: int | float | None = None
    max: int | float | None = None
    mean: float | None = None
    std: float | None = None
    nan: int = 0
    inf: int = 0
    zero: int = 0
    histogram: list[int] | None = None  # finite elements in equal bins from min to max


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor or array: its metadata, and its elements when they are few.

    `elements` holds all of them in row-major order; otherwise `corner` holds those of the block at
    the origin whose shape is `corner_shape` (same rank as `shape`), beside `statistics`.
    Tensors with equal `storage` labels share memory. `strides` and `offset` count elements.
    """

    dtype: str  # "float32", without the "torch."
    shape: list[int]
    device: str  # "cpu", "cuda:0", "meta"
    bytes: int | None = None  # numel × element size
    strides: list[int] | None = None
    offset: int | None = None
    contiguous: bool | None = None
    requires_grad: bool = False
    layout: str = "strided"
    storage: str | None = None
    storage_bytes: int | None = None
    elements: list[Element] | None = None
    corner: list[Element] | None = None
    corner_shape: list[int] | None = None
    statistics: Statistics | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """What an expression was, as plain data with its type.

    type        fields that go with it
    bool int float str none      value
    complex     value as text, `text`
    list tuple set frozenset     items (the first ones), length
    dict        entries (the first ones), length
    tensor parameter ndarray     tensor
    error       text: the exception, when the expression could not be evaluated
    cycle       a container that contains itself, at this place
    anything else (a class name) text: its repr; entries: its attributes, where they are worth showing
    """

    type: str
    value: Scalar = None
    text: str | None = None
    length: int | None = None  # of the whole container or string, when it was cut short or is a container
    items: list[Value] | None = None
    entries: list[tuple[Value, Value]] | None = None
    tensor: Tensor | None = None
    unit: str | None = None  # from the directive: FLOP, B, s …
    note: str | None = None  # why something is missing
    varies: bool = False  # it differed between timed runs with the same seeds
    samples: list[Scalar] | None = None  # of a varying scalar, one per warm run
    cold_samples: list[Scalar] | None = None  # likewise, one per cold run
    clock: bool = False  # it follows from a clock: the same in all timed runs, another once clocks were scaled
    device_random: bool = False  # it follows from a device's generator: another once that was seeded differently


# What all calls of one operator did in one dtype: the operator ("aten.mm"), the dtype of its FLOPs (None where it did
# none; of a float32 product what it may be rounded to: "tf32", "tf32_or_bfloat16"), FLOPs without those that a program
# may leave out (under a causal mask, around the input of a convolution), and bytes read and written together. Nothing
# is said of what moved no bytes and did no arithmetic, of tensors without memory (device "meta"), nor of the bytes of
# compiled code, which moves fewer than its operators would.
Work = tuple[str, str | None, int, int]


@dataclass(frozen=True, slots=True)
class Collective:
    """Calls of one operation between ranks, in one step, on groups of one size.

    `bytes` is the payload S of all calls together as nccl-tests define it, and `factor` what makes bus traffic of it;
    see `metering.collectives`, which has the sources. The times are this rank's in the metering process, where a
    barrier stood before each call: `waited_ns` is what the others kept it waiting there, `moved_ns` the operation.
    """

    operation: str  # "all_reduce"
    ranks: int  # in the group
    calls: int
    bytes: int
    factor: float | None = None  # None where there is no payload, as of a barrier
    waited_ns: int | None = None  # None where no barrier can stand before it: of a send, of a group that is not real
    moved_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Meters:
    """What the operators inside one step did, counted in the metering process (children included)."""

    flops: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    live_bytes: int | None = None  # tensor bytes alive after the step (a lower bound: no workspaces)
    peak_bytes: int | None = None  # the most alive at once during the step
    operators: list[tuple[str, int]] | None = None  # ("aten.mm", 3)
    uncounted: list[str] | None = None  # operators without a FLOP formula
    dtype: str | None = None  # in which nearly all FLOPs were done; None where there is no such one
    collectives: list[Collective] | None = None  # what went between ranks
    work: list[Work] | None = None  # of operators on tensors that have memory; absent from older traces
    why: str | None = None  # why a figure is None: "fused", "no counterpart in the metering process"


@dataclass(frozen=True, slots=True)
class Measured:
    """One call of `measure` in a step: how long one call of its function took, and what one call does.

    `seconds` is the median of the measurement, one per warm run (per cold run where there is no warm one).
    What one call does was counted in the metering process.
    """

    seconds: list[float]
    flops: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    dtype: str | None = None  # as in `Meters`
    operators: list[tuple[str, int]] | None = None
    collectives: list[Collective] | None = None
    work: list[Work] | None = None
    why: str | None = None  # why a count is None: "no torch operator ran in it", "fused"


@dataclass(frozen=True, slots=True)
class Claim:
    """An `assert`: its source, both sides as they were, and whether it held in every timed run.

    It has failed where its AssertionError left its section; one that the lecture itself caught is no claim.
    """

    source: str
    held: bool
    sides: list[tuple[str, Value]] = field(default_factory=list)
    message: str | None = None  # of the AssertionError
    failed_runs: list[str] | None = None  # "pass 2, warm"


@dataclass(frozen=True, slots=True)
class Narrative:
    """One call of the lecture's vocabulary.

    kind        fields
    text note   text (Markdown)
    link        url, title, authors, date, text (description), notes; or target (a function of the lecture) and title
    image       url, title (alternative text), width (pixels, or "50%" of the text's)
    video       url, title, width
    table       title, columns, rows
    plot        title, x_label, y_label, x_scale, y_scale, series; svg when it was drawn by matplotlib
    ask         text (the question, Markdown), answer
    explore     text (a sentence with places for results, see `narrative.places`), title, exploration
    """

    kind: str
    text: str | None = None
    url: str | None = None
    title: str | None = None
    authors: str | None = None
    date: str | None = None
    width: int | str | None = None
    columns: list[str] | None = None
    rows: list[list[Scalar]] | None = None
    x_label: str | None = None
    y_label: str | None = None
    x_scale: str | None = None  # "linear" or "log"
    y_scale: str | None = None
    series: list[Series] | None = None
    svg: str | None = None
    answer: Answer | None = None  # to what `ask` asks
    exploration: Exploration | None = None  # what `explore` lets a reader change
    choice: Choice | None = None  # of a text that `decide` chose
    varied: list[Varied] | None = None  # numbers that other runs said differently
    others: list[tuple[str, int]] | None = None  # another text in its place, and in how many timed runs
    left_out: int | None = None  # of a table rows, of a plot points (or characters of its svg), else characters
    flows: bool = False  # a piece of a line: what one step says is one line of text, or images side by side; lines join
    style: list[tuple[str, str]] | None = None  # how it is to look, as CSS: ("color", "red")
    label: str | None = None  # of a link that flows: what stands for it in the text
    target: str | None = None  # of a link: the function or class of the lecture that it leads to
    notes: str | None = None  # of a reference: remarks of the lecture's own


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer that the lecture computed to a question, and what a reader is told of another one.

    A number is right within `within` of it, relative to it; of several runs that computed others, within that of any.
    """

    value: int | float | str
    unit: str | None = None
    within: float | None = None  # of a number
    choices: list[str] | None = None  # of which the answer is one
    hint: str | None = None  # Markdown, as are those below
    why: str | None = None
    slips: list[tuple[int | float | str, str]] | None = None  # a wrong answer that is known, and what went wrong
    samples: list[Scalar] | None = None  # the answers of all timed runs, where they differ


@dataclass(frozen=True, slots=True)
class Input:
    """A number that a reader may change."""

    name: str  # of the function's parameter
    label: str
    value: float  # as the lecture has it
    low: float
    high: float
    scale: str  # of its slider: "linear" or "log"
    whole: bool = False  # only whole numbers
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Menu:
    """Rows of numbers by name, of which the lecture takes the first and a reader any: machines, recipes."""

    label: str
    columns: list[Input]  # what a row has numbers for; within their limits a reader may type a row of their own
    rows: list[tuple[str, list[float]]]
    own: bool = False  # whether a reader may


@dataclass(frozen=True, slots=True)
class Result:
    """What the function returned under a name, called with the lecture's numbers."""

    name: str
    label: str
    value: bool | float
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Exploration:
    """A function of the lecture that a reader can call with other numbers, and how its results are drawn."""

    name: str  # of the function
    formula: str  # it, as `arithmetic` writes it
    parameters: list[str]  # the names of inputs and of columns of menus, in the function's order
    inputs: list[Input]
    menus: list[Menu]
    results: list[Result]  # in the order in which the formula returns them
    stack: list[str] | None = None  # results that are drawn on one another
    limit: str | None = None  # a result, or a parameter, that their sum is compared with
    curve: tuple[str, str] | None = None  # an input across, a result upwards
    across: str | None = None  # a menu whose other rows are drawn as well


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a step said beyond what is kept of one."""

    what: str  # "stdout", "narrative", "warnings", "measured": the field that is not all there
    count: int  # characters printed, calls of the vocabulary, warnings, measurements
    at: int | None = None  # in `stdout`, of which the first and the last are kept: what is behind it was printed last


@dataclass(frozen=True, slots=True)
class Choice:
    """Why a sentence was said: `samples` were all above `high`, all below `low`, or undecided.

    A run knows its own samples and all three sentences; a trace the samples of all timed runs and the one that fits.
    """

    low: float
    high: float
    samples: list[float]
    answer: str | None = None  # "above", "below", "undecided"
    sentences: list[str] | None = None  # for above, below and undecided, in a run


@dataclass(frozen=True, slots=True)
class Varied:
    """A number in what was said that was not the same in all timed runs.

    In a text, `text[start:end]` is the number as the story has it; in a table, it is a cell.
    """

    samples: list[Scalar]  # as the warm runs have it: of a text the digits as they were written, of a table the cell
    cold_samples: list[Scalar] | None = None
    start: int | None = None
    end: int | None = None
    row: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """One line (or row of bars, or set of points) of a plot."""

    name: str
    x: list[Scalar]
    y: list[Scalar]
    style: str = "line"  # "line", "points", "bars", "stacked", "steps"


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that left a statement."""

    type: str
    message: str
    origin_line: int | None = None  # the lecture's line the traceback ends at or nearest to
    survived: bool = False  # it ended a section, and the next one ran all the same: `--keep-going`
    waited_line: int | None = None  # of an error of the device: what failed was launched after the tracer waited here


@dataclass(frozen=True, slots=True)
class RankCall:
    """The arguments that a call had on one rank, where they are not those of the frame."""

    rank: int
    arguments: list[tuple[str, Value]]


@dataclass(frozen=True, slots=True)
class Frame:
    """One call of a lecture function (or the module itself, the first frame)."""

    frame: int
    function: str  # qualified name; "<module>" for the module body
    of: int | None = None  # the step that called it
    source: int = 0  # which of the trace's sources
    arguments: list[tuple[str, Value]] | None = None  # when its `def` line is inspected
    thread: str | None = None  # when it ran in another thread than its caller
    on: list[int] | None = None  # the ranks that made this call, where not all did
    ranks: list[RankCall] | None = None


@dataclass(frozen=True, slots=True)
class RankStep:
    """A step as one rank had it: of the fields of `Step`, those that are not what the step says of all.

    A field that is None is as in the step, but for those that `lacks` names, which this rank did not have at all.
    """

    rank: int
    host_ns: list[int] | None = None
    cold_ns: list[int] | None = None
    device_ns: list[int] | None = None
    values: list[tuple[str, Value]] | None = None  # all of them, where one differs
    claim: Claim | None = None
    narrative: list[Narrative] | None = None
    stdout: str | None = None
    warnings: list[str] | None = None
    left_out: list[LeftOut] | None = None
    allocated_bytes: int | None = None
    meters: Meters | None = None
    measured: list[Measured] | None = None
    raised: Raised | None = None
    lacks: list[str] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One execution of one statement.

    Of several ranks it says what the lowest one observed that came by, with the slowest one's times, a claim that
    failed on any and an exception that any raised; `ranks` has what is otherwise.

    `host_ns` are the warm run's durations, one per timed pass; `cold_ns` the first run's. Time spent
    recording is not in them. On CUDA an unannotated statement's host time is launch time: work may
    still have been under way; an annotated one was synchronised, and has `device_ns` too.
    """

    id: int
    frame: int
    statement: int  # number in its source, see `statements`
    line: int
    execution: int = 1  # the n-th time in this frame
    host_ns: list[int] | None = None
    cold_ns: list[int] | None = None
    device_ns: list[int] | None = None
    annotated: bool = False
    values: list[tuple[str, Value]] | None = None  # (expression, what it was)
    claim: Claim | None = None
    narrative: list[Narrative] | None = None
    stdout: str | None = None
    warnings: list[str] | None = None
    left_out: list[LeftOut] | None = None  # of what it printed, told, warned of and measured
    allocated_bytes: int | None = None  # by the device's caching allocator, after the step
    meters: Meters | None = None
    measured: list[Measured] | None = None  # the calls of `measure` in it, in order
    harness: bool = False  # `measure` or `count` ran in it or below: its own time is that of many calls
    raised: Raised | None = None
    suspended: bool = False  # it yielded or awaited: no duration
    compiled: bool = False  # dynamo compiled during it
    runs: int | None = None  # in how many of `Run.timed_runs` it ran, where not in all
    clock: bool = False  # whether it ran follows from a clock: once clocks were scaled, it did not
    on: list[int] | None = None  # the ranks that ran it, where not all did
    ranks: list[RankStep] | None = None  # by rank, what differs


@dataclass(frozen=True, slots=True)
class Omitted:
    """Executions of one statement in one frame that the limit left out, as totals."""

    omitted: int  # how many executions
    frame: int
    statement: int
    line: int
    host_ns: int  # of all of them together, in the first pass
    on: list[int] | None = None  # the ranks on which some were, where not all


Event = Frame | Step | Omitted


@dataclass(frozen=True, slots=True)
class Peak:
    """A rate a machine can't exceed: from a table (with its source) or measured (and says so)."""

    name: str  # a dtype ("bfloat16", "tf32", "float8"), or "memory"
    per_second: float | None  # FLOP/s (integer OP/s for int8), bytes/s for memory
    source: str  # title of the datasheet; "measured: …"; or why there is none: "not in the table"
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """What the lecture ran on."""

    name: str  # as the driver names it; a CPU by its model name
    slug: str  # the folder under rendered/: "nvidia-h200", "cpu"
    device: str  # "cpu" or "cuda"
    memory_bytes: int | None = None  # of the device
    multiprocessors: int | None = None
    compute_capability: str | None = None
    driver: str | None = None
    cuda: str | None = None
    l2_bytes: int | None = None
    cache_bytes: int | None = None  # of a CPU: its largest cache
    tf32: str | None = None  # torch.get_float32_matmul_precision(): "highest", "high", "medium"
    cpu: str | None = None
    cores: int | None = None  # that the process may use
    threads: int | None = None  # torch's intra-op threads
    ram_bytes: int | None = None
    os: str | None = None
    emulated: bool = False  # software plays the device, for tests: its times measure nothing
    peaks: list[Peak] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Process:
    """One process that ran the lecture."""

    name: str  # "pass 1", "metering", "shaken"
    ended: str  # "complete", "ValueError at line 12", "killed by SIGKILL"
    cold_ns: int | None = None  # all of main(), first run
    warm_ns: int | None = None
    why_no_warm: str | None = None
    restored: list[str] | None = None  # what the lecture left behind between cold and warm
    notes: list[str] | None = None  # clocks, temperature, throttling, other users of the GPU
    peak_ram_bytes: int | None = None  # the most memory that it held at once, Python, torch and the tracer included
    peak_device_bytes: int | None = None  # the most that torch's allocator held of the accelerator, without its context
    rank: int | None = None  # of several


@dataclass(frozen=True, slots=True)
class Run:
    """How the trace was made."""

    lecture: str  # file name
    started: str  # UTC, ISO 8601
    seed: int
    passes: int
    limit: int
    complete: bool
    ended: str = "complete"  # or the first thing that went wrong
    timed_runs: int | None = None  # cold and warm ones, of all passes
    story: str | None = None  # the run that values, prose and order of steps are from: "pass 2, warm"
    only: str | None = None
    commit: str | None = None
    keep_going: bool = False
    inspect_all: bool = False
    ranks: int | None = None  # how many processes each pass was, under torchrun
    nodes: list[str] | None = None  # of several machines that they ran on, in order, with as many ranks on each
    processes: list[Process] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)  # what the size cap or a limit left out


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The text that ran."""

    path: str  # relative to the lecture's folder
    text: str


@dataclass(frozen=True, slots=True)
class Trace:
    """One lecture on one machine."""

    title: str
    run: Run
    machine: Machine
    versions: list[tuple[str, str]]  # ("torch", "2.13.0")
    sources: list[SourceFile]
    steps: list[Event]
    schema: int = SCHEMA_VERSION

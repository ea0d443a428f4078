"""The lecture has its sections and claims, the claims can fail, and the lecture runs."""

from __future__ import annotations

import ast
import importlib.util
import math
import os
import random
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.cases_in_one import each
from tests.javascript import evaluated
from trace_tools.lecture.vocabulary import listening
from trace_tools.machines import accelerators
from trace_tools.presentation.prose import slug
from trace_tools.source.directives import parse_directives
from trace_tools.source.statements import parse_source
from trace_tools.trace import arithmetic
from trace_tools.trace.model import Narrative, Table

LECTURE = Path(__file__).parents[1] / "lecture.py"
SOURCE = LECTURE.read_text(encoding="utf-8")
TREE = ast.parse(SOURCE)
FUNCTIONS = {node.name: node for node in TREE.body if isinstance(node, ast.FunctionDef)}

CURRICULUM = {  # words that the source of each section must contain
    "overview": "money memory compute mechanics mindset intuition gib flop/s transformer",
    "napkin_math": "mfu sparsity chinchilla adamw sharding embedding gpu-hours months",
    "memory_accounting": "rank subnormal bias nvfp4 underflow tf32 saturates cublas pageable|moves gib",
    "tensors_from_the_inside": "row-major stride expand reshape clone contiguous rsqrt in-place|_",
    "einops_and_jaxtyping": "beartype torchtyping jaxtyped einsum reduce heads lower causal",
    "compute_accounting": "gpt-3 gpt-4 revoked warm synchronise median spread sparse|dense hfu tiles wave 3090 tf32",
    "arithmetic_intensity": "roofline memory-bound gelu fuse decoding cache overlap equality",
    "gradients": "leaf|leaves retain_grad embedding rule",
    "models": "rope swiglu gqa all-to-all logit query residual causal tied experts xavier lecun he's truncat relu "
    "parameter",
    "randomness_and_data": "held seed generator numpy memory-mapped pinned non_blocking .npy tofile window",
    "optimizers": "adafactor lion muon group momentum adagrad rmsprop adamw bias sum average foreach zero_grad|zero",
    "training_loop": "warm-up clip zero_grad tokens broadcast fixed mfu num_layers",
    "mixed_precision": "master gradscaler autocast deprecated e4m3 e5m2 transformer scaled_mm nvfp4 inference",
    "memory_of_a_training_step": "activations hooks no_grad logits korthikanti zero_grad peak",
    "using_less_memory": "nvlink infiniband fully_shard context.par expert.par sequence.par accumulat checkpoint "
    "offload lora pipeline tensor all-reduce flashattention 8-bit reentrant",
    "saving_and_resuming": "scheduler scaler position generator atomic kill weights_only young|interval",
    "summary": "memory compute napkin mfu",
}

SECTIONS = list(CURRICULUM)
FIRST = SECTIONS[:4]

PROSE = {"ask", "decide", "explore", "text", "note", "link", "table", "plot"}


def load(source: str, name: str) -> ModuleType:
    """Run `source` as a module and return it; it is in `sys.modules` because dataclasses look it up there."""
    module = ModuleType(name)
    module.__file__ = str(LECTURE)
    sys.modules[name] = module
    exec(compile(source, str(LECTURE), "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def lecture() -> ModuleType:
    spec = importlib.util.spec_from_file_location("the_lecture", LECTURE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["the_lecture"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def first_narratives(lecture: ModuleType) -> list[Narrative]:
    """Return the narratives that the first sections record on this machine."""
    narratives: list[Narrative] = []
    with listening(narratives.append):
        for section in FIRST:
            getattr(lecture, section)()
    return narratives


def prose(narratives: list[Narrative]) -> str:
    return "\n".join(n.text for n in narratives if n.kind == "text" and n.text)


@cache
def functions_used_by(function: ast.FunctionDef) -> list[str]:
    """Return the lecture's own functions that `function` calls or passes on, in order of appearance.

    Local variables with a function's name do not count, nor do arguments of `shown_in`, which only refer to functions.
    """
    references = [n for n in ast.walk(function) if isinstance(n, ast.Call) and ast.unparse(n.func) == "shown_in"]
    others = {n for call in references for argument in call.args for n in ast.walk(argument)}
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id in FUNCTIONS and n not in others]
    local = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    return [n.id for n in sorted(names, key=lambda n: (n.lineno, n.col_offset)) if n.id not in local]


def reachable(section: str) -> set[str]:
    reached, waiting = set(), [section]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += functions_used_by(FUNCTIONS[name])
    return reached


def asserts(section: str) -> Iterator[ast.Assert]:
    for name in sorted(reachable(section)):
        yield from (node for node in ast.walk(FUNCTIONS[name]) if isinstance(node, ast.Assert))


def source_text(section: str) -> str:
    """Return the source of a section's functions, prose and code, in lower case."""
    return " ".join(ast.unparse(FUNCTIONS[name]) for name in sorted(reachable(section))).lower()


def code_lines(function: ast.FunctionDef) -> int:
    """Count the lines of code that a page shows, without prose, hidden lines, blank lines and comments."""
    lines = SOURCE.splitlines()
    others: set[int] = set()
    for node in (n for n in ast.walk(function) if isinstance(n, ast.stmt) and not hasattr(n, "body")):
        span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        value = node.value if isinstance(node, ast.Expr) else None
        is_prose = isinstance(value, ast.Constant) or (isinstance(value, ast.Call) and ast.unparse(value.func) in PROSE)
        if is_prose or any("@hide" in lines[number - 1] for number in span):
            others |= set(span)
    numbers = range(function.lineno, (function.end_lineno or function.lineno) + 1)
    return sum(n not in others and lines[n - 1].strip()[:1] not in ("", "#") for n in numbers)


def test_main_calls_the_sections_in_order() -> None:
    assert functions_used_by(FUNCTIONS["main"])[: len(SECTIONS)] == SECTIONS


def test_sections_have_titles_and_claims() -> None:
    for section in SECTIONS:
        assert ast.get_docstring(FUNCTIONS[section]) and len(list(asserts(section))) >= 3, section


@each("section", CURRICULUM)
def test_sections_cover_the_curriculum(section: str) -> None:
    text = source_text(section)
    assert [word for word in CURRICULUM[section].split() if not re.search(word, text)] == []


def test_every_function_is_called_and_has_a_title() -> None:
    used = set().union(*(reachable(section) for section in functions_used_by(FUNCTIONS["main"])))
    in_classes = [node for node in TREE.body if isinstance(node, ast.ClassDef)]
    used |= {name.id for node in in_classes for name in ast.walk(node) if isinstance(name, ast.Name)} & set(FUNCTIONS)
    assert set(FUNCTIONS) - used == {"main"}
    assert [name for name in used if not ast.get_docstring(FUNCTIONS[name])] == []


@each("name", FUNCTIONS)
def test_functions_fit_on_a_screen(name: str) -> None:
    assert code_lines(FUNCTIONS[name]) <= 25


def test_claims_compare_different_expressions() -> None:
    for section in SECTIONS:
        for claim in asserts(section):
            assert not isinstance(claim.test, ast.Constant)
            if isinstance(claim.test, ast.Compare):
                sides = [ast.dump(side) for side in (claim.test.left, *claim.test.comparators)]
                assert len(set(sides)) == len(sides), ast.unparse(claim)
                names = [n for n in ast.walk(claim.test) if isinstance(n, (ast.Name, ast.Call))]
                assert names, f"nothing runs in: {ast.unparse(claim)}"


def test_all_directives_can_be_parsed() -> None:
    directives = parse_directives(parse_source(SOURCE, "lecture.py"))
    assert sum(directive.name == "inspect" for directive in directives) > 100


@pytest.mark.slow
def test_lecture_runs_as_plain_python(tmp_path: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(LECTURE.parent)}
    started = time.monotonic()
    with (tmp_path / "output").open("w+") as output:
        process = subprocess.Popen(
            [sys.executable, LECTURE], cwd=tmp_path, env=environment, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        assert process.returncode == 0, output.read()[-1000:]
        printed = output.read()
    functions = {node.name: node for node in ast.parse(SOURCE).body if isinstance(node, ast.FunctionDef)}
    called = [ast.unparse(statement).removesuffix("()") for statement in functions["main"].body]
    titles = [str(ast.get_docstring(functions[call])).splitlines()[0] for call in called if call in functions]
    lines = printed.splitlines()
    positions = [lines.index(f"{number} {title}") for number, title in enumerate(titles)]
    assert positions == sorted(positions)
    assert time.monotonic() - started < 150
    if not torch.cuda.is_available():  # a CUDA context alone takes gigabytes
        assert usage.ru_maxrss * 1024 < 4e9


def test_summary_links_to_existing_headings(lecture: ModuleType) -> None:
    narratives: list[Narrative] = []
    with listening(narratives.append):
        lecture.summary()
    cells = [str(cell) for n in narratives if isinstance(n, Table) for row in n.rows for cell in row]
    links = {link for cell in cells for link in re.findall(r"\]\(([^)]*)\)", cell)}
    assert len(links) >= 15
    anchors = set()
    for number, section in enumerate(SECTIONS):
        titles = [slug(str(ast.get_docstring(FUNCTIONS[name])).partition("\n")[0]) for name in reachable(section)]
        page = f"{number:02d}-{slug(section)}.html"
        anchors |= {f"{page}#{title}" for title in titles if titles.count(title) == 1}
    assert links - anchors == set()


@pytest.mark.slow
def test_links_of_the_rendered_summary_exist(lecture_site: Path) -> None:
    folder = min(lecture_site.glob("*/trace.yaml")).parent
    links = re.findall(r'href="(\d\d-[^"#]+\.html)#([^"]+)"', (folder / "16-summary.html").read_text(encoding="utf-8"))
    assert len(set(links)) >= 15
    pages = {page: (folder / page).read_text(encoding="utf-8") for page, _ in links}
    assert [link for link in links if f'id="{link[1]}"' not in pages[link[0]]] == []


def test_first_sections_record_narratives(first_narratives: list[Narrative]) -> None:
    kinds = [n.kind for n in first_narratives]
    assert kinds.count("text") > 60
    assert kinds.count("link") > 15
    assert kinds.count("table") >= 5
    assert kinds.count("plot") >= 6
    text = prose(first_narratives)
    assert re.findall(r"\b(None|nan|inf)\b", text) == []
    assert ("Not run: no CUDA device" in text) is not torch.cuda.is_available()


def test_every_reference_is_used_and_has_an_https_url(lecture: ModuleType, first_narratives: list[Narrative]) -> None:
    strings = [node.value for node in ast.walk(TREE) if isinstance(node, ast.Constant)]
    assert [key for key in lecture.REFERENCES if key not in strings] == []
    urls = {reference["url"] for reference in lecture.REFERENCES.values()}
    assert {n.url for n in first_narratives if n.kind == "link"} <= urls
    assert all(url.startswith("https://") for url in urls)


EXPLORED = sorted(
    {
        ast.unparse(node.args[0])
        for node in ast.walk(TREE)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "explore"
    }
)


def test_sections_have_their_explorations() -> None:
    assert len(EXPLORED) == 4
    sections = {"overview": 1, "arithmetic_intensity": 2, "using_less_memory": 1}
    assert {section: len({*EXPLORED} & reachable(section)) for section in sections} == sections


@each("name", EXPLORED)
def test_formulas_agree_with_javascript_on_random_inputs(lecture: ModuleType, name: str) -> None:
    function, draw = getattr(lecture, name), random.Random(name)
    formula = arithmetic.formula_of(function)

    def number() -> float:
        return draw.choice((10 ** draw.uniform(-2, 14), float(draw.randint(0, 4)), float(draw.randint(1, 10**5))))

    inputs = [[number() for _ in formula.parameters] for _ in range(1_000)]
    script = f"(() => {{ const [f] = {arithmetic.javascript([formula.text])}; return given.map((it) => f(...it)); }})()"
    answered = 0
    for numbers, answer in zip(inputs, evaluated(script, inputs), strict=True):
        try:
            expected = list(function(*numbers).values())
        except (ArithmeticError, ValueError):
            continue  # a division by zero; in JavaScript a result that is not finite, which pages do not show
        assert expected == answer
        answered += 1
    assert answered > 500


def test_sections_record_the_same_narratives_twice(lecture: ModuleType) -> None:
    first: list[Narrative] = []
    second: list[Narrative] = []
    for narratives in (first, second):
        torch.manual_seed(0)
        with listening(narratives.append):
            lecture.overview()
            lecture.block_scaling()
            lecture.views()
    assert first == second


def test_checkpoint_is_synced_before_and_after_its_rename(
    lecture: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[str] = []
    sync, rename = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        calls.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        sync(descriptor)

    def replace(source: Path, target: Path) -> None:
        calls.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    lecture.save_atomically({"step": 7}, tmp_path / "checkpoint.pt")
    assert calls == ["checkpoint.partial", "rename", tmp_path.name]
    assert torch.load(tmp_path / "checkpoint.pt") == {"step": 7}


@pytest.mark.slow
@each(("kept", "freed"), [(2**25, 0), (0, 0), (0, 2**25)])
def test_gpu_parts_on_a_simulated_gpu(kept: int, freed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the lines that need CUDA on the CPU, with an allocator that reports the figures of a GPU.

    The workspace of matmuls is kept from the first one on, was kept by an earlier one, or is freed after each.
    """
    on_cpu = SOURCE.replace('device="cuda"', 'device="cpu"').replace('x.to("cuda")', "x.clone()")
    module = load(on_cpu, "the_lecture_on_a_stand_in")
    matrix = 32 * 32 * 4
    before, after = 512, 512 + 2 * matrix
    both = after + kept + 2 * matrix
    allocated_bytes = [before, after, after + kept + matrix, both, both, after]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_allocated", iter(allocated_bytes).__next__)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: both + freed)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 2**26)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**36, 2**37))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=2**37))
    monkeypatch.setattr(accelerators.Accelerator, "properties", lambda self: accelerators.Properties("", 2**37))
    monkeypatch.setattr(module, "device", lambda: "cuda")
    monkeypatch.setattr(module, "copy_rate", lambda: 4e15)
    monkeypatch.setattr(module, "peak_bandwidth", lambda: 4.8e12)
    narratives: list[Narrative] = []
    with listening(narratives.append):
        assert module.allocated_on_the_gpu() == 8192
        rate = module.transfer_rate()
        module.draw_both_memories(rate)
    assert (str(2**25) in prose(narratives)) is (kept + freed > 0)
    assert ("The first matmul of a process" in prose(narratives)) is (freed == 0)
    assert rate > 0
    [allocated, reserved, _] = next(n.rows for n in narratives if n.kind == "table" and n.rows)
    assert (allocated[1], reserved[1]) == (after / 2**20, 64.0)
    assert "memory: 128 GiB" in str(narratives[-1].svg)


@each("part", ["time_on_a_gpu", "bytes_on_a_gpu", "loop_as_a_graph"])
def test_gpu_parts_are_one_paragraph_without_a_gpu(
    lecture: ModuleType, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(lecture, "device", lambda: "cpu")
    narratives: list[Narrative] = []
    with listening(narratives.append):
        getattr(lecture, part)()
    assert [n.kind for n in narratives] == ["text"]
    assert len(prose(narratives).split()) < 60


def test_attention_and_compiled_gelu_on_a_cpu(lecture: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claims hold wherever torch has a fused kernel; without a compiler, the lecture states the reason."""
    monkeypatch.setattr(lecture, "device", lambda: "cpu")
    monkeypatch.setattr(lecture, "sizes", lambda: lecture.Sizes(streamed_bytes=2**22, matmul_side=512))
    narratives: list[Narrative] = []

    def no_compiler(f: Any, **_: Any) -> Any:
        def compiled(_: Any) -> Any:
            raise RuntimeError("no C compiler was found\nset CC")

        return compiled

    with listening(narratives.append):
        lecture.attention_in_steps_and_in_one_kernel()
        for compiler in (no_compiler, lambda f, **_: f):
            monkeypatch.setattr(torch, "compile", compiler)
            lecture.compiled_gelu()
    text = prose(narratives)
    assert "no C compiler was found" in text and "set CC" not in text
    batch_of_heads, side = 8, 512
    scores_mb = batch_of_heads * side**2 * torch.float32.itemsize / 1e6
    in_steps_mb = float(re.findall(r"adds (\d+) MB in steps", text)[0])
    assert in_steps_mb >= scores_mb


@pytest.mark.cuda
@each("error", [RuntimeError, ValueError, TypeError])
def test_gpu_that_refuses_fp8_states_the_reason(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes GPUs that should support fp8; kernels refuse with different types of errors."""

    def refuses(*_: object, **__: object) -> None:
        raise error("no such kernel\nfor this card")

    module = load(SOURCE, "the_lecture_without_fp8")
    monkeypatch.setattr(module, "sizes", lambda: module.Sizes(step_width=32))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(torch, "_scaled_mm", refuses)
    narratives: list[Narrative] = []
    with listening(narratives.append):
        assert module.speed_of_fp8() is None
    assert prose(narratives) == f"fp8: not run. torch {torch.__version__} says: no such kernel"


@each(("card_bytes", "side"), [(int(80e9), 8192), (int(24e9), 4096), (int(4e9), 2048)])
def test_the_memory_of_the_card_decides_sizes(card_bytes: int, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in use does not, so that one card has one lecture every day."""
    module = load(SOURCE, "the_lecture_on_a_card")
    monkeypatch.setattr(module, "device", lambda: "cuda")
    monkeypatch.setattr(module, "memory_bytes", lambda: card_bytes)
    assert module.sizes().matmul_side == side


def test_decode_agrees_with_struct_on_every_fp16(lecture: ModuleType) -> None:
    form = lecture.FloatFormat(5, 10, 2**10)
    for code in range(2 ** (5 + 10) - 2**10):  # the finite codes
        assert lecture.decode(code, form) == struct.unpack("<e", struct.pack("<H", code))[0]


@each(("form", "float_code", "integer_code"), [((5, 10, 2**10), "<e", "<H"), ((8, 23, 2**23), "<f", "<I")])
def test_encode_agrees_with_struct(
    lecture: ModuleType, form: tuple[int, int, int], float_code: str, integer_code: str
) -> None:
    generator = np.random.default_rng(0)
    values = np.exp(generator.uniform(np.log(1e-8), np.log(6e4), 2000)).tolist()
    for value in [*values, 65504.0, 2.0**-24, 1.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11]:  # ties go to even
        expected = struct.unpack(integer_code, struct.pack(float_code, value))[0]
        assert lecture.encode(value, lecture.FloatFormat(*form)) == expected


@each(("name", "dtype"), [("fp16", np.float16), ("fp32", np.float32), ("fp64", np.float64)])
def test_limits_agree_with_numpy(lecture: ModuleType, name: str, dtype: type) -> None:
    info = np.finfo(dtype)
    expected = [float(v) for v in (info.max, info.smallest_normal, info.smallest_subnormal, info.eps)]
    assert list(lecture.limits(lecture.floating_point_formats()[name]).values()) == expected


def test_round_to_grid_finds_the_nearest(lecture: ModuleType) -> None:
    grid = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    x = torch.linspace(-13, 13, 101).view(1, -1)
    rounded = lecture.round_to_grid(x, torch.tensor(2.0), grid)
    signed = [sign * 2 * point for point in grid.tolist() for sign in (1, -1)]
    for value, rounded_to in zip(x.flatten().tolist(), rounded.flatten().tolist(), strict=True):
        assert math.isclose(abs(rounded_to - value), min(abs(point - value) for point in signed), abs_tol=1e-6)


def test_counted_layer_agrees_with_torchs_modules(lecture: ModuleType) -> None:
    torch.manual_seed(0)
    length, width, hidden = 5, 512, 64  # four heads of 128, which share two keys and values
    shapes = {"query": (width, width), "key": (width, 256), "value": (width, 256), "output": (width, width)}
    shapes |= {"gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}
    weights = {name: torch.randn(shape) / math.sqrt(shape[0]) for name, shape in shapes.items()}
    x, norm = torch.randn(length, width), torch.nn.RMSNorm(width, elementwise_affine=False)
    query, key, value = (
        (norm(x) @ weights[name]).unflatten(1, (-1, 128)).transpose(0, 1) for name in ("query", "key", "value")
    )
    key, value = (shared.repeat_interleave(2, dim=0) for shared in (key, value))
    mixed = torch.nn.functional.scaled_dot_product_attention(query[None], key[None], value[None], is_causal=True)[0]
    y = x + mixed.transpose(0, 1).flatten(1) @ weights["output"]
    gated = torch.nn.functional.silu(norm(y) @ weights["gate"]).mul(norm(y) @ weights["up"])
    assert torch.allclose(lecture.transformer_layer(x, weights), y + gated @ weights["down"], atol=1e-4)


MISTAKES = [  # planted mistakes: the function to run, the correct text, the wrong text that replaces it
    ("time_to_train", "promised = H100_BF16", "promised = 2 * H100_BF16"),
    ("time_to_train", "gpus = 70e9, 15e12, 1024", "gpus = 70e9, 15e12, 1000"),
    ("largest_model", '"all fp32": (4, 4, 0, 4)', '"all fp32": (4, 4, 0, 2)'),
    ("optimizer_states", "assert in_bf16 == 8", "assert in_bf16 == 12"),
    ("the_language_model", "2 * shape.layers if added else 1", "shape.layers if added else 1"),
    ("scale_against_depth", "he @ (math.sqrt(2) * w)", "he @ w"),
    ("what_is_often_copied_wrong", "ten_steps(Uncorrected, lr=lr), adam", "ten_steps(Adam, lr=lr), adam"),
    ("memory_of_a_step_predicted", '"gradients": 4 * parameters', '"gradients": 2 * parameters'),
    ("flops_of_the_language_model", '"logits": 6 * tokens * d', '"logits": 4 * tokens * d'),
    ("seeds", "    torch.manual_seed(seed)\n    model = LanguageModel", "    model = LanguageModel"),
    ("batches", "torch.randint(len(tokens) - sequence,", "torch.randint(len(tokens) - sequence - 1,"),
    ("batches", "windows[:, :-1], windows[:, 1:]", "windows[:, :-1], windows[:, :-1]"),
    ("when_states_are_allocated", "if tensor.ndim > 0]", "]"),
    ("when_states_are_allocated", "    optimizer.zero_grad()\n    cleared", "    cleared"),
    ("what_a_step_costs", "optim.AdamW([w], fused=True)  # one kernel", "optim.AdamW([w], foreach=False)"),
    ("the_language_model_learns", "    run.optimizer.step()\n", ""),
    ("text_for_the_language_model", "UNITS[rest] if rest < 20", "UNITS[rest] if rest < 10"),
    ("text_for_the_language_model", "3 * (n // 100) % 10", "3 * (n // 200) % 10"),
    ("the_language_model_learns", "draw_batch(tokens, batch,", "draw_batch(tokens[::-1].copy(), batch,"),
    ("what_a_real_loop_adds", "max_norm=1.0).item()", "max_norm=2.0).item()"),
    ("the_language_model_learns", "    run.optimizer.zero_grad()\n    loss = loss_of", "    loss = loss_of"),
    ("the_language_model_learns", "max_norm=1.0)\n    run.optimizer", "max_norm=1.5)\n    run.optimizer"),
    ("that_layer_is_torchs", "key.transpose(-2, -1) / math.sqrt", "key.transpose(-2, -1) * math.sqrt"),
    ("updates_that_vanish", "        bf16 += 1e-3\n", "        bf16 += 1e-2\n"),
    ("dynamic_loss_scaling", "growth_interval=3)", "growth_interval=4)"),
    ("copies_of_autocast", "dtype=torch.bfloat16):\n            losses", "enabled=False):\n            losses"),
    ("copies_of_autocast", "if not gradients_from_before:", "if gradients_from_before:"),
    ("optimizer_states", "optim.SGD([weight], momentum=0.9)", "optim.SGD([weight], momentum=0)"),
    ("zero_stages", "in sharded[3 - stage :]", "in sharded[2 - stage :]"),
    ("days_and_dollars", "flops = 6 * parameters * tokens\n    days", "flops = 2 * parameters * tokens\n    days"),
    ("largest_model", '"bf16, fp32 states": (2, 2, 0, 4)', '"bf16, fp32 states": (4, 2, 0, 4)'),
    ("mixture_of_experts", "(x @ router).softmax(dim=-1)", "x @ router"),
    ("mixture_of_experts", "gates[token, slot, None] * (x[token] @ weight)", "x[token] @ weight"),
    ("mixture_of_experts", "(chosen == expert).nonzero", "(chosen == chosen[0, 0]).nonzero"),
    ("creating_tensors", "std=0.5, a=-1, b=1", "std=1.0, a=-1, b=1"),
    ("where_the_six_comes_from", "4 * parameters * tokens", "2 * parameters * tokens"),
    ("where_the_six_bends", "+ 12 * layers * width * length**2\n", "+ 6 * layers * width * length**2\n"),
    ("best_model_for_the_compute", "math.sqrt(compute / 120)", "math.sqrt(compute / 20)"),
    ("bytes_of_a_tensor", "torch.empty(4 * 12288, 12288,", "torch.empty(3 * 12288, 12288,"),
    ("memory_accounting", "return fraction * 2.0 ** (1 - bias)", "return fraction * 2.0 ** (0 - bias)"),
    ("memory_accounting", "FloatFormat(4, 3, 1)", "FloatFormat(4, 3, 8)"),
    ("memory_accounting", "exponent_field = exponent + 15", "exponent_field = exponent + 16"),
    ("range_and_precision", "torch.tensor(1 - 0.003)", "torch.tensor(1 - 0.001)"),
    ("memory_accounting", "return codes[:, 0::2] | codes[:, 1::2] << 4", "return codes[:, 0::2] | codes[:, 1::2] << 3"),
    ("memory_accounting", "x.abs().amax(dim=1, keepdim=True)", "x.abs().amax()[None, None]"),
    ("storage_and_strides", "address = x.storage_offset() + row * x.stride(0)", "address = row * x.stride(1)"),
    ("views", "x.transpose(0, 1)", "x.transpose(0, 1).contiguous()"),
    ("views", "    row.mul_(100)  #", "    row = row.mul(100)  #"),
    ("expanding", "bias.expand(3, 4)", "bias.repeat(1, 4)"),
    ("contiguity", "transposed.view(6)", "transposed.reshape(6)"),
    ("contiguity", "copied_gib = 2 * torch", "copied_gib = torch"),
    ("what_copies", '"`x.t()`": x.t()', '"`x.t()`": x.t().contiguous()'),
    ("what_views_and_copies_cost", "count(lambda: x.t()),", "count(lambda: x.t().clone()),"),
    ("causal_mask", "lower = ones.tril()", "lower = ones.triu()"),
    ("causal_mask", "masked_fill(~allowed,", "masked_fill(allowed,"),
    ("matrix_multiplication", "2 * batch * sequence * width * outputs", "batch * sequence * width * outputs"),
    ("what_heads_cost", '"... heads part -> ... (heads part)") @ weights[3]', '"... heads part -> ... (heads part)")'),
    ("what_heads_cost", "math.sqrt(query.shape[-1])", "1"),
    ("multiplying_by_hand", "total, flops = products[0], flops + len(products)", "total, flops = products[0], flops"),
    ("counts_and_rates", "8 * H100_BF16 * 14", "8 * H100_BF16 * 7"),
    ("switching_tf32", "+ 2**12 >> 13 << 13", "+ 2**15 >> 16 << 16"),
    ("tiles_and_waves", "tiles = {n: math.ceil(n / 128)", "tiles = {n: math.floor(n / 128)"),
    ("two_times", "memory_s = (2 + 2) * 1e9", "memory_s = 2 * 1e9"),
    ("two_times", "additions_per_second = H100_FP32 / 2", "additions_per_second = H100_BF16 / 2"),
    ("key_value_cache", "2 * (parameters - embedding)", "2 * parameters"),
    ("attention_in_steps_and_in_one_kernel", "scores_bytes = heads * length**2 *", "scores_bytes = heads * length *"),
    ("which_gradients_exist", "kept.retain_grad()", "pass"),
    ("two_layers_backward", "w1_grad = x.T @ h1_grad  #", "w1_grad = h1_grad.T @ x  #"),
    ("when_the_rule_is_exact", "(embedding, w1, w2), torch", "(w1, w2), torch"),
    ("ratio_against_depth", "torch.autograd.grad(h, weights, torch", "torch.autograd.grad(h, weights[-1:], torch"),
    ("the_six_against_torch", '.mul_(group["momentum"]).add_(g)', '.mul_(group["momentum"]).add_(0.1 * g)'),
    ("the_six_against_torch", 'm / (v.sqrt() + group["eps"])', 'm / (v + group["eps"]).sqrt()'),
    (
        "what_is_often_copied_wrong",
        '(state["average"] + group["eps"]).sqrt()',
        '(state["average"].sqrt() + group["eps"])',
    ),
    ("parameter_groups", '"weight_decay": 0.0', '"weight_decay": 0.1'),
    ("optimizer_states", "c * square @ square", "c * square"),
    ("memory_of_a_training_step", "tensor.untyped_storage().nbytes() for tensor", "tensor.nbytes for tensor"),
    ("memory_of_a_training_step", "return 2 * (2 + 2 + 1 + 2 * shared", "return 2 * (2 + 2 + 1 + shared"),
    ("activations_of_a_transformer", "attention_in_steps) // 2", "attention_in_one) // 2"),
    ("logits_of_a_language_model", "cross_entropy(h @ w, target).backward()", "in_a_variable()"),
    ("timeline_of_two_steps", "optimizer.zero_grad()\n        losses.append(", "losses.append("),
    (
        "timeline_of_two_steps",
        "phases = [forward, backward, optimizer.step]",
        "phases = [forward, optimizer.step, backward]",
    ),
    ("traps_of_accumulation", "(loss * len(some_x) / len(x)).backward()", "(loss * 16 / len(x)).backward()"),
    ("using_less_memory", '1 if keep == "each block" else root', "root"),
    ("two_learning_rates", "x, y = linear_batch(32, 16)  # (B, D), (B,)", "x, y = fixed_x, fixed_y"),
    ("what_a_real_loop_adds", "return (step + 1) / warm_up", "return step / warm_up"),
    ("how_often_to_save", "math.sqrt(2 * between_failures * save_time)", "math.sqrt(between_failures * save_time)"),
    ("rounding_at_random", "torch.randint(0, 2**16", "torch.randint(0, 2**15"),
    ("when_memory_when_compute", "value_width=512, cached=576", "value_width=512, cached=2 * 576"),
    ("rotary_positions", "return x + self.down(silu(", "return x - self.down(silu("),
    ("rotary_positions", "scale * (scaled - normed *", "scale * (scaled + normed *"),
    ("the_language_model", "(*by_head, is_causal=True", "(*by_head, is_causal=False"),
    ("parameters_of_the_language_model", '"feed-forward": 3 * shape.layers', '"feed-forward": 2 * shape.layers'),
    ("the_language_model", "math.log2(model.shape.vocabulary)) < 0.1", "math.log(model.shape.vocabulary)) < 0.1"),
    ("flops_of_the_language_model", "6 * tokens * 2 * shape.layers", "6 * tokens * shape.layers"),
    ("gradient_accumulation", "(loss_of(model, x, y) / pieces)", "loss_of(model, x, y)"),
    (
        "activation_checkpointing",
        "checkpoint(layer, x, use_reentrant=False) if self.recompute",
        "layer(x) if self.recompute",
    ),
    ("saving_and_resuming", 'resumed.generator.set_state(saved["generator"])', "pass"),
    ("saving_and_resuming", 'resumed.step = saved["step"]', "pass"),
    ("eight_bits_and_fewer", "blocks.abs().amax(dim=1, keepdim=True)", "blocks.abs().amax()[None, None]"),
    ("rotary_positions", "1000.0 ** (-2 * pair", "1500.0 ** (-2 * pair"),
    ("rotary_positions", "a * sin + b * cos", "a * cos + b * sin"),
    ("memory_of_the_language_model", "(6 * shape.width + 2 * of_keys", "(5 * shape.width + 2 * of_keys"),
    ("when_the_network_is_the_limit", "3 * 2}  # bytes per parameter", "2 * 2}  # bytes per parameter"),
    ("size_a_run", "shards - 3 * layer - 3", "shards - layer"),
]


@pytest.mark.slow
@each(("function", "right", "wrong"), MISTAKES)
def test_planted_mistakes_fail_a_claim(function: str, right: str, wrong: str) -> None:
    assert SOURCE.count(right) >= 1
    module = load(SOURCE.replace(right, wrong, 1), "the_mistaken_lecture")
    with pytest.raises(AssertionError):
        getattr(module, function)()

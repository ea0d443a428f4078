"""The lecture has its sections and claims, the claims can fail, and the lecture runs."""

from __future__ import annotations

import ast
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from tests.cases_in_one import each
from trace_tools.source.directives import parse_directives
from trace_tools.source.statements import parse_source

LECTURE = Path(__file__).parents[1] / "lecture.py"
SOURCE = LECTURE.read_text(encoding="utf-8")
TREE = ast.parse(SOURCE)
FUNCTIONS = {node.name: node for node in TREE.body if isinstance(node, ast.FunctionDef)}

CURRICULUM = {  # words that the source of each section must contain
    "overview": "token flop/s mfu mechanics mindset intuition gib transformer",
    "napkin_math": "sparsity chinchilla adamw nvidia-smi experts gpu-hours attention",
    "numbers_in_memory": "rank subnormal bias tf32 exponent mantissa kernel pcie",
    "tensors_from_the_inside": "row-major stride reshape clone contiguous in.place mask",
    "names_for_dimensions": "softmax einops jaxtyping heads lower causal",
    "compute_accounting": "systemic warm median spread sparsity gb300 launch-bound",
    "the_roofline": "ridge memory-bound compute-bound gelu fuse decoding prefill tiles overlap cache mla",
    "gradients": "leaf retain_grad embedding autograd",
    "the_model": "rmsnorm rope swiglu qwen3 all-to-all logit residual causal lecun deepseek",
    "randomness_and_data": "held seed numpy memory-mapped pinned non_blocking window deterministic",
    "optimizers": "muon kimi weight decay average zero_grad",
    "training_loop": "warm-up clip zero_grad broadcast nat tokens",
    "mixed_precision": "master stochastic autocast gradscaler e4m3 e5m2 nvfp4 hopper blackwell",
    "memory_of_a_training_step": "activations hook no_grad logits flashattention unfused swiglu",
    "using_less_memory": "fully_shard tensor.par context.par expert.par sequence.par pipeline offload lora all-reduce",
    "saving_and_resuming": "scheduler position generators fsync interval",
    "size_the_run": "homework context traffic b200",
}
SECTIONS = list(CURRICULUM)
TO_READ_ALONE = ["tensors_from_the_inside", "names_for_dimensions", "randomness_and_data", "saving_and_resuming"]
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
PROSE = {"ask", "decide", "explore", "text", "note", "link", "table", "plot"}


def load(source: str) -> ModuleType:
    """Run `source` as a module and return it; it is in `sys.modules` because dataclasses look it up there."""
    module = ModuleType("the_lecture")
    module.__file__ = str(LECTURE)
    sys.modules["the_lecture"] = module
    exec(compile(source, str(LECTURE), "exec"), module.__dict__)
    return module


@pytest.fixture(scope="module")
def lecture() -> ModuleType:
    return load(SOURCE)


@cache
def functions_used_by(function: ast.FunctionDef) -> list[str]:
    """Return the lecture's own functions that `function` calls or passes on, in order of appearance.

    Local variables with a function's name do not count.
    """
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id in FUNCTIONS]
    local = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    return [n.id for n in sorted(names, key=lambda n: (n.lineno, n.col_offset)) if n.id not in local]


def names_in(node: ast.AST) -> set[str]:
    return {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


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


def test_sections_have_titles_and_claims_and_cover_the_curriculum() -> None:
    for section in SECTIONS:
        assert ast.get_docstring(FUNCTIONS[section]) and list(asserts(section)), section
        source = " ".join(ast.unparse(FUNCTIONS[name]) for name in sorted(reachable(section))).lower()
        assert [word for word in CURRICULUM[section].split() if not re.search(word, source)] == [], section


def test_every_function_is_called_and_has_a_title() -> None:
    used = set().union(*(reachable(section) for section in functions_used_by(FUNCTIONS["main"])))
    elsewhere = [node for node in TREE.body if isinstance(node, ast.ClassDef)]
    elsewhere += [decorator for node in FUNCTIONS.values() for decorator in node.decorator_list]
    used |= {name for node in elsewhere for name in names_in(node)}
    assert set(FUNCTIONS) - used == {"main"}
    assert [name for name in FUNCTIONS if not ast.get_docstring(FUNCTIONS[name])] == []


def test_functions_and_the_lecture_stay_small() -> None:
    """A function fits on a screen."""
    assert {name: lines for name in FUNCTIONS if (lines := code_lines(FUNCTIONS[name])) > 25} == {}
    assert SOURCE.count("\n") <= 4_500 and SOURCE.count("@hide") <= 250
    calls = [n for n in ast.walk(TREE) if isinstance(n, ast.Call) and ast.unparse(n.func) == "ask"]
    assert 24 <= len(calls) <= 28
    directives = parse_directives(parse_source(SOURCE, "lecture.py"))  # all can be parsed
    assert sum(directive.name == "inspect" for directive in directives) > 100


def test_the_talk_takes_80_minutes() -> None:
    """Each section's note begins with its minutes; sections to read alone have no note."""
    minutes = {}
    for section in SECTIONS:
        calls = [n for n in ast.walk(FUNCTIONS[section]) if isinstance(n, ast.Call) and ast.unparse(n.func) == "note"]
        minutes[section] = sum(NUMBERS.index(ast.literal_eval(call.args[0]).split()[0].lower()) + 1 for call in calls)
    assert [section for section in SECTIONS if not minutes[section]] == TO_READ_ALONE
    assert sum(minutes.values()) == 80


def test_visible_lines_use_no_hidden_names() -> None:
    """A name that a page shows and that only hidden lines bind can't be understood."""
    lines, puzzling = SOURCE.splitlines(), []
    for function in FUNCTIONS.values():
        bound: dict[bool, set[str]] = {True: set(), False: set()}
        shown: list[ast.stmt] = []
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Assert):
                continue
            hidden = any("@hide" in line for line in lines[node.lineno - 1 : node.end_lineno])
            bound[hidden] |= {name for target in getattr(node, "targets", ()) for name in names_in(target)}
            call = node.value if isinstance(node, ast.Expr) else None
            is_prose = isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] in {*PROSE, "append"}
            shown += [node] * (not hidden and not is_prose)
        hidden_only = bound[True] - bound[False]
        puzzling += [(function.name, name) for node in shown for name in names_in(node) & hidden_only]
    assert puzzling == []


def test_claims_compare_different_expressions() -> None:
    for section in SECTIONS:
        for claim in asserts(section):
            assert not isinstance(claim.test, ast.Constant)
            if isinstance(claim.test, ast.Compare):
                sides = [ast.dump(side) for side in (claim.test.left, *claim.test.comparators)]
                assert len(set(sides)) == len(sides), ast.unparse(claim)
                names = [n for n in ast.walk(claim.test) if isinstance(n, (ast.Name, ast.Call))]
                assert names, f"nothing runs in: {ast.unparse(claim)}"


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
    titles = [str(ast.get_docstring(FUNCTIONS[section])).splitlines()[0] for section in SECTIONS]
    lines = printed.splitlines()
    positions = [lines.index(f"{number} {title}") for number, title in enumerate(titles)]
    assert positions == sorted(positions)
    assert re.findall(r"\b(None|nan|inf)\b", printed) == []
    assert time.monotonic() - started < 150
    if not torch.cuda.is_available():  # a CUDA context alone takes gigabytes
        assert usage.ru_maxrss * 1024 < 4e9


@each(("card_bytes", "side"), [(int(80e9), 8192), (int(24e9), 4096), (int(4e9), 2048)])
def test_the_memory_of_the_card_decides_sizes(card_bytes: int, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in use does not, so that one card has one lecture every day."""
    module = load(SOURCE)
    monkeypatch.setattr(module, "device", lambda: "cuda")
    monkeypatch.setattr(module, "memory_bytes", lambda: card_bytes)
    assert module.sizes().side == side


def test_formats_agree_with_struct_and_numpy(lecture: ModuleType) -> None:
    form = lecture.FORMATS["fp16"]
    for code in range(2 ** (5 + 10) - 2**10):  # the finite codes
        assert lecture.decode(code, form) == struct.unpack("<e", struct.pack("<H", code))[0]
    generator = np.random.default_rng(0)
    values = np.exp(generator.uniform(np.log(1e-8), np.log(6e4), 2000)).tolist()
    values += [65504.0, 2.0**-24, 1.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11]  # ties go to even
    for name, float_code, integer_code in (("fp16", "<e", "<H"), ("fp32", "<f", "<I")):
        for value in values:
            expected = struct.unpack(integer_code, struct.pack(float_code, value))[0]
            assert lecture.encode(value, lecture.FORMATS[name]) == expected
    for name, dtype in (("fp16", np.float16), ("fp32", np.float32), ("fp64", np.float64)):
        info = np.finfo(dtype)
        expected = [float(v) for v in (info.max, info.smallest_normal, info.smallest_subnormal, info.eps)]
        assert list(lecture.limits(lecture.FORMATS[name]).values()) == expected


def test_fp4_finds_the_nearest(lecture: ModuleType) -> None:
    x = torch.linspace(-12, 12, 101)
    rounded = lecture.in_fp4(x, len(x))
    signed = torch.tensor([sign * 2 * point for point in lecture.GRID.tolist() for sign in (1, -1)])
    nearest = (x[:, None] - signed).abs().amin(dim=1)
    assert torch.allclose((rounded - x).abs(), nearest, atol=1e-5)


def test_norm_and_rotation_agree_with_their_definitions(lecture: ModuleType) -> None:
    torch.manual_seed(0)
    norm, x = lecture.RMSNorm(16), torch.randn(3, 5, 16, requires_grad=True)
    torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
    ours, theirs = norm(x), torch.nn.functional.rms_norm(x, (16,), norm.weight, 1e-6)
    upstream = torch.randn_like(ours)
    gradients = [torch.autograd.grad(output, (x, norm.weight), upstream) for output in (ours, theirs)]
    assert torch.allclose(ours, theirs, atol=1e-6)
    assert all(torch.allclose(*pair, atol=1e-5) for pair in zip(*gradients, strict=True))
    query, key = torch.randn(2, 1, 1, 1, 8)  # the same vector at each position
    scores = torch.einsum("bshd,bthd->st", *(lecture.rotated(part.expand(1, 6, 1, 8)) for part in (query, key)))
    assert torch.allclose(scores[1:, 1:], scores[:-1, :-1], atol=1e-5)  # only the distance counts
    assert not torch.allclose(scores[0, 1:], scores[0, :-1], atol=1e-2)


# Planted mistakes, one in a section: the function to run, the correct text, the wrong text that replaces it.
# `make mutate` plants hundreds, and lists those that no claim notices.
MISTAKES = [
    ("days_and_dollars", "flops = 6 * parameters * tokens  #", "flops = 2 * parameters * tokens  #"),
    ("bytes_of_a_tensor", "torch.empty(8192, 28672, dtype", "torch.empty(8192, 14336, dtype"),
    ("a_hundredth_by_hand", "exponent_field = exponent + 15", "exponent_field = exponent + 16"),
    ("contiguity", "transposed.view(6)", "transposed.reshape(6)"),
    ("causal_mask", "torch.ones(4, 4).tril()", "torch.ones(4, 4).triu()"),
    ("one_product", "flops == 2 * 4096", "flops == 4096"),
    ("the_ridge", '"H200": "NVIDIA H200"', '"H200": "NVIDIA B200"'),
    ("by_hand", "x.T @ h1_grad, h1_grad.T", "h1_grad.T @ x, h1_grad.T"),
    ("a_small_model_that_stays", "(*by_head, is_causal=True", "(*by_head, is_causal=False"),
    ("windows", "torch.randint(len(tokens) - sequence,", "torch.randint(len(tokens) - sequence - 1,"),
    ("adam_by_hand", "moved = 0.02 * (m / 0.1)", "moved = 0.02 * m"),
    ("five_lines", "        optimizer.step()\n        losses", "        losses"),
    ("loss_scaling", "gradient = weight.grad.float() / 1024", "gradient = weight.grad.float()"),
    ("a_layer_keeps", "numbers += 4 * F", "numbers += 3 * F"),
    ("micro_batches", "(loss_of(model, x, y) / pieces)", "loss_of(model, x, y)"),
    ("saving_and_resuming", 'resumed.generator.set_state(saved["generator"])', "pass"),
    ("the_sum", '"a checkpoint per layer (14)": L * S * D * 2', '"a checkpoint per layer (14)": S * D * 2'),
]


@pytest.mark.slow
@each(("function", "right", "wrong"), MISTAKES)
def test_planted_mistakes_fail_a_claim(function: str, right: str, wrong: str) -> None:
    assert SOURCE.count(right) >= 1
    module = load(SOURCE.replace(right, wrong, 1))
    with pytest.raises(AssertionError):
        getattr(module, function)()

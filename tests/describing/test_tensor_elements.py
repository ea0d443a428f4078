import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from tests.describing.tensor_kinds import only_known_warnings
from tests.describing.value_form import describe, tensor
from trace_tools.describing.limits import Limits
from trace_tools.describing.values import Describer

Value = dict[str, Any]


@pytest.fixture(autouse=True)
def no_warning_escapes() -> Iterator[None]:
    with only_known_warnings():
        yield


NUMBERS = {
    name: getattr(torch, name)
    for name in (
        *("float64", "float32", "float16", "bfloat16", "bool", "uint8", "int8", "int16", "int32", "int64"),
        *("uint16", "uint32", "uint64", "complex64", "complex128"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32"),
    )
    if hasattr(torch, name)
}


@pytest.mark.parametrize("name", NUMBERS)
def test_elements_of_every_type(name: str) -> None:
    dtype = NUMBERS[name]
    x = torch.tensor([0, 1, 2, 3, 0, 1]).reshape(2, 3).to(dtype)
    field = tensor(x.T)
    assert field["dtype"] == name
    assert field["bytes"] == 6 * dtype.itemsize
    if dtype.is_complex:
        oracle: list[Any] = [[z.real, z.imag] for z in x.to(torch.complex128).numpy().T.ravel().tolist()]
    elif dtype.is_floating_point:
        oracle = x.double().numpy().T.ravel().tolist()
    else:
        oracle = x.numpy().T.ravel().tolist()
    assert field["elements"] == oracle
    assert {type(e) for e in field["elements"]} == {type(e) for e in oracle}


def test_numbers_at_the_edges() -> None:
    x = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 1e-45])
    assert str(tensor(x)["elements"]) == str(x.numpy().tolist()) == "[nan, inf, -inf, -0.0, 1.401298464324817e-45]"
    assert tensor(torch.tensor([2**64 - 1], dtype=torch.uint64))["elements"] == [2**64 - 1]
    assert tensor(torch.tensor([-(2**63), 2**63 - 1]))["elements"] == [-(2**63), 2**63 - 1]


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="this torch has no 4-bit floats")
def test_pairs_of_4_bit_floats() -> None:
    value = describe(torch.tensor([0x10, 0x7F, 0xA9], dtype=torch.uint8).view(torch.float4_e2m1fn_x2))
    assert value["tensor"]["elements"] == [[0.0, 0.5], [-6.0, 6.0], [-0.5, -1.0]]
    assert "[low, high]" in value["note"]


@pytest.mark.parametrize("name", [n for n in ("int4", "uint1", "uint7", "bits8") if hasattr(torch, n)])
def test_types_torch_gives_no_numbers(name: str) -> None:
    value = describe(torch.tensor([0, 1, 0xF7], dtype=torch.uint8).view(getattr(torch, name)))
    assert (value["tensor"]["dtype"], value["tensor"]["elements"]) == (name, [0, 1, 0xF7])
    assert value["note"] == "elements are the raw bytes"
    large = describe(torch.zeros(300, dtype=torch.uint8).view(getattr(torch, name)))
    assert "no statistics" in large["note"] and "statistics" not in large["tensor"]


def test_conjugated_and_negated_views() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    assert tensor(x.conj())["elements"] == [[1.0, -2.0], [3.0, 4.0]]
    assert x.conj().imag.is_neg()
    assert tensor(x.conj().imag)["elements"] == [-2.0, 4.0]


@pytest.mark.parametrize(
    "name", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "int64", "uint16", "uint64", "bool"]
)
def test_statistics_equal_torchs_own(name: str) -> None:
    dtype = NUMBERS[name]
    x = torch.randn(30, 40, generator=torch.Generator().manual_seed(0)) * 10
    if name in ("uint16", "uint64", "bool"):
        x = (x - 5).relu()
    x = x.to(torch.float32 if dtype.is_floating_point else torch.int64).to(dtype)
    field = tensor(x.T)
    exact = x.double()
    found = field["statistics"]
    assert found["min"] == exact.min().item() and found["max"] == exact.max().item()
    assert found["mean"] == pytest.approx(exact.mean().item(), rel=1e-12)
    assert found["std"] == pytest.approx(exact.std().item(), rel=1e-12)
    assert found.get("zero", 0) == (exact == 0).sum().item()
    assert found["histogram"] == np.histogram(exact.numpy(), 16)[0].tolist()
    assert type(found["min"]) is (float if dtype.is_floating_point else int)
    assert field["corner_shape"] == [4, 8]
    assert field["corner"] == x.T[:4, :8].contiguous().double().reshape(-1).tolist()
    assert "elements" not in field


def test_all_elements_up_to_the_limit_and_not_one_more() -> None:
    assert len(tensor(torch.zeros(256))["elements"]) == 256
    assert "elements" not in tensor(torch.zeros(257))
    assert "elements" not in tensor(torch.zeros(4), Describer(limits=Limits(elements=3)))


def test_exact_ends_of_large_integers() -> None:
    ends = [2**64 - 1, 2**63 + 1, 7]
    found = tensor(torch.tensor(ends * 100, dtype=torch.uint64))["statistics"]
    assert (found["min"], found["max"]) == (7, 2**64 - 1)


def test_counts_of_what_is_not_finite() -> None:
    x = torch.randn(3, 400)
    x[0, :7], x[1, 5:9], x[2, 0], x[2, 1:6] = math.nan, math.inf, -math.inf, 0
    found = tensor(x)["statistics"]
    finite = x[x.isfinite()].double()
    assert (found["nan"], found["inf"], found["zero"]) == (7, 5, 5)
    assert (found["min"], found["max"]) == (finite.min().item(), finite.max().item())
    assert sum(found["histogram"]) == finite.numel()


def test_complex_statistics_are_of_magnitudes() -> None:
    x = torch.randn(300, dtype=torch.complex64)
    value = describe(x)
    assert value["note"] == "statistics of the magnitudes"
    assert value["tensor"]["statistics"]["max"] == x.to(torch.complex128).abs().max().item()


def test_an_expanded_tensor_larger_than_memory() -> None:
    value = tensor(torch.tensor([0.0, 1.0]).expand(10**6, 10**6, 2))
    assert value["bytes"] == 8 * 10**12
    assert value["statistics"]["zero"] == 10**12
    assert value["corner_shape"] == [1, 4, 2]


def test_temporaries_stay_below_64_mib() -> None:
    x = torch.zeros(3000, 3001, dtype=torch.bfloat16).T  # as float64: 72 MB
    x[5, 7] = math.nan
    with torch.profiler.profile(profile_memory=True) as profile:
        value = Describer().describe(x)
    live = peak = 0
    for event in profile.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    assert 0 < peak <= 64 * 2**20
    assert live == 0
    assert value["tensor"]["statistics"] == {"min": 0.0, "max": 0.0, "mean": 0.0, "std": 0.0, "nan": 1, "zero": 9002999}


def test_above_the_limit_statistics_are_of_a_sample() -> None:
    value = describe(torch.arange(3000.0), Describer(limits=Limits(statistics=1000)))
    assert value["note"] == "statistics of a sample: one index in 3 of dimension 0"
    assert value["tensor"]["statistics"]["max"] == 2997.0


def test_the_limit_is_for_the_whole_value() -> None:
    many = [torch.ones(600) for _ in range(5)]
    items = describe(many, Describer(limits=Limits(statistics=1000)))["items"]
    assert ["statistics" in item["tensor"] for item in items] == [True, True, True, False, False]
    assert "sample" in items[1]["note"] and "note" not in items[0]
    assert items[-1]["note"] == "no statistics: the value is too large"
    assert len(str(describe([torch.rand(256) for _ in range(100)]))) < 200_000

"""The modules that a lecture imports and the names that it mentions, read from its source without running it."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.cases_in_one import each
from trace_tools.source import imports
from trace_tools.source.imports import imported, needs_torch, versions
from trace_tools.source.statements import parse_source

NEEDS_TORCH = [
    "import torch",
    "import torch.nn as nn",
    "from torch import nn",
    "def f():\n    from torch.nn import functional",
    "from trace_tools import *",
    "import trace_tools\ntrace_tools.peak_flops('float32')",
    "import trace_tools as tools",
    "from trace_tools.metering.measurement import Count",
    "from beside import helper",
    "import package.inner",
]
NEEDS_NONE = [
    "import numpy, math",
    "from trace_tools import ask, table, text",
    "from trace_tools import count",
    "from trace_tools import measure, text",
    "import trace_tools\ntrace_tools.text('torch')",
    "from trace_tools.lecture.drawings import draw_bits",
    "torch = 'import torch'",
    "from . import sibling",
    "from broken import anything",
    "import deep",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("import further\n")
    (tmp_path / "further.py").write_text("import torch, beside\n")
    (tmp_path / "broken.py").write_text("import torch (\n")
    (tmp_path / "deep.py").write_text(f"x = {'(' * 5000}1{')' * 5000}\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "inner.py").write_text("import torch\n")
    return tmp_path


@each(("text", "needs"), [*((t, True) for t in NEEDS_TORCH), *((t, False) for t in NEEDS_NONE)])
def test_whether_a_lecture_needs_torch(text: str, needs: bool, folder: Path) -> None:
    assert ("torch" in imported(parse_source(text, "lecture.py"), folder)) is needs


def test_a_package_may_require_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    required = {
        "lightning": ["numpy", "torch (<4.0,>=2.1.0)"],
        "transformers": ["numpy", 'torch>=2.2; extra == "torch"'],
        "matplotlib": ["numpy"],
        "others": ["torchvision", "torch-geometric"],
        "edtrace": ["torch", "numpy"],  # for its own tracer
    }
    monkeypatch.setattr(imports.metadata, "requires", required.get)
    monkeypatch.setattr(imports, "is_installed", lambda name: True)
    needing = {name for name in (*required, "torch") if needs_torch(frozenset({name}))}
    assert needing == {"lightning", "transformers", "torch"}


def test_imported_excludes_standard_library_and_local_modules(folder: Path) -> None:
    text = "import os, numpy.linalg, beside\nfrom yaml import safe_load\nimport trace_tools"
    packages = imported(parse_source(text, "lecture.py"), folder)
    assert packages == {"numpy", "yaml", "torch"}  # torch is imported by way of `beside`


def test_versions_are_those_of_the_installed_packages() -> None:
    expected = [("numpy", metadata.version("numpy"))]
    assert versions(frozenset({"numpy", "nobody-distributes-this"})) == expected


def test_vocabulary_imports_do_not_load_torch() -> None:
    code = "from trace_tools import *; from trace_tools import text, table; import trace_tools.source.imports, sys; "
    subprocess.run([sys.executable, "-c", f"{code}sys.exit('torch' in sys.modules)"], check=True)

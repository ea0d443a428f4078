"""Fixtures for tests of several folders: a browser, and the environment of processes that trace."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import shutil
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.committed import committed_traces
from tests.pages.browsing import open_browser
from trace_tools.machines.machine import STORED, to_json
from trace_tools.trace.model import Machine, Peak

ROOT = Path(__file__).resolve().parents[1]
CPU_LIMIT_S = 1.0  # of a test that is not marked slow; its fixtures do not count
LARGE = {"torch", "matplotlib", "pandas", "polars"}  # packages that take half a second and more to import

with contextlib.suppress(ImportError):
    from hypothesis import HealthCheck, settings

    # On a busy machine, hypothesis draws slowly and single examples can take long.
    settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")


@pytest.fixture(autouse=True, scope="module")
def _small_heap() -> None:
    """Exclude the objects that exist before a module's tests, mainly torch's, from garbage collections during them."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that compile the emulated device as slow, before `-m` selects tests."""
    for item in items:
        if "emulated" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip the tests marked `cuda` if there is no CUDA device."""
    if item.get_closest_marker("cuda"):
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device; `make emulate` has one")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Let an unmarked test fail that takes more CPU than `make test` can afford, in this process and its children.

    Threads of torch that wait for each other would count, so the limit holds where there is one, as in `make test`. A
    test that is the first to import a large package is not judged.
    """
    marked = item.get_closest_marker("slow") or item.get_closest_marker("cuda")
    judged = os.environ.get("OMP_NUM_THREADS") == "1" and not marked
    before_s, imported = _cpu_s(), LARGE & sys.modules.keys()
    yield
    used_s = _cpu_s() - before_s
    if judged and used_s > CPU_LIMIT_S and imported == LARGE & sys.modules.keys():
        pytest.fail(f"took {used_s:.1f} s of CPU: make it smaller, or mark it slow", pytrace=False)


def _cpu_s() -> float:
    usages = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Print as the last line how many tests were skipped, by reason."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and (skipped := reporter.stats.get("skipped")):
        reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
        listed = "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common())
        reporter.write_line(f"{len(skipped)} skipped: {listed}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    opened = open_browser()
    yield opened
    opened.quit()


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return variables for processes that trace: this code, no GPU, and a stored machine, which saves measuring it."""
    stored = tmp_path_factory.mktemp("machine") / "machine.json"
    peaks = [Peak("float32", 1.5e11, "measured", measured=True), Peak("memory", 2e10, "measured", measured=True)]
    stored.write_text(to_json(Machine("A processor", "cpu", "cpu", peaks=peaks)), encoding="utf-8")
    return {**os.environ, "PYTHONPATH": str(ROOT), STORED: str(stored), "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture(scope="session")
def lecture_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Render the committed traces of the lecture, and the reports that compare them, in a folder of their own.

    For slow tests: rendering takes seconds.
    """
    from trace_tools.pages.site import render_folder

    out = tmp_path_factory.mktemp("lecture") / "rendered"
    for trace in committed_traces():
        (out / trace.parent.name).mkdir(parents=True)
        shutil.copy(trace, out / trace.parent.name)
    render_folder(out, ROOT / "lecture.py")
    return out

r"""Convert a trace to text that `git diff` can compare line by line, and set git up to use it.

    python -m trace_tools diff --setup-git      once per clone; then `git diff` shows traces as text
    text_of(trace)                              "lecture.py:19 product  return a @ b\n    y = f32[2, 4] · 32 B\n…"

Durations are left out: they always differ, and only `diff` can distinguish noise from a change.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

from trace_tools.analysis.summaries import claim_summary, summary
from trace_tools.diff.judge.settings import INSTALLED, MACHINE, RUN
from trace_tools.errors import TraceToolsError
from trace_tools.trace.model import Frame, Omitted, Trace, Value
from trace_tools.trace.structure import to_plain
from trace_tools.trace.trace_file import load
from trace_tools.util import formats
from trace_tools.util.git import git

ATTRIBUTE = "**/trace.yaml diff=trace"
# If this package is gone, for example because its environment was deleted, git uses the file itself.
COMMAND = (
    'f() {{ {0} -m trace_tools diff --textconv "$1" 2>/dev/null || '
    '{{ echo "trace-tools is gone from {0}: traces are shown as YAML; run diff --setup-git again" >&2; '
    'cat "$1"; }}; }}; f'
)
ELEMENTS = 400  # characters of a tensor's elements on its line


def convert(path: Path) -> str:
    """Return the text of a trace file; for any other file the reason and its content, so that git can continue."""
    try:
        return text_of(load(path).trace)
    except TraceToolsError as error:
        reason = str(error).replace(str(path), "trace")
        try:
            contents = path.read_bytes().decode(errors="replace") if path.is_file() else ""
        except OSError:
            contents = ""
        return f"not a trace: {reason}\n{contents}"


def text_of(trace: Trace) -> str:
    """Write a trace without durations: the head, then each step with its observations."""
    lines = [f"title: {formats.one_line(trace.title, 200)}", f"ended: {formats.one_line(trace.run.ended, 200)}"]
    lines += [f"run {name}: {getattr(trace.run, name)}" for name in RUN]
    for name in (*MACHINE, *INSTALLED):
        if getattr(trace.machine, name) is not None:
            lines.append(f"machine {name}: {formats.one_line(str(getattr(trace.machine, name)), 200)}")
    for name, version in trace.versions:
        lines.append(f"version {formats.one_line(name, 60)}: {formats.one_line(version, 60)}")
    lines.append("durations are not shown: `python -m trace_tools diff` judges them")
    frames: dict[int, Frame] = {}
    sources = [source.text.split("\n") for source in trace.sources]
    for event in trace.steps:
        if isinstance(event, Frame):
            frames[event.frame] = event
            lines.append(f"call {formats.one_line(event.function, 80)}")
            lines += [f"    {_named(name, value)}" for name, value in event.arguments or ()]
            continue
        frame = frames[event.frame]
        source = sources[frame.source]
        code = formats.one_line(source[event.line - 1], 100) if event.line <= len(source) else ""
        # no line number, because it changes with every line above
        statement = f"{formats.one_line(frame.function, 80)}  {code}"
        if isinstance(event, Omitted):
            lines.append(f"{statement}  {event.omitted:,} more executions")
            continue
        observed = [_named(name, value) for name, value in event.values or ()]
        if event.claim is not None:
            observed.append(f"claim {'held' if event.claim.held else 'FAILED'}: {claim_summary(event.claim)}")
        if event.raised is not None:
            observed.append(f"raised {formats.one_line(f'{event.raised.type}: {event.raised.message}', 200)}")
        if event.meters is not None:
            observed.append("meters " + json.dumps(to_plain(event.meters), ensure_ascii=True, sort_keys=True))
        if event.allocated_bytes is not None:
            observed.append(f"allocated {event.allocated_bytes:,} bytes")
        observed += [f"printed {formats.one_line(line, 200)}" for line in (event.stdout or "").splitlines()]
        lines += [statement, *(f"    {line}" for line in observed)]
    return "".join(f"{line}\n" for line in lines)


def _named(name: str, value: Value) -> str:
    elements = ""
    if value.tensor is not None and not value.varies:
        shown = value.tensor.elements if value.tensor.elements is not None else value.tensor.corner
        elements = formats.shorten(f"  {shown}", ELEMENTS)
    return f"{formats.one_line(name, 80)} = {summary(value)}{elements}"


def set_up() -> str:
    """Make this clone's `git diff` use the text; return the changed settings.

    Only the clone's own configuration and attributes are changed, not committed files. Raises `UsageError` outside a
    repository.
    """
    command = COMMAND.format(shlex.quote(sys.executable))
    attributes = Path(os.fsdecode(git("rev-parse", "--git-path", "info/attributes")).strip())
    git("config", "diff.trace.textconv", command)
    content = attributes.read_text(encoding="utf-8") if attributes.exists() else ""
    if ATTRIBUTE not in content.splitlines():
        attributes.parent.mkdir(parents=True, exist_ok=True)
        separator = "" if not content or content.endswith("\n") else "\n"
        attributes.write_text(f"{content}{separator}{ATTRIBUTE}\n", encoding="utf-8")
    return f"git diff shows {ATTRIBUTE.split()[0]} through: {command}"

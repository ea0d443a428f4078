"""The READMEs: every command and target that they name exists, and every relative link leads to a file."""

from __future__ import annotations

import re
from pathlib import Path

from trace_tools.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
READMES = [ROOT / "README.md", *sorted((ROOT / "trace_tools").rglob("README.md")), ROOT / "tests" / "README.md"]


def test_commands_targets_and_links_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {target for line in re.findall(r"^([a-z -]+):", makefile, re.M) for target in line.split()}
    missing = []
    for path in READMES:
        text = path.read_text(encoding="utf-8")
        commands = set(re.findall(r"(?:trace-tools|-m trace_tools) ([a-z]+)", text))
        missing += [f"{path}: trace-tools {name}" for name in commands - set(COMMANDS)]
        missing += [
            f"{path}: make {name}" for name in set(re.findall(r"(?:`|^    )make ([a-z-]+)", text, re.M)) - targets
        ]
        links = re.findall(r"\]\(([^)#:]+)\)", text)
        missing += [f"{path}: {link}" for link in links if not (path.parent / link).exists()]
        named = re.findall(r"`((?:\w+/)+\w+\.(?:py|yaml|js|css))`", text)
        folders = (ROOT, ROOT / "trace_tools", path.parent)
        missing += [f"{path}: {name}" for name in named if not any((folder / name).exists() for folder in folders)]
    assert not missing, "\n".join(missing)


def test_readme_has_at_most_200_lines() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200

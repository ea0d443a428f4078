"""Reading from git; the tests use a real repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.programs import require
from trace_tools.errors import UsageError
from trace_tools.util.git import commit_of, git, show


def run(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory: a folder of a repository to which nothing is committed yet."""
    require("git")
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "someone")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "someone@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "repository"
    (folder / "rendered").mkdir(parents=True)
    run(folder, "init", "-q")
    (folder / "lecture.py").write_text("def main(): ...\n")
    (folder / "rendered" / "trace.yaml").write_text("steps: []\n")
    monkeypatch.chdir(folder)
    return folder


def committed(repository: Path) -> str:
    """Commit all files and return the commit."""
    run(repository, "add", ".")
    run(repository, "commit", "-qm", "a")
    return run(repository, "rev-parse", "HEAD")[:7]


def test_files_of_a_revision(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(repository)
    (repository / "lecture.py").write_text("NEW = 1\n")
    assert show("HEAD:./lecture.py") == b"def main(): ...\n"
    for name in ("HEAD:three.py", "HEAD:../../three.py", "--output=x:three.py"):
        with pytest.raises(UsageError, match=r"three\.py: neither a file nor REV:path in git: .+"):
            show(name)
    with pytest.raises(UsageError, match=r"not a git command"):
        git("no-such-command")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="git is not installed"):
        git("status")


def test_the_commit_of_a_tree(repository: Path) -> None:
    lecture, other = repository / "lecture.py", repository / "other.py"
    assert commit_of(lecture) is None  # nothing committed yet
    commit = committed(repository)
    (repository / "notes.txt").write_text("of no consequence")
    (repository / "rendered" / "trace.yaml").write_text("steps: [1]\n")
    assert commit_of(lecture) == commit_of(repository) == commit
    other.write_text("x = 1\n")
    assert (commit_of(other), commit_of(lecture)) == (f"{commit} + uncommitted changes", commit)
    lecture.write_text("def main(): pass\n")
    assert commit_of(lecture) == commit_of(repository / "rendered") == f"{commit} + uncommitted changes"


def test_no_commit_outside_a_repository_or_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path / "lecture.py") is None
    assert commit_of(tmp_path / "missing" / "lecture.py") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(Path(__file__)) is None

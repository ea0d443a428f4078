"""Reading from git; the tests use a real repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import require
from trace_tools.errors import UsageError
from trace_tools.util.git import GitError, commit_of, git, show


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder `lectures` of a repository: the working directory, with uncommitted changes in `two.py`."""
    require("git")
    folder = tmp_path / "lectures"
    folder.mkdir()
    (folder / "one.py").write_text("import two\n")
    (folder / "two.py").write_text("OLD = 1\n")
    for command in (
        ["init"],
        ["add", "."],
        ["-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-m", "1"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True, capture_output=True)
    (folder / "two.py").write_text("NEW = 1\n")
    monkeypatch.chdir(folder)
    return folder


def test_show_writes_a_file_of_a_revision(clone: Path) -> None:
    with (clone / "shown").open("wb") as file:
        show("HEAD:./two.py", file)
    assert (clone / "shown").read_text() == "OLD = 1\n"


def test_missing_files_and_failing_git_raise_errors(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD:three.py", "HEAD:../../three.py", "--output=x:three.py"):
        message = r"three\.py: neither a file nor REV:path in git: .+"
        with (clone / "shown").open("wb") as file, pytest.raises(UsageError, match=message):
            show(name, file)
    with pytest.raises(GitError, match=r"not a git command"):
        git("no-such-command")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GitError, match="git is not installed"):
        git("status")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    require("git")
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "someone")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "someone@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "repository"
    folder.mkdir()
    run(folder, "init", "-q")
    (folder / "lecture.py").write_text("def main(): ...\n")
    (folder / "rendered").mkdir()
    (folder / "rendered" / "trace.yaml").write_text("steps: []\n")
    yield folder


def run(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_of_a_clean_tree(repository: Path) -> None:
    lecture = repository / "lecture.py"
    assert commit_of(lecture) is None  # nothing committed yet
    run(repository, "add", ".")
    run(repository, "commit", "-qm", "a")
    commit = run(repository, "rev-parse", "HEAD")[:7]
    assert commit_of(lecture) == commit_of(repository) == commit
    (repository / "notes.txt").write_text("of no consequence")
    (repository / "rendered" / "trace.yaml").write_text("steps: [1]\n")
    assert commit_of(lecture) == commit


def test_the_commit_of_a_changed_tree(repository: Path) -> None:
    run(repository, "add", ".")
    run(repository, "commit", "-qm", "a")
    commit = run(repository, "rev-parse", "HEAD")[:7]
    other = repository / "other.py"
    other.write_text("x = 1\n")
    assert commit_of(other) == f"{commit} + uncommitted changes"
    assert commit_of(repository / "lecture.py") == commit
    (repository / "lecture.py").write_text("def main(): pass\n")
    assert commit_of(repository / "lecture.py") == f"{commit} + uncommitted changes"
    assert commit_of(repository / "rendered") == f"{commit} + uncommitted changes"


def test_no_commit_outside_a_repository_or_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commit_of(tmp_path / "lecture.py") is None
    assert commit_of(tmp_path / "missing" / "lecture.py") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(Path(__file__)) is None

"""What git holds, against a real repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from trace_tools.errors import UsageError
from trace_tools.git import GitError, checked_out, git, show


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder `lectures` of a repository, from which the test runs; its files changed since the commit."""
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


@pytest.mark.parametrize("name", ["HEAD:lectures/one.py", "HEAD:./one.py"])
def test_a_revision_is_checked_out_with_its_neighbours(clone: Path, name: str) -> None:
    with checked_out(name) as path:
        assert path.read_text(encoding="utf-8") == "import two\n"
        assert path.with_name("two.py").read_text(encoding="utf-8") == "OLD = 1\n"
    assert not path.exists()
    with checked_out("one.py") as path:
        assert path == Path("one.py")


def test_a_file_is_shown_as_a_revision_has_it(clone: Path) -> None:
    with (clone / "shown").open("wb") as file:
        show("HEAD:./two.py", file)
    assert (clone / "shown").read_text() == "OLD = 1\n"


def test_what_git_does_not_have_is_one_line(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD:three.py", "HEAD:../../three.py", "--output=x:three.py"):
        said = r"three\.py: no such file, and git shows none at a revision: .+"
        with pytest.raises(UsageError, match=said), checked_out(name):
            pass
        with (clone / "shown").open("wb") as file, pytest.raises(UsageError, match=r"three\.py: no such file"):
            show(name, file)
    with pytest.raises(GitError, match=r"not a git command"):
        git("no-such-command")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GitError, match="git is not installed"):
        git("status")

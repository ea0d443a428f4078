"""What is sent: read with tarfile, as tar would."""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

import trace_tools
from tests.programs import require
from trace_tools.errors import UsageError
from trace_tools.remote import bundle
from trace_tools.remote.bundle import STAYS, pack


def names(archive: bytes) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {member.name for member in opened if member.isfile()}


def test_what_is_sent(lecture: Path) -> None:
    folder = lecture.parent
    lecture.write_text("import shapes, layers.one\n" + lecture.read_text())
    for name in ("shapes.py", "secret.py", "layers/__init__.py", "layers/one.py", "data/a.csv", "data/b.bin"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    (folder / "data/link.csv").symlink_to("/etc/passwd")
    (folder / "data/.env").write_text("TOKEN=1")
    sent = names(pack(lecture, ["data/*.csv", "data/*"]).archive)
    ours = {name for name in sent if name.startswith("lecture/")}
    beside = ("talk.py", "shapes.py", "layers/__init__.py", "layers/one.py", "data/a.csv", "data/b.bin")
    assert ours == {f"lecture/{name}" for name in beside}
    assert {"tools/__main__.py", "tools/trace_tools/remote/worker.py", "tools/yaml/__init__.py"} <= sent
    assert not [name for name in sent if "__pycache__" in name]
    tools = Path(trace_tools.__file__).parent
    assert {folder.name for folder in tools.iterdir()} >= STAYS  # each is there, and none of it is sent
    assert not [name for name in sent if name.removeprefix("tools/trace_tools/").partition("/")[0] in STAYS]


def test_a_link_that_leads_out_is_not_followed(lecture: Path, tmp_path: Path) -> None:
    out = tmp_path / "apart"
    folder = lecture.parent / "in"
    for made in (out, folder / "data"):
        made.mkdir(parents=True)
    (out / "secret.csv").write_text("1")
    (folder / "data/out").symlink_to(out)
    (folder / "data/one.csv").symlink_to(out / "secret.csv")
    (folder / "data/two.csv").write_text("2")
    (folder / "data/three.csv").symlink_to("two.csv")
    moved = lecture.rename(folder / "talk.py")
    for pattern in ("data/out/*", "data/*/secret.csv", "data/one.csv"):
        with pytest.raises(UsageError, match=rf"files: {re.escape(pattern)}: .*link.* in/"):
            pack(moved, [pattern])
    sent = {name for name in names(pack(moved, ["data/*"]).archive) if name.startswith("lecture/data")}
    assert sent == {"lecture/data/two.csv", "lecture/data/three.csv"}


def test_names_and_packages_of_any_kind(lecture: Path) -> None:
    folder = lecture.parent
    (folder / "parts/deep").mkdir(parents=True)
    (folder / "parts/deep/one.py").touch()
    (folder / "parts/large.bin").touch()
    (folder / ".hidden").touch()
    lecture.write_text("import parts.deep.one\n" + lecture.read_text())
    odd = [os.fsdecode(b"data/\xff.csv"), "data/two\nlines.csv", "data/-a b.csv"]
    (folder / "data").mkdir()
    for name in odd:
        (folder / name).touch()
    archive = pack(lecture, ["data/*", ".hid*"]).archive
    (folder / "away").mkdir()
    require("tar", "gzip")
    subprocess.run(["tar", "-xzf", "-", "-C", str(folder / "away")], input=archive, check=True)
    sent = {str(path.relative_to(folder / "away/lecture")) for path in (folder / "away/lecture").rglob("*.*")}
    assert sent == {"talk.py", "parts/deep/one.py", ".hidden", *odd}


def test_same_files_same_bytes(lecture: Path) -> None:
    one, two = pack(lecture), pack(lecture)
    assert (one.archive, one.digest) == (two.archive, two.digest)
    lecture.write_text(lecture.read_text() + "\n")
    assert pack(lecture).digest != one.digest


def test_what_can_not_be_sent(lecture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"files: no/\*: no such file"):
        pack(lecture, ["no/*"])
    for pattern in (".", "a**b"):
        with pytest.raises(UsageError, match=r"expected a file pattern"):
            pack(lecture, [pattern])
    (lecture.parent / "large.bin").write_bytes(b"0" * 1000)
    monkeypatch.setattr(bundle, "MOST_BYTES", 1000)
    with pytest.raises(UsageError, match=r"large\.bin: .*more than .* would be sent"):
        pack(lecture, ["large.bin"])

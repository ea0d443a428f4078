"""What is sent: read with tarfile, as tar would."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from trace_tools.errors import UsageError
from trace_tools.fleet import parcel
from trace_tools.fleet.parcel import pack


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
    sent = names(pack(lecture, ["data/*.csv"]).archive)
    ours = {name for name in sent if name.startswith("lecture/")}
    beside = ("talk.py", "shapes.py", "layers/__init__.py", "layers/one.py", "data/a.csv")
    assert ours == {f"lecture/{name}" for name in beside}
    assert {"tools/__main__.py", "tools/trace_tools/fleet/there.py", "tools/yaml/__init__.py"} <= sent
    assert not [name for name in sent if "rendering" in name or "__pycache__" in name]


def test_same_files_same_bytes(lecture: Path) -> None:
    one, two = pack(lecture), pack(lecture)
    assert (one.archive, one.digest) == (two.archive, two.digest)
    lecture.write_text(lecture.read_text() + "\n")
    assert pack(lecture).digest != one.digest


def test_what_can_not_be_sent(lecture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"files: no/\*: no such file"):
        pack(lecture, ["no/*"])
    (lecture.parent / "large.bin").write_bytes(b"0" * 1000)
    monkeypatch.setattr(parcel, "MOST_BYTES", 1000)
    with pytest.raises(UsageError, match=r"large\.bin: with it more than .* would be sent"):
        pack(lecture, ["large.bin"])

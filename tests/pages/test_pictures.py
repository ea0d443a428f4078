from __future__ import annotations

import base64
from pathlib import Path

import pytest

from trace_tools.pages.pictures import read_picture

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
SVG = b"<?xml version='1.0'?>\n<svg xmlns='http://www.w3.org/2000/svg'/>"
MP4 = b"\0\0\0\x18ftypisom" + bytes(40)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lecture = tmp_path / "lecture"
    (lecture / "images").mkdir(parents=True)
    files = {"images/Loss curve.png": PNG, "drawing.svg": SVG, "clip.mp4": MP4, "notes.txt": b"secret"}
    for name, content in (files | {"big.png": PNG + bytes(200_000), "../outside.png": PNG}).items():
        (lecture / name).write_bytes(content)
    (lecture / "link.png").symlink_to(tmp_path / "outside.png")
    return lecture


EMBEDDED = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


@pytest.mark.parametrize(
    ("address", "content", "media", "name"),
    [
        ("images/Loss%20curve.png", PNG, "image/png", "loss-curve-"),
        ("images/Loss curve.png", PNG, "image/png", "loss-curve-"),
        ("drawing.svg", SVG, "image/svg+xml", "drawing-"),
        ("clip.mp4", MP4, "video/mp4", "clip-"),
        (EMBEDDED, PNG, "image/png", "made-"),
        ("big.png", PNG + bytes(200_000), "image/png", "big-"),
    ],
)
def test_pictures_in_the_folder_or_the_trace_are_read(
    folder: Path, address: str, content: bytes, media: str, name: str
) -> None:
    picture = read_picture(folder, address)
    assert picture is not None and (picture.content, picture.media) == (content, media)
    assert picture.name.startswith(name) and picture.name.endswith(media.partition("/")[2].partition("+")[0])
    assert picture.address.startswith(f"data:{media};base64,")
    assert (read_picture(None, address) is None) is (address != EMBEDDED)


@pytest.mark.parametrize(
    "address",
    [
        "../outside.png", "images/../../outside.png", "..%2Foutside.png", "link.png", "notes.txt", "missing.png",
        "images", "/etc/passwd", "file:///etc/passwd", "https://example.org/a.png", "//example.org/a.png",
        "javascript:alert(1)", "a\x00.png", "a\ud800.png", "..\\outside.png", "", "x" * 5_000,
        "data:image/png;base64,no!", "data:image/png;base64,PHNjcmlwdD4=", "data:text/html;base64,PGI+",
    ],
)  # fmt: skip
def test_unsafe_and_missing_paths_are_refused(folder: Path, address: str) -> None:
    assert read_picture(folder, address) is None

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from trace_tools.pages.pictures import read_picture

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lecture = tmp_path / "lecture"
    (lecture / "images").mkdir(parents=True)
    (lecture / "images" / "Loss curve.png").write_bytes(PNG)
    (lecture / "drawing.svg").write_text("<?xml version='1.0'?>\n<svg xmlns='http://www.w3.org/2000/svg'/>")
    (lecture / "notes.txt").write_text("secret")
    (tmp_path / "outside.png").write_bytes(PNG)
    (lecture / "link.png").symlink_to(tmp_path / "outside.png")
    (lecture / "big.png").write_bytes(PNG + bytes(200_000))
    return lecture


def test_images_next_to_the_lecture_are_read(folder: Path) -> None:
    picture = read_picture(folder, "images/Loss%20curve.png")
    assert picture is not None and picture.content == PNG
    assert picture.name.startswith("loss-curve-") and picture.name.endswith(".png")
    assert picture.inline is not None and picture.inline.startswith("data:image/png;base64,")
    drawing = read_picture(folder, "drawing.svg")
    assert drawing is not None and drawing.media == "image/svg+xml"


def test_paths_need_no_percent_encoding(folder: Path) -> None:
    picture = read_picture(folder, "images/Loss curve.png")
    assert picture is not None and picture.content == PNG


def test_large_images_are_not_inlined(folder: Path) -> None:
    picture = read_picture(folder, "big.png")
    assert picture is not None and picture.inline is None


@pytest.mark.parametrize(
    "address",
    [
        "../outside.png",
        "images/../../outside.png",
        "..%2Foutside.png",
        "link.png",
        "notes.txt",
        "missing.png",
        "images",
        "/etc/passwd",
        "file:///etc/passwd",
        "https://example.org/a.png",
        "//example.org/a.png",
        "javascript:alert(1)",
        "a\x00.png",
        "a\ud800.png",
        "..\\outside.png",
        "",
        "x" * 5_000,
    ],
)
def test_unsafe_and_missing_paths_are_refused(folder: Path, address: str) -> None:
    assert read_picture(folder, address) is None


def test_without_a_folder_no_image_is_read() -> None:
    assert read_picture(None, "a.png") is None


def test_videos_and_images_embedded_in_the_trace_are_read(folder: Path) -> None:
    (folder / "clip.mp4").write_bytes(b"\0\0\0\x18ftypisom" + bytes(40))
    clip = read_picture(folder, "clip.mp4")
    assert clip is not None and clip.media == "video/mp4" and clip.name.startswith("clip-")
    embedded = read_picture(None, f"data:image/png;base64,{base64.b64encode(PNG).decode()}")
    assert embedded is not None and embedded.content == PNG and embedded.name.startswith("made-")
    for address in ("data:image/png;base64,no!", "data:image/png;base64,PHNjcmlwdD4=", "data:text/html;base64,PGI+"):
        assert read_picture(folder, address) is None

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from trace_tools.pages.pictures import read_picture

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "lecture"
    (inside / "images").mkdir(parents=True)
    (inside / "images" / "Loss curve.png").write_bytes(PNG)
    (inside / "drawing.svg").write_text("<?xml version='1.0'?>\n<svg xmlns='http://www.w3.org/2000/svg'/>")
    (inside / "notes.txt").write_text("secret")
    (tmp_path / "outside.png").write_bytes(PNG)
    (inside / "link.png").symlink_to(tmp_path / "outside.png")
    (inside / "big.png").write_bytes(PNG + bytes(200_000))
    return inside


def test_an_image_beside_the_lecture_is_read(folder: Path) -> None:
    picture = read_picture(folder, "images/Loss%20curve.png")
    assert picture is not None and picture.content == PNG
    assert picture.name.startswith("loss-curve-") and picture.name.endswith(".png")
    assert picture.inline is not None and picture.inline.startswith("data:image/png;base64,")
    drawing = read_picture(folder, "drawing.svg")
    assert drawing is not None and drawing.media == "image/svg+xml"


def test_a_path_is_read_as_it_is_written(folder: Path) -> None:
    picture = read_picture(folder, "images/Loss curve.png")
    assert picture is not None and picture.content == PNG


def test_a_large_image_is_a_file_of_its_own(folder: Path) -> None:
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
def test_everything_else_is_refused(folder: Path, address: str) -> None:
    assert read_picture(folder, address) is None


def test_without_a_folder_there_are_no_images() -> None:
    assert read_picture(None, "a.png") is None


def test_a_video_beside_the_lecture_and_an_image_kept_in_the_trace_are_read(folder: Path) -> None:
    (folder / "clip.mp4").write_bytes(b"\0\0\0\x18ftypisom" + bytes(40))
    clip = read_picture(folder, "clip.mp4")
    assert clip is not None and clip.media == "video/mp4" and clip.name.startswith("clip-")
    kept = read_picture(None, f"data:image/png;base64,{base64.b64encode(PNG).decode()}")
    assert kept is not None and kept.content == PNG and kept.name.startswith("made-")
    for wrong in ("data:image/png;base64,no!", "data:image/png;base64,PHNjcmlwdD4=", "data:text/html;base64,PGI+"):
        assert read_picture(folder, wrong) is None


def test_of_an_image_on_the_web_the_lectures_own_copy_is_read(folder: Path) -> None:
    """The names are those that CS336's `file_util.cached` gives, and edtrace's: hashed by hand with `md5sum`."""
    cache = folder / "var" / "files"
    cache.mkdir(parents=True)
    urls = {
        "https://example.org/a/Loss%20curve.png?as=webp": "2be8304a49a28a800fb96dc937437c32",
        "https://example.org/one.gif": "bba4eedd0321459d35f95379a5a5689f",
    }
    theirs, edtraces = urls
    (cache / f"image-{urls[theirs]}-https_example_org_a_Loss_20curve_png_as_webp").write_bytes(PNG)
    (cache / f"image-{urls[edtraces]}-https_example_org_one_gif.gif").write_bytes(b"GIF89a" + bytes(9))
    found = [read_picture(folder, url) for url in (theirs, edtraces)]
    assert [one and one.media for one in found] == ["image/png", "image/gif"]
    assert all(re.fullmatch(r"(loss-curve|one)-[0-9a-f]{8}\.(png|gif)", one.name) for one in found if one)
    (cache / f"image-{urls[theirs]}-https_example_org_a_Loss_20curve_png_as_webp").write_text("<html>not found</html>")
    assert read_picture(folder, theirs) is None

"""A site for a static web host, checked with a file server, an XML parser and matplotlib's image reader."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urljoin
from xml.etree import ElementTree

import pytest
from matplotlib.image import imread

from tests.traces import example_trace
from trace_tools.errors import UsageError
from trace_tools.pages.site import render_folder
from trace_tools.pages.static_site import static_site
from trace_tools.trace.trace_file import write

ROOT = Path(__file__).parents[2]
ADDRESS = "https://example.org/lecture/"
REFERENCE = re.compile(r'(?:href|src)="([^"#?]+)')


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lecture") / "rendered"
    for name in ("one", "two"):
        (folder / name).mkdir(parents=True)
        write(example_trace(), folder / name / "trace.yaml")
    (folder / "one" / "partial").mkdir()
    (folder / "one" / "notes.md").write_text("of no page")
    render_folder(folder)
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def served(rendered: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Return the folder that the command wrote and its URL, which is below the server's root, as on many hosts."""
    root = tmp_path_factory.mktemp("host")
    command = [
        sys.executable,
        "-m",
        "trace_tools",
        "site",
        str(rendered),
        "-o",
        str(root / "lecture"),
        "--url",
        ADDRESS,
    ]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert completed.returncode == 0 and re.fullmatch(r".*: \d+ pages, \d+ files, [\d.]+ MB\n", completed.stdout), (
        completed.stderr
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield root / "lecture", f"http://127.0.0.1:{server.server_port}/lecture/"
        server.shutdown()


@pytest.mark.slow
def test_every_link_resolves_and_stays_on_the_site(served: tuple[Path, str]) -> None:
    folder, address = served
    waiting, visited = [address], {address}
    while waiting:
        page = waiting.pop()
        with urllib.request.urlopen(page) as response:
            text = (
                response.read().decode(errors="replace") if response.headers.get_content_type() == "text/html" else ""
            )
        for link in REFERENCE.findall(text):
            if re.match(r"[a-z]+:", link):
                continue
            assert not link.startswith("/"), (page, link)
            target = urljoin(page, link)
            assert target.startswith(address)
            if target not in visited:
                visited.add(target)
                waiting.append(target)
    names = {url.removeprefix(address) or "index.html" for url in visited}
    extra = {"404.html", "sitemap.xml", ".nojekyll", ".pages"}
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    files = {name for name in files if not re.search(r"^previews/|(search-index|hall)\.js$", name)}
    assert files - extra == names - extra
    assert all((folder / "two" / script).is_file() for script in ("search-index.js", "hall.js"))
    assert not (folder / "one" / "notes.md").exists()


def test_link_previews_have_title_address_and_image(served: tuple[Path, str]) -> None:
    folder, _ = served
    for page in (path for path in folder.rglob("*.html") if path.name != "404.html"):
        properties = dict(re.findall(r'<meta property="(og:\w+)" content="([^"]*)">', page.read_text(encoding="utf-8")))
        assert {"og:title", "og:url", "og:image"} <= properties.keys()
        name = str(page.relative_to(folder))
        assert properties["og:url"] == ADDRESS + ("" if name == "index.html" else name)
        picture = folder / properties["og:image"].removeprefix(ADDRESS)
        assert imread(io.BytesIO(picture.read_bytes())).shape[:2] == (630, 1200)
    section = (folder / "one" / "00-matmul.html").read_text(encoding="utf-8")
    [description] = re.findall(r'<meta name="description" content="([^"]+)">', section)
    assert f'<meta property="og:description" content="{description}">' in section


def test_sitemap_and_404_page(served: tuple[Path, str]) -> None:
    folder, _ = served
    urls = [url.text for url in ElementTree.parse(folder / "sitemap.xml").iter() if url.tag.endswith("}loc")]
    pages = {str(path.relative_to(folder)) for path in folder.rglob("*.html")} - {"404.html", "index.html"}
    assert set(urls) == {ADDRESS, *(ADDRESS + page for page in pages)}
    not_found = (folder / "404.html").read_text(encoding="utf-8")
    assert {link for link in REFERENCE.findall(not_found) if not link.startswith("data:")} == {ADDRESS}


def test_invalid_sites_are_refused(rendered: Path, tmp_path: Path) -> None:
    for address in ("example.org", "ftp://example.org", "https://", "https://example.org/?a=1"):
        with pytest.raises(UsageError, match="expected the site's address"):
            static_site(rendered, address)
    with pytest.raises(UsageError, match=r"no pages .*index\.html"):
        static_site(tmp_path, ADDRESS)
    (tmp_path / "index.html").write_text('<a href="gone.html">')
    with pytest.raises(UsageError, match=r"index\.html: links to gone\.html, which does not exist"):
        static_site(tmp_path, ADDRESS)
    (tmp_path / "index.html").write_text('<a href="../secret.txt">')
    with pytest.raises(UsageError, match="which does not exist"):
        static_site(tmp_path, ADDRESS)
    (tmp_path / "index.html").write_text('<a href="/etc/hostname">')
    with pytest.raises(UsageError, match="links to /etc/hostname, which does not exist"):
        static_site(tmp_path, ADDRESS)
    trace = example_trace()
    write(replace(trace, machine=replace(trace.machine, emulated=True)), tmp_path / "trace.yaml")
    (tmp_path / "index.html").write_text('<a href="trace.yaml">')
    with pytest.raises(UsageError, match="emulated"):
        static_site(tmp_path, ADDRESS)


@pytest.mark.slow
def test_a_tampered_page_list_removes_nothing_outside(rendered: Path, tmp_path: Path) -> None:
    kept, out = tmp_path / "kept.md", tmp_path / "site"
    kept.write_text("kept")
    out.mkdir()
    (out / "old.html").write_text("made before")
    (out / ".pages").write_text(f"../kept.md\n{kept}\nprevious/../../kept.md\nold.html\n..\n")
    command = [sys.executable, "-m", "trace_tools", "site", str(rendered), "-o", str(out), "--url", ADDRESS]
    assert subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0
    assert kept.read_text() == "kept" and not (out / "old.html").exists()


@pytest.mark.slow
def test_a_folder_not_made_by_site_is_left_alone(rendered: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    command = [sys.executable, "-m", "trace_tools", "site", str(rendered), "-o", str(tmp_path), "--url", ADDRESS]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert completed.returncode == 2 and "-o" in completed.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]

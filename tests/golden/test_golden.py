"""The pages of a small lecture with every kind of block are those in `pages/`.

    make golden         write them again, after a change that is meant; read the result as a diff

To trace the lecture again: copy it and its picture to an empty folder, run `python -m trace_tools trace lecture.py
--device cpu --keep-going` there, copy `trace.yaml` back.

Markdown and figures are compared byte by byte. HTML is compared without what is the same on every page (style, script,
policy), and without what a new version of a library may change in bytes only: the markup of highlighted code and of
formulas, and plots below their title and description. The data of scripts is compared unpacked, without lower bounds,
which change with each machine that `known_machines.yaml` learns.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from html import unescape
from pathlib import Path

from trace_tools.pages.site import SiteTrace, site_files
from trace_tools.trace import file as trace_file

HERE = Path(__file__).parent
PAGES = HERE / "pages"


def golden_files() -> dict[str, str]:
    """Return what is compared of each page, by its path below `pages/`."""
    lecture = (HERE / "lecture.py").read_text(encoding="utf-8")
    site = [SiteTrace(trace_file.load(HERE / "trace.yaml"), "machine", lecture, HERE)]
    files = {}
    for folder, contents in site_files(site, HERE).items():
        for name, content in contents.items():
            text = content.decode("utf-8")
            if name.endswith(".html"):
                text = plain(text)
            elif re.search(r"-fig\d+\.svg$", name):
                text = without_plots(text)
            elif name.endswith(".js"):
                name, text = f"{name}on", data_of(text)
            if text:
                files[str(Path(folder, name))] = text
    return files


def plain(page: str) -> str:
    """Return a page without style, script, policy, icon, and markup in code and formulas."""
    page = re.sub(r"<(style|script)>.*?</\1>", r"<\1></\1>", page, flags=re.S)
    page = re.sub(r'<meta http-equiv="Content-Security-Policy".*?>\n|<link rel="icon".*?>\n', "", page)
    page = re.sub(
        r"<code>.*?</code>", lambda it: f"<code>{unescape(re.sub(r'<.*?>', '', it[0]))}</code>", page, flags=re.S
    )
    return re.sub(r"<math\b.*?</math>", "<math></math>", without_plots(page), flags=re.S)


def without_plots(text: str) -> str:
    """Return a text with only the description of plots, which matplotlib draws."""
    return re.sub(r'(<svg [^>]*viewBox="[^"]*" width=[^>]*>).*?</svg>', r"\1</svg>", text, flags=re.S)


def data_of(script: str) -> str:
    """Return the data at the beginning of a script, unpacked, one value on a line; "" without data that is compared."""
    name, _, following = script.partition(" = ")
    if name == "page.sectionStyle":
        return ""
    data, end = json.JSONDecoder().raw_decode(following)
    if name == "page.searchIndex":
        data = unpacked(data)
    elif name == "page.section":
        data = {key: unpacked(text) for key, text in data.items() if key != "floors"}
        data["explored"] = following[end:].removeprefix(";\n")
    return json.dumps(data, indent=0, ensure_ascii=False) + "\n"


def unpacked(text: str) -> object:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_pages_are_the_golden_ones() -> None:
    files = golden_files()
    committed = {str(path.relative_to(PAGES)) for path in PAGES.rglob("*") if path.is_file()}
    changed = [name for name in sorted(committed & files.keys()) if (PAGES / name).read_text("utf-8") != files[name]]
    assert (sorted(committed ^ files.keys()), changed) == ([], []), "if this is meant: make golden, and read the diff"


def write() -> None:
    """Replace the golden pages."""
    for path in [path for path in PAGES.rglob("*") if path.is_file()]:
        path.unlink()
    for name, text in golden_files().items():
        (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()

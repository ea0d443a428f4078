"""Lectures as a single HTML file: it has the contents of all pages and loads no other file."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, ask, forget, show, until
from tests.pages.hostile import hostile_trace
from tests.pages.recording import Recording
from tests.pages.test_compose import failing
from tests.pages.test_html import Page
from tests.pages.whole_lecture import ON_THE_WEB, PNG, whole_lecture, written
from trace_tools.pages.html import one_file
from trace_tools.pages.site import placed, render_site
from trace_tools.trace.file import load
from trace_tools.trace.model import Text, Trace


def one_section() -> Trace:
    """Return the trace of a lecture with one section of one paragraph."""
    recording = Recording("def main():\n    f()\ndef f():\n    text('It.')\n")
    recording.step(recording.call(recording.frame("main"), "f()", "f"), "text(", narrative=[Text(text="It.")])
    return recording.trace()


def no_sections() -> Trace:
    """Return the trace of a lecture whose `main` calls no function."""
    return Recording("def main():\n    pass\n").trace()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the HTML file of each lecture in `FILES`, and the separate pages of `whole_lecture`."""
    folder = tmp_path_factory.mktemp("whole")
    path = written(folder)
    site_trace = placed(load(path), path, None, None)
    render_site([site_trace], folder / "pages")
    whole = one_file(site_trace.trace, site_trace.lecture_text, site_trace.lecture_folder)
    (folder / "whole.html").write_text(whole, encoding="utf-8")
    traces = {"hostile": hostile_trace(), "failing": failing().trace(), "one-section": one_section()}
    traces["no-sections"] = no_sections()
    for name, trace in traces.items():
        (folder / f"{name}.html").write_text(one_file(trace), encoding="utf-8")
    return folder


FILES = ["whole", "hostile", "failing", "one-section", "no-sections"]
LINK_TARGETS = (
    "[...document.querySelectorAll('a[href^=\"#\"]')].map((a) => decodeURIComponent(a.getAttribute('href').slice(1)))"
)


@pytest.mark.parametrize("name", FILES)
def test_ids_are_unique_and_references_have_targets(folder: Path, name: str) -> None:
    page = Page((folder / f"{name}.html").read_text(encoding="utf-8"))  # fails if tags are mismatched
    ids = Counter(page.ids())
    assert [name for name, count in ids.items() if count > 1] == []
    for tag, attributes in page.tags:
        href = attributes.get("href") or ""
        references = [
            *(attributes.get("aria-labelledby") or "").split(),
            *(attributes.get("aria-describedby") or "").split(),
        ]
        references += re.findall(r"url\(#([^)]*)\)", " ".join(filter(None, attributes.values())))
        assert {*references, *([href[1:]] if href.startswith("#") else [])} <= ids.keys(), (tag, attributes)
        if tag == "a":
            assert not href or href.startswith(("#", "https://")), attributes


@pytest.mark.parametrize("name", FILES)
def test_no_requests_and_no_console_messages(browser: Any, folder: Path, name: str) -> None:
    """The page runs only its own script, its content policy allows no address, and its links have targets."""
    html = folder / f"{name}.html"
    show(browser, html)
    browser.execute_script("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    requests: list[str] = []

    def has_requests() -> bool:
        messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
        urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        requests.extend(url for url in urls if not url.startswith("data:"))
        return bool(requests)

    until(has_requests)
    assert requests == [html.as_uri()]
    assert browser.get_log("browser") == []
    assert ask(browser, "window.pwned") is None and ask(browser, "document.scripts.length") == 1
    policy = ask(browser, "document.querySelector('[http-equiv=Content-Security-Policy]').content")
    assert "'self'" not in policy and "http" not in policy and policy.startswith("default-src 'none';")
    missing = ask(browser, f"{LINK_TARGETS}.filter((id) => !document.getElementById(id))")
    assert missing == []


NUMBERED = re.compile(r"^(said-|range-|fig)\d+")  # ids of a narration
CONTROLS = "figure > .label, .thinking, details.next > summary"  # texts that the lecture does not contain


def test_the_file_has_the_text_of_the_pages(browser: Any, folder: Path) -> None:
    """The ids have the number of the section as prefix, or count on from section to section.

    Only two links are missing, because their targets are.
    """

    def text_in(selector: str) -> str:
        text: str = ask(browser, f"document.querySelector({selector!r}).textContent")
        return re.sub(r"\s+", "", text)

    pages = folder / "pages" / "cpu"
    for number, slug in enumerate(["00-first", "01-second"]):
        show(browser, pages / f"{slug}.html")
        browser.execute_script("document.querySelectorAll('.o').forEach((details) => { details.open = true; })")
        browser.execute_script(
            f"document.querySelectorAll('.turn, noscript, {CONTROLS}').forEach((element) => element.remove())"
        )
        page_text = text_in("main")
        link_count = ask(browser, "[...document.querySelectorAll('main a[href]')].length")
        ids = ask(
            browser,
            "[...document.querySelectorAll('main [id]')].map((it) => [it.id, it.tagName, it.getAttribute('class')])",
        )
        show(browser, folder / "whole.html")
        browser.execute_script(f"document.querySelectorAll('.back, {CONTROLS}').forEach((element) => element.remove())")
        assert text_in(f"[id='{slug}']") == page_text
        ids_in_section = (
            "[...document.getElementById(arguments[0]).querySelectorAll('[id]')]"
            ".map((it) => [it.id, it.tagName, it.getAttribute('class')])"
        )
        prefixed = [
            [
                NUMBERED.sub(r"\1N", name) if NUMBERED.match(name) else name if slug in name else f"{number}--{name}",
                tag,
                style,
            ]
            for name, tag, style in ids
        ]
        numbered = [[NUMBERED.sub(r"\1N", name), tag, style] for name, tag, style in ask(browser, ids_in_section, slug)]
        assert numbered == prefixed
        # two links of the page, to a file and to an unknown target, are plain text in the single file
        assert (
            len(ask(browser, "[...document.getElementById(arguments[0]).querySelectorAll('a[href]')]", slug))
            == link_count - 2
        )
    show(browser, pages / "setup.html")
    module_code = text_in(".listing")
    show(browser, folder / "whole.html")
    assert text_in("#setup .listing") == module_code
    assert "Whatmainsays." in text_in("main") and "Itpromisesmuch." in text_in(".promise")


def test_links_between_sections_work(browser: Any, folder: Path) -> None:
    """They scroll to the heading and mark its section in the contents. A link to a folded part opens it."""
    show(browser, folder / "whole.html")
    link = "document.querySelector(\"[id='00-first'] a[href='#1--same-heading']\")"
    assert ask(browser, f"{link}.textContent") == "the second"
    browser.execute_script(f"{link}.click()")
    until(lambda: abs(ask(browser, "document.getElementById('1--same-heading').getBoundingClientRect().top") - 64) < 40)
    current_entry = "[...document.querySelectorAll('.contents [aria-current]')].map((it) => it.getAttribute('href'))"
    until(lambda: ask(browser, current_entry) == ["#01-second"])
    visible = "[...document.querySelectorAll('.contents ul a')].filter((it) => it.checkVisibility())"
    assert ask(browser, f"{visible}.map((it) => it.hash)") == ["#1--same-heading"]
    folded_id = ask(browser, "document.querySelector('.called').id")
    show(browser, folder / "whole.html", at=f"#{folded_id}")
    assert ask(browser, "document.querySelector('.called').open")


def test_interactive_parts_work_and_others_are_absent(browser: Any, folder: Path) -> None:
    """Questions, figures with inputs and the theme work. The file has no player, search and machines."""
    show(browser, folder / "whole.html")
    for absent in ("#search-open", "#player", "#machines", "#again", "#panel", "dialog", ".turn", "noscript"):
        assert not ask(browser, f"document.querySelector({absent!r})")
    for number in range(2):  # both sections have the same questions; their answers are judged separately
        question = f"document.querySelectorAll('.ask')[{4 * number}]"
        browser.execute_script(
            f"{question}.querySelector('input').value = '4 MB'; {question}.querySelector('button').click()"
        )
        assert ask(browser, f"{question}.classList.contains('right')")
        browser.execute_script(
            f"document.querySelectorAll('.ask')[{4 * number + 1}].querySelectorAll('input')[0].click()"
        )
    assert ask(browser, "[...document.querySelectorAll('.ask [type=radio]')].filter((it) => it.checked).length") == 2
    for number in range(2):
        figure = f"document.querySelectorAll('.explore')[{2 * number}]"
        before = ask(browser, f"{figure}.querySelector('.answer').textContent")
        browser.execute_script(
            f"const field = {figure}.querySelector('[id$=-gpus]'); field.value = '2'; "
            "field.dispatchEvent(new Event('input'))"
        )
        assert ask(browser, f"{figure}.querySelector('.answer').textContent") != before
    background_before = ask(browser, "getComputedStyle(document.body).backgroundColor")
    browser.execute_script("document.getElementById('theme').click()")
    assert ask(browser, "getComputedStyle(document.body).backgroundColor") != background_before
    forget(browser)


def test_controls_are_hidden_without_scripts(browser: Any, folder: Path) -> None:
    """All answers, folded details, drawings and entries of the contents are still in the page."""
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show_without_scripts(browser, folder / "whole.html")
        visible = (
            "[...document.querySelectorAll('button, input, select, textarea')].filter((it) => it.checkVisibility())"
        )
        assert ask(browser, f"{visible}.length") == 0
        assert ask(browser, "document.querySelectorAll('.ask > .solution > summary').length") == 8
        assert ask(browser, "document.querySelectorAll('details.o > :not(summary)').length") > 0
        drawings = "[...document.querySelectorAll('main :not(.narrow) > svg')]"
        are_drawn = ask(browser, f"{drawings}.map((it) => it.children.length > 0 && it.clientWidth > 100)")
        assert len(are_drawn) >= 2 and all(are_drawn)
        assert ask(browser, "[...document.querySelectorAll('.contents ul a')].every((it) => it.checkVisibility())")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def show_without_scripts(browser: Any, page: Path) -> None:
    """Open a page in a wide window of a browser with scripts disabled."""
    metrics = {"width": WIDE[0], "height": WIDE[1], "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(page.as_uri())
    until(lambda: ask(browser, "document.readyState == 'complete'"))


@pytest.mark.parametrize("name", FILES)
def test_a_narrow_page_does_not_scroll_sideways(browser: Any, folder: Path, name: str) -> None:
    show(browser, folder / f"{name}.html", NARROW)
    assert ask(browser, "document.documentElement.scrollWidth") == NARROW[0]


def test_pictures_are_embedded_and_remote_ones_are_links(folder: Path) -> None:
    page = Page((folder / "whole.html").read_text(encoding="utf-8"))
    sources = [attributes["src"] or "" for tag, attributes in page.tags if tag in ("img", "video")]
    assert [source.partition(",")[0] for source in sources] == ["data:image/png;base64"] * 2 + [
        "data:video/webm;base64"
    ]
    assert base64.b64decode(sources[1].partition(",")[2]) == PNG + bytes(200_000)  # large images, too
    assert [attributes.get("href") for tag, attributes in page.tags if tag == "a"].count(ON_THE_WEB) == 1
    assert "Image on the web: An image" in page.text("label")


def test_output_is_deterministic() -> None:
    assert one_file(whole_lecture()) == one_file(whole_lecture())

"""The search and the contents as a reader uses them, in a real browser, from `file://`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, ask, boxes, play, press, show, until
from tests.pages.recording import Recording, matrix
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Claim, Plot, Series, Text, Value

DOWN, UP, ENTER, ESCAPE = "\ue015", "\ue013", "\ue007", "\ue00c"

SOURCE = '''\
from trace_tools import text
import torch


def main():
    strides()
    costs()
    experts()


def strides():
    """Strides and storage"""
    text("A tensor is a *window* onto its **storage**.")
    x = torch.ones(2, 3)
    offset = x.storage_offset()
    rows = [
        x[0],
        x[1],
    ]
    assert offset == 0


def costs():
    """What it costs"""
    text("A product costs two FLOPs, an addition one: the *flops* of a model.")
    flops = 2 * 3
    total_flops = 6 * flops
    for turn in range(3):
        total_flops += flops


def experts():
    """Many small layers"""
    text("A **mixture of experts** (MoE) has a gate.")
    routing()


def routing():
    """Which one is asked"""
    text("A gate scores each expert. The bandwidth of a bus, said in passing.")
    text("What a wire moves in a second is its **bandwidth**.")
    plot({"loss of the gate": [1, 2]}, x_label="epochs")
'''


def searched() -> Recording:
    recording = Recording(SOURCE)

    def say(frame: int, code: str, *texts: str) -> None:
        recording.step(frame, code, narrative=[Text(text=text) for text in texts])

    recording.step(recording.frame("<module>"), "import torch")
    main = recording.frame("main")
    strides = recording.call(main, "strides()", "strides")
    say(strides, 'text("A tensor', "A tensor is a *window* onto its **storage**.\n\n## Views of storage")
    recording.step(strides, "x = torch", values=[("x", matrix(2, 3)), ("x.stride()", Value("tuple", items=[]))])
    recording.step(strides, "offset", values=[("offset", Value("int", 0))])
    recording.step(strides, "rows = [")
    recording.step(strides, "assert", claim=Claim("offset == 0", True, [("offset", Value("int", 0))]))
    costs = recording.call(main, "costs()", "costs")
    say(costs, 'text("A product', "It costs two FLOPs: the *flops* of a model.")
    for code in ("flops", "total_flops", "for turn"):
        recording.step(costs, code)
    experts = recording.call(main, "experts()", "experts")
    say(experts, 'text("A **mix', "A **mixture of experts** (MoE) has a gate.")
    routing = recording.call(experts, "routing()", "routing")
    say(routing, 'text("A gate', "A gate scores each expert. The bandwidth of a bus, said in passing.")
    say(routing, 'text("What', "What a wire moves in a second is its **bandwidth**.")
    series = [Series("loss of the gate", [1, 2], [1, 2])]
    recording.step(routing, "plot(", narrative=[Plot(series=series, x_label="epochs")])
    return recording


@pytest.fixture(scope="module")
def searched_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("search")
    render_site([SiteTrace(searched().trace(), "cpu", SOURCE)], out)
    return out


def find(browser: Any, words: str) -> list[tuple[str, str, str]]:
    """Type words into the search; return (kind, snippet, link) of each result."""
    if not ask(browser, "document.getElementById('search').open"):
        press(browser, "/")
    field = browser.find_element("id", "search-for")
    field.clear()
    field.send_keys(words)
    browser.execute_async_script(  # wait until the index is loaded and the last query is answered
        "const done = arguments[0]; setTimeout(function wait() {"
        "page.searchIndex ? page.unpack(page.searchIndex).then(done) : setTimeout(wait, 10) }, 30)"
    )
    script = """[...document.querySelectorAll('#search-found a')].map((link) =>
        [...['.kind', '.snippet'].map((part) => link.querySelector(part).textContent), link.getAttribute('href')])"""
    return [(kind, snippet, link) for kind, snippet, link in ask(browser, script)]


def keys(browser: Any, pressed: str) -> None:
    browser.switch_to.active_element.send_keys(pressed)


QUESTIONS = {  # queries of students and engineers, and the sections that answer them
    "oom": "13 14", "out of memory": "13 14", "why is my matmul slow": "05 06", "how many gpus": "00 01 14 16",
    "bandwidth": "06", "memory bound": "06", "what is mfu": "01 05", "how long does training take": "00 01 16",
    "adam memory": "01 10", "optimizer state bytes": "01 10", "bf16 vs fp16": "02 12", "loss scaling": "12",
    "gradient checkpointing": "14", "gradient accumulation": "14", "kv cache": "06", "why is decoding slow": "06",
    "view vs reshape": "03", "contiguous": "03", "einsum": "04", "attention flops": "04 08", "zero stage 3": "14",
    "how to save a checkpoint": "15", "random seed": "09", "pinned memory": "09", "learning rate": "10 11",
    "flash attention": "06 13 14", "flops of a transformer": "08", "cost of training": "00 01", "fp8": "02 12",
    "batch size": "06 13 14 16", "quantization": "12", "num_workers": "09", "why is my GPU slow": "05 06 11",
    "batch size too big": "13 14", "why is adam 16 bytes": "01 10", "FSDP": "14 16", "throughput": "11", "crash": "15",
    "multi-head attention": "04", "Mixed-Precision": "12", "mixd precision": "12", "underflow": "12 02", "price": "00",
}  # fmt: skip


@pytest.mark.slow
def test_common_questions_find_the_section_that_answers_them(browser: Any, lecture_site: Path) -> None:
    show(browser, min(lecture_site.glob("*/trace.yaml")).with_name("index.html"))
    first = among_first_three = 0
    for question, sections in QUESTIONS.items():
        answers = [link[:2] in sections.split() for _, _, link in find(browser, question)[:3]]
        first += answers[:1] == [True]
        among_first_three += any(answers)
    assert first >= 0.8 * len(QUESTIONS) and among_first_three >= 0.95 * len(QUESTIONS)


def test_what_is_found_first(browser: Any, searched_site: Path) -> None:
    show(browser, searched_site / "cpu" / "00-strides.html")
    results = find(browser, "flops")
    assert results[0] == ("name", "flops = 2 * 3", "01-costs.html#L26")
    assert results[1] == ("name", "total_flops = 6 * flops", "01-costs.html#L27")
    assert [kind for kind, _, _ in results] == ["name", "name", "text", "code"]
    best = [("section", "#text"), ("heading", "#views-of-storage"), ("text", "#said-1")]
    assert [(kind, link) for kind, _, link in find(browser, "storage")][:3] == best
    assert ask(browser, "document.querySelector('#search-found mark').textContent") == "storage"
    assert find(browser, "x.stride") == [("name", "x = torch.ones(2, 3)", "#L14")]
    assert find(browser, "offset == 0")[0] == ("claim ✓", "assert offset == 0", "#L20")
    assert find(browser, "x[1]") == [("code", "x[1],", "#L16")]  # a later line of a statement of several lines
    for words in ("view storage", "how do I view storages", "viewing the storage"):
        assert find(browser, words)[0][:2] == ("heading", "Views of storage"), words
    assert find(browser, "views zebra"), "an entry with one of two words is found"
    assert find(browser, "moe")[0] == find(browser, "mixture of experts")[0]  # an abbreviation and its meaning
    assert find(browser, "routing")[0][:2] == ("heading", "Which one is asked")  # the title of that function
    assert find(browser, "bandwidth")[0][1].startswith("What a wire")  # the definition of a term before its mention
    assert find(browser, "loss epochs")[0][0] == "figure"  # its axis labels


def test_the_search_works_with_the_keyboard_alone(browser: Any, searched_site: Path) -> None:
    show(browser, searched_site / "cpu" / "00-strides.html")
    find(browser, "flops")
    chosen = "document.getElementById(document.getElementById('search-for').getAttribute('aria-activedescendant'))"
    assert ask(browser, f"{chosen}.innerText").startswith("flops = 2 * 3")
    keys(browser, DOWN + DOWN + UP)
    assert ask(browser, f"{chosen}.innerText").startswith("total_flops")
    assert ask(browser, "document.querySelectorAll('[aria-selected=true]').length") == 1
    keys(browser, ENTER)
    assert browser.current_url.endswith("/cpu/01-costs.html#L27")
    assert ask(browser, "document.querySelector('.row:target').id") == "L27"
    find(browser, "flops")
    keys(browser, ESCAPE)
    assert not ask(browser, "document.getElementById('search').open") and browser.current_url.endswith("#L27")


def test_a_result_on_the_same_page_is_shown_and_focused(browser: Any, site: Path) -> None:
    show(browser, site / "golden" / "01-computing.html", (1280, 300))
    row = "document.querySelector('.row:target')"
    for _ in range(2):  # the second time, the address is the same
        find(browser, "return 2 * value")
        browser.execute_script("scrollTo({top: 0, behavior: 'instant'})")
        keys(browser, ENTER)
        until(lambda: ask(browser, f"{row}?.closest('details').open && document.activeElement === {row}"))
        until(lambda: 0 <= boxes(browser, ".row:target")[0]["top"] < boxes(browser, ".row:target")[0]["bottom"] <= 300)


def test_search_and_player_do_not_share_keys(browser: Any, searched_site: Path) -> None:
    play(browser, searched_site / "cpu" / "00-strides.html")
    find(browser, "hjkl uENP?/")
    assert ask(browser, "document.getElementById('search-for').value") == "hjkl uENP?/"
    assert ask(browser, "document.getElementById('panel').hidden && !document.getElementById('keys').open")
    keys(browser, DOWN + ESCAPE)
    press(browser, "jj")
    assert ask(browser, "document.getElementById('step-done').value") == 2
    press(browser, "/")
    assert ask(browser, "document.getElementById('search').open")
    keys(browser, ESCAPE)
    assert not ask(browser, "document.getElementById('panel').hidden")  # Esc closed the search, not the panel


def test_screen_readers_get_the_number_of_results(browser: Any, searched_site: Path) -> None:
    show(browser, searched_site / "cpu" / "index.html", NARROW)
    browser.find_element("id", "search-open").click()
    field = browser.find_element("id", "search-for")
    assert (field.aria_role, field.get_attribute("aria-expanded")) == ("combobox", "false")
    for _, _, link in find(browser, "flops"):
        assert (searched_site / "cpu" / link.partition("#")[0]).is_file()
    assert field.get_attribute("aria-expanded") == "true"
    assert browser.find_element("id", "search-found").aria_role == "listbox"
    assert browser.find_element("css selector", "#search-found a").aria_role == "option"
    assert browser.find_element("id", "search-status").text == "4 results."
    assert find(browser, "nowhere to be found") == []
    assert browser.find_element("id", "search-status").text == "No results."
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    show(browser, searched_site / "index.html")
    links = [link for _, _, link in find(browser, "flops")]
    assert links and all((searched_site / link.partition("#")[0]).is_file() for link in links)


@pytest.mark.slow
def test_results_from_a_hostile_trace_contain_no_markup(browser: Any, site: Path) -> None:
    show(browser, site / "hostile" / "00-evil.html")
    for words in ("script", "onerror", "<", "javascript:", ".*", "(((", "\\"):
        find(browser, words)
        assert ask(browser, "document.querySelectorAll('#search-found :not(a, span, code, mark)').length") == 0
        assert ask(browser, "window.pwned") is None
    assert browser.get_log("browser") == []

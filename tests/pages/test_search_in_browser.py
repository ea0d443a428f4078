"""The search, the contents and the copy button as a reader uses them, in a real browser, from `file://`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, ask, drag, press, show
from tests.pages.hostile import hostile_trace
from tests.pages.lectures import LECTURE, failing
from tests.pages.recording import Recording, matrix
from trace_tools.pages.site import SiteTrace, render_site
from trace_tools.trace.model import Claim, Plot, Series, Text, Value

DOWN, UP, ENTER, ESCAPE, TAB = "\ue015", "\ue013", "\ue007", "\ue00c", "\ue004"

SOURCE = '''\
from trace_tools import text
import torch


def main():
    strides()
    costs()


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
'''


def searched() -> Recording:
    recording = Recording(SOURCE)
    recording.step(recording.frame("<module>"), "import torch")
    main = recording.frame("main")
    strides = recording.call(main, "strides()", "strides")
    narrative = [Text(text="A tensor is a *window* onto its **storage**.\\n\\n## Views")]
    narrative[0] = Text(text="A tensor is a *window* onto its **storage**.\n\n## Views of storage")
    recording.step(strides, 'text("A tensor', narrative=narrative)
    recording.step(strides, "x = torch", values=[("x", matrix(2, 3)), ("x.stride()", Value("tuple", items=[]))])
    recording.step(strides, "offset", values=[("offset", Value("int", 0))])
    recording.step(strides, "rows = [")
    recording.step(strides, "assert", claim=Claim("offset == 0", True, [("offset", Value("int", 0))]))
    costs = recording.call(main, "costs()", "costs")
    recording.step(costs, 'text("A product', narrative=[Text(text="It costs two FLOPs: the *flops* of a model.")])
    for code in ("flops", "total_flops", "for turn"):
        recording.step(costs, code)
    return recording


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("search")
    traces = {"cpu": searched().trace(), "failing": failing().trace(), "hostile": hostile_trace()}
    lectures = {"cpu": SOURCE, "failing": LECTURE, "hostile": None}
    render_site([SiteTrace(trace, name, lectures[name]) for name, trace in traces.items()], out)
    return out


def find(browser: Any, words: str) -> list[tuple[str, str, str]]:
    """Type words into the search; return (kind, snippet, link) of each result."""
    if not ask(browser, "document.getElementById('search').open"):
        press(browser, "/")
    field = browser.find_element("id", "search-for")
    field.clear()
    field.send_keys(words)
    settled(browser)
    script = """[...document.querySelectorAll('#search-found a')].map((link) =>
        [...['.kind', '.snippet'].map((part) => link.querySelector(part).textContent), link.getAttribute('href')])"""
    return [(kind, snippet, link) for kind, snippet, link in ask(browser, script)]


def settled(browser: Any) -> None:
    """Wait until the index is loaded and the last query is answered."""
    browser.execute_async_script(
        "const done = arguments[0]; setTimeout(function wait() {"
        "page.searchIndex ? page.unpack(page.searchIndex).then(done) : setTimeout(wait, 10) }, 30)"
    )


QUESTIONS = {  # queries of students and engineers, and the sections that answer them
    "oom": "13 14", "out of memory": "13 14", "why is my matmul slow": "05 06", "how many gpus": "00 01 14 16",
    "bandwidth": "06", "memory bound": "06", "what is mfu": "01 05", "how long does training take": "00 01 16",
    "adam memory": "01 10", "optimizer state bytes": "01 10", "bf16 vs fp16": "02 12", "loss scaling": "12",
    "gradient checkpointing": "14", "gradient accumulation": "14", "kv cache": "06", "why is decoding slow": "06",
    "view vs reshape": "03", "contiguous": "03", "einsum": "04", "attention flops": "04 08", "zero stage 3": "14",
    "how to save a checkpoint": "15", "random seed": "09", "pinned memory": "09", "learning rate": "10 11",
    "flash attention": "06 13 14", "flops of a transformer": "08", "cost of training": "00 01", "fp8": "02 12",
    "batch size": "06 13 14 16",
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
    press(browser, ESCAPE)


def test_names_and_titles_rank_first_and_are_linked(browser: Any, site: Path) -> None:
    show(browser, site / "cpu" / "00-strides.html")
    results = find(browser, "flops")
    assert results[0] == ("name", "flops = 2 * 3", "01-costs.html#L25")
    assert results[1] == ("name", "total_flops = 6 * flops", "01-costs.html#L26")
    assert [kind for kind, _, _ in results] == ["name", "name", "text", "code"]
    results = find(browser, "storage")
    assert [(kind, link) for kind, _, link in results][:3] == [
        ("section", "#text"), ("heading", "#views-of-storage"), ("text", "#said-1"),
    ]  # fmt: skip
    assert ask(browser, "document.querySelector('#search-found mark').textContent") == "storage"
    assert find(browser, "x.stride") == [("name", "x = torch.ones(2, 3)", "#L13")]
    assert find(browser, "offset == 0")[0] == ("claim ✓", "assert offset == 0", "#L19")
    assert find(browser, "x[1]") == [("code", "x[1],", "#L15")]  # a later line of a statement of several lines


def test_the_search_works_with_the_keyboard_alone(browser: Any, site: Path) -> None:
    show(browser, site / "cpu" / "00-strides.html")
    find(browser, "flops")
    chosen = "document.getElementById(document.getElementById('search-for').getAttribute('aria-activedescendant'))"
    assert ask(browser, f"{chosen}.innerText").startswith("flops = 2 * 3")
    browser.switch_to.active_element.send_keys(DOWN + DOWN + UP)
    assert ask(browser, f"{chosen}.innerText").startswith("total_flops")
    assert ask(browser, "document.querySelectorAll('[aria-selected=true]').length") == 1
    browser.switch_to.active_element.send_keys(ENTER)
    assert browser.current_url.endswith("/cpu/01-costs.html#L26")
    assert ask(browser, "document.querySelector('.row:target').id") == "L26"
    find(browser, "flops")
    browser.switch_to.active_element.send_keys(ESCAPE)
    assert not ask(browser, "document.getElementById('search').open")
    assert browser.current_url.endswith("#L26")


def test_a_result_on_the_same_page_is_shown_and_focused(browser: Any, site: Path) -> None:
    show(browser, site / "failing" / "00-first.html", (1280, 300))
    find(browser, "b = a + 1")
    browser.switch_to.active_element.send_keys(ENTER)
    browser.execute_async_script("setTimeout(arguments[0], 60)")
    row = "document.querySelector('.row:target')"
    assert ask(browser, f"{row}.closest('details').open") and ask(browser, f"document.activeElement === {row}")
    top, bottom = ask(browser, f"[{row}.getBoundingClientRect().top, {row}.getBoundingClientRect().bottom]")
    assert 0 <= top < bottom <= 300
    find(browser, "b = a + 1")  # again, although the address is the same
    browser.execute_script("scrollTo({top: 0, behavior: 'instant'})")
    browser.switch_to.active_element.send_keys(ENTER)
    browser.execute_async_script("setTimeout(arguments[0], 60)")
    assert ask(browser, f"{row}.getBoundingClientRect().top") < 300


def test_search_and_player_do_not_share_keys(browser: Any, site: Path) -> None:
    show(browser, site / "cpu" / "00-strides.html")
    browser.implicitly_wait(5)
    browser.find_element("css selector", "#player:not([hidden])")
    browser.implicitly_wait(0)
    find(browser, "hjkl uENP?/")
    assert ask(browser, "document.getElementById('search-for').value") == "hjkl uENP?/"
    assert ask(browser, "document.getElementById('panel').hidden") and not ask(
        browser, "document.getElementById('keys').open"
    )
    browser.switch_to.active_element.send_keys(DOWN + ESCAPE)
    press(browser, "jj")
    assert ask(browser, "document.getElementById('step-done').value") == 2
    press(browser, "/")
    assert ask(browser, "document.getElementById('search').open")
    browser.switch_to.active_element.send_keys(ESCAPE)
    assert not ask(browser, "document.getElementById('panel').hidden")  # Esc closed the search, not the panel


def test_screen_readers_get_the_number_of_results(browser: Any, site: Path) -> None:
    show(browser, site / "cpu" / "index.html")
    browser.find_element("id", "search-open").click()
    field = browser.find_element("id", "search-for")
    assert (field.aria_role, field.get_attribute("aria-expanded")) == ("combobox", "false")
    find(browser, "flops")
    assert field.get_attribute("aria-expanded") == "true"
    assert browser.find_element("id", "search-found").aria_role == "listbox"
    assert browser.find_element("css selector", "#search-found a").aria_role == "option"
    assert browser.find_element("id", "search-status").text == "4 results."
    assert find(browser, "nowhere to be found") == []
    assert browser.find_element("id", "search-status").text == "No results."


@pytest.mark.slow
@pytest.mark.parametrize("page", ["index", "cpu/index", "cpu/setup", "hostile/00-evil"])
def test_every_page_has_a_search_with_working_links(browser: Any, site: Path, page: str) -> None:
    show(browser, site / f"{page}.html", NARROW)
    find(browser, "e")
    for link in {link for _, _, link in find(browser, "a")}:
        address = link.partition("#")[0]
        assert not address or (site / page).parent.joinpath(address).is_file(), link
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    assert browser.get_log("browser") == [] and ask(browser, "window.pwned") is None


@pytest.mark.slow
def test_results_from_a_hostile_trace_contain_no_markup(browser: Any, site: Path) -> None:
    show(browser, site / "hostile" / "00-evil.html")
    for words in ("script", "onerror", "<", "javascript:", ".*", "(((", "\\"):
        find(browser, words)
        assert ask(browser, "document.querySelectorAll('#search-found :not(a, span, code, mark)').length") == 0
        assert ask(browser, "window.pwned") is None
    assert browser.get_log("browser") == []


def test_contents_have_no_marks_if_all_claims_hold(browser: Any, site: Path) -> None:
    show(browser, site / "cpu" / "00-strides.html")
    lines = ask(
        browser, "[...document.querySelectorAll('.contents li > a')].map(link => link.innerText.replace(/\\s+/g, ' '))"
    )
    assert lines == [
        "0 Strides and storage",
        "Views of storage",
        "1 What it costs",
        "Code outside the sections",
    ]
    ends = ask(browser, "[...document.querySelectorAll('nav.turn')].map(nav => nav.innerText.trim())")
    assert [end.replace("\n", " ") for end in ends] == ["Next 1 What it costs"]
    browser.find_element("css selector", "nav.turn a").click()
    assert browser.current_url.endswith("01-costs.html")


def test_headings_and_lines_have_permalinks(browser: Any, site: Path) -> None:
    show(browser, site / "cpu" / "00-strides.html")
    heading = browser.find_element("css selector", "h2 .permalink")
    assert float(heading.value_of_css_property("opacity")) < 1
    browser.execute_script("arguments[0].focus()", heading)
    assert heading.value_of_css_property("opacity") == "1"
    assert heading.get_attribute("href") == (site / "cpu" / "00-strides.html").as_uri() + "#views-of-storage"
    assert ask(browser, "document.querySelectorAll('.row a').length") == 0  # lines add no stops for the Tab key
    browser.execute_script(
        "document.querySelector('#L13 code').dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))"
    )
    number = browser.find_element("css selector", "#L13 a.n")
    assert number.get_attribute("href").endswith("00-strides.html#L13") and number.accessible_name == "Line 13"


def test_code_is_copied_without_numbers_and_observations(browser: Any, site: Path) -> None:
    show(browser, site / "cpu" / "00-strides.html")
    browser.implicitly_wait(5)
    button = browser.find_element("css selector", ".listing .copy")
    browser.implicitly_wait(0)
    browser.execute_script("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    button.send_keys(ENTER)
    browser.execute_async_script("setTimeout(arguments[0], 30)")
    assert ask(browser, "window.copied") == (
        "x = torch.ones(2, 3)\noffset = x.storage_offset()\nrows = [\n    x[0],\n    x[1],\n]\nassert offset == 0\n"
    )
    assert ask(browser, "document.querySelector('body > p[role=status]:not([id])').textContent") == "Copied 7 lines."
    assert ask(browser, "document.getElementById('panel').hidden")  # a click on the button does not select the line


def test_selecting_code_does_not_select_observations(browser: Any, site: Path) -> None:
    show(browser, site / "cpu" / "00-strides.html")
    drag(browser, browser.find_element("css selector", "#L13 code"), 0, 30)
    assert ask(browser, "getComputedStyle(document.querySelector('#L13 .beside')).userSelect") == "none"


def test_headings_named_like_page_parts_get_unique_ids(browser: Any, tmp_path: Path) -> None:
    names = "# Steps\n\n# Panel\n\n# Search\n\n# Index\n\n# Keys\n\n# Step 1\n\n# Text\n\n# Player"
    recording = Recording("def main():\n    f()\n\ndef f():\n    g()\n    h()\n")
    f = recording.call(recording.frame("main"), "f()", "f")
    recording.step(f, "g()", narrative=[Text(text=names)])
    recording.step(f, "h()")
    render_site([SiteTrace(recording.trace(), "cpu")], tmp_path)
    show(browser, tmp_path / "cpu" / "00-f.html")
    ids = ask(browser, "[...document.querySelectorAll('[id]')].map(element => element.id)")
    assert len(ids) == len(set(ids)) and "steps-heading" in ids
    browser.implicitly_wait(5)
    browser.find_element("css selector", "#player:not([hidden])")
    browser.implicitly_wait(0)
    press(browser, "jj")
    assert ask(browser, "document.getElementById('step-done').value") == 2
    assert [link for _, _, link in find(browser, "player")] == ["#player-heading"]


def test_other_word_forms_find_the_same_heading(browser: Any, site: Path) -> None:
    show(browser, site / "cpu" / "00-strides.html")
    for words in ("view storage", "how do I view storages", "viewing the storage"):
        assert find(browser, words)[0][:2] == ("heading", "Views of storage"), words
    assert find(browser, "views zebra"), "an entry with one of two words is found"


VOCABULARY = '''\
from trace_tools import plot, text


def main():
    experts()


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


def test_abbreviations_functions_terms_and_axes_are_found(browser: Any, tmp_path: Path) -> None:
    recording = Recording(VOCABULARY)
    experts = recording.call(recording.frame("main"), "experts()", "experts")
    definition = Text(text="A **mixture of experts** (MoE) has a gate.")
    recording.step(experts, 'text("A **mix', narrative=[definition])
    routing = recording.call(experts, "routing()", "routing")
    for code, text in (
        ('text("A gate', "A gate scores each expert. The bandwidth of a bus, said in passing."),
        ('text("What', "What a wire moves in a second is its **bandwidth**."),
    ):
        recording.step(routing, code, narrative=[Text(text=text)])
    series = [Series("loss of the gate", [1, 2], [1, 2])]
    recording.step(routing, "plot(", narrative=[Plot(series=series, x_label="epochs")])
    render_site([SiteTrace(recording.trace(), "cpu", VOCABULARY)], tmp_path)
    show(browser, tmp_path / "cpu" / "00-experts.html")
    assert find(browser, "moe")[0] == find(browser, "mixture of experts")[0]  # an abbreviation and its meaning
    assert find(browser, "routing")[0][:2] == ("heading", "Which one is asked")  # the title of that function
    assert find(browser, "bandwidth")[0][1].startswith("What a wire")  # the definition of a term before its mention
    assert find(browser, "loss epochs")[0][0] == "figure"  # its axis labels

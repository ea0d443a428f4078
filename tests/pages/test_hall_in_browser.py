"""The lecture hall and the presenter's window as a lecturer uses them, on the lecture's own pages, in a browser."""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.pages.browsing import NARROW, WIDE, ask, forget, press, show
from trace_tools.pages.content.compose import make_document
from trace_tools.pages.document import Block, Call, Document, Section, Stop, rows_shown, visible
from trace_tools.pages.html import HtmlWriter, SiteContext
from trace_tools.pages.reading_time import reading_minutes
from trace_tools.presentation.page_shell import HALL, SECTION, shared_script
from trace_tools.trace.trace_file import load

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECTOR = (1920, 1080)
LEFT, UP, RIGHT, DOWN, ESCAPE, HOME, END = "\ue012", "\ue013", "\ue014", "\ue015", "\ue00c", "\ue011", "\ue010"
ROOFLINE, GRADIENTS, TRAINING = "arithmetic_intensity", "gradients", "training_loop"
MEMORY = "memory_of_a_training_step"


@pytest.fixture(scope="module")
def document() -> Document:
    trace = load(REPOSITORY / "rendered" / "cpu" / "trace.yaml").trace
    return make_document(trace, (REPOSITORY / "lecture.py").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def pages(document: Document, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Four sections of the lecture, and the hall beside them."""
    folder = tmp_path_factory.mktemp("hall")
    writer = HtmlWriter(document, SiteContext(machines=lambda section: [], picture=lambda address: None))
    for name in (HALL, SECTION):
        (folder / name).write_text(shared_script(name), encoding="utf-8")
    written = {}
    for section in document.sections:
        if section.function in (ROOFLINE, GRADIENTS, TRAINING, MEMORY):
            written[section.function] = folder / f"{section.slug}.html"
            written[section.function].write_text(writer.section(section), encoding="utf-8")
            written[section.function].with_suffix(".js").write_text(writer.section_data(section), encoding="utf-8")
    return written


@pytest.fixture(autouse=True)
def _nothing_is_remembered(browser: Any) -> Iterator[None]:
    yield
    for other in browser.window_handles[1:]:
        browser.switch_to.window(other)
        browser.close()
    browser.switch_to.window(browser.window_handles[0])
    browser.execute_script("try { sessionStorage.clear(); } catch {}")
    forget(browser)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def section_of(document: Document, function: str) -> Section:
    return next(section for section in document.sections if section.function == function)


def ready(browser: Any, page: Path, size: tuple[int, int] = PROJECTOR, **how: Any) -> None:
    """Open a page and wait for its player."""
    show(browser, page, size, **how)
    wait(browser, "!document.getElementById('player').hidden")


def enter(browser: Any, page: Path, size: tuple[int, int] = PROJECTOR, at: str = "#hall", **how: Any) -> None:
    """Open a page in the hall."""
    ready(browser, page, size, at=at, **how)
    wait(browser, "document.getElementById('hall')")


def wait(browser: Any, script: str) -> None:
    """Wait until something is so in the page."""
    until = time.monotonic() + 8
    while not ask(browser, f"Boolean({script})"):
        assert time.monotonic() < until, script
        time.sleep(0.02)


# Presses a key again and again, and takes down something after each press.
WALK = """
const [key, presses] = arguments, seen = [];
for (let press = 0; press < presses; press++) {
  document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  seen.push(LOOK);
}
return seen;
"""
PLACE = "document.querySelector('#hall b').textContent"


def walk(browser: Any, key: str, look: str, presses: int) -> list[Any]:
    """Press a key so many times; return what an expression was after each."""
    browser.set_script_timeout(120)
    return list(browser.execute_script(WALK.replace("LOOK", look), key, presses))


def count(browser: Any) -> int:
    """Return how many places the hall has on this page."""
    return int(re.search(r"of (\d+)$", ask(browser, PLACE))[1])  # type: ignore[index]


def folded(blocks: Sequence[Block]) -> set[str]:
    """Return where the rows, words and titles of the deeper parts stand."""
    found: set[str] = set()
    for block in visible(blocks):
        if isinstance(block, Call) and block.deeper:
            found |= {block.anchor} | {row.anchor for row in rows_shown(block.blocks)}
            for inner in visible(block.blocks):
                found |= {f"said-{inner.number}"} if hasattr(inner, "narrative") else set()
                found |= {inner.anchor} if isinstance(inner, Call) else set()
    return found


def seen(section: Section) -> list[Stop]:
    """Return the stops of a section that have a place of their own: a hidden line's stands at the title above it."""
    titles = {block.anchor for block in visible(section.blocks) if isinstance(block, Call)}
    found = [stop for stop in section.stepping.stops if stop.anchor]
    return [s for s in found if s.anchor not in titles or s is next(o for o in found if o.anchor == s.anchor)]


def core(section: Section) -> list[Stop]:
    """Return the stops of a section that stand outside its deeper parts and its notes."""
    deeper = folded(section.blocks)
    notes = {
        f"said-{block.number}"
        for block in visible(section.blocks)
        if hasattr(block, "narrative") and block.narrative.kind == "note"
    }
    return [stop for stop in seen(section) if stop.anchor not in deeper | notes]


SPOTTED = "(document.querySelector('.spot') ?? document.querySelector('.now'))"
SPOT = "document.querySelector('.row.spot')?.id ?? ''"


def test_on_shows_each_listing_and_each_block_once_and_goes_on_to_the_next_section(
    browser: Any, document: Document, pages: dict[str, Path]
) -> None:
    section = section_of(document, ROOFLINE)
    enter(browser, pages[ROOFLINE])
    places = count(browser)
    assert ask(browser, "document.querySelector('.now').tagName") == "H1"
    look = f"""[[...document.querySelectorAll('.now > .row')].map((row) => row.id), {PLACE},
        [...document.querySelectorAll('main :is(.prose, figure, .ask, .row, h1, h2, h3)')]
        .filter((part) => part.checkVisibility() && !part.closest('.now, .from, .led')).length,
        document.querySelector('.now').getBoundingClientRect().toJSON(),
        [...document.querySelectorAll('.now')].map((block) => block.id),
        [...document.querySelectorAll('.now')].every((block) => block.matches('h1, h2, h3'))]"""
    first = ask(browser, look)
    seen = [first, *walk(browser, "ArrowRight", look, places - 1)]
    listed = re.compile(r"L(\d+)$")
    lines = [int(found[1]) for rows, *_ in seen for row in rows if (found := listed.search(row))]
    assert len(lines) == len(set(lines))  # a helper's second call is passed over
    in_rows = {row.anchor for row in rows_shown(section.blocks)}
    ran = {stop.line for stop in core(section) if stop.anchor in in_rows and not stop.code}
    assert len(set(lines) & ran) >= 10 and ran <= set(lines)
    assert [others for _, _, others, *_ in seen] == [0] * len(seen)  # one place at a time
    assert all(box["top"] < 1080 and box["bottom"] > 0 for _, _, _, box, *_ in seen)
    assert not any(is_a_heading_alone for *_, is_a_heading_alone in seen)
    told = {block for *_, blocks, _ in seen for block in blocks}
    words = {stop.anchor for stop in core(section) if stop.anchor.startswith("said-")}
    assert words <= told
    assert [place for _, place, *_ in seen] == [f"{at} of {places}" for at in range(1, places + 1)]
    press(browser, RIGHT)
    wait(browser, f"location.pathname.endsWith({json.dumps(pages[GRADIENTS].name)}) && document.getElementById('hall')")
    assert ask(browser, PLACE) == f"1 of {count(browser)}"
    press(browser, LEFT)
    wait(browser, f"location.pathname.endsWith({json.dumps(pages[ROOFLINE].name)}) && document.getElementById('hall')")
    assert ask(browser, PLACE) == f"{places} of {places}"


@pytest.mark.slow
def test_a_section_of_five_minutes_has_at_most_forty_places_and_over_needs_no_more(
    browser: Any, pages: dict[str, Path]
) -> None:
    for page in pages.values():
        enter(browser, page)
        places = count(browser)
        assert places <= 40, page.stem
        pressed = 0
        while str(ask(browser, "location.pathname")).endswith(page.name) and pressed <= 1.5 * places:
            press(browser, DOWN)
            pressed += 1
        assert pressed <= 1.5 * places, "over leads to the next section"


def test_code_stands_below_the_sentence_that_introduces_it_and_a_heading_is_always_in_view(
    browser: Any, pages: dict[str, Path]
) -> None:
    enter(browser, pages[ROOFLINE])
    look = """[[...document.querySelectorAll('.now')].map((block) =>
        block.matches('.listing, figure') ? 'shown' : block.matches('.prose, .ask') ? 'said' : 'heading'),
        document.querySelector('.led')?.textContent ?? '', document.getElementById('hall-top').innerText]"""
    seen = [ask(browser, look), *walk(browser, "ArrowRight", look, count(browser) - 1)]
    below = [(kinds, led) for kinds, led, _ in seen if "shown" in kinds and kinds[0] != "heading"]
    assert (
        below and sum(bool(led) or "said" in kinds for kinds, led in below) >= len(below) - 3
    )  # tools' figures at the end
    assert any("PyTorch adds bf16 numbers" in led and "An H100" not in led for _, led in below)  # its last sentence
    assert all(top or "heading" in kinds for kinds, _, top in seen)


def test_what_is_higher_than_the_screen_is_scrolled_by_the_same_key(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[TRAINING], (1280, 420))
    reach = """[document.getElementById('hall').innerText, document.querySelector('#hall b').textContent,
        document.getElementById('text').scrollTop + document.getElementById('text').clientHeight,
        document.getElementById('text').scrollHeight]"""
    seen = [ask(browser, reach), *walk(browser, "ArrowRight", reach, 80)]
    last: dict[str, tuple[float, float]] = {place: (reached, height) for _, place, reached, height in seen}
    assert all(reached >= height - 8 for reached, height in list(last.values())[:-1]) and len(last) < len(seen)
    assert any("the rest of this block" in bar for bar, *_ in seen)


def test_back_is_the_way_on_in_reverse(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    look = f"(({SPOTTED}.querySelector('.code') ?? {SPOTTED}).textContent)"
    places = count(browser)
    there = [ask(browser, look), *walk(browser, "ArrowRight", look, places - 1)]
    back = walk(browser, "ArrowLeft", look, places - 1)
    assert back[::-1] == there[:-1] and len(set(there)) > 15


def test_single_steps_reach_every_step_outside_the_folds_and_with_d_all(
    browser: Any, document: Document, pages: dict[str, Path]
) -> None:
    section = section_of(document, ROOFLINE)
    enter(browser, pages[ROOFLINE])
    assert len(seen(section)) < len(section.stepping.stops)
    inside = [stop.number for stop in core(section)][1:]  # the first step belongs to the first place
    anchors = walk(browser, "l", "document.querySelector('.current')?.id", len(inside))
    assert anchors == [stop.anchor for stop in core(section)][1:]
    press(browser, HOME + "d")
    everything = seen(section)
    notes = {stop.anchor for stop in everything} - {stop.anchor for stop in core(section)} - folded(section.blocks)
    everything = [stop for stop in everything if stop.anchor not in notes]
    anchors = walk(browser, "l", "document.querySelector('.current')?.id", len(everything) - 1)
    assert anchors == [stop.anchor for stop in everything][1:] and len(anchors) > len(inside)


def test_over_passes_a_function_and_u_leaves_it(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[MEMORY])
    places, depth = (
        count(browser),
        "(document.querySelector('.spot') ?? document.querySelector('.now')).closest('.called') ? 1 : 0",
    )
    on = walk(browser, "ArrowRight", depth, places)
    press(browser, HOME)
    over = walk(browser, "ArrowDown", depth, places - 1 - sum(on))
    assert sum(on) > 5 and sum(over) == 0
    press(browser, HOME)
    walk(browser, "ArrowRight", depth, on.index(1) + 1)
    assert ask(browser, depth) == 1
    press(browser, "u")
    assert ask(browser, depth) == 0
    press(browser, UP)
    assert ask(browser, depth) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_type_is_large_enough_for_the_last_row(browser: Any, pages: dict[str, Path], scheme: str) -> None:
    enter(browser, pages[ROOFLINE], scheme=scheme)
    size = """[...document.querySelectorAll('main :is(.code > code, .prose p, .prose li, h1, h2)')]
        .filter((part) => part.checkVisibility())
        .map((part) => [part.tagName, parseFloat(getComputedStyle(part).fontSize)])"""
    sizes = [pair for seen in walk(browser, "ArrowRight", size, count(browser) - 1) for pair in seen]
    assert min(px for tag, px in sizes if tag == "CODE") >= 28
    assert min(px for tag, px in sizes if tag != "CODE") >= 28
    assert ask(browser, "document.documentElement.scrollWidth") <= PROJECTOR[0]


def test_the_current_line_alone_has_its_colours(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE], at="#hall-4")
    assert not ask(browser, "document.querySelector('.spot')")  # a listing is shown whole
    press(browser, "lll")
    colours = """[...document.querySelectorAll('.now .row')].map((row) => [row.matches('.spot'),
        new Set([...row.querySelectorAll('.code > code, .code > code *')].map((it) => getComputedStyle(it).color)).size,
        getComputedStyle(row).backgroundColor])"""
    seen = ask(browser, colours)
    [spot] = [row for row in seen if row[0]]
    assert len(seen) > 3 and all(row[1] == 1 and row[2] != spot[2] for row in seen if not row[0])
    later = "[...document.querySelectorAll('.spot ~ .row .beside')]"
    assert not ask(
        browser, f"{later}.some((beside) => beside.checkVisibility({{visibilityProperty: true}}))"
    )  # what has not happened is not told


@pytest.mark.slow
def test_the_page_shows_the_call_and_the_iteration_that_are_current(
    browser: Any, document: Document, pages: dict[str, Path]
) -> None:
    section = section_of(document, TRAINING)
    ready(browser, pages[TRAINING], WIDE)
    stepping = section.stepping
    look = """(() => { const row = document.querySelector('.current'), box = row.closest('.called');
        return [Number(document.getElementById('step-done').value), box?.firstElementChild.textContent ?? '',
            row.querySelector('.live')?.innerText ?? null]; })()"""
    seen = walk(browser, "l", look, len(stepping.stops))
    calls = iterations = 0
    runs: dict[tuple[int, int], int] = {}
    for stop in stepping.stops:
        runs[stop.frame, stop.execution.step.statement] = max(
            stop.execution.step.execution, runs.get((stop.frame, stop.execution.step.statement), 0)
        )
    for stop, (number, summary, live) in zip(stepping.stops, seen, strict=True):
        assert number == stop.number
        frame = stepping.frames[stop.frame]
        if not stop.code and summary and frame.total > 1 and frame.function in summary:
            assert f"call {frame.number} of {frame.total}" in summary
            calls += frame.number > 1
        total = runs[stop.frame, stop.execution.step.statement]
        if not stop.code and live is not None and total > 1:
            assert live.startswith(f"{stop.execution.step.execution} of {total}"), (number, live)
            iterations += 1
    assert calls > 50 and iterations > 500
    press(browser, ESCAPE)
    assert ask(browser, "document.querySelectorAll('.live, .alive').length") == 0
    summaries = ask(browser, "[...document.querySelectorAll('.called > summary')].map((s) => s.textContent)")
    assert any("call 1 of 63" in text for text in summaries)


def test_the_buttons_reach_every_step(browser: Any, document: Document, pages: dict[str, Path]) -> None:
    total = section_of(document, ROOFLINE).steps
    ready(browser, pages[ROOFLINE], NARROW)
    done = "Number(document.getElementById('step-done').value)"
    assert ask(browser, "document.getElementById('step-on').checkVisibility()")
    step = f"() => {{ document.getElementById('step-on').click(); return {done}; }}"
    visited = ask(browser, f"Array.from({{length: {total}}}, {step})")
    assert visited == list(range(visited[0], total + 1)) + [total] * (visited[0] - 1)
    browser.execute_script("document.getElementById('step-back').click()")
    assert ask(browser, done) == total - 1
    for name in ("step-back", "step-on", "step-over", "hall-open"):
        box = ask(browser, f"document.getElementById('{name}').getBoundingClientRect().toJSON()")
        assert min(box["width"], box["height"]) >= 24 and box["right"] <= NARROW[0]
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]


def swipe(browser: Any, across: int) -> None:
    """Move a finger across the middle of the text."""
    x, y = 195, 300
    for kind, points in (
        ("touchStart", [{"x": x, "y": y}]),
        ("touchMove", [{"x": x + across, "y": y + 5}]),
        ("touchEnd", []),
    ):
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def test_a_finger_steps(browser: Any, pages: dict[str, Path]) -> None:
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    ready(browser, pages[ROOFLINE], NARROW)
    done = "Number(document.getElementById('step-done').value)"
    swipe(browser, -120)
    assert ask(browser, done) == 0  # who reads is left alone
    browser.find_element("id", "step-on").click()
    first = ask(browser, done)
    swipe(browser, -120)
    wait(browser, f"{done} === {first + 1}")
    swipe(browser, 120)
    wait(browser, f"{done} === {first}")
    browser.find_element("id", "hall-open").click()
    wait(browser, "document.getElementById('hall')")
    place = ask(browser, PLACE)
    swipe(browser, -120)
    wait(browser, f"{PLACE} !== {json.dumps(place)}")
    swipe(browser, 120)
    wait(browser, f"{PLACE} === {json.dumps(place)}")
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    listings = "[...document.querySelectorAll('.listing')]"
    assert min(ask(browser, f"{listings}.map((box) => parseFloat(getComputedStyle(box).fontSize))")) >= 14
    browser.find_element("css selector", "#hall button:last-child").click()
    assert not ask(browser, "document.getElementById('hall')")


@pytest.mark.slow
@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_the_panel_says_first_what_changed_and_breaks_no_name(
    browser: Any, pages: dict[str, Path], size: tuple[int, int]
) -> None:
    ready(browser, pages[ROOFLINE], size)
    browser.execute_script("document.getElementById('panel').scrollTop = 40")
    look = """(() => {
      const all = (from, what) => [...from.querySelectorAll(what)], rows = ".vars > tbody > tr";
      const lines = (part) => {
        const range = document.createRange();
        range.selectNodeContents(part);
        return [part.data, range.getClientRects().length];
      };
      return [document.getElementById("panel").scrollTop,
        all(document, "#panel section:not([hidden])").map((box) => all(box, rows).map((row) => row.className)),
        all(document, `#panel ${rows} > th`).flatMap((name) => [...name.childNodes])
          .filter((part) => part.nodeType === Node.TEXT_NODE).map(lines)];
    })()"""
    names = set()
    for top, boxes, parts in walk(browser, "l", look, 200):
        assert top == 0
        for kinds in boxes:
            ranks = [2 if kind == "" else 1 if kind == "alias" else 0 for kind in kinds]
            assert ranks == sorted(ranks)
        assert all(rects == 1 for _, rects in parts), parts
        names |= {name for name, _ in parts}
    assert {"compute_s", "memory_s"} <= names


def presenter(browser: Any) -> str:
    """Open the presenter's window with its key; return its handle."""
    press(browser, "n")
    until = time.monotonic() + 8
    while len(browser.window_handles) < 2:
        assert time.monotonic() < until, "no second window"
        time.sleep(0.05)
    return str(browser.window_handles[1])


@pytest.mark.slow
def test_the_presenter_sees_notes_the_next_step_and_a_clock_in_a_second_window(
    browser: Any, document: Document, pages: dict[str, Path]
) -> None:
    enter(browser, pages[ROOFLINE], WIDE)
    hall_window = browser.current_window_handle
    press(browser, RIGHT * 4)
    place, soon = (
        ask(browser, PLACE),
        ask(browser, "document.querySelector('#hall .words').textContent").split("next: ")[1],
    )
    notes = presenter(browser)
    browser.switch_to.window(notes)
    said = "document.getElementById('presenter')?.innerText ?? ''"
    wait(browser, f"({said}).includes({json.dumps(place)})")
    shown = ask(browser, said)
    [note] = [
        block.narrative.text
        for block in section_of(document, ROOFLINE).blocks
        if hasattr(block, "narrative") and block.narrative.kind == "note"
    ]
    assert " ".join(note.split())[:60] in shown and f"Next: {soon}" in shown
    assert re.search(r"since the slides began \d\d:\d\d · time of day \d", shown)
    rows = "[...document.querySelectorAll('#presenter tbody tr')]"
    planned = f"{rows}.map((row) => [...row.cells].map((cell) => cell.innerText))"
    *headings, (_, minutes, _) = ask(browser, planned)
    assert all(planned for name, planned, _ in headings if name != "This section in figures")
    assert round(int(minutes[:2]) + int(minutes[3:]) / 60) == reading_minutes(section_of(document, ROOFLINE).blocks)
    wait(browser, "document.querySelector('#presenter .current td:last-child').innerText >= '00:01'")
    assert not ask(browser, "document.querySelector('.bar').checkVisibility()")
    press(browser, RIGHT)
    wait(browser, f"document.querySelector('#presenter .doing').textContent === {json.dumps('Now: ' + soon)}")
    press(browser, END)
    wait(browser, f"({said}).includes('Next: 7 ')")
    press(browser, RIGHT)  # to the next section, which this window follows
    head = "document.querySelector('#presenter .head').textContent"
    wait(browser, f"{head}.includes('{section_of(document, GRADIENTS).title} · ')")
    browser.switch_to.window(hall_window)
    assert ask(browser, "location.pathname").endswith(pages[GRADIENTS].name)
    press(browser, ESCAPE)
    browser.switch_to.window(notes)
    wait(browser, f"({said}).includes('The slides are closed')")
    browser.refresh()
    wait(browser, f"({said}).includes('The slides are closed')")
    assert browser.get_log("browser") == []


def test_where_no_second_window_opens_the_hall_says_so(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    browser.execute_script("window.open = () => null")
    press(browser, "n")
    assert "Allow pop-ups" in ask(browser, "document.getElementById('hall').innerText")
    wait(browser, "document.getElementById('step-said').textContent.includes('Allow pop-ups')")
    ready(browser, pages[ROOFLINE], at="#presenter")  # and a window that nobody opened knows its own section's note
    wait(browser, "document.getElementById('presenter')")
    shown = ask(browser, "document.getElementById('presenter').innerText")
    assert "not connected to any slides" in shown and "Draw the roofline by hand" in shown


def test_a_strange_window_can_neither_ask_nor_move(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    place = ask(browser, PLACE)
    browser.execute_script("window.postMessage({ presenter: true, way: 'on' }, '*')")
    time.sleep(0.2)
    assert ask(browser, PLACE) == place


def test_escape_leaves_and_gives_the_focus_back_and_a_reload_keeps_the_place(
    browser: Any, pages: dict[str, Path]
) -> None:
    ready(browser, pages[ROOFLINE])
    browser.find_element("id", "hall-open").click()
    wait(browser, "document.getElementById('hall')")
    assert ask(browser, "document.activeElement.id") == "text"
    press(browser, RIGHT * 3 + "lll")
    place = ask(browser, PLACE)
    wait(browser, f"location.hash.startsWith('#hall-{place.split(' of ')[0]}')")
    spot = ask(browser, "(document.querySelector('.spot') ?? document.querySelector('.now')).id")
    browser.refresh()
    wait(browser, "document.getElementById('hall')")
    assert (
        ask(browser, PLACE),
        ask(browser, "(document.querySelector('.spot') ?? document.querySelector('.now')).id"),
    ) == (place, spot)
    press(browser, ESCAPE)
    assert not ask(browser, "document.querySelector('#hall, .now, .way, .from, .spot, .ahead, .holds')")
    assert ask(browser, "document.activeElement.id") == "hall-open"
    assert ask(browser, f"document.getElementById({json.dumps(spot)}).getBoundingClientRect().top") > 0
    press(browser, "p")
    assert ask(browser, "(document.querySelector('.spot') ?? document.querySelector('.now')).id")
    press(browser, "p")
    assert not ask(browser, "document.documentElement.classList.contains('hall')")


def test_deeper_parts_are_left_out_until_they_are_opened(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    without = count(browser)
    press(browser, "d")
    assert count(browser) > without
    press(browser, "d")
    assert count(browser) == without
    browser.find_element("css selector", "#hall [aria-keyshortcuts=d]").click()  # where there are no keys
    assert count(browser) > without
    browser.find_element("css selector", "#hall [aria-keyshortcuts=d]").click()
    assert count(browser) == without
    browser.execute_script("document.querySelector('details.deeper').open = true")
    press(browser, ESCAPE + "p")
    assert count(browser) > without
    press(browser, "d")  # what was opened before can be left out, too
    assert count(browser) == without


@pytest.mark.slow
def test_only_a_readers_own_click_on_a_deeper_part_is_remembered(browser: Any, pages: dict[str, Path]) -> None:
    opened = "document.querySelectorAll('details.deeper[open]').length"
    ready(browser, pages[ROOFLINE])
    forget(browser)
    ready(browser, pages[ROOFLINE])
    browser.execute_script("reveal(document.querySelector('details.deeper .prose'))")  # as links, steps and search do
    assert ask(browser, opened) == 1
    enter(browser, pages[ROOFLINE])
    assert ask(browser, opened) == 0
    press(browser, "d" + 3 * RIGHT + ESCAPE)
    ready(browser, pages[ROOFLINE])
    assert ask(browser, opened) == 0
    for count in (1, 0):
        browser.find_element("css selector", "details.deeper > summary").send_keys("\n")
        ready(browser, pages[ROOFLINE])
        assert ask(browser, opened) == count


def test_the_focus_stays_where_it_can_be_seen(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE], at="#hall-3")
    browser.find_element("css selector", ".ask.now summary").send_keys(RIGHT)
    assert ask(browser, PLACE).startswith("4 of ")
    assert ask(browser, "document.activeElement.id") == "text"


def test_notes_are_not_for_the_hall(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    shown = "[...document.querySelectorAll('.note')].some((note) => note.checkVisibility())"
    assert not any(walk(browser, "ArrowRight", shown, count(browser) - 1))
    press(browser, HOME)
    assert not any(walk(browser, "l", shown, 20))


def test_paper_knows_no_hall(browser: Any, pages: dict[str, Path]) -> None:
    texts = []
    for at in ("", "#hall-12"):
        ready(browser, pages[ROOFLINE], (720, 1000), at=at)
        if at:
            wait(browser, "document.querySelector('#step-said').textContent.startsWith('12 of ')")
            browser.execute_script("document.querySelector('#step-said').replaceChildren()")  # read aloud, not printed
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        texts.append(ask(browser, "document.body.innerText"))
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert texts[0] == texts[1]


def test_a_place_is_read_aloud_once_the_keys_rest(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE], at="#hall-4")
    live = "document.querySelector('#step-said').textContent"
    wait(browser, f"{live}.startsWith('4 of ')")
    press(browser, "lll")
    wait(browser, f"{live}.includes('memory_s: ')")
    assert "memory_s: 1.194 ms" in ask(browser, live) and "H100_BANDWIDTH" in ask(browser, live)
    press(browser, RIGHT)
    wait(browser, f"{live}.startsWith('5 of ')")
    moving = (
        "[...document.querySelectorAll('*')].filter((part) => getComputedStyle(part).animationName !== 'none').length"
    )
    assert ask(browser, moving) == 0
    assert browser.get_log("browser") == []


def test_what_comes_next_is_named_without_what_belongs_to_the_page(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    soon = walk(
        browser, "ArrowRight", "document.querySelector('#hall .words').lastChild.textContent", count(browser) - 1
    )
    assert (
        "next: The roofline" in soon and "next: Training, prefill and decoding" in soon
    )  # without the sign of its link
    assert any(
        text.startswith("next: In a batch of 512 a token costs") and "…" not in text.split(" times")[0] for text in soon
    )  # no range
    assert soon[-1] == "next: 7 Gradients"


def test_an_address_of_the_page_leads_there_in_the_hall_too(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    browser.execute_script("location.hash = '#the-roofline'")
    wait(browser, "document.querySelector('.now').id === 'the-roofline'")
    folded_part = ask(browser, "document.querySelector('details.deeper :is(h2, h3)').id")
    browser.execute_script("location.hash = arguments[0]", f"#{folded_part}")
    wait(browser, f"document.querySelector('.now').id === '{folded_part}'")


def test_a_page_without_the_file_beside_it_says_what_is_missing(
    browser: Any, pages: dict[str, Path], tmp_path: Path
) -> None:
    alone = tmp_path / pages[ROOFLINE].name
    for path in (pages[ROOFLINE], pages[ROOFLINE].with_suffix(".js"), pages[ROOFLINE].with_name(SECTION)):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    ready(browser, alone)
    press(browser, "p")
    wait(browser, "document.getElementById('step-now').textContent.includes('hall.js')")
    press(browser, "l")
    assert ask(browser, "document.getElementById('step-now').textContent").startswith("step ")
    browser.get_log("browser")


TIMED = """
const [key, presses] = arguments, times = [], main = document.getElementById("text");
for (let press = 0; press < presses; press++) {
  const begun = performance.now();
  document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  main.getBoundingClientRect(), main.scrollHeight;
  times.push(performance.now() - begun);
}
return times;
"""


@pytest.mark.slow
def test_a_press_takes_less_than_a_frame(browser: Any, pages: dict[str, Path]) -> None:
    browser.set_script_timeout(120)
    enter(browser, pages[TRAINING])
    places = count(browser)
    for key, presses in (("ArrowRight", places - 1), ("l", 400)):
        times = browser.execute_script(TIMED, key, presses)
        assert statistics.median(times) <= 16, key  # milliseconds, layout and all
        press(browser, HOME)

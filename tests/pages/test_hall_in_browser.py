"""Slides (`hall.js`) and the presenter's window in a browser, on pages of `lecture.py`."""

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

pytestmark = pytest.mark.slow

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
    """Write the pages of four sections of the lecture, and the scripts that they share."""
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
def _clear_browser(browser: Any) -> Iterator[None]:
    yield
    for window in browser.window_handles[1:]:
        browser.switch_to.window(window)
        browser.close()
    browser.switch_to.window(browser.window_handles[0])
    browser.execute_script("try { sessionStorage.clear(); } catch {}")
    forget(browser)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def section_of(document: Document, function: str) -> Section:
    return next(section for section in document.sections if section.function == function)


def ready(browser: Any, page: Path, size: tuple[int, int] = PROJECTOR, **options: Any) -> None:
    """Open a page and wait for its player."""
    show(browser, page, size, **options)
    wait(browser, "!document.getElementById('player').hidden")


def enter(browser: Any, page: Path, size: tuple[int, int] = PROJECTOR, at: str = "#hall", **options: Any) -> None:
    """Open a page as slides."""
    ready(browser, page, size, at=at, **options)
    wait(browser, "document.getElementById('hall')")


def wait(browser: Any, script: str) -> None:
    """Wait until an expression is true in the page."""
    deadline = time.monotonic() + 8
    while not ask(browser, f"Boolean({script})"):
        assert time.monotonic() < deadline, script
        time.sleep(0.02)


# Press a key several times, and evaluate an expression after each press.
WALK = """
const [key, presses] = arguments, seen = [];
for (let press = 0; press < presses; press++) {
  document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  seen.push(LOOK);
}
return seen;
"""
POSITION = "document.querySelector('#hall b').textContent"


def walk(browser: Any, key: str, expression: str, presses: int) -> list[Any]:
    """Press a key several times; return the values of an expression after each press."""
    browser.set_script_timeout(120)
    return list(browser.execute_script(WALK.replace("LOOK", expression), key, presses))


def slide_count(browser: Any) -> int:
    """Return the number of slides of this page."""
    return int(re.search(r"of (\d+)$", ask(browser, POSITION))[1])  # type: ignore[index]


def deeper_anchors(blocks: Sequence[Block]) -> set[str]:
    """Return the anchors of rows, narrative and titles in the deeper parts."""
    anchors: set[str] = set()
    for block in visible(blocks):
        if isinstance(block, Call) and block.deeper:
            anchors |= {block.anchor} | {row.anchor for row in rows_shown(block.blocks)}
            for inner in visible(block.blocks):
                anchors |= {f"said-{inner.number}"} if hasattr(inner, "narrative") else set()
                anchors |= {inner.anchor} if isinstance(inner, Call) else set()
    return anchors


def stops_with_own_anchor(section: Section) -> list[Stop]:
    """Return the stops of a section that have their own anchor.

    A hidden line has no row, so its stop has the anchor of the title above it.
    """
    titles = {block.anchor for block in visible(section.blocks) if isinstance(block, Call)}
    stops = [stop for stop in section.stepping.stops if stop.anchor]
    return [s for s in stops if s.anchor not in titles or s is next(o for o in stops if o.anchor == s.anchor)]


def stops_in_slides(section: Section) -> list[Stop]:
    """Return the stops of a section outside its deeper parts and its notes."""
    deeper = deeper_anchors(section.blocks)
    notes = {
        f"said-{block.number}"
        for block in visible(section.blocks)
        if hasattr(block, "narrative") and block.narrative.kind == "note"
    }
    return [stop for stop in stops_with_own_anchor(section) if stop.anchor not in deeper | notes]


SPOTTED = "(document.querySelector('.spot') ?? document.querySelector('.now'))"
SPOT = "document.querySelector('.row.spot')?.id ?? ''"


def test_the_next_key_shows_each_block_once(browser: Any, document: Document, pages: dict[str, Path]) -> None:
    section = section_of(document, ROOFLINE)
    enter(browser, pages[ROOFLINE])
    total = slide_count(browser)
    assert ask(browser, "document.querySelector('.now').tagName") == "H1"
    look = f"""[[...document.querySelectorAll('.now > .row')].map((row) => row.id), {POSITION},
        [...document.querySelectorAll('main :is(.prose, figure, .ask, .row, h1, h2, h3)')]
        .filter((part) => part.checkVisibility() && !part.closest('.now, .from, .led')).length,
        document.querySelector('.now').getBoundingClientRect().toJSON(),
        [...document.querySelectorAll('.now')].map((block) => block.id),
        [...document.querySelectorAll('.now')].every((block) => block.matches('h1, h2, h3'))]"""
    first = ask(browser, look)
    slides = [first, *walk(browser, "ArrowRight", look, total - 1)]
    line_anchor = re.compile(r"L(\d+)$")
    lines = [int(match[1]) for rows, *_ in slides for row in rows if (match := line_anchor.search(row))]
    assert len(lines) == len(set(lines))  # a second call of a helper is skipped
    in_rows = {row.anchor for row in rows_shown(section.blocks)}
    executed_lines = {stop.line for stop in stops_in_slides(section) if stop.anchor in in_rows and not stop.code}
    assert len(set(lines) & executed_lines) >= 10 and executed_lines <= set(lines)
    assert [others for _, _, others, *_ in slides] == [0] * len(slides)  # one slide at a time
    assert all(box["top"] < 1080 and box["bottom"] > 0 for _, _, _, box, *_ in slides)
    assert not any(is_a_heading_alone for *_, is_a_heading_alone in slides)
    blocks_shown = {block for *_, blocks, _ in slides for block in blocks}
    narrative = {stop.anchor for stop in stops_in_slides(section) if stop.anchor.startswith("said-")}
    assert narrative <= blocks_shown
    assert [position for _, position, *_ in slides] == [f"{at} of {total}" for at in range(1, total + 1)]
    press(browser, RIGHT)
    wait(browser, f"location.pathname.endsWith({json.dumps(pages[GRADIENTS].name)}) && document.getElementById('hall')")
    assert ask(browser, POSITION) == f"1 of {slide_count(browser)}"
    press(browser, LEFT)
    wait(browser, f"location.pathname.endsWith({json.dumps(pages[ROOFLINE].name)}) && document.getElementById('hall')")
    assert ask(browser, POSITION) == f"{total} of {total}"


@pytest.mark.slow
def test_a_section_has_at_most_forty_slides(browser: Any, pages: dict[str, Path]) -> None:
    for page in pages.values():
        enter(browser, page)
        total = slide_count(browser)
        assert total <= 40, page.stem
        pressed = 0
        while str(ask(browser, "location.pathname")).endswith(page.name) and pressed <= 1.5 * total:
            press(browser, DOWN)
            pressed += 1
        assert pressed <= 1.5 * total, "over leads to the next section"


def test_slides_show_code_with_its_introduction_and_heading(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    look = """[[...document.querySelectorAll('.now')].map((block) =>
        block.matches('.listing, figure') ? 'shown' : block.matches('.prose, .ask') ? 'said' : 'heading'),
        document.querySelector('.led')?.textContent ?? '', document.getElementById('hall-top').innerText]"""
    slides = [ask(browser, look), *walk(browser, "ArrowRight", look, slide_count(browser) - 1)]
    with_code = [(kinds, led) for kinds, led, _ in slides if "shown" in kinds and kinds[0] != "heading"]
    assert (
        with_code and sum(bool(led) or "said" in kinds for kinds, led in with_code) >= len(with_code) - 3
    )  # the figures at the end have no introduction
    assert any(
        "PyTorch adds bf16 numbers" in led and "An H100" not in led for _, led in with_code
    )  # the last sentence of the paragraph
    assert all(top or "heading" in kinds for kinds, _, top in slides)


def test_the_next_key_scrolls_slides_higher_than_the_screen(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[TRAINING], (1280, 420))
    reach = """[document.getElementById('hall').innerText, document.querySelector('#hall b').textContent,
        document.getElementById('text').scrollTop + document.getElementById('text').clientHeight,
        document.getElementById('text').scrollHeight]"""
    views = [ask(browser, reach), *walk(browser, "ArrowRight", reach, 80)]
    last: dict[str, tuple[float, float]] = {position: (reached, height) for _, position, reached, height in views}
    assert all(reached >= height - 8 for reached, height in list(last.values())[:-1]) and len(last) < len(views)
    assert any("the rest of this block" in bar for bar, *_ in views)


def test_the_back_key_reverses_the_next_key(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    look = f"(({SPOTTED}.querySelector('.code') ?? {SPOTTED}).textContent)"
    total = slide_count(browser)
    forward = [ask(browser, look), *walk(browser, "ArrowRight", look, total - 1)]
    back = walk(browser, "ArrowLeft", look, total - 1)
    assert back[::-1] == forward[:-1] and len(set(forward)) > 15


def test_single_steps_include_deeper_parts_only_after_d(
    browser: Any, document: Document, pages: dict[str, Path]
) -> None:
    section = section_of(document, ROOFLINE)
    enter(browser, pages[ROOFLINE])
    assert len(stops_with_own_anchor(section)) < len(section.stepping.stops)
    core_stops = [stop.number for stop in stops_in_slides(section)][1:]  # the first step belongs to the first slide
    anchors = walk(browser, "l", "document.querySelector('.current')?.id", len(core_stops))
    assert anchors == [stop.anchor for stop in stops_in_slides(section)][1:]
    press(browser, HOME + "d")
    all_stops = stops_with_own_anchor(section)
    notes = (
        {stop.anchor for stop in all_stops}
        - {stop.anchor for stop in stops_in_slides(section)}
        - deeper_anchors(section.blocks)
    )
    all_stops = [stop for stop in all_stops if stop.anchor not in notes]
    anchors = walk(browser, "l", "document.querySelector('.current')?.id", len(all_stops) - 1)
    assert anchors == [stop.anchor for stop in all_stops][1:] and len(anchors) > len(core_stops)


def test_the_over_key_skips_a_function_and_u_leaves_it(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[MEMORY])
    total, depth = (
        slide_count(browser),
        "(document.querySelector('.spot') ?? document.querySelector('.now')).closest('.called') ? 1 : 0",
    )
    depths_on = walk(browser, "ArrowRight", depth, total)
    press(browser, HOME)
    depths_over = walk(browser, "ArrowDown", depth, total - 1 - sum(depths_on))
    assert sum(depths_on) > 5 and sum(depths_over) == 0
    press(browser, HOME)
    walk(browser, "ArrowRight", depth, depths_on.index(1) + 1)
    assert ask(browser, depth) == 1
    press(browser, "u")
    assert ask(browser, depth) == 0
    press(browser, UP)
    assert ask(browser, depth) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_of_slides_is_at_least_28_pixels_high(browser: Any, pages: dict[str, Path], scheme: str) -> None:
    enter(browser, pages[ROOFLINE], scheme=scheme)
    size = """[...document.querySelectorAll('main :is(.code > code, .prose p, .prose li, h1, h2)')]
        .filter((part) => part.checkVisibility())
        .map((part) => [part.tagName, parseFloat(getComputedStyle(part).fontSize)])"""
    sizes = [pair for pairs in walk(browser, "ArrowRight", size, slide_count(browser) - 1) for pair in pairs]
    assert min(px for tag, px in sizes if tag == "CODE") >= 28
    assert min(px for tag, px in sizes if tag != "CODE") >= 28
    assert ask(browser, "document.documentElement.scrollWidth") <= PROJECTOR[0]


def test_only_the_current_line_of_code_is_coloured(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE], at="#hall-4")
    assert not ask(browser, "document.querySelector('.spot')")  # at first no line of a listing is current
    press(browser, "lll")
    colours = """[...document.querySelectorAll('.now .row')].map((row) => [row.matches('.spot'),
        new Set([...row.querySelectorAll('.code > code, .code > code *')].map((it) => getComputedStyle(it).color)).size,
        getComputedStyle(row).backgroundColor])"""
    rows = ask(browser, colours)
    [spot] = [row for row in rows if row[0]]
    assert len(rows) > 3 and all(row[1] == 1 and row[2] != spot[2] for row in rows if not row[0])
    later = "[...document.querySelectorAll('.spot ~ .row .beside')]"
    assert not ask(
        browser, f"{later}.some((beside) => beside.checkVisibility({{visibilityProperty: true}}))"
    )  # later results are hidden


@pytest.mark.slow
def test_stepping_shows_the_current_call_and_iteration(
    browser: Any, document: Document, pages: dict[str, Path]
) -> None:
    section = section_of(document, TRAINING)
    ready(browser, pages[TRAINING], WIDE)
    stepping = section.stepping
    look = """(() => { const row = document.querySelector('.current'), box = row.closest('.called');
        return [Number(document.getElementById('step-done').value), box?.firstElementChild.textContent ?? '',
            row.querySelector('.live')?.innerText ?? null]; })()"""
    steps = walk(browser, "l", look, len(stepping.stops))
    calls = iterations = 0
    runs: dict[tuple[int, int], int] = {}
    for stop in stepping.stops:
        runs[stop.frame, stop.execution.step.statement] = max(
            stop.execution.step.execution, runs.get((stop.frame, stop.execution.step.statement), 0)
        )
    for stop, (number, summary, live) in zip(stepping.stops, steps, strict=True):
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


def test_swipes_move_between_steps_and_slides(browser: Any, pages: dict[str, Path]) -> None:
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    ready(browser, pages[ROOFLINE], NARROW)
    done = "Number(document.getElementById('step-done').value)"
    swipe(browser, -120)
    assert ask(browser, done) == 0  # a swipe does nothing before stepping has begun
    browser.find_element("id", "step-on").click()
    first = ask(browser, done)
    swipe(browser, -120)
    wait(browser, f"{done} === {first + 1}")
    swipe(browser, 120)
    wait(browser, f"{done} === {first}")
    browser.find_element("id", "hall-open").click()
    wait(browser, "document.getElementById('hall')")
    position = ask(browser, POSITION)
    swipe(browser, -120)
    wait(browser, f"{POSITION} !== {json.dumps(position)}")
    swipe(browser, 120)
    wait(browser, f"{POSITION} === {json.dumps(position)}")
    assert ask(browser, "document.documentElement.scrollWidth") <= NARROW[0]
    listings = "[...document.querySelectorAll('.listing')]"
    assert min(ask(browser, f"{listings}.map((box) => parseFloat(getComputedStyle(box).fontSize))")) >= 14
    browser.find_element("css selector", "#hall button:last-child").click()
    assert not ask(browser, "document.getElementById('hall')")


@pytest.mark.slow
@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_the_panel_lists_changes_first_and_wraps_no_name(
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
    deadline = time.monotonic() + 8
    while len(browser.window_handles) < 2:
        assert time.monotonic() < deadline, "no second window"
        time.sleep(0.05)
    return str(browser.window_handles[1])


@pytest.mark.slow
def test_the_presenters_window_shows_notes_next_slide_and_clock(
    browser: Any, document: Document, pages: dict[str, Path]
) -> None:
    enter(browser, pages[ROOFLINE], WIDE)
    hall_window = browser.current_window_handle
    press(browser, RIGHT * 4)
    position, next_title = (
        ask(browser, POSITION),
        ask(browser, "document.querySelector('#hall .words').textContent").split("next: ")[1],
    )
    notes = presenter(browser)
    browser.switch_to.window(notes)
    text = "document.getElementById('presenter')?.innerText ?? ''"
    wait(browser, f"({text}).includes({json.dumps(position)})")
    shown = ask(browser, text)
    [note] = [
        block.narrative.text
        for block in section_of(document, ROOFLINE).blocks
        if hasattr(block, "narrative") and block.narrative.kind == "note"
    ]
    assert " ".join(note.split())[:60] in shown and f"Next: {next_title}" in shown
    assert re.search(r"since the slides began \d\d:\d\d · time of day \d", shown)
    rows = "[...document.querySelectorAll('#presenter tbody tr')]"
    planned = f"{rows}.map((row) => [...row.cells].map((cell) => cell.innerText))"
    *headings, (_, minutes, _) = ask(browser, planned)
    assert all(planned for name, planned, _ in headings if name != "This section in figures")
    assert round(int(minutes[:2]) + int(minutes[3:]) / 60) == reading_minutes(section_of(document, ROOFLINE).blocks)
    wait(browser, "document.querySelector('#presenter .current td:last-child').innerText >= '00:01'")
    assert not ask(browser, "document.querySelector('.bar').checkVisibility()")
    press(browser, RIGHT)
    wait(browser, f"document.querySelector('#presenter .doing').textContent === {json.dumps('Now: ' + next_title)}")
    press(browser, END)
    wait(browser, f"({text}).includes('Next: 7 ')")
    press(browser, RIGHT)  # goes to the next section; the presenter's window follows
    head = "document.querySelector('#presenter .head').textContent"
    wait(browser, f"{head}.includes('{section_of(document, GRADIENTS).title} · ')")
    browser.switch_to.window(hall_window)
    assert ask(browser, "location.pathname").endswith(pages[GRADIENTS].name)
    press(browser, ESCAPE)
    browser.switch_to.window(notes)
    wait(browser, f"({text}).includes('The slides are closed')")
    browser.refresh()
    wait(browser, f"({text}).includes('The slides are closed')")
    assert browser.get_log("browser") == []


def test_a_blocked_presenters_window_is_reported(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    browser.execute_script("window.open = () => null")
    press(browser, "n")
    assert "Allow pop-ups" in ask(browser, "document.getElementById('hall').innerText")
    wait(browser, "document.getElementById('step-said').textContent.includes('Allow pop-ups')")
    ready(browser, pages[ROOFLINE], at="#presenter")  # opened by its address, it still shows the section's note
    wait(browser, "document.getElementById('presenter')")
    shown = ask(browser, "document.getElementById('presenter').innerText")
    assert "not connected to any slides" in shown and "Draw the roofline by hand" in shown


def test_messages_of_unknown_windows_do_not_move_slides(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    position = ask(browser, POSITION)
    browser.execute_script("window.postMessage({ presenter: true, way: 'on' }, '*')")
    time.sleep(0.2)
    assert ask(browser, POSITION) == position


def test_reload_keeps_the_slide_and_escape_restores_focus(browser: Any, pages: dict[str, Path]) -> None:
    ready(browser, pages[ROOFLINE])
    browser.find_element("id", "hall-open").click()
    wait(browser, "document.getElementById('hall')")
    assert ask(browser, "document.activeElement.id") == "text"
    press(browser, RIGHT * 3 + "lll")
    position = ask(browser, POSITION)
    wait(browser, f"location.hash.startsWith('#hall-{position.split(' of ')[0]}')")
    spot = ask(browser, "(document.querySelector('.spot') ?? document.querySelector('.now')).id")
    browser.refresh()
    wait(browser, "document.getElementById('hall')")
    assert (
        ask(browser, POSITION),
        ask(browser, "(document.querySelector('.spot') ?? document.querySelector('.now')).id"),
    ) == (position, spot)
    press(browser, ESCAPE)
    assert not ask(browser, "document.querySelector('#hall, .now, .way, .from, .spot, .ahead, .holds')")
    assert ask(browser, "document.activeElement.id") == "hall-open"
    assert ask(browser, f"document.getElementById({json.dumps(spot)}).getBoundingClientRect().top") > 0
    press(browser, "p")
    assert ask(browser, "(document.querySelector('.spot') ?? document.querySelector('.now')).id")
    press(browser, "p")
    assert not ask(browser, "document.documentElement.classList.contains('hall')")


def test_slides_skip_deeper_parts_until_they_are_opened(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    without_deeper = slide_count(browser)
    press(browser, "d")
    assert slide_count(browser) > without_deeper
    press(browser, "d")
    assert slide_count(browser) == without_deeper
    browser.find_element("css selector", "#hall [aria-keyshortcuts=d]").click()  # the button does the same as the key
    assert slide_count(browser) > without_deeper
    browser.find_element("css selector", "#hall [aria-keyshortcuts=d]").click()
    assert slide_count(browser) == without_deeper
    browser.execute_script("document.querySelector('details.deeper').open = true")
    press(browser, ESCAPE + "p")
    assert slide_count(browser) > without_deeper
    press(browser, "d")  # also folds parts that were opened before
    assert slide_count(browser) == without_deeper


@pytest.mark.slow
def test_only_a_click_on_a_deeper_part_is_remembered(browser: Any, pages: dict[str, Path]) -> None:
    opened = "document.querySelectorAll('details.deeper[open]').length"
    ready(browser, pages[ROOFLINE])
    forget(browser)
    ready(browser, pages[ROOFLINE])
    browser.execute_script(
        "reveal(document.querySelector('details.deeper .prose'))"
    )  # links, steps and search call `reveal`
    assert ask(browser, opened) == 1
    enter(browser, pages[ROOFLINE])
    assert ask(browser, opened) == 0
    press(browser, "d" + 3 * RIGHT + ESCAPE)
    ready(browser, pages[ROOFLINE])
    assert ask(browser, opened) == 0
    for expected in (1, 0):
        browser.find_element("css selector", "details.deeper > summary").send_keys("\n")
        ready(browser, pages[ROOFLINE])
        assert ask(browser, opened) == expected


def test_the_focus_leaves_a_block_that_becomes_hidden(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE], at="#hall-3")
    browser.find_element("css selector", ".ask.now summary").send_keys(RIGHT)
    assert ask(browser, POSITION).startswith("4 of ")
    assert ask(browser, "document.activeElement.id") == "text"


def test_slides_hide_the_presenters_notes(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    shown = "[...document.querySelectorAll('.note')].some((note) => note.checkVisibility())"
    assert not any(walk(browser, "ArrowRight", shown, slide_count(browser) - 1))
    press(browser, HOME)
    assert not any(walk(browser, "l", shown, 20))


def test_print_is_the_same_from_page_and_slides(browser: Any, pages: dict[str, Path]) -> None:
    texts = []
    for at in ("", "#hall-12"):
        ready(browser, pages[ROOFLINE], (720, 1000), at=at)
        if at:
            wait(browser, "document.querySelector('#step-said').textContent.startsWith('12 of ')")
            browser.execute_script(
                "document.querySelector('#step-said').replaceChildren()"
            )  # for screen readers; not printed
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        texts.append(ask(browser, "document.body.innerText"))
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert texts[0] == texts[1]


def test_screen_readers_get_the_current_slide_and_values(browser: Any, pages: dict[str, Path]) -> None:
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


def test_the_next_slide_is_announced_in_plain_words(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    announced = walk(
        browser, "ArrowRight", "document.querySelector('#hall .words').lastChild.textContent", slide_count(browser) - 1
    )
    assert (
        "next: The roofline" in announced and "next: Training, prefill and decoding" in announced
    )  # without the sign of the heading's link
    assert any(
        text.startswith("next: In a batch of 512 a token costs") and "…" not in text.split(" times")[0]
        for text in announced
    )  # a varying number is shown without its range
    assert announced[-1] == "next: 7 Gradients"


def test_anchors_of_the_page_select_slides(browser: Any, pages: dict[str, Path]) -> None:
    enter(browser, pages[ROOFLINE])
    browser.execute_script("location.hash = '#the-roofline'")
    wait(browser, "document.querySelector('.now').id === 'the-roofline'")
    folded_part = ask(browser, "document.querySelector('details.deeper :is(h2, h3)').id")
    browser.execute_script("location.hash = arguments[0]", f"#{folded_part}")
    wait(browser, f"document.querySelector('.now').id === '{folded_part}'")


def test_a_page_without_hall_js_names_the_missing_file(browser: Any, pages: dict[str, Path], tmp_path: Path) -> None:
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
def test_a_key_press_takes_less_than_a_frame(browser: Any, pages: dict[str, Path]) -> None:
    browser.set_script_timeout(120)
    enter(browser, pages[TRAINING])
    total = slide_count(browser)
    for key, presses in (("ArrowRight", total - 1), ("l", 400)):
        times = browser.execute_script(TIMED, key, presses)
        assert statistics.median(times) <= 16, key  # milliseconds, including layout
        press(browser, HOME)

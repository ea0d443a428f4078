from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest

from trace_tools.pages.content.passages import cited, flowing, in_emitted_order, in_order, targets, with_places
from trace_tools.pages.document import Block, Call, CodeListing, Narration, References
from trace_tools.pages.narration import as_html, as_markdown, classes
from trace_tools.pages.reading_time import reading_minutes
from trace_tools.presentation.prose import to_html
from trace_tools.trace.model import Image, Link, Narrative, Note, Text, Varied

ADAM = Link(
    text="It works.", url="https://arxiv.org/abs/1412.6980", title="Adam: A \"Method\"",
    authors="Ada Example, Bo Sample", date="2014-12-22",
    label="Example+ 2014", notes="momentum", flows=True,
)  # fmt: skip
ARTICLE = Link(url="https://example.org/a(b)", title="[article]", label="[article]", flows=True)
CODE = Link(label="bisect", target="bisect", title="lecture.py, line 3", flows=True)


def narrations(*lines: list[Narrative | str]) -> list[Narration]:
    """Return one narration per piece; each line is a separate step."""
    emitted = []
    for step, line in enumerate(lines):
        for piece in line:
            narrative = Text(text=piece, flows=True) if isinstance(piece, str) else piece
            emitted.append(Narration(narrative, len(emitted) + 1, step))
    return emitted


def single_passage(*lines: list[Narrative | str]) -> Narration:
    (passage,) = flowing(narrations(*lines), {"bisect"})
    assert isinstance(passage, Narration)
    return passage


def test_calls_on_one_line_make_one_line_of_prose() -> None:
    passage = single_passage(["- Adam ", ADAM, ARTICLE, ", or not"])
    hover = 'Adam: A \\"Method\\". Ada Example, Bo Sample, 2014-12-22. momentum.'
    adam = f'[Example+ 2014](<https://arxiv.org/abs/1412.6980> "{hover}")'
    assert passage.narrative.text == f"- Adam {adam} [\\[article\\]](<https://example.org/a(b)>), or not"
    page = as_html(passage, lambda path: None)
    assert 'href="https://arxiv.org/abs/1412.6980" rel="noreferrer" title="Adam: A &quot;Method&quot;. Ada' in page
    assert page.count("<li>") == 1 and 'class="prose lines"' in page and "It works" not in page
    text = as_markdown(passage, lambda path: None, lambda name, svg: name)
    assert adam in text


def test_list_items_and_headings_start_a_new_line() -> None:
    markdown = (
        single_passage(["## Title", "- one", "- two **bold**", "  - below ", ADAM, "3. three"]).narrative.text or ""
    )
    page = to_html(markdown)
    assert page.count("<li>") == 4 and "<h2>Title" in page and "below <a" in page
    assert single_passage(["Adam", " - momentum"]).narrative.text == "Adam - momentum"
    assert single_passage(["See ", "# 3"]).narrative.text == "See # 3"


def test_consecutive_repeated_texts_are_shown_once() -> None:
    def emitted(blocks: list[Narration]) -> list[Narration]:
        return [it for it in in_emitted_order([(1, it) for it in blocks]) if isinstance(it, Narration)]

    shown = emitted(narrations(["Find ", ADAM], ["Find ", ADAM], ["Find"], ["Merge"], ["Find"]))
    assert [it.narrative.text or it.narrative.label for it in shown] == ["Find ", "It works.", "Find", "Merge", "Find"]
    assert [(it.step, it.steps) for it in shown] == [(0, (1,)), (0, (1,)), (2, ()), (3, ()), (4, ())]
    untraced = [replace(it, step=None) for it in narrations(["a"], ["a"], ["b"])]  # prose that no run has emitted yet
    assert [(it.narrative.text, it.steps) for it in emitted(untraced)] == [("a", ()), ("b", ())]
    in_some_runs = [replace(it, sometimes="said in 1 of 2 runs", step=7) for it in narrations(["a"])]
    assert len(emitted([*narrations(["a"]), *in_some_runs])) == 2
    multiline = [replace(it, steps=(1,)) for it in narrations(["of several\nlines"])]
    assert len(flowing([*multiline, *(replace(it, step=2) for it in narrations(["b"]))])) == 2


def test_prose_of_a_loop_is_ordered_by_iteration_between_code() -> None:
    code = CodeListing(())
    heading, body, untraced = (narrations(*([text] for text in texts)) for texts in (("A", "B"), ("a", "b"), ("new",)))
    blocks: list[tuple[int | None, Block]] = [
        *((2, replace(block, step=step)) for block, step in zip(heading, (1, 3), strict=True)),
        *((3, replace(block, step=step)) for block, step in zip(body, (2, 4), strict=True)),
        (4, replace(untraced[0], step=None)),
    ]
    texts = [block.narrative.text if isinstance(block, Narration) else None for block in in_emitted_order(blocks)]
    assert texts == ["A", "a", "B", "b", "new"]
    around_code = [
        block.narrative.text if isinstance(block, Narration) else None
        for block in in_emitted_order([*blocks[:2], (None, code), *blocks[2:]])
    ]
    assert around_code == ["A", "B", None, "a", "b", "new"]
    repeated = [(line, replace(heading[0], step=step)) for line, step in ((2, 1), (2, 3), (3, 4))]
    assert [block.steps for block in in_emitted_order(repeated) if isinstance(block, Narration)] == [(3,), ()], (
        "the last text is from another line"
    )


def test_pieces_are_joined_verbatim_and_adjacent_links_are_separated() -> None:
    assert single_passage(["one th", "at is ", "split"]).narrative.text == "one that is split"
    text = single_passage(["See", ARTICLE, ARTICLE, ", (", ARTICLE, ")."]).narrative.text or ""
    assert to_html(text).replace(' rel="noreferrer"', "").count("</a>") == 3
    assert re.sub(r"\(<[^>]*>\)", "", text) == r"See [\[article\]] [\[article\]], ([\[article\]])."


def test_a_piece_styled_unlike_its_line_is_emphasised() -> None:
    pieces = [("A digit", "fontWeight", "bold"), (" or ", "color", "red"), ("two ", "fontStyle", "italic")]
    line: list[Narrative | str] = [Text(text=t, flows=True, style=[(n, v)]) for t, n, v in pieces]
    assert single_passage([*line, "cost."]).narrative.text == "**A digit** or *two* cost."
    (uniform,) = flowing(narrations([line[1], line[1]]))
    assert isinstance(uniform, Narration) and uniform.narrative.style == [("color", "red")]


def test_consecutive_lines_form_one_passage_and_items_one_list() -> None:
    passage = single_passage(["Of these:"], ["- a"], ["- b ", ADAM], ["1. c"], ["## Next"], ["d"])
    page = to_html(passage.narrative.text or "")
    assert page.count("<ul>") == 1 and page.count("<li>") == 3 and "<h2>Next" in page and "<p>d</p>" in page
    assert passage.step == 0 and passage.steps == (1, 2, 3, 4, 5) and passage.cited == (ADAM,)


@pytest.mark.parametrize(
    "separate",
    [
        Text(text="```\na\n```"),
        Text(text="of several\nlines", flows=True),
        Text(text="red", flows=True, style=[("color", "red")]),
        Note(text="n"),
        Image(url="a.png", flows=True),
    ],
)
def test_blocks_notes_images_and_styled_text_are_not_merged(separate: Narrative) -> None:
    blocks = flowing(narrations(["a"], [separate], ["b"]))
    assert [block.narrative for block in blocks if isinstance(block, Narration)][1:2] == [separate]
    assert len(blocks) == 3 or (isinstance(separate, Text) and separate.text.startswith("of several"))


def test_an_opening_fence_is_not_merged_with_the_next_line() -> None:
    assert len(flowing(narrations(["$$ x"], ["b"]))) == 2 and len(flowing(narrations(["~~~"], ["b"]))) == 2


def test_varied_numbers_are_located_in_the_merged_text() -> None:
    varied = Text(text="took 12 s", flows=True, varied=[Varied(["12", "13"], start=5, end=7)])
    passage = single_passage(["Before "], ["It ", varied, " or 12"])
    (number,) = passage.narrative.varied or ()
    assert (passage.narrative.text or "")[number.start : number.end] == "12" and number.start == len(
        "Before \n\nIt took "
    )


def test_text_of_some_runs_and_non_flowing_text_stay_separate() -> None:
    non_flowing = Narration(Text(text="ours"), 1, 0)
    of_some_runs = Narration(Text(text="some", flows=True), 2, 1, sometimes="said in 1 of 2 runs")
    assert flowing([non_flowing, of_some_runs, CodeListing(())]) == [non_flowing, of_some_runs, CodeListing(())]


def test_images_of_one_line_are_shown_side_by_side() -> None:
    picture = Image(url="a.png", title="a", flows=True)
    blocks = flowing(narrations([picture, picture], [picture]))
    assert [block.beside for block in blocks if isinstance(block, Narration)] == [True, True, False]
    page = as_html(blocks[0], lambda path: "figures/a.png")  # type: ignore[arg-type]
    assert 'class="piece beside"' in page and "figcaption" not in page


def test_a_link_to_a_function_points_to_its_anchor() -> None:
    passage = single_passage(["see ", CODE])
    assert list(targets([passage])) == ["bisect"]
    (placed,) = with_places([passage], {"bisect": "01-roots.html#bisect"})
    assert isinstance(placed, Narration)
    assert '<a href="01-roots.html#bisect" rel="noreferrer"><code>bisect</code></a>' in as_html(
        placed, lambda path: None
    )
    assert with_places([CodeListing(())], {}) == (CodeListing(()),)
    assert with_places([single_passage(["[a][f:b]"])], {"c": "x.html"}) == (single_passage(["[a][f:b]"]),)
    (unknown,) = flowing(narrations(["see ", CODE]))  # for example in another module
    assert isinstance(unknown, Narration) and unknown.narrative.text == "see `bisect`"


def test_link_tooltips_do_not_count_as_reading_time() -> None:
    links = dict.fromkeys(range(100), ADAM)
    (passage,) = flowing(narrations(["word " * 38, *links.values()]))
    assert reading_minutes([passage]) == 1, "38 words and 100 links of two words"


def test_references_are_listed_once_with_a_folded_abstract() -> None:
    blocks = flowing(narrations(["a ", ADAM], ["b ", ADAM, ARTICLE]))
    assert cited(blocks) == (ADAM,) and cited(narrations(["a"])) == ()
    listed = Narration(References(cited=cited(blocks)), 9)
    page = as_html(listed, lambda path: None)
    assert (
        "<details><summary>Abstract</summary><p>It works.</p></details>" in page and "1 reference on this page" in page
    )
    assert "> It works." in as_markdown(listed, lambda path: None, lambda name, svg: name)


def test_text_of_helper_functions_appears_at_their_call() -> None:
    node = ast.parse('text("a"), article("u"), text("b")').body[0]
    call = Call("article", 3, 7, 1, 1, "call-3", "Article", None, (Narration(ARTICLE, 5, 8),), 2)
    own = [Narration(Text(text=t, flows=True), n, 7) for n, t in enumerate("ab")]
    blocks = in_order(node, own, [call])
    assert [block.narrative for block in blocks] == [own[0].narrative, ARTICLE, own[1].narrative]
    assert (blocks[1].step, blocks[1].steps) == (7, (8,))


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ([("color", "red"), ("fontWeight", "bold")], " red bold"),
        ([("color", "Grey")], " soft"),
        ([("font-size", "24px"), ("textAlign", "center")], " large centred"),
        ([("fontSize", "0.7em")], " small"),
        ([("border", "1px solid"), ("color", "url(x)"), ("zIndex", "3")], " framed"),
    ],
)
def test_styles_become_classes_of_the_page(style: list[tuple[str, str]], expected: str) -> None:
    assert classes(Text(text="a", style=style)) == expected

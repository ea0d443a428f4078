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


def said(*lines: list[Narrative | str]) -> list[Narration]:
    """One narration per piece; each line is said by a step of its own."""
    found = []
    for step, line in enumerate(lines):
        for piece in line:
            told = Text(text=piece, flows=True) if isinstance(piece, str) else piece
            found.append(Narration(told, len(found) + 1, step))
    return found


def one(*lines: list[Narrative | str]) -> Narration:
    (passage,) = flowing(said(*lines), {"bisect"})
    assert isinstance(passage, Narration)
    return passage


def test_what_one_line_says_is_one_line_of_prose() -> None:
    passage = one(["- Adam ", ADAM, ARTICLE, ", or not"])
    hover = 'Adam: A \\"Method\\". Ada Example, Bo Sample, 2014-12-22. momentum.'
    adam = f'[Example+ 2014](<https://arxiv.org/abs/1412.6980> "{hover}")'
    assert passage.narrative.text == f"- Adam {adam} [\\[article\\]](<https://example.org/a(b)>), or not"
    page = as_html(passage, lambda path: None)
    assert 'href="https://arxiv.org/abs/1412.6980" rel="noreferrer" title="Adam: A &quot;Method&quot;. Ada' in page
    assert page.count("<li>") == 1 and 'class="prose lines"' in page and "It works" not in page
    text = as_markdown(passage, lambda path: None, lambda name, svg: name)
    assert '[Example+ 2014](https://arxiv.org/abs/1412.6980 "Adam: A \\"Method\\".' in text


def test_an_item_or_a_heading_begins_a_line_of_its_own_though_one_line_of_the_lecture_told_several() -> None:
    told = one(["## Title", "- one", "- two **bold**", "  - below ", ADAM, "3. three"]).narrative.text or ""
    page = to_html(told)
    assert page.count("<li>") == 4 and "<h2>Title" in page and "below <a" in page
    assert one(["Adam", " - momentum"]).narrative.text == "Adam - momentum"
    assert one(["See ", "# 3"]).narrative.text == "See # 3"


def test_what_a_loop_tells_again_is_told_once_and_stands_for_each_iteration() -> None:
    def once(told: list[Narration]) -> list[Narration]:
        return [it for it in in_emitted_order([(1, it) for it in told]) if isinstance(it, Narration)]

    told = once(said(["Find ", ADAM], ["Find ", ADAM], ["Find"], ["Merge"], ["Find"]))
    assert [it.narrative.text or it.narrative.label for it in told] == ["Find ", "It works.", "Find", "Merge", "Find"]
    assert [(it.step, it.steps) for it in told] == [(0, (1,)), (0, (1,)), (2, ()), (3, ()), (4, ())]
    newer = [replace(it, step=None) for it in said(["a"], ["a"], ["b"])]  # prose that no run has told yet
    assert [(it.narrative.text, it.steps) for it in once(newer)] == [("a", ()), ("b", ())]
    rarely = [replace(it, sometimes="said in 1 of 2 runs", step=7) for it in said(["a"])]
    assert len(once([*said(["a"]), *rarely])) == 2
    several = [replace(it, steps=(1,)) for it in said(["of several\nlines"])]
    assert len(flowing([*several, *(replace(it, step=2) for it in said(["b"]))])) == 2


def test_between_pieces_of_code_a_loop_is_told_iteration_by_iteration() -> None:
    code = CodeListing(())
    heading, body, newer = (said(*([text] for text in texts)) for texts in (("A", "B"), ("a", "b"), ("new",)))
    told: list[tuple[int | None, Block]] = [
        *((2, replace(it, step=step)) for it, step in zip(heading, (1, 3), strict=True)),
        *((3, replace(it, step=step)) for it, step in zip(body, (2, 4), strict=True)),
        (4, replace(newer[0], step=None)),
    ]
    texts = [it.narrative.text if isinstance(it, Narration) else None for it in in_emitted_order(told)]
    assert texts == ["A", "a", "B", "b", "new"]
    apart = [
        it.narrative.text if isinstance(it, Narration) else None
        for it in in_emitted_order([*told[:2], (None, code), *told[2:]])
    ]
    assert apart == ["A", "B", None, "a", "b", "new"]
    alike = [(line, replace(heading[0], step=step)) for line, step in ((2, 1), (2, 3), (3, 4))]
    assert [it.steps for it in in_emitted_order(alike) if isinstance(it, Narration)] == [(3,), ()], (
        "another line says it, too"
    )


def test_pieces_stand_as_they_are_given_and_links_apart() -> None:
    assert one(["one th", "at is ", "split"]).narrative.text == "one that is split"
    text = one(["See", ARTICLE, ARTICLE, ", (", ARTICLE, ")."]).narrative.text or ""
    assert to_html(text).replace(' rel="noreferrer"', "").count("</a>") == 3
    assert re.sub(r"\(<[^>]*>\)", "", text) == r"See [\[article\]] [\[article\]], ([\[article\]])."


def test_a_piece_that_looks_otherwise_than_its_line_is_emphasised() -> None:
    pieces = [("A digit", "fontWeight", "bold"), (" or ", "color", "red"), ("two ", "fontStyle", "italic")]
    line: list[Narrative | str] = [Text(text=t, flows=True, style=[(n, v)]) for t, n, v in pieces]
    assert one([*line, "cost."]).narrative.text == "**A digit** or *two* cost."
    (alike,) = flowing(said([line[1], line[1]]))
    assert isinstance(alike, Narration) and alike.narrative.style == [("color", "red")]


def test_lines_that_follow_one_another_are_one_passage_and_items_one_list() -> None:
    passage = one(["Of these:"], ["- a"], ["- b ", ADAM], ["1. c"], ["## Next"], ["d"])
    page = to_html(passage.narrative.text or "")
    assert page.count("<ul>") == 1 and page.count("<li>") == 3 and "<h2>Next" in page and "<p>d</p>" in page
    assert passage.step == 0 and passage.steps == (1, 2, 3, 4, 5) and passage.cited == (ADAM,)


@pytest.mark.parametrize(
    "apart",
    [
        Text(text="```\na\n```"),
        Text(text="of several\nlines", flows=True),
        Text(text="red", flows=True, style=[("color", "red")]),
        Note(text="n"),
        Image(url="a.png", flows=True),
    ],
)
def test_blocks_pictures_and_what_looks_otherwise_stand_apart(apart: Narrative) -> None:
    found = flowing(said(["a"], [apart], ["b"]))
    assert [it.narrative for it in found if isinstance(it, Narration)][1:2] == [apart]
    assert len(found) == 3 or (isinstance(apart, Text) and apart.text.startswith("of several"))


def test_what_begins_a_block_takes_nothing_with_it() -> None:
    assert len(flowing(said(["$$ x"], ["b"]))) == 2 and len(flowing(said(["~~~"], ["b"]))) == 2


def test_numbers_that_varied_stay_where_they_are() -> None:
    varied = Text(text="took 12 s", flows=True, varied=[Varied(["12", "13"], start=5, end=7)])
    passage = one(["Before "], ["It ", varied, " or 12"])
    (number,) = passage.narrative.varied or ()
    assert (passage.narrative.text or "")[number.start : number.end] == "12" and number.start == len(
        "Before \n\nIt took "
    )


def test_what_only_some_runs_said_and_what_is_told_in_our_own_words_stays_as_it_is() -> None:
    ours = Narration(Text(text="ours"), 1, 0)
    sometimes = Narration(Text(text="some", flows=True), 2, 1, sometimes="said in 1 of 2 runs")
    assert flowing([ours, sometimes, CodeListing(())]) == [ours, sometimes, CodeListing(())]


def test_images_of_one_line_stand_beside_each_other() -> None:
    picture = Image(url="a.png", title="a", flows=True)
    found = flowing(said([picture, picture], [picture]))
    assert [it.beside for it in found if isinstance(it, Narration)] == [True, True, False]
    page = as_html(found[0], lambda path: "figures/a.png")  # type: ignore[arg-type]
    assert 'class="piece beside"' in page and "figcaption" not in page


def test_a_link_to_a_function_leads_to_its_place() -> None:
    passage = one(["see ", CODE])
    assert list(targets([passage])) == ["bisect"]
    (placed,) = with_places([passage], {"bisect": "01-roots.html#bisect"})
    assert isinstance(placed, Narration)
    assert '<a href="01-roots.html#bisect" rel="noreferrer"><code>bisect</code></a>' in as_html(
        placed, lambda path: None
    )
    assert with_places([CodeListing(())], {}) == (CodeListing(()),)
    assert with_places([one(["[a][f:b]"])], {"c": "x.html"}) == (one(["[a][f:b]"]),)
    (elsewhere,) = flowing(said(["see ", CODE]))  # in a module beside the lecture, say
    assert isinstance(elsewhere, Narration) and elsewhere.narrative.text == "see `bisect`"


def test_what_a_link_says_on_hover_takes_no_time_to_read() -> None:
    many = dict.fromkeys(range(100), ADAM)
    (passage,) = flowing(said(["word " * 38, *many.values()]))
    assert reading_minutes([passage]) == 1, "38 words, and 100 of two"


def test_references_stand_at_the_end_once_with_their_abstract_folded() -> None:
    blocks = flowing(said(["a ", ADAM], ["b ", ADAM, ARTICLE]))
    assert cited(blocks) == (ADAM,) and cited(said(["a"])) == ()
    listed = Narration(References(cited=cited(blocks)), 9)
    page = as_html(listed, lambda path: None)
    assert (
        "<details><summary>Abstract</summary><p>It works.</p></details>" in page and "1 reference on this page" in page
    )
    assert "> It works." in as_markdown(listed, lambda path: None, lambda name, svg: name)


def test_what_helpers_tell_stands_where_they_are_called() -> None:
    node = ast.parse('text("a"), article("u"), text("b")').body[0]
    call = Call("article", 3, 7, 1, 1, "call-3", "Article", None, (Narration(ARTICLE, 5, 8),), 2)
    own = [Narration(Text(text=t, flows=True), n, 7) for n, t in enumerate("ab")]
    found = in_order(node, own, [call])
    assert [it.narrative for it in found] == [own[0].narrative, ARTICLE, own[1].narrative]
    assert (found[1].step, found[1].steps) == (7, (8,))


@pytest.mark.parametrize(
    ("style", "shown"),
    [
        ([("color", "red"), ("fontWeight", "bold")], " red bold"),
        ([("color", "Grey")], " soft"),
        ([("font-size", "24px"), ("textAlign", "center")], " large centred"),
        ([("fontSize", "0.7em")], " small"),
        ([("border", "1px solid"), ("color", "url(x)"), ("zIndex", "3")], " framed"),
    ],
)
def test_styles_are_those_of_the_page(style: list[tuple[str, str]], shown: str) -> None:
    assert classes(Text(text="a", style=style)) == shown

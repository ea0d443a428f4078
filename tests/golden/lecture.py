"""Every kind of block that a page can have: `test_golden.py` compares the pages of its trace."""

import torch

from trace_tools import ask, count, decide, explore, image, link, measure, note, plot, table, text


def main():
    """Every kind of block

    A page shows *prose* next to what each line **computed**.
    """
    telling()
    computing()
    failing()


def telling():
    """Prose, tables and figures"""
    text("A product of two $n \\times n$ matrices takes\n\n$$2n^3$$\n\nFLOPs; `count` says how many.")
    note("Ask before you show the answer.")
    table([["float32", 4], ["bfloat16", 2]], columns=["format", "bytes"], title="Bytes of a number")
    plot({"n³": [1, 8, 27], "n²": [1, 4, 9]}, title="Work grows faster than memory", x_label="n")
    image("square.svg", alt="A blue square")
    link("https://arxiv.org/abs/1706.03762", title="Attention Is All You Need", authors="Vaswani et al.", date="2017")
    n = 64
    hint, slips = "Two for each product.", {n**3: "An addition is a FLOP as well."}
    ask("How many FLOPs has a product with $n = 64$?", 2 * n**3, unit="FLOP", hint=hint, why="$2n^3$", slips=slips)
    explore(bytes_of, "It takes {memory}.", inputs={"n": (n, 1, 4096), "width": (4, 1, 8)}, units={"memory": "B"})
    why_twice()  # @deeper


def bytes_of(n, width):
    return {"memory": n * n * width}


def why_twice():
    """Why twice"""
    text("A multiplication and an addition for each of the $n^3$ products.")


def computing():
    """Values, times and claims"""
    torch.manual_seed(0)  # @hide
    x = torch.arange(4.0).view(2, 2)  # @inspect x, x.t()
    w = torch.randn(256, 256)  # @inspect w
    total = doubled(x.sum().item())  # @inspect total
    for i in range(3):
        total += i  # @inspect total
    y = 1  # @inspect y @clear total
    with torch.no_grad():
        y = w @ w  # @inspect y
    print("total:", total)
    assert y.shape == (256, 256)
    try:
        w @ x
    except RuntimeError as error:
        text(f"Caught: {error}.")
    work = count(lambda: w @ w)  # @inspect work.flops
    assert work.flops == 2 * 256**3
    seconds = measure(lambda: w @ w).seconds  # @inspect seconds [s]
    decide(seconds, above="More than a second.", below="Less than a second.", undecided="About a second.")
    for line in ("One line", "and another."):  # @animate
        text(line)


def failing():
    """A claim that does not hold"""
    total = 2 + 2
    assert total == 5, "a section ends where a claim fails"


def doubled(value):
    return 2 * value  # @inspect return


if __name__ == "__main__":
    main()

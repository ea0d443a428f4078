from execute_util import image, link, text
from lecture_util import article_link
from parallel_util import spawn
from references import another, counting, optimizer


def main():
    text("Last time: nothing"),
    byte_pairs()
    ranks()


def byte_pairs():
    text("## Pairs of bytes")
    text("- counts "), link(counting), article_link("https://example.org/pairs")
    text("- an optimizer "), link(optimizer), link(another)
    article_link("https://example.org/alone")
    for url in ("https://example.org/1", "https://example.org/2"):
        article_link(url)
    image("images/halving.svg", width=200)
    image(drawn("made.svg"), width=100)
    pairs = count_pairs(b"abab")  # @inspect pairs


def drawn(path: str) -> str:
    with open(path, "w") as file:
        file.write('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><rect width="9" height="9"/></svg>')
    return path


def count_pairs(data: bytes) -> dict[tuple[int, int], int]:
    pairs = {}
    for pair in zip(data, data[1:]):  # @inspect pair
        pairs[pair] = pairs.get(pair, 0) + 1  # @inspect pairs
    return pairs


def ranks():
    text("What each rank does:")
    spawn(of_rank, count=2)


def of_rank(rank: int, count: int):  # @inspect rank count
    share = 8 // count  # @inspect share
    print(f"rank {rank} has {share}", flush=True)


if __name__ == "__main__":
    main()

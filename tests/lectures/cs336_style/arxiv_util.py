from file_util import cached
from reference import Reference


def is_arxiv_link(url: str) -> bool:
    return url.startswith("https://arxiv.org/")


def arxiv_reference(url: str, **kwargs) -> Reference:
    with open(cached(url, "arxiv")) as file:
        return Reference(title=file.readline(), url=url, **kwargs)

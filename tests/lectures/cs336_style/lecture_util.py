from execute_util import link


def article_link(url: str):
    return link(title=" [article]", url=url)

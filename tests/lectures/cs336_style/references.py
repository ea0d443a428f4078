from arxiv_util import arxiv_reference
from reference import Reference, join

counting = Reference(
    title="On Counting", authors=["Cy Counter"], date="2001", url="https://example.org/counting", notes=join("long", "old")
)
optimizer = arxiv_reference("https://arxiv.org/abs/1412.6980", organization="A University")
another = arxiv_reference("https://arxiv.org/abs/2005.14165")

"""A script is divided into sections and prose by the cells that jupytext writes."""

from __future__ import annotations

from itertools import pairwise

from tests.cases_in_one import each
from trace_tools.source.statements import parse_source, sections, title_of

NOTEBOOK = '''\
# ---
# jupyter: {jupytext: {formats: "ipynb,py:percent"}}
# ---

# %% [markdown]
# # Attention
#
# From *scratch*, with `# %%` in it.

# %%
from __future__ import annotations
import math

# %% [markdown] tags=["intro"]
"""
## Scores

```python
# not a heading
```
"""

# %% tags=["a"]
# %%time
text = """
# %% no cell
"""

# %%
x = 1  # @inspect x
# %% [markdown]
# ### A detail
# %%
@staticmethod
def f(): pass
# %% [md]
# Prose of what follows.
# ## Rows
# %% {"tags": []}
y = 2; z = 3

# %% [markdown]
# That is all.
'''


@each(
    ("text", "expected"),
    [  # each section with the lines of its statements
        (NOTEBOOK, {"Attention": [12], "Scores": [25, 30, 35], "Rows": [40, 40]}),
        ('"""Talk\n====\n\nMore."""\nx = 1\n', {"Talk": [5]}),
        (f'"""Talk {"of words " * 11}."""\nx = 1\n', {"A file": [2]}),
        ("x = 1\n# a comment\ny = 2", {"A file": [1, 3]}),
        ("import a\n# %% One\nx = 1\n# %% One\ny = 1\n", {"A file": [1], "One": [3], "One 2": [5]}),
        ("# %%\nx = 1\n#%%\n\n# %%\ny = 1\n#  %%  \nz = 1\n", {"A file": [2], "Cell 2": [6], "Cell 3": [8]}),
        ("# %% [markdown]\n# Words\n# %% A\nx = 1\n# %%\ny = 1\n", {"A": [4, 6]}),
        ("# %% [markdown]\n# ## A\n# %% B\nx = 1\n", {"A": [4]}),
        ("# %% [markdown]\n# # A\n# %% [markdown]\n# # B\n# %% C\nif x:\n    # %% D\n    y\n", {"A": [], "B": [6]}),
        ("# %% [markdown]\n# Only words\n", {"A file": []}),
        ("# %% [markdown]\n# # A\n# # B\nx = 1\n# %% [markdown]\n", {"A": [4]}),
        ("# %%\n", {}),
        ("def main(): f()\ndef f(): pass\n# %% A\n# %% [markdown]\n# # B\n", {}),
    ],
)
def test_sections_of_a_script(text: str, expected: dict[str, list[int]]) -> None:
    source = parse_source(text, "a_file.py")
    bodies = [[node.lineno for node in cell.node.body] for cell in source.cells]  # type: ignore[attr-defined]
    names = sections(source) if source.cells else []
    assert dict(zip(names, bodies, strict=True)) == expected
    assert all(cell.end_line == following.line - 1 for cell, following in pairwise(source.cells))


def test_prose_of_a_script() -> None:
    source = parse_source(NOTEBOOK, "a_file.py")
    assert [one.text for one in source.prose] == [
        "From *scratch*, with `# %%` in it.",
        "```python\n# not a heading\n```",
        "### A detail",
        "Prose of what follows.\n## Rows",
        "That is all.",
    ]
    shown = [line for number, line in enumerate(NOTEBOOK.splitlines(), 1) if number not in source.aside]
    assert [line for line in shown if line] == [
        "from __future__ import annotations", "import math", "# %%time", 'text = """', "# %% no cell", '"""',
        "x = 1  # @inspect x", "@staticmethod", "def f(): pass", "y = 2; z = 3",
    ]  # fmt: skip
    assert title_of(source, "a_file.py") == "Attention"

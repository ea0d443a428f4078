from __future__ import annotations

from pathlib import Path

from trace_tools.serving.neighbours import Neighbours, neighbours
from trace_tools.statements import parse_source


def test_the_files_that_a_lecture_uses(tmp_path: Path) -> None:
    for name in ("shapes", "deeper", "unused", "loop", "broken"):
        (tmp_path / f"{name}.py").write_text({"shapes": "import deeper, os", "broken": "def"}.get(name, "import loop"))
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "part.py").write_text("")
    text = "import torch, broken\nfrom shapes import x\nimport package.part\nfrom trace_tools import image\n"
    text += "def main():\n    image('img/a.png', 'a')\n    image(x)\n    import lecture\n"
    found = neighbours(parse_source(text, "lecture.py"), tmp_path)
    names = ("broken.py", "deeper.py", "loop.py", "package/__init__.py", "package/part.py", "shapes.py")
    assert found == Neighbours(tuple(tmp_path / name for name in names), (tmp_path / "img/a.png",))

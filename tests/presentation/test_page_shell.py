from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import trace_tools
from tests.programs import require
from trace_tools.presentation.page_shell import environment


def test_templates_escape_text_and_reject_missing_variables(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("{{ text }} {{ text | inline }} {{ text | plain }} {{ 2 | plural('line') }}")
    template = environment(tmp_path).get_template("page.html")
    assert template.render(text="*a* <b>") == "*a* &lt;b&gt; <em>a</em> &lt;b&gt; a &lt;b&gt; 2 lines"
    with pytest.raises(UndefinedError):
        template.render()


def test_every_script_parses() -> None:
    (node,) = require("node")
    for script in Path(trace_tools.__file__).parent.rglob("*.js"):
        assert subprocess.run([node, "--check", script], capture_output=True, check=False).returncode == 0, script

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import trace_tools
from tests.programs import require
from trace_tools.presentation.page_shell import (
    HERE,
    allowed,
    assets,
    environment,
    section_script,
    source_hash,
)


def test_the_policy_allows_only_the_pages_style_and_script() -> None:
    css, js = "p { color: red }", "run()"
    for text in (css, js):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert source_hash(text) == f"sha256-{digest}" and f"'sha256-{digest}'" in allowed(css, js).policy
    assert allowed(css, js).policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in allowed(css, js).policy


def test_assets_are_selected() -> None:
    page, both = assets("page"), assets("page", "questions", "figures")
    assert page.css == (HERE / "static" / "page.css").read_text(encoding="utf-8")
    assert both.css.startswith(page.css) and both.js.startswith(page.js) and len(both.js) > len(page.js)


def test_script_files_contain_their_style() -> None:
    style = section_script().removeprefix("page.sectionStyle = ")
    assert ".panel {" in json.JSONDecoder().raw_decode(style)[0]


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

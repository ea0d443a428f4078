"""Evaluates JavaScript with node, or with the browser if node is not installed."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

from tests.pages.browsing import open_browser

PLAIN = "(key, it) => (typeof it === 'number' && !Number.isFinite(it) ? String(it) : it)"


def evaluated(script: str, given: object) -> Any:
    """Return the value of a JavaScript expression, which can use the variable `given`; all numbers become floats."""
    node = shutil.which("node")
    if node is None:
        browser = open_browser()
        try:
            text = browser.execute_script(
                f"const given = arguments[0]; return JSON.stringify({script}, {PLAIN});", given
            )
        finally:
            browser.quit()
        return json.loads(text, parse_int=float)
    program = "const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
    program += f"process.stdout.write(JSON.stringify({script}, {PLAIN}));"
    completed = subprocess.run(
        [node, "-e", program], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout, parse_int=float)

"""Evaluates JavaScript with node."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.programs import require

PLAIN = "(key, it) => (typeof it === 'number' && !Number.isFinite(it) ? String(it) : it)"


def evaluated(script: str, given: object) -> Any:
    """Return the value of a JavaScript expression, which can use the variable `given`; all numbers become floats."""
    program = "const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
    program += f"process.stdout.write(JSON.stringify({script}, {PLAIN}));"
    command = [*require("node"), "-e", program]
    completed = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout, parse_int=float)

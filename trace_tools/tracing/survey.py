"""A process before the passes: measures the machine, so that no pass has to, and none is warmer for it.

    python -m trace_tools.tracing.survey RUN/machine-1.json [cpu|cuda]

Writes the machine there, and beside it `versions.json`. Without such a device: one line, exit code 2.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trace_tools.errors import UsageError
from trace_tools.machines.machine import this_machine, to_json, versions


def main(path: Path, device: str | None) -> int:
    """Write what this machine is to `path`; return the exit code."""
    try:
        machine = this_machine(device)
    except UsageError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    path.write_text(to_json(machine), encoding="utf-8")
    path.with_name("versions.json").write_text(json.dumps(versions()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2] or None))

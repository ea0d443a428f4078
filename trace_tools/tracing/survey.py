"""A process before the passes: measures the machine, so that no pass has to, and none is warmer for it.

    python -m trace_tools.tracing.survey RUN/machine-1.json [cpu|cuda|cuda:N|…]

Writes the machine there, and beside it `versions.json` and by which identity the driver's tools know the GPU. Without
such a device, where a CPU's trace would be an accident, and on a full disk: one line, exit code 2.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from trace_tools import accelerators
from trace_tools.errors import UsageError
from trace_tools.files import replace
from trace_tools.machines import devices, host
from trace_tools.machines.machine import STORED, this_machine, to_json, versions


def main(path: Path, device: str | None) -> int:
    """Write what this machine is to `path`; return the exit code."""
    try:
        kind = None if device is None else devices.kind(device)
        machine = this_machine(kind if STORED in os.environ else devices.chosen(device))
        gpu = accelerators.in_use()
        replace(path, to_json(machine))
        replace(path.with_name("versions.json"), json.dumps(versions()))
        replace(path.with_name(host.IDENTITY_FILE), (gpu.properties().identity if gpu else None) or "")
    except UsageError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2] or None))

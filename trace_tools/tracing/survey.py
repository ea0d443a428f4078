"""A process before the passes: measures the machine, so that no pass has to, and none is warmer for it.

    python -m trace_tools.tracing.survey RUN/machine-1.json cpu|cuda|cuda:N|…|"" measure|recall|describe

Writes the machine there, and beside it `versions.json` and by which identity the driver's tools know the GPU.
`recall` measures only what is not known from earlier, `describe` measures nothing. Without such a device, where a CPU's
trace would be an accident, and on a full disk: one line, exit code 2.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace as with_fields
from pathlib import Path

from trace_tools import accelerators
from trace_tools.errors import UsageError
from trace_tools.files import replace
from trace_tools.machines import devices, host, surveys
from trace_tools.machines.machine import STORED, this_machine, to_json, versions

MEASURE, RECALL, DESCRIBE = "measure", "recall", "describe"


def main(out: str, device: str, how: str) -> int:
    """Write what this machine is to a file; return the exit code."""
    path = Path(out)
    try:
        kind = devices.kind(device) if device else None
        chosen = kind if STORED in os.environ else devices.chosen(device or None)
        found = versions()
        machine = this_machine(chosen, measure=False)
        if STORED not in os.environ:
            known = surveys.recalled(machine, found) if how != MEASURE else None
            if known is not None:
                machine = with_fields(machine, peaks=[*machine.peaks, *known])
            elif how != DESCRIBE:
                machine = this_machine(chosen)
        gpu = accelerators.in_use()
        replace(path, to_json(machine))
        replace(path.with_name("versions.json"), json.dumps(found))
        replace(path.with_name(host.IDENTITY_FILE), (gpu.properties().identity if gpu else None) or "")
    except UsageError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

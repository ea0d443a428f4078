"""Measure the machine in a process before the passes, so that no pass measures or starts with warm caches.

    python -m trace_tools.tracing.survey RUN/machine.json cpu|cuda|cuda:N|"" measure|describe

Writes the machine to that file, and next to it `versions.json` and the GPU's identity for the driver's tools. Prints
one line and returns 2 if the device is missing, if torch can't use a GPU that is present (a CPU trace would be an
accident), or if the disk is full.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from trace_tools.errors import UsageError
from trace_tools.machines import accelerators, devices, host
from trace_tools.machines.machine import STORED, this_machine, to_json, under_load, versions
from trace_tools.util.files import replace_file


def main(out: str, device: str, how: str) -> int:
    """Write the description of this machine to a file; return the exit code."""
    path = Path(out)
    try:
        kind = devices.kind(device) if device else None
        chosen = kind if STORED in os.environ else devices.chosen(device or None)
        began = host.cpu_time()
        machine = this_machine(chosen, measure=how == "measure")
        if STORED not in os.environ and how == "measure":
            machine = under_load(machine, host.other_cores(began, host.cpu_time()))
        gpu = accelerators.in_use()
        replace_file(path, to_json(machine))
        replace_file(path.with_name("versions.json"), json.dumps(versions()))
        replace_file(path.with_name(host.IDENTITY_FILE), (gpu.properties().identity if gpu else None) or "")
    except UsageError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

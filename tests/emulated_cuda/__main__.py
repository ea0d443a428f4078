"""Run a command on the emulated device.

python -m tests.emulated_cuda [--cards CARD,…] [--faults FAULT,…] COMMAND …
"""

from __future__ import annotations

import os
import sys

from tests.emulated_cuda.build import CannotBuild, environment, library

USAGE = "usage: python -m tests.emulated_cuda [--cards CARD,…] [--faults FAULT,…] COMMAND …"


def main(arguments: list[str]) -> int:
    """Build the device if necessary, and replace this process by the command. Without a command, only build."""
    options = {"--cards": os.environ.get("EMULATED_CUDA", "emulated"), "--faults": ""}
    while arguments and arguments[0] in options and len(arguments) > 1:
        options[arguments[0]], arguments = arguments[1], arguments[2:]
    if arguments and arguments[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        if not arguments:
            print(library())
            return 0
        variables = environment(options["--cards"], faults=options["--faults"])
        os.execvpe(arguments[0], arguments, variables)
    except CannotBuild as error:
        print(f"emulated CUDA: {error}", file=sys.stderr)
    except OSError as error:
        print(f"{arguments[0]}: {error.strerror}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Run a command on the emulated device.

python -m tests.emulated_cuda [--cards CARD,…] COMMAND …
"""

from __future__ import annotations

import os
import sys

from tests.emulated_cuda.build import CannotBuild, environment, library


def main(arguments: list[str]) -> int:
    """Build the device if necessary, and replace this process by the command. Without a command, only build."""
    cards = os.environ.get("EMULATED_CUDA", "emulated")
    if arguments[:1] == ["--cards"]:
        cards, *arguments = arguments[1:]
    try:
        if not arguments:
            print(library())
            return 0
        os.execvpe(arguments[0], arguments, environment(cards))
    except CannotBuild as error:
        print(f"emulated CUDA: {error}", file=sys.stderr)
    except OSError as error:
        print(f"{arguments[0]}: {error.strerror}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

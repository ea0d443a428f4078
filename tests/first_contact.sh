#!/usr/bin/env bash
# What to run first on a new card: about ten minutes, after three to six for .venv where there is none.
#
#   tests/first_contact.sh                          then send first-contact.tgz home, whatever it says
#   PYTHON=python3 VENV=none tests/first_contact.sh with a Python that has torch; installs nothing
#
# Each step says ok, or SURPRISE with what was expected and what was found; tests/first_contact.py has them.
# Exit codes: 0 no surprise; 1 surprises; 2 no GPU, or bad usage; 128 + n interrupted by signal n.
set -euo pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for python in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        PYTHONSAFEPATH= PYTHON=$python exec "$python" -m tests.first_contact --here "$here" "$@"
    fi
done
echo "${PYTHON:-python3} is not Python 3.11 or newer; set PYTHON=" >&2
exit 2

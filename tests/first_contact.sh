#!/usr/bin/env bash
# Checks a new card in about ten minutes; the first run takes three to six minutes more to make .venv.
#
#   tests/first_contact.sh                          then send first-contact.tgz, even without surprises
#   PYTHON=python3 VENV=none tests/first_contact.sh with a Python that has torch; installs nothing
#
# Each step prints ok, or SURPRISE with the expected and the actual result; the steps are in tests/first_contact.py.
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

#!/bin/sh
# Makes a virtual environment with what the project needs: `sh trace_tools/machines/venv.sh VENV PYTHON`. make runs it; it needs no make.
#
# A Python that already has torch lends it to the environment. Otherwise torch's build is the one for the GPU's driver
# and its compute capability, which old drivers don't report, or the CPU's. A second choice is for a package index that
# has no builds by name.
set -eu
venv=$1 run=$1/bin/python builds=trace_tools/machines/torch_build.py
shift # what is left is Python's command

"$@" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
rm -rf "$venv"
if "$@" -c "import torch" 2>/dev/null; then
    "$@" -m venv --system-site-packages "$venv"
else
    "$@" -m venv "$venv"
fi

driver_says() {
    set -- nvidia-smi --format=csv,noheader --query-gpu="$1"
    if command -v timeout >/dev/null; then timeout 20 "$@"; else "$@"; fi
}
if ! "$run" -c "import torch" 2>/dev/null; then
    { driver_says driver_version,compute_cap || driver_says driver_version; } 2>/dev/null \
        | "$run" -I "$builds" >"$venv/torch.txt"
    # Each line holds several arguments of pip's.
    "$run" -m pip install -q $(sed -n 1p "$venv/torch.txt") 2>/dev/null \
        || "$run" -m pip install -q $(tail -n 1 "$venv/torch.txt")
fi

# The dependencies in pyproject.toml, except torch.
"$run" -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
extras = project["optional-dependencies"].values()
lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
print(*(line for line in lines if not line.startswith("torch>")), sep="\n")
' >"$venv/requirements.txt"
"$run" -m pip install -q -r "$venv/requirements.txt"
touch "$venv/.ready"

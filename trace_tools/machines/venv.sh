#!/bin/sh
# Make a virtual environment that can trace and render: `sh trace_tools/machines/venv.sh VENV PYTHON`. make runs it.
#
# A Python that already has torch lends it to the environment. Without a GPU torch comes from PyTorch's index of CPU
# builds, because the package index has builds for CUDA, which are ten times larger.
set -eu
venv=$1 run=$1/bin/python cpu_builds=https://download.pytorch.org/whl/cpu
shift # what is left is Python's command

has_nvidia_gpu() {
    # A container may lack nvidia-smi, and shows the computer's driver in /proc whether or not it may use a GPU.
    nvidia-smi -L 2>/dev/null | grep -q "^GPU" || { [ -e /proc/driver/nvidia/version ] && ls /dev/nvidia[0-9]*; }
} >/dev/null 2>&1

"$@" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
if ! "$run" -c "" 2>/dev/null; then
    if "$@" -c "import torch" 2>/dev/null; then shared=--system-site-packages; else shared=; fi
    "$@" -m venv --clear $shared "$venv"
fi
if "$run" -c "import torch" 2>/dev/null; then
    :
elif has_nvidia_gpu; then
    echo "An NVIDIA GPU: pip downloads torch with CUDA (gigabytes)."
else
    if [ -e /dev/kfd ]; then
        echo "An AMD GPU needs PyTorch's ROCm build (https://pytorch.org/get-started/locally); install it into $venv."
    fi
    echo "No NVIDIA GPU: pip downloads torch for the CPU (about 200 MB)."
    # One try, at this index alone, because not everybody can reach it; the dependencies come from the package index.
    PIP_EXTRA_INDEX_URL="$cpu_builds" "$run" -m pip install -q --no-deps --retries 0 --timeout 10 \
        --index-url "$cpu_builds" "torch>=2.6" \
        || echo "$cpu_builds has no torch for this machine: pip takes the package index's, with CUDA (gigabytes)."
fi
echo "pip downloads what tracing and rendering need (about 60 MB)."
"$run" -m pip install -q -e ".[lecture]"

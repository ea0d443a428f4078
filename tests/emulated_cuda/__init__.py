"""An emulated CUDA device: a CPU build of torch gets an asynchronous device `cuda`, for tests and for nothing else.

    python -m tests.emulated_cuda python lecture.py                             on one card with 3.5 GB
    python -m tests.emulated_cuda --cards h100,h100 python -c "import torch; print(torch.cuda.device_count())"

Kernels are the CPU's, queued on one worker thread per stream and run later; memory comes from a caching allocator
like CUDA's. Its times measure nothing. What runs on it is what would go wrong on a real card: a missing
synchronisation, an allocator's figure read too early, an error that comes late, a card that is full.

    build.py       builds the library, once per torch, compiler and source; gives the environment of a process on it
    start/         on PYTHONPATH: makes `import torch` load the library first, and `torch_side.py` after
    torch_side.py  `torch.cuda` on top of the library
    profiles.py    the cards; nvidia_smi.py answers for them
    battery.py     what must work on it: run after each build, and by the tests
    emulate.py     `make emulate`; covered.py, which lines that are for a GPU it did not run
    claims.py      both sides of the lecture's claims on a card, without the arithmetic of large kernels
    streams.h ← memory.h ← device.h ← operators.h ← kernels.h ← emulated_cuda.cpp    the library

Not emulated: tensor cores, cuDNN, fused attention (it runs in steps), copy engines that are faster than kernels,
kernels of foreach optimisers (one launch per tensor here), a second stream in a captured graph, random operators that a
graph replays with a new seed, IPC, the profiler (CUPTI), NCCL, torch.compile and Triton.

| variable | meaning |
|---|---|
| EMULATED_CUDA | cards of `profiles.py`, one per device: `h100`, `t4,t4` |
| EMULATED_CUDA_DELAY_US, _JITTER_US, _SEED | each kernel starts so much later; so much at most, drawn from the seed |
| EMULATED_CUDA_AUTOGRAD_US | autograd's device thread frees each block so much later |
| EMULATED_CUDA_BATCH | 1: what is queued reaches the device when someone waits or queries, as under Windows' driver |
| EMULATED_CUDA_WAIT_US | how long a wait for a device takes that has nothing to do |
| EMULATED_CUDA_FAULTS | `[ROLE/]KIND[:N]`, …, see below |
| EMULATED_CUDA_COUNTS | a folder: each process writes there how its operators ran, when it ends |
| EMULATED_CUDA_SMI | `fail`, `hang`: what nvidia-smi does |
| EMULATED_CUDA_WORKSPACE | bytes of cuBLAS's workspace, instead of the card's own |
| EMULATED_CUDA_TRANSIENT_WORKSPACE | 1: each product allocates its workspace and frees it, as torch 2.15 does |
| EMULATED_CUDA_COMPUTED | kernels whose tensors have more bytes than this are launched and not computed |
| EMULATED_CUDA_QUEUE, _RUBBISH | launches that may wait; see `kernels.h` |
| EMULATED_CUDA_VERSION | `torch.version.cuda`, which is the CPU build's None otherwise |
| EMULATED_CUDA_LOG | 1: names what runs in step on standard error |

Kinds of faults: `launch:N` and `assert:N` fail at a wait after the N-th launch, and then for ever, in every call of the
driver, also in those that ask whether a graph is captured or give memory back; `oom:N` fails the
N-th allocation; `no-kernel-image` each launch; with `unavailable` there is no device. ROLE is one of the tracer's
processes, `survey`, `pass-1`, `metering`, `shaken`: each counts its own launches and allocations.
"""

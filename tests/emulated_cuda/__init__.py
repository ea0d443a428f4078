"""An emulated CUDA device for tests: it gives a CPU build of torch an asynchronous device `cuda`.

    python -m tests.emulated_cuda python lecture.py                             on one card with 3.5 GB
    python -m tests.emulated_cuda --cards h100,h100 python -c "import torch; print(torch.cuda.device_count())"

Kernels are the CPU's. They are queued on one worker thread per stream and run later. Memory comes from a caching
allocator like CUDA's. The device's times measure nothing. Mistakes that a real card would show also appear here: a
missing synchronisation, an allocator's figure read too early, an error that comes late, a card that is full.

    build.py       builds the library once per torch, compiler and source; makes the environment of its processes
    start/         on PYTHONPATH: makes `import torch` load the library before, and `torch_side.py` after torch
    torch_side.py  `torch.cuda` on top of the library
    profiles.py    the cards; nvidia_smi.py answers for them
    battery.py     programs that must work on the device, run after each build
    emulate.py     `make emulate`
    claims.py      the lecture's claims on a card, without the arithmetic of large kernels
    streams.h ← memory.h ← device.h ← operators.h ← kernels.h ← emulated_cuda.cpp    the library

Not emulated: tensor cores, cuDNN, formats with channels last, fused attention (it runs in steps), copy engines that are
faster than kernels, kernels of foreach optimisers (one launch per tensor here), a second stream in a captured graph,
random operators that a graph replays with a new seed, the allocator's statistics and snapshots, torch's mode that
reports waits, IPC, the profiler (CUPTI), NCCL, torch.compile and Triton.

| variable | meaning |
|---|---|
| EMULATED_CUDA | cards of `profiles.py`, one per device: `h100`, `t4,t4` |
| EMULATED_CUDA_DELAY_US | delay of each kernel |
| EMULATED_CUDA_BATCH | 1: queued work reaches the device only at a wait or a query, as with Windows' driver |
| EMULATED_CUDA_WAIT_US | duration of a wait for an idle device |
| EMULATED_CUDA_FAULTS | `[ROLE/]KIND[:N]`, …, see below |
| EMULATED_CUDA_COUNTS | a folder: when a process ends, it writes there how its operators ran |
| EMULATED_CUDA_COMPUTED | kernels whose tensors have more bytes are launched but not computed |

Kinds of faults: `assert:N` fails at a wait after the N-th launch, and then in every call of the driver, including calls
that ask whether a graph is captured or that free memory. `oom:N` fails the N-th allocation, `no-kernel-image` each
launch, and `unavailable` hides the device. ROLE is a process of the tracer: `survey` or `pass-1`. Each process counts
its own launches and allocations.
"""

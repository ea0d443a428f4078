"""A training script that reads its settings from its globals; what it sets in Python and torch holds in one run only."""
# needs torch
import gc, logging, sys, threading

import torch

steps = 3
name = "a run"
config_keys = [k for k, v in globals().items() if not k.startswith("_") and isinstance(v, (int, float, bool, str))]
exec("steps = 4\nglobals()['name'] = 'another run'")
print({k: globals()[k] for k in config_keys})

log = logging.getLogger("app")
log.addHandler(logging.StreamHandler(sys.stdout))
log.warning("once")
print(gc.isenabled(), gc.get_threshold(), sys.excepthook is sys.__excepthook__, log.isEnabledFor(logging.DEBUG))
print(torch.get_default_dtype(), threading.excepthook is threading.__excepthook__)
gc.disable()
gc.set_threshold(9, 5, 5)
sys.excepthook = sys.unraisablehook = threading.excepthook = print
log.setLevel(logging.DEBUG)
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
torch.manual_seed(1337)
weight = torch.zeros(3, requires_grad=True)
step = 0
while True:
    loss = (torch.rand(3) - weight).square().sum()  # @inspect loss
    loss.backward()
    print(f"{step}: {loss.item():.4f} {torch.get_num_threads()}")
    step += 1
    if step == steps:
        break

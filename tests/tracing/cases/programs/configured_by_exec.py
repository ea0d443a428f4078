# needs torch
"""A training script without functions that reads its settings from its globals and lets a file change them"""

import torch

# -----------------------------------------------------------------------------
steps = 3
learning_rate = 0.1
name = "a run"
config_keys = [k for k, v in globals().items() if not k.startswith("_") and isinstance(v, (int, float, bool, str))]
exec("steps = 4\nglobals()['name'] = 'another run'")
config = {k: globals()[k] for k in config_keys}
# -----------------------------------------------------------------------------
print(config)

torch.manual_seed(0)
x = torch.randn(16, 3)
weight = torch.zeros(3, requires_grad=True)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


def estimate():
    with torch.no_grad():
        return (x @ weight - x.sum(1)).square().mean().item()


step = 0
while True:
    loss = Square.apply(x @ weight - x.sum(1)).mean()  # @inspect loss
    loss.backward()
    with torch.no_grad():
        weight -= learning_rate * weight.grad
        weight.grad = None
    print(f"{step}: {loss.item():.4f} {estimate():.4f}")
    step += 1
    if step == steps:
        break

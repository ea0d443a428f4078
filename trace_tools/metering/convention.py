"""Define the FLOPs per element of the functions that formulas use; `flops` states the whole convention.

SIGMOID  # 11: −x, exp, +, ÷
"""

from __future__ import annotations

TRANSCENDENTAL = 8  # exp, log, sin, erf …
POWER = 2 * TRANSCENDENTAL + 1  # xʸ as exp(y · log x)
TANH = 12  # (e²ˣ − 1) / (e²ˣ + 1): 2x, exp, −, +, ÷
SIGMOID = 11  # 1 / (1 + e⁻ˣ): −x, exp, +, ÷
GELU = 4 + TRANSCENDENTAL  # ½ · x · (1 + erf(x · √½))
SOFTMAX = 4 + TRANSCENDENTAL  # max, −, exp, Σ, ÷
NORM = 5  # mean, −, ², Σ, · 1/σ; a weight and a bias add one each

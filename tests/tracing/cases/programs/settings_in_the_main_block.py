# needs torch
"""The `__main__` block seeds, sets defaults of torch and chooses arguments: main is traced where it is called."""

import argparse
import sys

import torch


def main(steps):
    for step in range(steps):
        draw(step)
    return 0


def draw(step):
    """Draw"""
    print(step, torch.get_num_threads(), torch.get_default_dtype(), round(torch.rand(1).item(), 4))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2)
    torch.manual_seed(1337)
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    sys.exit(main(parser.parse_args().steps))

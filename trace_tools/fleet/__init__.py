"""One lecture on many machines: sent there, traced there, brought home."""

"""Trace one lecture on many machines: send it there, run it, and fetch the trace."""

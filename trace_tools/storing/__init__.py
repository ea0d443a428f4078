"""Traces of many runs, kept by lecture, commit and machine, and what a statement took over time."""

"""Isolate the runs of a lecture in one process from each other."""

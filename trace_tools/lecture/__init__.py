"""Provide the calls for authors of lectures, drawings, and the run without a tracer."""

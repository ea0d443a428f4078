"""The calls for authors of lectures: the vocabulary, drawings, and the run without a tracer."""

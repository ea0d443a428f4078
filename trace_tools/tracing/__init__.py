"""A lecture → a trace: probes, processes, journals, and what they say together."""

"""Derive rates, floors, distances from the roofline and one-line summaries from measured numbers."""

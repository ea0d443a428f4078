"""Derive rates, floors and one-line summaries from measured numbers."""

"""Serve the pages of a lecture while it is written, and update them at each save."""

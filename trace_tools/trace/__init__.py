"""Define a trace: its model, its file, its call tree, and traces of several ranks."""

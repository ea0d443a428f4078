"""Define a trace: its model, its file and its call tree."""

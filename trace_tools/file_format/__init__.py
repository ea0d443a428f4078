"""The trace file: plain data, its validation, and the YAML that holds it."""

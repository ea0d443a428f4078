"""Judge how matched executions differ, and how certain that is."""

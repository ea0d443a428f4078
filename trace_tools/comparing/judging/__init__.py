"""What is not the same about two executions that were matched, and how sure that is."""

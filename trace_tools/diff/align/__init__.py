"""Match the functions, statements, calls and steps of two traces."""

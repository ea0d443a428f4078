"""Compare two traces as a `Difference`, or many as a comparison, and report both."""

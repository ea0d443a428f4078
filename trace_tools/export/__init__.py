"""Export a trace as one HTML file."""

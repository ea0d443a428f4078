"""Export a trace as one HTML file, as PDF, or for Perfetto."""

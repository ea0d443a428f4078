"""Run edtrace's lectures, and read and write its traces."""

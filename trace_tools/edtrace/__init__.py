"""Record lectures that were written for edtrace and CS336."""

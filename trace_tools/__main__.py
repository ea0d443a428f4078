"""`python -m trace_tools`."""

from trace_tools.cli import main

main(prog_name="python -m trace_tools")

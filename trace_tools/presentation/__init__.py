"""The parts that pages and reports share: prose, formulas, highlighting, charts, and the shell of a page."""

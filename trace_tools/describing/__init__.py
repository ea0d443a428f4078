"""Convert objects to plain data without changing anything in the lecture."""

"""Objects → plain data, without changing anything in the lecture."""

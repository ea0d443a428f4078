"""Two versions of a lecture, run in turn on this machine until they can be told apart: the command `bench`."""

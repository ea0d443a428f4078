"""Time two versions of a lecture in turn on this machine: the command `bench`."""

"""Files, git, number formats and other helpers that do not know about lectures or traces."""

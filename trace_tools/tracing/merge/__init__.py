"""Merge the journals of a run into its trace."""

"""Describe machines and the highest rates that they can reach."""

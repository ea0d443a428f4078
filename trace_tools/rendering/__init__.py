"""Traces → pages: one document model, two writers."""

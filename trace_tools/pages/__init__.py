"""Make Markdown and HTML pages from traces: one document, two writers."""

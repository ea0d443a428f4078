"""A `Difference` or a `Comparison` → reports: on a terminal, as Markdown, HTML, JSON, CSV."""

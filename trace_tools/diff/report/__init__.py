"""Write a `Difference` or a `Comparison` as a report: on a terminal, as Markdown, HTML, JSON or CSV."""

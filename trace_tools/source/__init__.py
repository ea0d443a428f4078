"""Read the text of a lecture without running it: statements, directives, layout, mistakes."""

"""Build the document that the page writers read, from a trace and the text of its lecture."""

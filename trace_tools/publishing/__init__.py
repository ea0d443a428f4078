"""Several traces → one site: pages of each (`rendering`), with the others beside them (`comparing`)."""

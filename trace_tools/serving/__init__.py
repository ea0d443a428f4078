"""While the lecture is written: its pages in a browser, made again at each save."""

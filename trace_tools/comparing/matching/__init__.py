"""Which function, statement, call and step of one trace is which of another."""

"""Other tools' formats: what they wrote becomes ours, and ours theirs."""

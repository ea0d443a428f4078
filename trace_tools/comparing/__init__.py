"""Two traces → their Difference → reports: `load` and `compare` make it, `terminal` and `plain_difference` write it."""

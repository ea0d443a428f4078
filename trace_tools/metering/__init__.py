"""What operators do: FLOPs, bytes moved, bytes alive; `measure` and `count` for the lecture."""

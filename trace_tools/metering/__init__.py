"""Count the work of operators (FLOPs, bytes moved, live bytes), and provide `measure` and `count` for lectures."""

"""Convert notebooks and scripts in cells to lectures, and lectures to notebooks."""

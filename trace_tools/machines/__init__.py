"""What a machine is, and the rates it can't exceed."""

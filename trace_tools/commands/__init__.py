"""Define the commands, one file each; only these modules print or exit."""

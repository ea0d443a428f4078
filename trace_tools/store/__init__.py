"""Keep traces of many runs by lecture, commit and machine, and follow times through them."""

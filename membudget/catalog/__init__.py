"""Data with a source per number: what torch sees on each GPU."""

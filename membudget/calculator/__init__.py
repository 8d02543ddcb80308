"""Configuration -> Timeline: everything a training step allocates, without torch."""

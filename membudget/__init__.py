"""membudget: know before the launch whether a training step fits on the GPU."""

__version__ = "0.1.0"

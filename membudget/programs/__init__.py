"""Losses and methods as short programs over an operator namespace.

A program is written once and run twice: on membudget.losses.torch_ops it is the real thing, on
membudget.sized.namespace it yields the sequence of allocations and frees. It imports neither.
"""

"""The sized engine: tensors with a shape, a dtype and a storage, but no data; autograd on top; no torch.

A program of `membudget.programs` that runs on `membudget.sized.namespace.SizedOps` leaves behind, in a
Recorder, the sequence of allocations and frees that PyTorch's allocator would see.
"""

"""The real code on fake tensors at full size, without a GPU: storages that are born and die become a Timeline."""

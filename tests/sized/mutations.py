"""Rules of the engine, each broken by one edit of its source. What the edits break is what the agreement proves."""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """One edit of one file of membudget/sized."""

    rule: str
    """What holds in the engine, and does not in the mutant."""
    file: str
    old: str
    """Occurs exactly once in the file."""
    new: str


ENGINE = [
    Mutation(
        "ready nodes run by highest sequence number",
        "backward.py",
        "else -target.sequence",
        "else target.sequence",
    ),
    Mutation(
        "leaves take their gradient at once",
        "backward.py",
        '_FIRST = float("-inf")',
        '_FIRST = float("inf")',
    ),
    Mutation(
        "gradients are added in place when nobody else sees the first",
        "backward.py",
        "if old.holders == 1 and old.storage.tensors == 1:",
        "if False:",
    ),
    Mutation(
        "a gradient that somebody else sees is not added to",
        "backward.py",
        "if old.holders == 1 and old.storage.tensors == 1:",
        "if True:",
    ),
    Mutation(
        "an expanded gradient is not added to",
        "backward.py",
        "if old.holders == 1 and old.storage.tensors == 1:",
        "if old.holders == 1:",
    ),
    Mutation(
        "a leaf steals a gradient that is alone",
        "backward.py",
        "elif leaf.grad is None and alone and same_layout(gradient, leaf):",
        "elif False:",
    ),
    Mutation(
        "a leaf copies a gradient that is not alone",
        "backward.py",
        "elif leaf.grad is None and alone and same_layout(gradient, leaf):",
        "elif leaf.grad is None and same_layout(gradient, leaf):",
    ),
    Mutation(
        "a leaf copies a gradient of another layout",
        "backward.py",
        "elif leaf.grad is None and alone and same_layout(gradient, leaf):",
        "elif leaf.grad is None and alone:",
    ),
    Mutation(
        "a gradient that exists is added to in place",
        "backward.py",
        "        elif leaf.grad is None:\n            leaf.grad = self.session.new",
        "        else:\n            leaf.grad = self.session.new",
    ),
    Mutation(
        "incoming gradients are freed before outputs are passed on",
        "backward.py",
        "        del incoming\n",
        "",
    ),
    Mutation(
        "what a node saved is freed when the node has run",
        "backward.py",
        "            node.release()",
        "            pass",
    ),
    Mutation(
        "saved tensors outlive the computation of the gradients",
        "backward.py",
        "        saved = node.unpack()\n",
        "        saved = node.unpack()\n        node.release()\n",
    ),
    Mutation(
        "the backward pass begins with a tensor of ones",
        "backward.py",
        'seed = session.new("gradient seed", loss.shape, loss.dtype, like=loss)',
        'seed = session.external("gradient seed", loss.shape, loss.dtype)',
    ),
    Mutation(
        "a gradient that was added to another is freed when all have arrived",
        "backward.py",
        "if edge is not None and self._pass_on(outputs[index], edge):",
        "if edge is not None and (self._pass_on(outputs[index], edge) or True):",
    ),
    Mutation(
        "a view keeps its base",
        "session.py",
        "strides=strides, base=base, on_host=of.on_host",
        "strides=strides, on_host=of.on_host",
    ),
    Mutation(
        "numbers bypass saved-tensor hooks",
        "session.py",
        "if self.hooks and not tensor.wrapped_number else None",
        "if self.hooks else None",
    ),
    Mutation(
        "a product saves a side only if the other needs a gradient",
        "session.py",
        "self.save(node, *([b] if a.requires_grad else []), *([a] if b.requires_grad else []))",
        "self.save(node, b, a)",
    ),
    Mutation(
        "where host and device are one, copies on the host count",
        "session.py",
        'if on_host and self.device != "cpu":',
        "if on_host:",
    ),
    Mutation(
        "dimensions of size 1 do not decide a layout",
        "tensor.py",
        "all(size == 1 or a == b for",
        "all(a == b for",
    ),
    Mutation(
        "a custom Function runs without a graph",
        "function.py",
        "with session.grad_mode(False):",
        "with session.grad_mode(True):",
    ),
]
"""The order of a backward pass, who owns a gradient, and who keeps what alive."""

CHECKPOINTS = [
    Mutation(
        "a checkpoint holds nothing but its arguments",
        "checkpoint.py",
        "with session.saving_with(_Frame(session, fn, args)):",
        "with session.grad_mode(True):",
    ),
    Mutation(
        "recomputation stops at the last tensor that is asked for",
        "checkpoint.py",
        "            raise _Stop\n",
        "            pass\n",
    ),
    Mutation(
        "a recomputed tensor dies when it has been unpacked",
        "checkpoint.py",
        "self.recomputed.pop(packed)",
        "self.recomputed[packed]",
    ),
    Mutation(
        "arguments pass through the hooks outside",
        "checkpoint.py",
        "outer = session.hooks[-1] if session.hooks else None",
        "outer = None",
    ),
]
"""Recomputation."""

CASTS = [
    Mutation(
        "a gradient is reduced to the shape of its input",
        "casts.py",
        "if gradient.shape != meta.shape:",
        "if False:",
    ),
    Mutation(
        "a gradient is cast to the dtype of its input",
        "casts.py",
        "if gradient.dtype != meta.dtype:",
        "if False:",
    ),
    Mutation(
        "a gradient that was summed dies before the sum is cast",
        "backward.py",
        "        for match in (match_shape, match_dtype):\n",
        "        before = outputs[index]\n        for match in (match_shape, match_dtype):\n",
    ),
    Mutation(
        "a cast saves nothing",
        "casts.py",
        '    node = session.node("to", (x,), _to_backward)\n',
        '    node = session.node("to", (x,), _to_backward)\n    if node is not None:\n        session.save(node, x)\n',
    ),
    Mutation(
        "a tensor that has the dtype already is not copied",
        "casts.py",
        "    if x.dtype == dtype:\n        return x\n",
        "",
    ),
    Mutation(
        "a CPU casts mixed inputs of an elementwise operator first",
        "casts.py",
        'if session.device == "cpu":',
        "if False:",
    ),
    Mutation(
        "such casts live until the output exists",
        "casts.py",
        "    shape = _broadcast(inputs)\n    output",
        "    shape = _broadcast(inputs)\n    casts.clear()\n    output",
    ),
    Mutation(
        "a tensor without dimensions does not raise the dtype",
        "casts.py",
        "with_dims = [t.dtype for t in inputs if t.shape]",
        "with_dims = [t.dtype for t in inputs]",
    ),
    Mutation(
        "the result of a transposed tensor is transposed",
        "casts.py",
        "strides=_dense_strides(inputs, shape)",
        "strides=None",
    ),
]
"""Copies nobody wrote down."""

DEVICES = [
    Mutation(
        "a GPU hands out blocks of 512 bytes",
        "session.py",
        'if self.device == "cuda":\n            nbytes = block_bytes(nbytes)',
        "if False:\n            nbytes = block_bytes(nbytes)",
    ),
    Mutation(
        "the host's memory is none of the GPU's",
        "session.py",
        'if on_host and self.device != "cpu":',
        "if False:",
    ),
    Mutation(
        "a GPU converts mixed inputs as it loads them",
        "casts.py",
        'if session.device == "cpu":',
        "if True:",
    ),
    Mutation(
        "a Python number takes none of the GPU's memory",
        "elementwise.py",
        'if session.device == "cpu":\n        tensor = session.new("number"',
        'if True:\n        tensor = session.new("number"',
    ),
    Mutation(
        "a GPU scales in place by a factor of another dtype without a copy",
        "elementwise.py",
        'if session.device == "cpu" and factor.dtype != buffer.dtype:',
        "if factor.dtype != buffer.dtype:",
    ),
    Mutation(
        "a GPU gathers half precision as it is",
        "indexing.py",
        'if session.device == "cpu" and output.dtype in ("bf16", "fp16"):',
        'if output.dtype in ("bf16", "fp16"):',
    ),
    Mutation(
        "a gradient comes back from the host into memory of its own",
        "indexing.py",
        'if session.device == "cpu":\n        return (grad,)',
        "if True:\n        return (grad,)",
    ),
    Mutation(
        "the loss comes back from the host into memory of its own",
        "indexing.py",
        'if session.device == "cpu":\n        return x',
        "if True:\n        return x",
    ),
    Mutation(
        "a GPU takes a softmax from fp16 to fp32 without a copy",
        "reductions.py",
        'fused = session.device == "cuda" and',
        "fused = False and",
    ),
]
"""Rules of a GPU: judged by what is derived from the CPU's timeline, since no GPU judges here."""

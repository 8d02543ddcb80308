"""Rules of single operators, each broken by one edit of its source."""

from __future__ import annotations

from tests.sized.mutations import Mutation

ELEMENTWISE = [
    Mutation(
        "a Python number beside a tensor takes 8 bytes",
        "elementwise.py",
        'if session.device == "cpu":\n        tensor = session.new("number"',
        'if False:\n        tensor = session.new("number"',
    ),
    Mutation(
        "a quotient saves its divisor, not its dividend",
        "elementwise.py",
        "        session.save(node, other)\n",
        "        session.save(node, x)\n",
    ),
    Mutation(
        "a sum saves nothing",
        "elementwise.py",
        '    node = session.node("add", (a, b), _add_backward)\n',
        '    node = session.node("add", (a, b), _add_backward)\n'
        "    if node is not None:\n        session.save(node, a, b)\n",
    ),
    Mutation(
        "a difference saves nothing",
        "elementwise.py",
        '    node = session.node("sub", (a, b), _sub_backward)\n',
        '    node = session.node("sub", (a, b), _sub_backward)\n'
        "    if node is not None:\n        session.save(node, a, b)\n",
    ),
    Mutation(
        "the gradient of what is subtracted is a copy",
        "elementwise.py",
        "right = elementwise(session, gradient_name(node, 1), grad) if node.needs(1) else None",
        "right = grad if node.needs(1) else None",
    ),
    Mutation(
        "exp saves its output, not its input",
        "elementwise.py",
        '    return _saves_output(session, "exp", x)',
        '    node = session.node("exp", (x,), _one_new)\n'
        "    if node is not None:\n        session.save(node, x)\n"
        '    return session.attach(elementwise(session, "exp", x), node)',
    ),
    Mutation(
        "the gradient of the second side is computed first",
        "elementwise.py",
        "for index in (1, 0):",
        "for index in (0, 1):",
    ),
    Mutation(
        "a comparison gives one byte per element",
        "elementwise.py",
        'elementwise(session, "equal", a, b, dtype="bool")',
        'elementwise(session, "equal", a, b)',
    ),
    Mutation(
        "minimum saves both sides",
        "elementwise.py",
        "_minimum_backward)\n    if node is not None:\n        session.save(node, a, b)",
        "_minimum_backward)\n    if node is not None:\n        session.save(node, a, a)",
    ),
    Mutation(
        "minimum's gradient takes a second mask",
        "elementwise.py",
        'greater_mask = elementwise(session, f"{node.scope} mask", *saved, dtype="bool")',
        "greater_mask = equal_mask",
    ),
    Mutation(
        "minimum's masks compare inputs of one dtype",
        "elementwise.py",
        'equal_mask = elementwise(session, f"{node.scope} mask", *saved, dtype="bool")',
        'equal_mask = session.new(f"{node.scope} mask", half.shape, "bool", like=half)',
    ),
    Mutation(
        "minimum's gradient halves in a tensor of its own",
        "elementwise.py",
        'half = elementwise(session, f"{node.scope} half of the gradient", grad, two)',
        "half = grad",
    ),
    Mutation(
        "logaddexp's gradient takes a denominator of its own",
        "elementwise.py",
        'denominator = elementwise(session, f"{node.scope} denominator", exponential, one)',
        "denominator = exponential",
    ),
    Mutation(
        "scaling in place casts a factor of another dtype",
        "elementwise.py",
        'if session.device == "cpu" and factor.dtype != buffer.dtype:',
        "if False:",
    ),
]

VIEWS_AND_PRODUCTS = [
    Mutation(
        "a split's missing gradients are filled with zeros",
        "indexing.py",
        "        if grad is None\n",
        "        if False\n",
    ),
    Mutation(
        "a split's gradients that exist are not copied before they are joined",
        "indexing.py",
        "        if grad is None\n",
        "",
    ),
    Mutation(
        "a split joins its gradients after all pieces",
        "indexing.py",
        "        node.num_outputs = len(pieces)\n",
        "        node.num_outputs = len(pieces)\n        node.sequence = 10**9\n",
    ),
    Mutation(
        "a slice's gradient is a new tensor of the full size",
        "indexing.py",
        "    return (new_gradient(session, node, grad),)\n\n\ndef gather",
        "    return (session.view(grad, node.inputs[0].shape, None),)\n\n\ndef gather",
    ),
    Mutation(
        "so is that of a slice that is the whole",
        "indexing.py",
        '    node = session.node("slice", (x,), _slice_backward)\n',
        "    if stop - start >= x.shape[0]:\n        return x\n"
        '    node = session.node("slice", (x,), _slice_backward)\n',
    ),
    Mutation(
        "gather saves what it gathers from",
        "indexing.py",
        "session.save(node, x, index)",
        "session.save(node, index)",
    ),
    Mutation(
        "a CPU gathers half precision through fp32",
        "indexing.py",
        'if session.device == "cpu" and output.dtype in ("bf16", "fp16"):',
        "if False:",
    ),
    Mutation(
        "a transpose is a view",
        "indexing.py",
        "return session.attach(_transposed(session, x), node)",
        'return session.attach(session.new("t", (x.shape[1], x.shape[0]), x.dtype), node)',
    ),
    Mutation(
        "the gradient of a transposed side is computed transposed",
        "indexing.py",
        "transposed: bool = node.context[index]",
        "transposed: bool = False",
    ),
    Mutation(
        "a product copies an expanded gradient",
        "indexing.py",
        "    if grad.is_expanded:\n",
        "    if False:\n",
    ),
    Mutation(
        "where host and device are one, a gradient does not travel",
        "indexing.py",
        'if session.device == "cpu":\n        return (grad,)',
        "if False:\n        return (grad,)",
    ),
    Mutation(
        "where host and device are one, a result does not travel",
        "indexing.py",
        'if session.device == "cpu":\n        return x',
        "if False:\n        return x",
    ),
]

REDUCTIONS = [
    Mutation(
        "the gradient of a sum is expanded, without bytes",
        "reductions.py",
        "return (session.view(grad, node.inputs[0].shape, (0,) * len(node.inputs[0].shape)),)",
        'return (session.new("gradient", node.inputs[0].shape, grad.dtype, like=grad),)',
    ),
    Mutation(
        "softmax with a dtype casts first",
        "reductions.py",
        "if not fused:\n        x = to(session, x, dtype)",
        "if False:\n        x = to(session, x, dtype)",
    ),
    Mutation(
        "softmax saves its output, not its input",
        "reductions.py",
        "        session.save_output(node, output)\n    return session.attach(output, node)\n\n\ndef _softmax_backward",
        "        session.save(node, x)\n    return session.attach(output, node)\n\n\ndef _softmax_backward",
    ),
    Mutation(
        "softmax's gradient makes an expanded one contiguous",
        "reductions.py",
        "    if grad.is_expanded:\n",
        "    if False:\n",
    ),
    Mutation(
        "cross entropy takes log_softmax in the dtype of the logits",
        "reductions.py",
        "return nll_loss(session, log_softmax(session, x), labels)",
        'return nll_loss(session, log_softmax(session, x, "fp32"), labels)',
    ),
    Mutation(
        "nll_loss saves the log-probabilities",
        "reductions.py",
        "session.save(node, log_probs, labels)",
        "session.save(node, labels)",
    ),
    Mutation(
        "nll_loss keeps a scalar for backward",
        "reductions.py",
        "        session.save_output(node, total_weight)\n",
        "        pass\n",
    ),
    Mutation(
        "nll_loss fills zeros of the size of the log-probabilities",
        "reductions.py",
        "return (new_gradient(session, node, saved[0]),)",
        "return (saved[0],)",
    ),
    Mutation(
        "kl_div's temporaries die before the sum",
        "reductions.py",
        "    return sub(session, entropy, product)\n",
        "    session.kept = (entropy, product)\n    return sub(session, entropy, product)\n",
    ),
    Mutation(
        "xlogy is a tensor of its own",
        "reductions.py",
        'return elementwise(session, "xlogy", x)',
        "return x",
    ),
    Mutation(
        "logsumexp takes exp of the difference in a full tensor",
        "reductions.py",
        'difference = session.new("exp of the difference", x.shape, x.dtype, like=x)',
        "difference = None",
    ),
    Mutation(
        "logsumexp looks for infinite maxima",
        "reductions.py",
        "    _mask_infinite(session, maxima)\n",
        "",
    ),
    Mutation(
        "logsumexp's gradient takes exp in a tensor of its own",
        "reductions.py",
        'exponential = elementwise(session, f"{node.scope} exp", difference)',
        "exponential = difference",
    ),
    Mutation(
        "argmax gives 8 bytes per row",
        "reductions.py",
        'session.new("argmax", x.shape[:-1], "int64", like=x)',
        'session.new("argmax", x.shape[:-1], "int32", like=x)',
    ),
    Mutation(
        "topk gives indices of 8 bytes",
        "reductions.py",
        'session.new("top indices", (*x.shape[:-1], k), "int64", like=x)',
        'session.new("top indices", (*x.shape[:-1], k), "int32", like=x)',
    ),
]

TOKEN_WEIGHTS = [
    Mutation(
        "filling saves its mask",
        "elementwise.py",
        "        session.save(node, mask)\n",
        "        pass\n",
    ),
    Mutation(
        "what was filled is a copy",
        "elementwise.py",
        'session.new("filled", x.shape, x.dtype, like=x)',
        "session.view(x, x.shape, x.strides)",
    ),
    Mutation(
        "an input that a custom Function returns becomes a view",
        "function.py",
        "if any(output is x for x in inputs):",
        "if False:",
    ),
    Mutation(
        "nll_loss without a sum gives a number per row",
        "reductions.py",
        'session.new("loss", shape,',
        'session.new("loss", (),',
    ),
]

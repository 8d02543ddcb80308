"""Rules of operators that reduce rows: sums, softmaxes, cross entropy, logsumexp, argmax, topk."""

from __future__ import annotations

from membudget.sized.casts import elementwise, to
from membudget.sized.elementwise import exp, gradient_name, mul, new_gradient, number, sub
from membudget.sized.graph import Gradients, Node
from membudget.sized.session import Session
from membudget.sized.tensor import Tensor


def sum_all(session: Session, x: Tensor) -> Tensor:
    """x.sum(); its gradient is an expanded scalar, without bytes."""
    node = session.node("sum", (x,), _sum_backward)
    return session.attach(session.new("total", (), x.dtype, like=x), node)


def sum_rows(session: Session, x: Tensor) -> Tensor:
    """x.sum(-1); its gradient is expanded, without bytes."""
    node = session.node("sum_rows", (x,), _sum_backward)
    return session.attach(session.new("row sums", x.shape[:-1], x.dtype, like=x), node)


def _sum_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    (grad,) = grads
    assert grad is not None
    return (session.view(grad, node.inputs[0].shape, (0,) * len(node.inputs[0].shape)),)


def log_softmax(session: Session, x: Tensor, dtype: str | None = None) -> Tensor:
    """F.log_softmax(x, -1, dtype=dtype); saves its output."""
    return _softmax(session, "log_softmax", x, dtype)


def softmax(session: Session, x: Tensor, dtype: str | None = None) -> Tensor:
    """F.softmax(x, -1, dtype=dtype); saves its output."""
    return _softmax(session, "softmax", x, dtype)


def _softmax(session: Session, name: str, x: Tensor, dtype: str | None) -> Tensor:
    """A copy to `dtype` first; on CUDA, fp16 to fp32 is fused into the kernel."""
    dtype = dtype or x.dtype
    fused = session.device == "cuda" and not x.on_host and x.dtype == "fp16" and dtype == "fp32"
    if not fused:
        x = to(session, x, dtype)
    node = session.node(name, (x,), _softmax_backward)
    output = session.new(name, x.shape, dtype, like=x)
    if node is not None:
        session.save_output(node, output)
    return session.attach(output, node)


def _softmax_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    """One tensor; an expanded gradient is made contiguous first."""
    (grad,) = grads
    assert grad is not None
    if grad.is_expanded:
        grad = session.new(f"{node.scope} contiguous gradient", grad.shape, grad.dtype, like=grad)
    return (new_gradient(session, node, grad),)


def cross_entropy(session: Session, x: Tensor, labels: Tensor) -> Tensor:
    """F.cross_entropy(x, labels, reduction="sum"): log_softmax in x's own dtype, then nll_loss."""
    return nll_loss(session, log_softmax(session, x), labels)


def cross_entropy_rows(session: Session, x: Tensor, labels: Tensor) -> Tensor:
    """F.cross_entropy(x, labels, reduction="none")."""
    return nll_loss_rows(session, log_softmax(session, x), labels)


def nll_loss(session: Session, log_probs: Tensor, labels: Tensor) -> Tensor:
    """F.nll_loss(log_probs, labels, reduction="sum"); saves the log-probabilities, labels and a scalar."""
    return _nll(session, log_probs, labels, ())


def nll_loss_rows(session: Session, log_probs: Tensor, labels: Tensor) -> Tensor:
    """F.nll_loss(log_probs, labels, reduction="none"); saves the same."""
    return _nll(session, log_probs, labels, labels.shape)


def _nll(session: Session, log_probs: Tensor, labels: Tensor, shape: tuple[int, ...]) -> Tensor:
    node = session.node("nll_loss", (log_probs,), _nll_backward)
    if node is not None:
        session.save(node, log_probs, labels)
    output = session.new("loss", shape, log_probs.dtype, like=log_probs)
    total_weight = session.new("total weight", (), log_probs.dtype, like=log_probs)
    if node is not None:
        session.save_output(node, total_weight)
    return session.attach(output, node)


def _nll_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    return (new_gradient(session, node, saved[0]),)


def kl_div(session: Session, x: Tensor, target: Tensor, *, log_target: bool) -> Tensor:
    """F.kl_div(x, target, reduction="sum", log_target=log_target), a composite of differentiable operators."""
    return sum_all(session, _kl_elements(session, x, target, log_target))


def kl_div_rows(session: Session, x: Tensor, target: Tensor, *, log_target: bool) -> Tensor:
    """F.kl_div(x, target, reduction="none", log_target=log_target).sum(-1)"""
    return sum_rows(session, _kl_elements(session, x, target, log_target))


def _kl_elements(session: Session, x: Tensor, target: Tensor, log_target: bool) -> Tensor:
    if log_target:
        difference = sub(session, target, x)
        return mul(session, exp(session, target), difference)
    product = mul(session, x, target)
    entropy = xlogy(session, target)
    return sub(session, entropy, product)


def xlogy(session: Session, x: Tensor) -> Tensor:
    """xlogy(x, x) of a tensor that wants no gradient."""
    assert not (session.grad_enabled and x.requires_grad), "a target that wants a gradient is not priced"
    return elementwise(session, "xlogy", x)


def logsumexp(session: Session, x: Tensor) -> Tensor:
    """torch.logsumexp(x, -1, keepdim=True); saves input and output."""
    node = session.node("logsumexp", (x,), _logsumexp_backward)
    if node is not None:
        session.save(node, x)
    column = (*x.shape[:-1], 1)
    maxima = session.new("row maxima", column, x.dtype, like=x)
    _mask_infinite(session, maxima)
    difference = session.new("exp of the difference", x.shape, x.dtype, like=x)
    output = session.new("logsumexp", column, x.dtype, like=x)
    del maxima, difference
    if node is not None:
        session.save_output(node, output)
    return session.attach(output, node)


def _mask_infinite(session: Session, maxima: Tensor) -> None:
    """maxima.masked_fill_(maxima.abs() == inf, 0)"""
    absolute = elementwise(session, "absolute row maxima", maxima)
    infinity = number(session)
    mask = elementwise(session, "infinite rows", absolute, infinity, dtype="bool")
    del absolute, infinity, mask


def _logsumexp_backward(session: Session, node: Node, grads: Gradients, saved: list[Tensor]) -> Gradients:
    """grad * (self - result).exp()."""
    (grad,) = grads
    assert grad is not None
    x, result = saved
    difference = elementwise(session, f"{node.scope} difference", x, result)
    exponential = elementwise(session, f"{node.scope} exp", difference)
    return (elementwise(session, gradient_name(node), grad, exponential),)


def argmax(session: Session, x: Tensor) -> Tensor:
    """x.argmax(-1), int64, no graph."""
    return session.new("argmax", x.shape[:-1], "int64", like=x)


def topk(session: Session, x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest values of each row and their int64 indices, without a graph."""
    values = session.new("top values", (*x.shape[:-1], k), x.dtype, like=x)
    return values, session.new("top indices", (*x.shape[:-1], k), "int64", like=x)

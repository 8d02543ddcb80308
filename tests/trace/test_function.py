"""What a traced function gets, what it may return, and what is said when it fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from membudget.errors import UsageError
from membudget.trace.arguments import Sizes
from membudget.trace.function import RAN_BACKWARD, trace_function, trace_target

SIZES = Sizes(8, 300, hidden=16)
ROWS_BYTES = 8 * 300 * 2


def held(function: Callable[..., Any], sizes: Sizes = SIZES, **given: Any) -> int:
    return trace_function(function, sizes, given).totals.held_bytes


def test_arguments_by_name() -> None:
    seen: dict[str, Tensor] = {}

    def loss(hidden: Tensor, weight: Tensor, labels: Tensor, mask: Tensor, token_weights: Tensor) -> Tensor:
        seen.update(hidden=hidden, weight=weight, labels=labels, mask=mask, token_weights=token_weights)
        return (F.cross_entropy(hidden @ weight.t(), labels, reduction="none") * mask * token_weights).sum()

    trace_function(loss, SIZES)
    shapes = {name: tuple(tensor.shape) for name, tensor in seen.items()}
    assert shapes == {"hidden": (8, 16), "weight": (300, 16), "labels": (8,), "mask": (8,), "token_weights": (8,)}
    assert [seen[name].requires_grad for name in ("hidden", "weight")] == [True, False]
    assert [str(seen[name].dtype) for name in ("hidden", "labels", "mask", "token_weights")] == [
        "torch.bfloat16",
        "torch.int64",
        "torch.bool",
        "torch.float32",
    ]


def test_a_trained_head_gets_a_gradient() -> None:
    def loss(hidden_states: Tensor, lm_head_weight: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(hidden_states @ lm_head_weight.t(), labels)

    def end_bytes(sizes: Sizes) -> int:
        return trace_function(loss, sizes).timeline.totals()[-1]

    weight_bytes = 300 * 16 * 2
    trained = Sizes(8, 300, hidden=16, train_head=True)
    assert end_bytes(trained) - end_bytes(SIZES) == -(-weight_bytes // 512) * 512


def test_arguments_without_a_known_name_are_logits_and_targets() -> None:
    assert held(lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="sum")) > 2 * ROWS_BYTES
    assert held(lambda *tensors: F.mse_loss(*tensors)) >= ROWS_BYTES


def test_optional_arguments_keep_their_defaults_unless_wanted() -> None:
    def loss(logits: Tensor, targets: Tensor, mask: Tensor | None = None, scale: float = 1.0) -> Tensor:
        assert scale == 2.0
        rows = F.kl_div(logits.log_softmax(-1), targets.softmax(-1), reduction="none").sum(-1)
        return (rows if mask is None else rows * mask).sum() * scale

    without = trace_function(loss, SIZES, {"scale": 2.0})
    wanted = trace_function(loss, SIZES, {"scale": 2.0}, ("mask",))
    assert len(wanted.timeline.allocations) > len(without.timeline.allocations)


def test_logits_may_be_written_in_place() -> None:
    """As in a model, they are no leaf."""
    assert held(lambda logits, targets: F.cross_entropy(logits.div_(2), targets.argmax(-1))) > 0


class Output:
    def __init__(self, loss: Tensor) -> None:
        self.loss = loss


@pytest.mark.parametrize(
    "wrap", [lambda x: x, lambda x: (x, "log"), lambda x: [x], lambda x: {"loss": x, "other": 1}, Output]
)
def test_what_may_be_returned(wrap: Callable[[Tensor], Any]) -> None:
    assert held(lambda logits, targets: wrap(logits.log_softmax(-1).sum())) >= ROWS_BYTES


def test_what_else_is_returned_stays_alive_until_backward_is_done() -> None:
    def loss(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return logits.sum(), targets.exp()

    assert trace_function(loss, SIZES).timeline.totals()[-1] >= ROWS_BYTES


def test_a_function_that_runs_backward_itself() -> None:
    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        total = F.cross_entropy(logits, targets.argmax(-1))
        torch.autograd.backward(total)
        return total.detach()

    trace = trace_function(loss, SIZES)
    assert trace.notes == (RAN_BACKWARD,)
    assert trace.totals.backward_peak_bytes == 0
    assert trace.peak.phase == "forward"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda logits, targets: logits.exp(), "a tensor of 8 x 300: reduce it to one number"),
        (lambda logits, targets: None, "returned NoneType without a loss"),
        (lambda logits, targets: {"total": logits.sum()}, "returned dict without a loss"),
        (lambda logits, targets: (), "without a loss"),
        (lambda logits, targets: targets.sum(), "has no graph"),
        (lambda logits, targets: logits.sum().detach(), "has no graph"),
        (lambda logits, targets: logits.sum().item(), "reads a value"),
        (lambda logits, targets: logits[targets > 0].sum(), "size depends on data"),
        (lambda logits, targets: logits.sum() if logits.max() > 0 else logits.mean(), "reads a value"),
        (lambda logits, targets: torch.unique(targets).sum() + logits.sum(), "depends on data"),
        (lambda logits, targets: (logits @ targets).sum(), "RuntimeError"),
        (lambda logits, targets: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda logits, targets: sys.exit(3), "ended the program (exit 3)"),
        (lambda logits, labelz: logits.sum(), 'needs "labelz", which is none of .*did you mean "labels"'),
    ],
)
def test_failures_are_for_people(function: Callable[..., Any], message: str) -> None:
    import re

    with pytest.raises(UsageError) as failure:
        trace_function(function, SIZES)
    pattern = message if ".*" in message else re.escape(message)
    assert re.search(pattern, str(failure.value)), str(failure.value)


def test_a_failure_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "losses.py"
    file.write_text("def loss(logits, targets):\n    x = logits.sum()\n    return x.item()\n")
    with pytest.raises(UsageError, match=r"losses\.py:3: loss in forward: .*reads a value"):
        trace_target(f"{file}:loss", SIZES, {}, ())


def test_a_failure_in_backward_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "own_function.py"
    file.write_text(
        "import torch\n"
        "class Own(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x):\n"
        "        return x.sum()\n"
        "    @staticmethod\n"
        "    def backward(ctx, g):\n"
        "        raise ValueError('wrong sign')\n"
        "def loss(logits, targets):\n"
        "    return Own.apply(logits)\n"
    )
    with pytest.raises(UsageError, match=r"own_function\.py:8: loss in backward: ValueError: wrong sign"):
        trace_target(f"{file}:loss", SIZES, {}, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_this_name\n", r"broken\.py:1: importing .*broken\.py: ModuleNotFoundError"),
        ("def loss(:\n", r"broken\.py:1: importing .*broken\.py: "),
        ("raise RuntimeError('no GPU')\n", r"broken\.py:1: importing .*: RuntimeError: no GPU"),
        ("def lost(logits): pass\n", r'no function loss.*did you mean "lost"'),
        ("loss = 3\n", "no function but int"),
    ],
)
def test_a_module_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        trace_target(f"{file}:loss", SIZES, {}, ())


def test_a_file_or_module_that_is_not_there(tmp_path: Path) -> None:
    for target in (f"{tmp_path}/none.py:loss", "no_such_module:loss"):
        with pytest.raises(UsageError, match=r"does not exist|ModuleNotFoundError"):
            trace_target(target, SIZES, {}, ())


def test_prints_of_the_code_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        print("step", logits.shape)
        return logits.sum()

    trace_function(loss, SIZES)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "step torch.Size([8, 300])\n")


def test_hidden_is_asked_for() -> None:
    with pytest.raises(UsageError, match="--hidden"):
        trace_function(lambda hidden, weight: (hidden @ weight.t()).sum(), Sizes(8, 300))

"""What the README tells people to write runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import membudget.losses

README = Path(__file__).parent.parent.parent / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
HOW_TO = [example for example in EXAMPLES if "from membudget.losses import" in example]
assert HOW_TO, "the README has no example of the losses"


@pytest.mark.parametrize("example", HOW_TO)
def test_the_example_of_the_readme(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    names: dict[str, object] = {}
    exec(example, names)
    loss, hidden, head = names["loss"], names["hidden"], names["head"]
    assert isinstance(loss, torch.Tensor)
    assert loss.isfinite()
    for leaf in (hidden, head):
        assert isinstance(leaf, torch.Tensor)
        assert leaf.grad is not None
    assert "of the teacher's probability covered" in capsys.readouterr().out


def test_everything_public_is_documented() -> None:
    for name in membudget.losses.__all__:
        thing = getattr(membudget.losses, name)
        assert name == "METHODS" or len((thing.__doc__ or "").strip()) > 30, name

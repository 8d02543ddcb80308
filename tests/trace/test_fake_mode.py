"""A trace does without PyTorch's compiler, and leaves it as it found it; each proved in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys


def printed(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_compiler_is_not_imported() -> None:
    code = """
import sys
from membudget.__main__ import run
sys.argv = ["membudget", "trace", "ddtree-fixed.yaml", "--format", "json"]
try:
    run()
except SystemExit as ended:
    found = [name for name in sys.modules if name.startswith("torch._dynamo")]
    print(ended.code, "torch" in sys.modules, found)
"""
    assert printed(code)[-3:] == ["0", "True", "[]"]


def test_who_needs_the_compiler_gets_it() -> None:
    """During a trace, by name, and after it."""
    code = """
import sys, torch
from membudget.trace.tracing import faking
with faking():
    torch.empty(3, 4)
    during = torch._dynamo.mark_dynamic.__module__
whole = torch._dynamo.__file__.endswith("__init__.py")
compiled = torch.compile(lambda x: x.sin() + 1, backend="eager")(torch.zeros(2))
print(during, whole, compiled.tolist() == [1.0, 1.0])
with faking():
    print(torch.empty(3).shape[0])
"""
    assert printed(code) == ["torch._dynamo.decorators", "True", "True", "3"]


def test_what_was_left_unhidden_is_hidden_again() -> None:
    code = """
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from membudget.trace.tracing import faking
with faking():
    torch.empty(3)
wrapped = FakeTensorMode.__torch_dispatch__.__wrapped__
print(hasattr(wrapped, "__dynamo_disable"))
"""
    assert printed(code) == ["False"]

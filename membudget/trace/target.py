"""`module:function` or `file.py:function`, found and imported."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from membudget.config.suggest import did_you_mean
from membudget.errors import UsageError

_MOST_NAMES = 8
"""How many functions a message lists."""


def find_function(target: str) -> Callable[..., Any]:
    """The function a target names. UsageError when there is none; whatever importing its module raises."""
    module_name, _, function_name = target.rpartition(":")
    if not module_name or not function_name:
        missing = "function" if module_name else "module"
        raise UsageError(f'"{target}" names no {missing}: write package.module:function, or file.py:function')
    module = _import(module_name)
    function = module
    for part in function_name.split("."):
        if not hasattr(function, part):
            raise UsageError(f"{module_name} has no function {function_name}{_nearest(module, function_name)}")
        function = getattr(function, part)
    if not callable(function):
        raise UsageError(f"{target} is no function but {type(function).__name__}")
    if isinstance(function, type):
        raise UsageError(f"{target} is a class: name a function, or an object made of it that can be called")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"{target} is asynchronous: name a function that returns the loss when it is called")
    return function


def _nearest(module: ModuleType, wanted: str) -> str:
    """The function that was meant, or else those there are."""
    own = [
        name
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", "") == module.__name__ and not name.startswith("_")
    ]
    return did_you_mean(wanted, own) or (f"; it has {', '.join(own[:_MOST_NAMES])}" if own else "")


def _import(name: str) -> ModuleType:
    """A dotted module from here or from what is installed, or a file by its path."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"{name} does not exist: name a file, or a module as `package.module:function`")
    sys.path.insert(0, str(path.resolve().parent))
    # A name of its own: a file called json.py must not become the json of everybody else.
    spec = importlib.util.spec_from_file_location(f"traced_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

"""Kernels that torch.compile has generated, seen as compiled code launches them.

Inductor writes a module of Python for each graph that it compiles: its kernels are globals there, which ``call()``
looks up each time that it launches one. What it leaves to torch, such as products, reaches the dispatcher as always.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Launched = Callable[[str, str, tuple[Any, ...], Callable[[], Any]], Any]

_MAKES = "async_compile"
_LAST = f"{_MAKES}.wait(globals())"


@contextlib.contextmanager
def following(launched: Launched) -> Iterator[None]:
    """Inside, each launch goes through ``launched(name, text, arguments, launch)``.

    Compiled code that would be replayed as a CUDA graph launches its kernels one by one.
    """
    codecache = sys.modules.get("torch._inductor.codecache")
    modules = list(codecache.PyCodeCache.modules) if codecache else []
    with contextlib.ExitStack() as stack:
        for module in modules:
            for name, text in texts(module.__file__).items():
                if hasattr(module, name):
                    _replace(stack, module, name, functools.partial(_Seen, launched, name, text))
        if trees := sys.modules.get("torch._inductor.cudagraph_trees"):
            _replace(stack, trees.CUDAGraphTreeManager, "_run", lambda _: _one_by_one)
        yield


def _replace(stack: contextlib.ExitStack, owner: Any, name: str, by: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    setattr(owner, name, by(original))
    stack.callback(setattr, owner, name, original)


def _one_by_one(manager: Any, inputs: Any, function: Any) -> Any:
    return manager.ids_to_funcs[function].model(inputs)


class _Seen:
    """A kernel in place of the one that it calls: on a CPU it is called itself, on a GPU its ``run``."""

    def __init__(self, launched: Launched, name: str, text: str, kernel: Any) -> None:
        self._launched, self._name, self._text, self._kernel = launched, name, text, kernel

    def __call__(self, *arguments: Any) -> Any:
        return self._launched(self._name, self._text, arguments, lambda: self._kernel(*arguments))

    def run(self, *arguments: Any, **named: Any) -> Any:
        return self._launched(self._name, self._text, arguments, lambda: self._kernel.run(*arguments, **named))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


@functools.cache
def texts(path: str) -> Mapping[str, str]:
    """Of the module in this file each kernel's name and what builds it alone."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    body = ast.parse(source).body
    made = {_name(each): each for each in body if _is_made(each)}
    first = min((each.lineno for each in made.values()), default=0)
    before = [ast.get_source_segment(source, each) or "" for each in body if each.lineno < first]
    return {
        name: "\n".join([*before, ast.get_source_segment(source, each) or "", _LAST, ""]) for name, each in made.items()
    }


def _name(statement: Any) -> str:
    return str(statement.targets[0].id)


def _is_made(statement: ast.stmt) -> bool:
    """Whether it is NAME = async_compile.KIND(...)."""
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Attribute)
        and isinstance(statement.value.func.value, ast.Name)
        and statement.value.func.value.id == _MAKES
    )

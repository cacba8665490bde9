"""Calls of outermost modules in one thread, told apart by what they are given: a loop that generates has two kinds.

The first call of a loop is given all of a prompt (prefill), each of the others what it has made last (decode), beside a
cache of keys and values that grows.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from primbench.decompose.laps import Laps, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class Given(NamedTuple):
    """What a call of a module is told apart by."""

    kind: str
    """Of the module."""
    shape: tuple[int, ...]
    """Of the first tensor that it is given; () where there is none."""

    def __str__(self) -> str:
        return f"{self.kind} given {[*self.shape]}"


class Calls(threading.local):
    """Of the thread that looks at it. is_in_module: whether it is within a call of one. laps: its steps. to_infer:
    calls of outermost modules without gradients, by what they were given.
    """

    def __init__(self) -> None:
        self.is_in_module = False
        self.to_infer = Counter[Given]()
        self.laps = Laps()

    def is_wanted(self, given: Given, *, is_prefill: bool) -> bool:
        """Whether a call is like most of them, or where the prompt is asked for, given more than these."""
        usual = max(self.to_infer, key=lambda each: (self.to_infer[each], -math.prod(each.shape)))
        if is_prefill:
            return math.prod(given.shape) > math.prod(usual.shape) and given.kind == usual.kind
        return given == usual or 2 * self.to_infer[usual] < self.to_infer.total()

    def words(self, given: Given) -> str:
        """What a call was given, where others were given something else."""
        of = f"{self.to_infer[given]} of {self.to_infer.total()} calls"
        return f", {given} like {of}" if len(self.to_infer) > 1 else ""


@contextlib.contextmanager
def following_modules(here: Calls, begin: Callable[[], None], end: Callable[[Given, Any], None]) -> Iterator[None]:
    """Inside, each call of an outermost module begins with ``begin`` and ends with ``end(given, output)``, unless it
    has raised. here: the thread's.

    Hooks of all modules would have each of a model's take several microseconds more, in steps that are timed: in place
    of them the call itself is replaced, which asks little where it is within another module's.
    """
    from torch.compiler import is_compiling
    from torch.nn import Module

    original = Module.__call__

    @functools.wraps(original)
    def call(module: Any, *arguments: Any, **named: Any) -> Any:
        if is_compiling() or here.is_in_module:  # torch.compile() traces this, too, and would stop at what it does
            return original(module, *arguments, **named)
        begin()
        here.is_in_module = True
        try:
            output = original(module, *arguments, **named)
        finally:
            here.is_in_module = False
        end(given_to(module, arguments, named), output)
        return output

    Module.__call__ = call
    try:
        yield
    finally:
        Module.__call__ = original


def given_to(module: Any, arguments: tuple[Any, ...], named: Mapping[str, Any] = MappingProxyType({})) -> Given:
    """Of a call of a module."""
    import torch

    several = (each for each in (*arguments, *named.values()) if isinstance(each, torch.Tensor))
    first = next(several, None)
    return Given(kind_of(module), () if first is None or first.is_nested else tuple(map(int, first.shape)))


def is_to_learn(output: Any) -> bool:
    """Whether gradients may be asked of it, as of a network's and not of what only prepares data."""
    import torch
    from torch.utils._pytree import tree_leaves

    tensors = [each for each in tree_leaves(output) if isinstance(each, torch.Tensor)]
    return any(each.requires_grad for each in tensors) if tensors else torch.is_grad_enabled()

"""Which optimizer's step() ends a step: the first one that makes one, or one made since then, which takes its place."""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Endings:
    """made: how many optimizers the script has made by now. is_first: whether none has made a step."""

    def __init__(self) -> None:
        self.made = self._made_by_last = 0
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._current: Any = None
        self._beside: tuple[int, str] | None = None  # the last step in which another one made its own, and its class

    @property
    def is_first(self) -> bool:
        return self._current is None

    def ends(self, optimizer: Any, step: int) -> bool:
        """Whether its step() ends a step, of that number. One that was there when the last step ended takes nobody's
        place: a script has it beside the other one.
        """
        if optimizer is not self._current and not self.is_first and not self._is_new(optimizer):
            self._beside = (step, type(optimizer).__name__)
            return False
        self._current, self._made_by_last = optimizer, self.made
        return True

    def lacking(self, step: int) -> str:
        """What this step has not that one before it had: a step of an optimizer that makes fewer, as a generator's."""
        if self._beside is None or self._beside[0] == step:
            return ""
        last, name = self._beside
        other = "other " * (name == type(self._current).__name__)
        return f", without a step of its {other}{name}, which --step {last} has"

    def _is_new(self, optimizer: Any) -> bool:
        return self._numbers.get(optimizer, 0) > self._made_by_last

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Inside, optimizers are counted as they are made."""
        from torch.optim import Optimizer

        original = Optimizer.__init__

        @functools.wraps(original)
        def counted(optimizer: Any, *arguments: Any, **named: Any) -> None:
            self.made += 1
            self._numbers[optimizer] = self.made
            original(optimizer, *arguments, **named)

        setattr(Optimizer, "__init__", counted)  # noqa: B010 - assigning to a method is what mypy refuses
        try:
            yield
        finally:
            setattr(Optimizer, "__init__", original)  # noqa: B010

"""Which part of a step is under way."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from primbench.problem.operators import Phase

READ = ("aten::_local_scalar_dense", "aten::detach", "aten::alias")  # of a loss that is told, which begins no pass


class StepPhases:
    """Which part of a step is under way: by autograd, the optimizer's hooks, and modules that are called."""

    def __init__(self) -> None:
        self._is_over = False  # autograd's part, or that of an optimizer that goes without
        self._handles: list[Any] = []
        self._depth = 0

    def follow(self) -> bool:
        """Whether that is the first time."""
        from torch.nn.modules.module import register_module_forward_pre_hook
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._depth += 1
        # A mode is entered again where an operator is taken apart; with other hooks than before compiled code is none.
        if self._depth == 1 and not compiled_graphs():
            self._handles = [
                register_module_forward_pre_hook(lambda *_: self.begin()),
                register_optimizer_step_pre_hook(lambda *_: self._step()),
            ]
        return self._depth == 1

    def leave(self) -> bool:
        """Whether that was for good."""
        self._depth -= 1
        if self._depth:
            return False
        for each in self._handles:
            each.remove()
        return True

    def begin(self) -> None:
        """A module is called."""
        self._is_over = False

    def _step(self) -> None:
        self._is_over = True

    def now(self, name: str = "", given: Iterable[Any] = ()) -> Phase:
        """Of an operator that is called with these tensors."""
        import torch

        if is_in_backward():
            self._is_over = True
            return "backward"
        if name not in READ and torch.is_grad_enabled() and any(each.requires_grad for each in given):
            self.begin()
        return "optimizer" if self._is_over else "forward"


def is_in_backward() -> bool:
    """Whether autograd is what calls, as torch.autograd.graph finds it."""
    import torch

    return bool(torch._C._current_graph_task_id() != -1)  # noqa: SLF001


def compiled_graphs() -> int:
    """How many graphs of operators torch has compiled."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["stats"]["unique_graphs"]) if dynamo else 0

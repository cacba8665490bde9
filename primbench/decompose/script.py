"""A user's script, run as it is until one of its steps has been captured.

A step of training is what lies between the ends of two step() of an optimizer, the first one that makes a step where
there are several: however many batches its gradients are of, it is one. A step of a script that has no optimizer is a
call of an outermost module that keeps no gradients.
"""

from __future__ import annotations

import gc
import itertools
import os
import runpy
import sys
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Any

from primbench.decompose.recording import recorder
from primbench.decompose.written import Step
from primbench.errors import InvalidRequest, PrimbenchError
from primbench.spec.confidential import hidden_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_TIMED = 10  # steps before the captured one
_STARTED = "processes that it starts are not looked into: start it by torchrun, as torchrun -m primbench capture"
_HOOKED = r"Using `torch\.compile\(module\)` when there are global hooks"  # it is ours that are meant


class _Done(SystemExit):
    """The step is captured; a script that catches Exception does not catch this."""


def run(script: str, arguments: Sequence[str], number: int, answer: Callable[[Step | PrimbenchError], None]) -> None:
    """Call ``answer`` once: with the step, or with why there is none."""
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    watch = _Watch(number, " ".join([os.path.basename(script), *hidden_arguments(arguments)]), answer)
    handles = watch.follow()
    try:
        runpy.run_path(script, run_name="__main__")
    except _Done:
        pass
    except BaseException as error:  # whatever the script raises is what is to be told
        if not watch.is_done:
            answer(_why(script, error, watch))
    else:
        if not watch.is_done:
            answer(InvalidRequest(watch.too_few(f"{script} ended")))
    finally:
        for handle in handles:
            handle.remove()


def _why(script: str, error: BaseException, watch: _Watch) -> PrimbenchError:
    if isinstance(error, SystemExit):
        return PrimbenchError(watch.too_few(f"{script} exited with status {error.code}"))
    where = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == script]
    line = f", line {where[-1]}" if where else ""
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return PrimbenchError(watch.too_few(f"{script}{line} raised {words}", "see whether it runs by python alone"))


class _Watch:
    """Counts steps, times those before the one that is asked for, and captures that.

    is_done: whether it has been. words: the script and its arguments, secrets hidden, which a suite keeps.
    """

    def __init__(self, number: int, words: str, answer: Callable[[Step | PrimbenchError], None]) -> None:
        self._number, self._words, self._answer = number, words, answer
        self._first: Any = None  # optimizer that makes a step
        self._steps = self._calls = self._depth = 0
        self._ends_s: list[float] = []
        self._recorder: Any = None
        self._step = Step()
        self._optimizers_before = 0
        self._begun_s: float | None = None
        self._has_optimizer = self.is_done = False

    def follow(self) -> list[Any]:
        """The handles by which torch leaves off telling it."""
        from torch.nn.modules import module
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        warnings.filterwarnings("ignore", _HOOKED)
        self._optimizers_before = _optimizers()
        return [
            register_optimizer_step_pre_hook(lambda optimizer, *_: self._begin_optimizer(optimizer)),
            register_optimizer_step_post_hook(lambda optimizer, *_: self._end_optimizer(optimizer)),
            module.register_module_forward_pre_hook(lambda *_: self._begin_module()),
            module.register_module_forward_hook(lambda *_: self._end_module(), always_call=True),
        ]

    def too_few(self, ended: str, without_any: str = _STARTED) -> str:
        """One line. ended: what became of the script. without_any: what to do where it made no step at all."""
        seen = f"{self._steps} steps of an optimizer"
        if not self._first and self._calls:
            seen = f"{self._calls} calls of a module without gradients"
        hint = f"ask for --step {self._steps or self._calls} or less" if self._steps or self._calls else without_any
        return f"{ended} after {seen}, before step {self._number} was captured: {hint}"

    def _begin_optimizer(self, optimizer: Any) -> None:
        if self._first is None:
            self._first = optimizer

    def _end_optimizer(self, optimizer: Any) -> None:
        if optimizer is not self._first:
            return
        self._steps += 1
        self._ends_s.append(time.perf_counter())
        if self._recorder is not None:
            self._end(
                f"step {self._number} of {self._words}, between the ends of two {type(optimizer).__name__}.step()"
            )
        elif self._steps == self._number - 1:
            self._begin()

    def _begin_module(self) -> None:
        self._depth += 1
        if self._depth == 1 and self._is_inference():
            self._calls += 1
            if self._calls == self._number and not self._looks_for_optimizers():
                self._begin()
            else:
                _wait()
                self._begun_s = time.perf_counter()

    def _end_module(self) -> None:
        self._depth -= 1
        if self._depth or self._first is not None:
            return
        if self._recorder is not None:
            self._end(f"step {self._number} of {self._words}, a call of its outermost module")
        elif self._begun_s is not None:
            _wait()
            self._step.times_s.append(time.perf_counter() - self._begun_s)
            self._begun_s = None

    def _is_inference(self) -> bool:
        import torch

        return self._first is None and not self._has_optimizer and not torch.is_grad_enabled()

    def _looks_for_optimizers(self) -> bool:
        """Whether the script has made one by now, so that calls before are not what it is for."""
        self._has_optimizer = _optimizers() > self._optimizers_before
        return self._has_optimizer

    def _begin(self) -> None:
        self._recorder = recorder(self._step)
        self._recorder.__enter__()

    def _end(self, of: str) -> None:
        self._recorder.__exit__(None, None, None)
        self._recorder = None
        between = [after - before for before, after in itertools.pairwise(self._ends_s[:-1])]
        self._step.times_s = (self._step.times_s if self._first is None else between)[-MOST_TIMED:]
        self._step.of = of
        self.is_done = True
        self._answer(self._step)
        raise _Done(0)


def _optimizers() -> int:
    """How many there are in this process."""
    import torch

    return sum(issubclass(each, torch.optim.Optimizer) for each in map(type, gc.get_objects()))


def _wait() -> None:
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.synchronize()

"""The steps of a script that runs, of which one is recorded and others are timed.

A step of training is what lies between the ends of two step() of an optimizer, the first one that makes a step where
there are several, or one made later, which takes its place: however many batches its gradients are of, it is one. A
step of a script that has no optimizer lies between the ends of two calls of an outermost module that keep no gradients,
in one thread: what the thread does between them, such as loading data, is in it.

Where an optimizer steps within backward(), its step ends with the next call of a module, since autograd takes back
whatever begins within.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings
from typing import TYPE_CHECKING, Any, NoReturn

from primbench.decompose.endings import Endings
from primbench.decompose.laps import Inside, Laps, kind_of
from primbench.decompose.place import here
from primbench.decompose.recording import is_in_backward, recorder
from primbench.decompose.written import CapturedStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.errors import PrimbenchError

LEAST_TIMED = 5  # steps, the last ones after the captured one where there were fewer before it
_BY_HAND = "`with primbench.capture() as step:` in the script"
_STARTED = (
    f"a step without torch.optim is captured by {_BY_HAND}; processes that it "
    "starts are not looked into: start it by torchrun, as torchrun -m primbench capture"
)
_WITH_GRADIENTS = (
    "if it infers, call it within torch.no_grad() or torch.inference_mode(); a step without torch.optim is captured by "
    f"{_BY_HAND}"
)
_HOOKED = r"Using `torch\.compile\(module\)` when there are global hooks"  # it is ours that are meant


class Done(SystemExit):
    """The step is captured; a script that catches Exception does not catch this."""


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def end_now() -> NoReturn:
    """End this process, whatever its threads do, with all else that Python does at its end."""
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.stdout.flush()
    os._exit(0)


def _is_to_learn(output: Any) -> bool:
    """Whether gradients may be asked of it, as of a network's and not of what only prepares data."""
    import torch
    from torch.utils._pytree import tree_leaves

    tensors = [each for each in tree_leaves(output) if isinstance(each, torch.Tensor)]
    return any(each.requires_grad for each in tensors) if tensors else torch.is_grad_enabled()


class _Here(threading.local):
    """What the thread that looks at it has done. depth: modules that it is in. calls: of an outermost one, to infer."""

    def __init__(self) -> None:
        self.depth = self.calls = 0
        self.laps = Laps()


class StepWatch:
    """Counts steps, captures the one that is asked for, and times others.

    is_done: whether it is captured. words: the script and its arguments, secrets hidden, which a suite keeps.
    """

    def __init__(self, number: int, words: str, answer: Callable[[CapturedStep | PrimbenchError], None]) -> None:
        self._number, self._words, self._answer = number, words, answer
        self._process = os.getpid()
        self.endings = Endings()
        self._steps = self._calls_to_learn = 0
        self._calls = self._all_calls = 0  # of modules, to infer: of the thread that made most of them, and of all
        self._here = _Here()
        self._inside: Inside | None = None
        self._recorder: Any = None
        self._step = CapturedStep()
        self._records = threading.Lock()  # held from where a step is recorded, for good once it is captured
        self._thread: threading.Thread | None = None  # that holds it, since a dispatch mode is of one
        self._laps = Laps()  # of that thread
        self._is_due = ""  # the optimizer that has made a step within backward()
        self._trains: threading.Thread | None = None  # made the last output that has gradients
        self._has_optimizer = self.is_done = self._has_left = False

    def follow(self) -> list[Any]:
        """The handles by which torch leaves off telling it."""
        from torch.compiler import is_compiling
        from torch.nn.modules import module
        from torch.optim.optimizer import register_optimizer_step_post_hook

        warnings.filterwarnings("ignore", _HOOKED)
        return [
            register_optimizer_step_post_hook(lambda optimizer, *_: self._end_optimizer(optimizer)),
            # torch.compile() traces these, too, and would break a function's graph at what they do.
            module.register_module_forward_pre_hook(lambda *_: None if is_compiling() else self._begin_module()),
            module.register_module_forward_hook(
                lambda called, _, output: None if is_compiling() else self._end_module(called, output), always_call=True
            ),
        ]

    @property
    def is_forked(self) -> bool:
        """Whether this is a process that the script has forked, whose steps are none of its own."""
        return os.getpid() != self._process

    def laps(self) -> Laps:
        """Of the thread that asks."""
        return self._here.laps

    def too_few(self, ended: str, without_any: str = _STARTED, *, has_raised: bool = False) -> str:
        """One line. ended: what became of the script. without_any: what to do where it made no step at all."""
        seen, count = f"{_several(self._steps, 'step')} of an optimizer", self._steps
        if self.endings.is_first and self._calls:
            seen, count = f"{_several(self._calls, 'call')} of a module without gradients", self._calls
            seen += f" in one thread, {self._all_calls} in all" * (self._all_calls > self._calls)
        elif not self._steps and self._calls_to_learn:
            seen += f" and {_several(self._calls_to_learn, 'call')} of a module with gradients"
            without_any = _WITH_GRADIENTS if without_any == _STARTED else without_any
        hint = "" if has_raised and count <= 1 else self._hint(count)
        return f"{ended} after {seen}, before step {self._number} was captured: {hint or without_any}"

    def _hint(self, count: int) -> str:
        """Where the script made so many steps; "" where it made none."""
        if self._has_optimizer and self.endings.is_first:
            return f"the script has an optimizer that made none; a step without is captured by {_BY_HAND}"
        if count == 1:
            return "a step lies between the ends of two: have the script make more"
        if count >= self._number:
            return f"a step that does not begin and end in one thread is captured by {_BY_HAND}"
        return f"ask for --step {count} or less" if count else ""

    def _end_optimizer(self, optimizer: Any) -> None:
        if self.is_forked or not self.endings.ends(optimizer):
            return
        name = type(optimizer).__name__
        if is_in_backward():
            self._is_due = name
        else:
            self._end_training(f"between the ends of two {name}.step()")

    def _end_training(self, between: str) -> None:
        self._steps += 1
        if self._steps == 1:  # what came before it was none
            self._drop()
            self._here.laps.forget()
        self._note_lap()
        if self._is_recording:
            self._end(between)
        elif self._steps == self._number - 1:
            self._begin()
        self._leave_if_enough()

    def _begin_module(self) -> None:
        if not self._here.depth and not is_in_backward():
            self._begin_outermost()
        self._here.depth += 1

    def _begin_outermost(self) -> None:
        if (name := self._is_due) and self._trains is threading.current_thread() and not self.is_forked:
            self._is_due = ""
            self._end_training(f"between the calls of a module that follow two backward() with {name}.step() in them")
        if self.endings.is_first and not self._is_inference():
            self._drop()
        if self._is_recording:
            self._recorder.begin_module()

    def _end_module(self, module: Any, output: Any) -> None:
        self._here.depth -= 1
        if self._here.depth:
            return
        self._here.laps.module_calls[kind_of(module)] += 1
        if not self._is_inference():
            if _is_to_learn(output):
                self._calls_to_learn += 1
                self._trains = threading.current_thread()
            return
        self._here.calls += 1
        self._calls, self._all_calls = max(self._calls, self._here.calls), self._all_calls + 1
        self._note_lap()
        if self._is_recording:
            self._end("between the ends of two calls of its outermost module")
        elif self._here.calls >= self._number - 1 and not self.is_done and not self._looks_for_optimizers():
            self._begin()
        self._leave_if_enough()

    def _note_lap(self) -> None:
        if self._is_recording:
            self._step.module_calls = self._here.laps.module_calls
        self._here.laps.end(is_timed=self._recorder is None and self._inside is None)

    def _is_inference(self) -> bool:
        import torch

        is_first = self.endings.is_first and not self._has_optimizer
        return is_first and not torch.is_grad_enabled() and not self.is_forked

    def _looks_for_optimizers(self) -> bool:
        """Whether the script has made one by now, so that calls before are not what it is for."""
        self._has_optimizer = self.endings.made > 0
        return self._has_optimizer

    @property
    def _is_recording(self) -> bool:
        """Whether this thread is what is being recorded."""
        return self._recorder is not None and self._thread is threading.current_thread()

    def _begin(self) -> None:
        if self._thread and not (self.is_done or self._thread.is_alive()):
            self.leave_off()
        if not self._records.acquire(blocking=False):
            return
        self._thread, self._laps = threading.current_thread(), self._here.laps
        self._recorder = recorder(self._step, lambda: self._laps.is_loading)
        self._recorder.__enter__()

    def leave_off(self) -> None:
        """Record nothing more of a step that has not ended."""
        if self._is_recording:
            self._drop()
        elif self._recorder is not None:
            self._recorder.abandon()
            self._forget()

    def _drop(self) -> None:
        """What is being recorded is no step after all."""
        if self._is_recording:
            self._recorder.__exit__(None, None, None)
            self._forget()

    def _forget(self) -> None:
        self._recorder, self._step, self._thread = None, CapturedStep(), None
        self._records.release()

    def _end(self, between: str) -> None:
        self._recorder.__exit__(None, None, None)
        self._recorder = None
        self._step.of, self._step.place = f"step {self._number} of {self._words}, {between}", here()
        self.is_done = True
        self._tell()
        self._laps.end(is_timed=False)

    def _leave_if_enough(self) -> None:
        """Once others were timed, some more run to tell how long of them passes inside operators."""
        if not (self.is_done and self._thread):
            return
        if self._thread is not threading.current_thread():
            if self._has_left or not self._thread.is_alive():
                self._leave(Done(0))
        elif len(self._laps) >= LEAST_TIMED:
            self._leave_once_timed()

    def _leave_once_timed(self) -> None:
        if threading.current_thread() is not threading.main_thread():  # which alone the profiler starts in
            self._leave(SystemExit())  # of which no more is said where a thread ends by it
        self._inside = self._inside or Inside()
        try:
            self._inside.end()
        except RuntimeError:
            self._leave(Done(0))
        if self._inside.is_enough:
            self._leave(Done(0))

    def _leave(self, ended: SystemExit) -> NoReturn:
        """End the script as sys.exit() does; at its next step for good, where it catches that, too, and goes on."""
        if self._has_left:
            self.tell_at_end(None)
            end_now()
        self._has_left = True
        raise ended from None

    def tell_at_end(self, ended: PrimbenchError | None) -> None:
        """The step, or what has ended the script before it was captured."""
        if self.is_forked:
            return
        if self.is_done:
            self._step.inside_s = self._inside.leave() if self._inside else []
            self._tell()
        elif ended is not None:
            self._answer(ended)

    def _tell(self) -> None:
        """The step, with those that were timed by now."""
        self._step.laps = self._laps.last()
        self._answer(self._step)

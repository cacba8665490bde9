"""The steps of a script that runs, of which one is recorded and others are timed.

A step of training is what lies between the ends of two step() of an optimizer, the first one that makes a step where
there are several, or one made later, which takes its place: however many batches its gradients are of, it is one. A
script that has backward passes and no optimizer has the steps of updates.py. A step of one without either lies between
the ends of two calls of an outermost module that keep no gradients, in one thread: what the thread does between them,
such as loading data, is in it. Of calls that are given other shapes it is one of the usual shape.

Where an optimizer steps within backward(), its step ends with the next call of a module, since autograd takes back
whatever begins within.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from primbench.decompose.calls import Calls, Given, following_modules, is_to_learn
from primbench.decompose.endings import Endings
from primbench.decompose.laps import LEAST_TIMED, Laps
from primbench.decompose.leaving import Done, end_now
from primbench.decompose.place import here
from primbench.decompose.profiled import Inside
from primbench.decompose.recording import recorder
from primbench.decompose.script_counts import ScriptCounts
from primbench.decompose.step_phases import is_in_backward
from primbench.decompose.updates import Updates
from primbench.decompose.written import CapturedStep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from primbench.errors import PrimbenchError

MOST_TIMED = 50  # calls to infer, of which few may be like the captured one


class StepWatch:
    """Counts steps, captures the one that is asked for, and times others.

    is_done: whether it is captured. words: the script and its arguments, secrets hidden, which a suite keeps.
    """

    def __init__(
        self,
        number: int,
        words: str,
        answer: Callable[[CapturedStep | PrimbenchError], None],
        *,
        is_prefill: bool = False,
    ) -> None:
        """is_prefill: whether of a loop that generates the call that is given the prompt is asked for."""
        self._number, self._words, self._answer, self._is_prefill = number, words, answer, is_prefill
        self._process = os.getpid()
        self.endings, self._updates = Endings(), Updates(number)
        self._seen = ScriptCounts()
        self._here = Calls()
        self._inside: Inside | None = None
        self._recorder: Any = None
        self._step = CapturedStep()
        self._records = threading.Lock()  # held from where a step is recorded, for good once it is captured
        self._thread: threading.Thread | None = None  # that holds it, since a dispatch mode is of one
        self._laps = Laps()  # of that thread
        self._is_due = ""  # the optimizer that has made a step within backward()
        self._learns: threading.Thread | None = None  # made the first backward pass
        self._trains: threading.Thread | None = None  # made the last output that has gradients
        self.is_done = self._has_left = False

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Inside, torch tells it of optimizers and modules."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        steps = register_optimizer_step_post_hook(lambda optimizer, *_: self._end_optimizer(optimizer))
        try:
            with following_modules(self._here, self._begin_outermost, self._end_outermost):
                yield
        finally:
            steps.remove()

    @property
    def is_forked(self) -> bool:
        """Whether this is a process that the script has forked, whose steps are none of its own."""
        return os.getpid() != self._process

    def laps(self) -> Laps:
        """Of the thread that asks."""
        return self._here.laps

    def too_few(self, ended: str, without_any: str = "", *, has_raised: bool = False) -> str:
        """One line, as ScriptCounts.too_few() has it."""
        self._seen.has_stepped = not self.endings.is_first
        return self._seen.too_few(ended, self._number, without_any, has_raised=has_raised, is_prefill=self._is_prefill)

    def begin_pass(self, leaves: Callable[[], Iterable[Any]]) -> None:
        """A backward pass begins. leaves: what it gives gradients to."""
        if self.is_forked or (self._seen.passes and not self._is_here):
            return
        if not self._seen.passes:
            self._learns = threading.current_thread()
            self._forget_inference()
        self._seen.passes += 1
        if self._is_of_updates and self._updates.begin(leaves):
            self._end_training(self._updates.between)

    def end_pass(self) -> None:
        if self._is_of_updates and self._is_here and not self.is_forked:
            self._updates.look()

    @property
    def _is_here(self) -> bool:
        """Whether this is the thread that made the first backward pass."""
        return self._learns is threading.current_thread()

    @property
    def _is_of_updates(self) -> bool:
        """Whether the script seems to have no optimizer of torch, or one that it does not use."""
        return self.endings.is_first and (not self.endings.made or self._seen.passes > self._number)

    def _forget_inference(self) -> None:
        """Calls before the first backward pass were no steps of what the script is for."""
        if self.is_done:
            self._step.of += ", before any backward()"
            return
        self.leave_off()
        self._here.laps.forget()

    def _end_optimizer(self, optimizer: Any) -> None:
        was_first = self.endings.is_first
        if self.is_forked or not self.endings.ends(optimizer, self._seen.steps + 1):
            return
        if was_first and self._seen.passes and not self.is_done:
            self.leave_off()
            self._seen.steps = 0
        name = type(optimizer).__name__
        if is_in_backward():
            self._is_due = name
        else:
            self._end_training(f"between the ends of two {name}.step()")

    def _end_training(self, between: str) -> None:
        self._seen.steps += 1
        if self._seen.steps == 1:  # what came before it was none
            self._drop()
            self._here.laps.forget()
        self._note_lap()
        if self._is_recording:
            self._end(between + self.endings.lacking(self._seen.steps), self._seen.steps)
        elif self._seen.steps == self._number - 1:
            self._begin()
        self._leave_if_enough()

    def _begin_outermost(self) -> None:
        if is_in_backward():
            return
        if (name := self._is_due) and self._trains is threading.current_thread() and not self.is_forked:
            self._is_due = ""
            self._end_training(f"between the calls of a module that follow two backward() with {name}.step() in them")
        if self.endings.is_first and not self._seen.passes and not self._is_inference():
            self._drop()
        if self._is_recording:
            self._recorder.begin_module()

    def _end_outermost(self, given: Given, output: Any) -> None:
        is_inference = self._is_inference()
        self._here.laps.module_calls[str(given) if is_inference else given.kind] += 1
        if not is_inference:
            if is_to_learn(output):
                self._seen.calls_to_learn += 1
                self._trains = threading.current_thread()
            return
        self._end_call(given)
        self._leave_if_enough()

    def _end_call(self, given: Given) -> None:
        """Of an outermost module, to infer."""
        self._here.to_infer[given] += 1
        calls = self._here.to_infer.total()
        self._seen.calls, self._seen.all_calls = max(self._seen.calls, calls), self._seen.all_calls + 1
        self._note_lap()
        if self._is_recording and not self._here.is_wanted(given, is_prefill=self._is_prefill):
            self._drop()
        if self._is_recording:
            between = f"between the ends of two calls of its outermost module{self._here.words(given)}"
            self._end(between, calls)
        elif calls >= self._number - 1 and not self.is_done and not self._looks_for_optimizers():
            self._begin()

    def _note_lap(self) -> None:
        if self._is_recording:
            self._step.module_calls = self._here.laps.module_calls
        self._here.laps.end(is_timed=self._recorder is None and self._inside is None)

    def _is_inference(self) -> bool:
        import torch

        is_first = self.endings.is_first and not self._seen.has_optimizer and not self._seen.passes
        return is_first and not torch.is_grad_enabled() and not self.is_forked

    def _looks_for_optimizers(self) -> bool:
        """Whether the script has made one by now, so that calls before are not what it is for."""
        self._seen.has_optimizer = self.endings.made > 0
        return self._seen.has_optimizer

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
        self._recorder = recorder(self._step, lambda: self._laps.is_loading, lambda: self._here.is_in_module)
        self._recorder.__enter__()

    def leave_off(self) -> None:
        """Record nothing more of a step that has not ended."""
        if self._is_here:
            self._updates.leave()
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

    def _end(self, between: str, number: int) -> None:
        self._recorder.__exit__(None, None, None)
        self._recorder = None
        self._step.of, self._step.place = f"step {number} of {self._words}, {between}", here()
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
        elif self._laps.are_enough(self._step.module_calls, most=MOST_TIMED if self._is_inference() else LEAST_TIMED):
            self._leave_once_timed()

    def _leave_once_timed(self) -> None:
        if threading.current_thread() is not threading.main_thread():  # which alone the profiler starts in
            self._leave(SystemExit())  # of which no more is said where a thread ends by it
        if self._is_prefill:  # which the steps that come next are not
            self._leave(Done(0))
        if self._inside is None:
            names = {each.profiled_name for each in self._step.calls}
            self._inside = Inside(names, has_helpers=self._step.helpers > 0)
        try:
            self._inside.end()
        except RuntimeError:
            self._leave(Done(0))
        if self._inside.told is not None:
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
            if self._inside:
                self._inside.tell()
            self._step.is_all_told = True
            self._tell()
        elif ended is not None:
            self._answer(ended)

    def _tell(self) -> None:
        """The step, with those that were timed by now."""
        self._step.laps = self._laps.last(self._step.module_calls)
        if self._inside is not None:
            self._step.profiled = self._inside.told
        self._answer(self._step)

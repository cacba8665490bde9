"""What is timed: so many calls of a step, in turn on each of its input sets."""

from __future__ import annotations

import math
from collections import deque
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any

from primbench.errors import VerificationError
from primbench.problem import described, description_of

if TYPE_CHECKING:
    from primbench.problem import Step


class CallLoop:
    """Makes ``count`` calls, going round the closures of the input sets.

    sets: how many input sets there are. stream_only, waits, launches_nothing, are_processes: as the steps' Description
    has them. is_prepared: whether something is done before each sample, of most_calls at most.
    """

    def __init__(self, steps: list[Step]) -> None:
        """Raises VerificationError for what cannot be called."""
        for step in steps:
            if not callable(step):
                raise VerificationError(
                    f"the kernel's set-up returned {step!r:.60}, of type {type(step).__name__}: "
                    "it is to return a function that makes a call, such as lambda: ..."
                )
        self._steps = steps
        self._next = 0
        self.sets = len(steps)
        first = description_of(steps[0])
        self.stream_only, self.waits, self.are_processes = first.stream_only, first.waits, first.is_process
        self.launches_nothing = first.launches_nothing
        self._before = [description_of(step).before for step in steps]
        if self.sets == 1 and first.undo:  # of several sets each is called seldom, and what undoes it would warm caches
            self._before = [first.undo]
        self.is_prepared = self._before[0] is not None
        self.most_calls = first.most_calls if self.is_prepared else math.inf

    def of_one_set(self) -> CallLoop:
        """The same calls on the first input set alone."""
        return CallLoop(self._steps[:1])

    def keeping(self, outputs: list[Any]) -> CallLoop:
        """One call on the first input set, which leaves its output there.

        It is made from where those are that are timed, with nothing of Python in between, so that it does as they do.
        """
        step = self._steps[0]
        return CallLoop([described(partial(outputs.extend, starmap(step, [()])), **description_of(step)._asdict())])

    def prepare(self) -> None:
        """Do what is to be done before the next sample."""
        if before := self._before[self._next]:
            before()

    def apart(self, count: int) -> None:
        """The same calls; of several sets what each returns is kept while the others go round, in memory of its own."""
        if self.sets == 1:
            self(count)
            return
        kept = deque[Any](maxlen=self.sets)
        for step in self._in_turn(count):
            kept.append(step())

    def __call__(self, count: int) -> None:
        steps = self._steps
        if len(steps) == 1:
            step = steps[0]
            for _ in range(count):
                step()
            return
        for step in self._in_turn(count):
            step()

    def _in_turn(self, count: int) -> list[Step]:
        steps, first = self._steps, self._next
        self._next = (first + count) % len(steps)
        return [steps[(first + i) % len(steps)] for i in range(count)]

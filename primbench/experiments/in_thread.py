"""What takes turns in threads of one process, as workers do in processes of their own."""

from __future__ import annotations

import os
import queue
import threading
from typing import TYPE_CHECKING

from primbench.timing.raised import one_line
from primbench.timing.turns import InTurn
from primbench.workers.process import WorkerGone
from primbench.workers.protocol import Go, Outcome, Task, TurnOver

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.measurement import Measurement


class InThread:
    """A measurement in a thread of its own, which waits while others have their turn."""

    raised: Exception | None = None
    """What ended it, if anything did."""

    def __init__(self, measure: Callable[[InTurn], Measurement]) -> None:
        self._measure = measure
        self._words, self._answers = queue.SimpleQueue[bool](), queue.SimpleQueue[TurnOver | Outcome]()

    def turn(self, word: Task | Go, timeout_s: float, active_s: float) -> TurnOver | Outcome:
        """What it answers once its turn is over."""
        if isinstance(word, Go):
            self._words.put(word.all_done)
        else:
            threading.Thread(target=self._run, daemon=True).start()
        return self._answer(timeout_s - active_s)

    def outcome(self, timeout_s: float, active_s: float) -> Outcome:
        found = self._answer(timeout_s - active_s)
        assert isinstance(found, Outcome)
        return found

    def _answer(self, timeout_s: float) -> TurnOver | Outcome:
        try:
            return self._answers.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            self.raised = WorkerGone("a function took longer than ten minutes in a round: take a smaller size")
            raise self.raised from None

    def end(self) -> None:
        """A thread cannot be ended."""

    def _run(self) -> None:
        def give_away(done: bool) -> bool:  # noqa: FBT001 - as turns.GiveAway has it
            self._answers.put(TurnOver(done=done))
            return self._words.get()

        try:
            measured = self._measure(InTurn(give_away, min(os.sched_getaffinity(0))))
            self._answers.put(Outcome(status="ok", measurement=measured))
        except Exception as error:  # whatever a function raises, for the thread that asked
            self.raised = error
            self._answers.put(Outcome(status="failed", reason=one_line(error)))

"""One case in several workers that take turns: who has the next one, and when a metric is done."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from primbench.workers.process import WorkerGone
from primbench.workers.protocol import Go, Outcome, Sampled, Task, TurnOver

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class TakesTurns(Protocol):
    """A worker's process, or what is asked like one."""

    def turn(self, word: Task | Go, timeout_s: float, active_s: float) -> TurnOver | Sampled | Outcome: ...
    def outcome(self, timeout_s: float, active_s: float) -> Outcome: ...
    def end(self) -> None: ...


@dataclass
class _Turns:
    """The turns of one worker."""

    worker: TakesTurns
    metrics: int = 0
    """How many metrics it has done."""
    done: bool = False
    """Whether it has enough samples of the next metric."""
    is_sampled: bool = False
    """Whether it takes no more of them."""
    active_s: float = 0.0
    outcome: Outcome | None = None

    def next(self, word: Task | Go, timeout_s: float) -> None:
        """timeout_s: of all turns together."""
        self._hear(lambda: self.worker.turn(word, timeout_s, self.active_s))

    def end(self, timeout_s: float) -> Outcome:
        """What it makes of its case, which it may still work out."""
        if self.outcome is None:
            self._hear(lambda: self.worker.outcome(timeout_s, self.active_s))
        assert self.outcome is not None
        return self.outcome

    def _hear(self, ask: Callable[[], TurnOver | Sampled | Outcome]) -> None:
        started = time.monotonic()
        try:
            answer = ask()
        except WorkerGone as gone:
            self.worker.end()  # at once: it may go on computing beside the others
            answer = Outcome(status="failed", reason=str(gone))
        self.active_s += time.monotonic() - started
        if isinstance(answer, TurnOver):
            self.done = answer.done
            return
        self.is_sampled = True
        if isinstance(answer, Outcome):
            self.outcome = answer


def take_turns(workers: Sequence[tuple[TakesTurns, Task]], timeout_s: float) -> list[tuple[Outcome, float]]:
    """What each worker makes of its task, which is in turn, and the seconds of its turns.

    Each begins alone, until it is about to sample. Then they sample in turn, in their order, until all have enough
    samples of a metric; one whose case has a metric less, or has ended, holds up nobody. What is left to do once all is
    sampled they do at the same time.
    """
    started = [_Turns(worker) for worker, _ in workers]
    for each, (_, task) in zip(started, workers, strict=True):
        each.next(task, timeout_s)
    while going_on := [each for each in started if not each.is_sampled]:
        _round(going_on, timeout_s)
    outcomes = [each.end(timeout_s) for each in started]
    return [(outcome, each.active_s) for each, outcome in zip(started, outcomes, strict=True)]


def _round(workers: Sequence[_Turns], timeout_s: float) -> None:
    """A turn of each that has fewer metrics done than others, or as many as all."""
    least = min(each.metrics for each in workers)
    behind = [each for each in workers if each.metrics == least]
    all_done = all(each.done for each in behind)
    for each in behind:
        each.metrics += all_done
        each.next(Go(all_done=all_done), timeout_s)

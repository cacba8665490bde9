"""One case in several workers that take turns: who has the next one, and when a metric is done."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from primbench.workers.process import WorkerGone
from primbench.workers.protocol import Go, Outcome, Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.workers.process import WorkerProcess


@dataclass
class _Turns:
    """Those of one worker. metrics: how many it has done. done: whether it has enough samples of the next."""

    worker: WorkerProcess
    metrics: int = 0
    done: bool = False
    active_s: float = 0.0
    outcome: Outcome | None = None

    def next(self, word: Task | Go, timeout_s: float) -> None:
        """timeout_s: of all turns together."""
        started = time.monotonic()
        try:
            answer = self.worker.turn(word, timeout_s, self.active_s)
        except WorkerGone as gone:
            self.worker.end()  # at once: it may go on computing beside the others
            answer = Outcome(status="failed", reason=str(gone))
        self.active_s += time.monotonic() - started
        if isinstance(answer, Outcome):
            self.outcome = answer
        else:
            self.done = answer.done


def take_turns(workers: Sequence[tuple[WorkerProcess, Task]], timeout_s: float) -> list[tuple[Outcome, float]]:
    """What each worker makes of its task, which is in turn, and the seconds of its turns.

    Each begins alone, until it is about to sample. Then they sample in turn, in their order, until all have enough
    samples of a metric; one whose case has a metric less, or has ended, holds up nobody.
    """
    started = [_Turns(worker) for worker, _ in workers]
    for each, (_, task) in zip(started, workers, strict=True):
        each.next(task, timeout_s)
    while going_on := [each for each in started if each.outcome is None]:
        _round(going_on, timeout_s)
    return [(each.outcome, each.active_s) for each in started if each.outcome is not None]


def _round(workers: Sequence[_Turns], timeout_s: float) -> None:
    """A turn of each that has fewer metrics done than others, or as many as all."""
    least = min(each.metrics for each in workers)
    behind = [each for each in workers if each.metrics == least]
    all_done = all(each.done for each in behind)
    for each in behind:
        each.metrics += all_done
        each.next(Go(all_done=all_done), timeout_s)

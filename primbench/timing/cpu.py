"""Times of calls on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from primbench.measurement import Measurement
from primbench.timing.sampling import TOO_SHORT, Pace, StoppingRule, collect, main_rule, nothing, warm_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.spec.method import Method
    from primbench.timing.calls import CallLoop

Result = TypeVar("Result")

BATCH_S = 50e-6  # a sample shorter than this would show the clock's own 50 ns
MOST_SAMPLES = 1_000_000  # of a record, a third of what a line of a results file holds; longer ones where there is time
LONG_S = 0.1  # no call of 50 us takes that long
CPU_MISSING = dict.fromkeys(
    ("enqueue_s", "enqueue_single_s", "stream_s", "device_s", "gpu"), "calls on a CPU return when they are done"
)


class CpuTimer:
    """Of calls that return when they are done."""

    def __init__(self, calls: CallLoop, method: Method, pace: Pace) -> None:
        self._calls, self._method, self._pace = calls, method, pace

    def settle(self, meanwhile: Callable[[], Result]) -> Result:
        """What ``meanwhile`` returns: a CPU does nothing beside it."""
        return meanwhile()

    def measure(self, rule_of: Callable[[str], StoppingRule]) -> Measurement:
        """batch_s, and wall_s of single calls; they share their samples where one call already fills a batch.

        rule_of: when to stop sampling what is not batch_s.
        """
        calls, method, pace = self._calls, self._method, self._pace
        per_batch = calls_per_batch(calls, pace, max(BATCH_S, method.max_time_s / MOST_SAMPLES))
        take = pace.host_timed(calls, per_batch)
        by: dict[str, Any] = {"taken_by": "host clock", "loop": pace.loop}
        drift, missing = None, dict(CPU_MISSING)
        if calls.are_processes:
            by["uncounted"] = nothing
            missing["warm_up_drift"] = "each call is a process of its own, which nothing warms up"
        else:
            drift = warm_up(take, pace.now, window_s=0.0, max_time_s=method.max_time_s / 2)
            missing |= {"warm_up_drift": TOO_SHORT} if drift is None else {}
        pace.phases.end("warm-up")
        batch_s = collect(take, main_rule(method), pace, calls_per_sample=per_batch, metric="batch_s", **by)
        if per_batch == 1:
            return Measurement(batch_s=batch_s, wall_s=batch_s, warm_up_drift=drift, missing=missing)
        single = pace.host_timed(calls, 1)
        wall_s = collect(single, rule_of("wall_s"), pace, calls_per_sample=1, metric="wall_s", **by)
        return Measurement(batch_s=batch_s, wall_s=wall_s, warm_up_drift=drift, missing=missing)


def calls_per_batch(calls: CallLoop, pace: Pace, least_s: float = BATCH_S) -> int:
    """The smallest power of two of calls that lasts at least so long, the quicker of two tries counting.

    No more than may follow what is done before each sample, and one where the first try took so long that none will be
    that quick.
    """
    count = 1
    while count < calls.most_calls:
        take = pace.host_timed(calls, count)
        first_s, *_ = take()
        if first_s >= LONG_S or min(first_s, take()[0]) * count >= least_s:
            return count
        count *= 2
    return count

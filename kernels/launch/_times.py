"""Times that only launches have: with the queue full, and of making a graph ready to be launched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.gpu.nvidia import driver
from primbench.gpu.nvidia.blocker import Blocker
from primbench.timing.sampling import Pace, collect, secondary_rule

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from ctypes import c_void_p

    from primbench.measurement import Samples
    from primbench.spec.method import Method

HOLD_S = 20e-3  # at 10 us a launch two thousand: twice what the queue of a stream holds
FULL_CALLS = 256


def full_queue(step: Callable[[], Any], stream: int) -> Callable[[Method, Pace], Samples]:
    """How to time a call that finds the queue full, or some thousand launches long where it never is.

    The stream is held until so many are queued, and the calls behind them are timed while the GPU catches up.
    """

    def times(method: Method, pace: Pace) -> Samples:
        blocker = Blocker(stream, HOLD_S)

        def take() -> list[float]:
            blocker.hold()
            while not blocker.timed_out:
                step()
            start = pace.clock()
            for _ in range(FULL_CALLS):
                step()
            end = pace.clock()
            driver.synchronize(stream)
            return [(end - start) / 1e9 / FULL_CALLS]

        rule = secondary_rule(method)
        return collect(take, rule, pace, calls_per_sample=FULL_CALLS, taken_by="host clock, queue full")

    return times


def instantiation(made: Callable[[], AbstractContextManager[c_void_p]]) -> Callable[[Method, Pace], Samples]:
    """How to time cuGraphInstantiate of the graph that ``made`` has while it is entered."""

    def times(method: Method, pace: Pace) -> Samples:
        with made() as graph:

            def take() -> list[float]:
                start = pace.clock()
                instance = driver.instantiate(graph)
                end = pace.clock()
                driver.call("cuGraphExecDestroy", instance)
                return [(end - start) / 1e9]

            take()
            return collect(take, secondary_rule(method), pace, calls_per_sample=1, taken_by="host clock")

    return times

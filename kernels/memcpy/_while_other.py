"""The time of a copy while as many go the other way, as nvbandwidth's bidirectional tests have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.cuda.copies import Branch, by_engine
from primbench.gpu.nvidia import driver
from primbench.gpu.nvidia.blocker import Blocker
from primbench.timing.sampling import Pace, collect, secondary_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.cuda.copies import Copy
    from primbench.measurement import Samples
    from primbench.spec.method import Method

MOST, FEWEST = 16, 4  # copies of either way: nvbandwidth's; and of those that take milliseconds
TOGETHER_BYTES = 2**30


def while_other_goes(measured: Copy, other: Copy, stream: int) -> Callable[[Method, Pace], Samples]:
    """How to time ``measured``, on a stream of its device. Both ways begin at once, when the stream is let go."""
    count = max(FEWEST, min(MOST, TOGETHER_BYTES // measured.source.size_bytes))

    def times(method: Method, pace: Pace) -> Samples:
        blocker, begun, ended = Blocker(stream), driver.Event(), driver.Event()
        branch = Branch(other.device)
        both = (by_engine(measured, stream), by_engine(other, branch.stream))

        def take() -> list[float]:
            blocker.hold()
            branch.begin_after(stream)
            begun.record(stream)
            for function, arguments in both * count:
                if status := function(*arguments):
                    raise driver.failure(function.__name__, status)
            ended.record(stream)
            blocker.release()
            ended.wait()
            driver.synchronize(branch.stream)
            return [begun.seconds_until(ended) / count]

        take()
        rule = secondary_rule(method)
        return collect(take, rule, pace, calls_per_sample=count, taken_by="blocking kernel, the other way beside it")

    return times

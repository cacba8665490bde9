"""How fast the CPU is right beside what is timed: the same short loop again and again.

Another program or another virtual machine on the other hyperthread of a core makes everything on this one 1.5 to 2
times as slow, and its clock may move; no counter of the kernel tells. The time of a loop does, whatever is measured.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from primbench import stats
from primbench.measurement import Samples

TURNS = 2_000  # some 25 us
EVERY_S = 0.5e-3  # a loop costs a twentieth of this
SLOWED = 1.15  # the steps of a CPU's own clock lie within 12 %
QUICK = 0.05  # of all loops, those that show the CPU as fast as it gets
FEWEST = 6  # samples for which an interval of the median exists


class Loop:
    """Calling it times the loop, unless that was done a moment ago."""

    def __init__(self) -> None:
        self._ended_ns = 0

    def __call__(self) -> float | None:
        """Seconds; None where too little time has passed."""
        start_ns = time.perf_counter_ns()
        if start_ns - self._ended_ns < EVERY_S * 1e9:
            return None
        for _ in range(TURNS):
            pass
        self._ended_ns = time.perf_counter_ns()
        return (self._ended_ns - start_ns) / 1e9


def full_speed_s(loops_s: Sequence[float]) -> float | None:
    """What the loop takes while nothing slows the CPU down."""
    return stats.quantile(loops_s, QUICK) if loops_s else None


def slowed_fraction(loops_s: Sequence[float], full_speed_s: float) -> float:
    """Of the loops, those that took notably longer than at full speed."""
    return sum(loop_s > SLOWED * full_speed_s for loop_s in loops_s) / len(loops_s)


def undisturbed(samples: Samples, full_speed_s: float) -> list[float]:
    """The samples before and after which the loop was quick; behind the last loop that one counts alone."""
    quick = [loop_s <= SLOWED * full_speed_s for _, loop_s in samples.loops_s]
    begins = [begin for begin, _ in samples.loops_s]
    stretches = zip(begins, [*begins[1:], len(samples.samples_s)], quick, [*quick[1:], True], strict=True)
    return [
        each for begin, end, before, after in stretches if before and after for each in samples.samples_s[begin:end]
    ]

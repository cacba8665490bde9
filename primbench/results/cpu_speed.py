"""How fast the CPU is right beside what is timed: the same short loop again and again.

Another program or another virtual machine on the other hyperthread of a core makes everything on this one 1.5 to 2
times as slow, and its clock may move; no counter of the kernel tells. The time of a loop does, whatever is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from primbench import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.measurement import Samples

SLOWED = 1.15  # on the machine that this was made on, loops of an idle core lie within 12 %
QUICK = 0.05  # of all loops, those that show the CPU as fast as it gets
FEWEST = 6  # samples for which an interval of the median exists


class Speed(NamedTuple):
    """full_s: what the loop takes while nothing slows the CPU down. slowed_fraction: of all loops, those that took
    notably longer.
    """

    full_s: float
    slowed_fraction: float


def speed(loops_s: Sequence[float]) -> Speed | None:
    """The CPU's speed, by the quickest of the loops: a CPU that is slow all the time is not told from a slow one."""
    if not loops_s:
        return None
    full_s = stats.quantile(loops_s, QUICK)
    return Speed(full_s, slowed_fraction(loops_s, full_s))


def slowed_fraction(loops_s: Sequence[float], full_s: float) -> float:
    """Share of the loops that took more than SLOWED times as long as one at full speed, ``full_s``."""
    return sum(loop_s > SLOWED * full_s for loop_s in loops_s) / len(loops_s)


def undisturbed(samples: Samples, full_s: float) -> list[float]:
    """The samples before and after which the loop was quick; behind the last loop that one counts alone."""
    quick = [loop_s <= SLOWED * full_s for _, loop_s in samples.loops_s]
    begins = [begin for begin, _ in samples.loops_s]
    ends, after = [*begins, len(samples.samples_s)][1:], [*quick, True][1:]
    return [
        each
        for begin, end, is_quick, then in zip(begins, ends, quick, after, strict=True)
        if is_quick and then
        for each in samples.samples_s[begin:end]
    ]

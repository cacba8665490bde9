"""How fast the CPU is right beside what is timed: the same short loop again and again.

Another program or another virtual machine on the other hyperthread of a core makes everything on this one 1.5 to 2
times as slow, and its clock may move; no counter of the kernel tells. The time of a loop does, whatever is measured.

Another program on the same CPU makes a thread wait, and all that wait for that thread. That the kernel counts.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from primbench import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.measurement import Samples

SLOWED = 1.15  # on the machine that this was made on, loops of an idle core lie within 12 %
QUICK = 0.05  # of all loops, those that show the CPU as fast as it gets
HELD_UP = 0.02  # of its time, which a thread waited for a CPU; ten times what one does that is woken on an idle machine
FEWEST = 6  # samples for which an interval of the median exists


class Speed(NamedTuple):
    """How fast the CPU was, by a loop of Python between samples."""

    full_s: float
    """Time that the loop takes while nothing slows the CPU down."""
    slowed_fraction: float
    """Share of all loops that took notably longer."""
    loops: int
    """How many loops there are."""


def speed(loops_s: Sequence[float]) -> Speed | None:
    """The CPU's speed, by the quickest of the loops: a CPU that is slow all the time is not told from a slow one."""
    if not loops_s:
        return None
    full_s = stats.quantile(loops_s, QUICK)
    return Speed(full_s, slowed_fraction(loops_s, full_s), len(loops_s))


def slowed_fraction(loops_s: Sequence[float], full_s: float) -> float:
    """Share of the loops that took more than SLOWED times as long as one at full speed, ``full_s``."""
    return sum(loop_s > SLOWED * full_s for loop_s in loops_s) / len(loops_s)


def undisturbed(samples: Samples, full_s: float) -> list[float]:
    """The samples before and after which the loop was quick; behind the last loop that one counts alone."""
    if not samples.loops_s:
        return []
    quick = [loop_s <= SLOWED * full_s for _, loop_s in samples.loops_s]
    begins = [begin for begin, _ in samples.loops_s]
    ends, after = [*begins, len(samples.samples_s)][1:], [*quick, True][1:]
    return [
        each
        for begin, end, is_quick, then in zip(begins, ends, quick, after, strict=True)
        if is_quick and then
        for each in samples.samples_s[begin:end]
    ]


def held_up(samples: Samples) -> list[bool]:
    """Whether a thread waited for a CPU for a notable part of the time, from one loop to the next; [] where unknown."""
    if not samples.queued_s:
        return []
    taken_s = [samples.calls_per_sample * math.fsum(samples.samples_s[begin:end]) for begin, end in _laps(samples)]
    return [queued_s > HELD_UP * lap_s for queued_s, lap_s in zip(samples.queued_s, taken_s, strict=True)]


def not_held_up(samples: Samples) -> list[float]:
    """The samples, nan for those while which a thread waited so; none where it is not known."""
    return [
        math.nan if is_held_up else each
        for (begin, end), is_held_up in zip(_laps(samples), held_up(samples), strict=False)
        for each in samples.samples_s[begin:end]
    ]


def _laps(samples: Samples) -> list[tuple[int, int]]:
    return list(pairwise([*(begin for begin, _ in samples.loops_s), len(samples.samples_s)]))

"""How many times as long one process took as another while they took turns: by what both sampled at the same moments.

A load that comes and goes makes the samples of a process two kinds. Which of them is the median is chance, for each
process its own; in what they took at the same moment both have the load.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from primbench import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST = 200  # moments; more of them tell no more, and take longer to sort


def moments(samples_s: Sequence[float], count: int = MOST) -> list[float]:
    """The medians of so many equal parts, or the samples where there are no more of them."""
    if len(samples_s) <= count:
        return list(samples_s)
    bounds = [number * len(samples_s) // count for number in range(count + 1)]
    return [stats.quantile(samples_s[begin:end], 0.5) for begin, end in pairwise(bounds)]


def ratio(arm_s: Sequence[float], baseline_s: Sequence[float]) -> float | None:
    """The median over moments of the ratio there; None where no time is above 0.

    Both sampled from the same beginning to the same end, in equally long turns, so that equal shares of what they
    sampled are of the same moments.
    """
    count = min(len(arm_s), len(baseline_s))
    both = zip(moments(arm_s, count), moments(baseline_s, count), strict=True)
    logs = [math.log(one / other) for one, other in both if one > 0 and other > 0]
    return math.exp(stats.quantile(logs, 0.5)) if logs else None

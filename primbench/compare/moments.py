"""How many times as long one process took as another while they took turns: by what both sampled at the same moments.

A load that comes and goes makes the samples of a process two kinds. Which of them is the median is chance, for each
process its own; in what they took at the same moment both have the load.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from primbench import stats
from primbench.results.cpu_speed import FEWEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST = 200  # moments; more of them tell no more, and take longer to sort


def moments(samples_s: Sequence[float], count: int = MOST) -> list[float]:
    """The medians of so many equal parts, or the samples where there are no more of them.

    What is not to count is nan, and so is a part of which nothing counts.
    """
    if len(samples_s) <= count:
        return list(samples_s)
    bounds = [number * len(samples_s) // count for number in range(count + 1)]
    return [_median(samples_s[begin:end]) for begin, end in pairwise(bounds)]


def _median(samples_s: Sequence[float]) -> float:
    counted = [each for each in samples_s if not math.isnan(each)]
    return stats.quantile(counted, 0.5) if counted else math.nan


def medians(of: Mapping[int, Sequence[float]]) -> dict[int, float]:
    """Of what counts, where something does."""
    return {number: found for number, each in of.items() if not math.isnan(found := _median(each))}


def ratio_alone(arm_s: Sequence[float], baseline_s: Sequence[float]) -> float | None:
    """As ``ratio``, by the moments that count for both; of medians where these are few. None where a side has few."""
    counted = [[each for each in side if each > 0] for side in (arm_s, baseline_s)]
    if min(map(len, counted)) < FEWEST:
        return None
    count = min(len(arm_s), len(baseline_s))
    both = zip(moments(arm_s, count), moments(baseline_s, count), strict=True)
    if sum(one > 0 and other > 0 for one, other in both) >= FEWEST:
        return ratio(arm_s, baseline_s)
    return _median(counted[0]) / _median(counted[1])


def ratio(arm_s: Sequence[float], baseline_s: Sequence[float]) -> float | None:
    """The median over moments of the ratio there; None where no time is above 0.

    Both sampled from the same beginning to the same end, in equally long turns, so that equal shares of what they
    sampled are of the same moments.
    """
    count = min(len(arm_s), len(baseline_s))
    both = zip(moments(arm_s, count), moments(baseline_s, count), strict=True)
    logs = [math.log(one / other) for one, other in both if one > 0 and other > 0]
    return math.exp(stats.quantile(logs, 0.5)) if logs else None

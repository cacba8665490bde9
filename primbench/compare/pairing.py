"""How the numbers of two sides belong together, and what they make a ratio of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from primbench import stats
from primbench.stats import LogRatio

Counted = tuple[LogRatio, int]
"""A ratio, and of how many pairs it is."""
Ratio = Callable[[Mapping[int, float], Mapping[int, float]], Counted | None]
"""Of an arm's processes to those of the baseline, by their numbers; None where there are no pairs."""


def paired(arm: Mapping[int, float], baseline: Mapping[int, float]) -> Counted | None:
    """Process against process of the same number."""
    both = sorted(arm.keys() & baseline.keys())
    return (stats.paired([arm[each] for each in both], [baseline[each] for each in both]), len(both)) if both else None


def unpaired(arm: Mapping[int, float], baseline: Mapping[int, float]) -> Counted | None:
    """All processes of one side against all of the other."""
    if not arm or not baseline:
        return None
    return stats.unpaired(list(arm.values()), list(baseline.values())), min(len(arm), len(baseline))

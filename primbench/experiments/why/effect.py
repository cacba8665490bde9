"""Whether SLOW differs from FAST at all."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

from primbench.experiments.why.contrasts import reach

if TYPE_CHECKING:
    from primbench.stats import LogRatio

LOOKS = (3, 5, 8, 12, 20)
"""Pairs of FAST and SLOW after which it is looked, at an equal share of LEVEL each."""
LEVEL = 0.05
EQUAL = 1.5
"""Margins within which two places are said not to differ."""
HOPELESS = 3.0
"""Times as many pairs as are looked at: what would take more is given up a look before the last."""


def is_certain(ratio: LogRatio, level: float = LEVEL) -> bool:
    """Whether it is not 1."""
    low, high = reach(ratio, 1 - level)
    return low > 0 or high < 0


def is_there(ratio: LogRatio, least: float) -> bool:
    """By one look: whether it certainly is not 1, and above the least ratio that matters or below its inverse."""
    return is_certain(ratio, LEVEL / len(LOOKS)) and abs(ratio.log) > math.log(least)


def look(ratio: LogRatio, pairs: int, margin: float, least: float) -> Literal["some", "none", "undecided", "more"]:
    """What so many pairs tell: more, where further ones may. least: as of is_there."""
    low, high = reach(ratio, 1 - LEVEL / len(LOOKS))
    equal = math.log1p(EQUAL * margin)
    if is_there(ratio, least):
        return "some"
    if -equal < low and high < equal:
        return "none"
    is_hopeless = pairs >= LOOKS[-2] and pairs_needed(ratio, pairs, margin) > HOPELESS * LOOKS[-1]
    return "undecided" if is_hopeless or pairs >= LOOKS[-1] else "more"


def pairs_needed(ratio: LogRatio, pairs: int, margin: float) -> int:
    """That tell in four of five tries whether a ratio of which so many pairs told is 1, or within what counts as equal.

    (z(1 - LEVEL / looks / 2) + z(0.8))^2 s^2 / d^2: Chow, Shao & Wang, Sample Size Calculations in Clinical Research,
    3.1.
    """
    deviation = (ratio.error or 0.0) * math.sqrt(pairs)
    far = max(abs(ratio.log), math.log1p(EQUAL * margin) - abs(ratio.log))
    normal = NormalDist()
    z = normal.inv_cdf(1 - LEVEL / len(LOOKS) / 2) + normal.inv_cdf(0.8)
    return math.ceil((z * deviation / far) ** 2)

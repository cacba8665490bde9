"""From which time on a node of a fleet takes longer than the others do, at a known rate of false alarms.

The scatter of healthy nodes is that of the tightest part of them, so that up to half of a large fleet, and one node of
three, can be slow without hiding in it. A node stands out that lies further above the median than nodes with
lognormal times do in one of twenty fleets, whatever the number of nodes, cases and metrics.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from primbench import stats

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

Key = TypeVar("Key")

FALSE_ALARMS = 0.05
"""Of fleets without a slow node, those in which some node is taken for one, at most: bench/fleet.py."""
FEWEST = 3
FEWEST_BY_CASE = 8
"""Below, a case's own few nodes may agree by chance, and the case that scatters most may say more of the others: a
node stands out by either, each at half of the false alarms. The widest scatter needs no correction for so many cases.
"""


class Spread(NamedTuple):
    """One metric of one case."""

    times_s: Sequence[float]
    """Seconds, one a node, above 0."""
    margin: float
    """Ratio below which a difference does not matter."""
    group: Hashable
    """Group of metrics that may scatter alike, such as those in which the host has a part."""


class Limit(NamedTuple):
    """From where on a node stands out."""

    median_s: float
    scatter: float | None
    """Scatter of nodes: the standard deviation of logarithms."""
    ratio: float | None
    """Ratio to the median above which a node stands out. Both are None where there are too few nodes."""


def limits(tests: Mapping[Key, Spread], false_alarms: float = FALSE_ALARMS) -> dict[Key, Limit]:
    """What each test's nodes have to stay below, so that all of the tests together keep to so many false alarms."""
    scatters = {key: scatter([math.log(time_s) for time_s in test.times_s]) for key, test in tests.items()}
    widest = _widest(tests, scatters)
    are_few = max((len(test.times_s) for test in tests.values()), default=0) < FEWEST_BY_CASE
    share = false_alarms / (2 if are_few else 1)
    found = {}
    for key, test in tests.items():
        allowed = [(scatters[key], share / len(tests))]
        if are_few:
            allowed.append((widest[test.group], share / len(widest)))
        known = scatters[key] if len(test.times_s) >= FEWEST else None
        found[key] = Limit(stats.quantile(test.times_s, 0.5), known, _ratio(test, allowed))
    return found


def _widest(tests: Mapping[Key, Spread], scatters: Mapping[Key, float]) -> dict[Hashable, float]:
    """Group -> the largest scatter of its tests."""
    found: dict[Hashable, float] = {}
    for key, test in tests.items():
        found[test.group] = max(found.get(test.group, 0.0), scatters[key])
    return found


def _ratio(test: Spread, scatters: Sequence[tuple[float, float]]) -> float | None:
    """The least that one of the scatters allows, each at its share of false alarms; None of too few nodes."""
    n = len(test.times_s)
    if n < FEWEST:
        return None
    least = min(deviation * _times(n, share) for deviation, share in scatters)
    return max(1 + test.margin, stats.exponential(least))


def _times(n: int, share: float) -> float:
    """So many times the scatter is exceeded by any of n nodes in this share of fleets, by Student's t."""
    from scipy.special import stdtrit

    return -float(stdtrit(_tightest(n) - 1, share / n))


def _tightest(n: int) -> int:
    """How many of n nodes are taken to be healthy whatever the others are."""
    return n - max(1, (n - 4) // 2)


def scatter(logs: Sequence[float]) -> float:
    """The standard deviation that nodes have without their outliers: of the tightest part of them, made that of all.

    As the minimum covariance determinant does: Rousseeuw (1985), in Mathematical Statistics and Applications B, 283. 0
    of fewer than three.
    """
    n = len(logs)
    if n < FEWEST:
        return 0.0
    kept, ordered = _tightest(n), sorted(logs)
    first = ordered[0]
    sums = list(itertools.accumulate((each - first for each in ordered), initial=0.0))
    squares = list(itertools.accumulate(((each - first) ** 2 for each in ordered), initial=0.0))
    least = min(
        squares[end] - squares[end - kept] - (sums[end] - sums[end - kept]) ** 2 / kept for end in range(kept, n + 1)
    )
    return _of_all(n - kept) * math.sqrt(max(0.0, least) / (kept - 1))


def _of_all(left_out: int) -> float:
    """How many times the scatter of the tightest nodes that of all is, so that t's tails are met.

    Fitted to some million simulated fleets of each size from 3 to 1000, at shares of 0.05 to 0.0001: it is never more
    than 2 % below what they need, and up to 15 % above in those of 4 to 7.
    """
    return 2.74 - 1.5 * math.exp(-(left_out - 1) / 4)

"""From which time on a node of a fleet takes longer than the others do, at a known rate of false alarms.

The scatter of healthy nodes is that of the tightest part of them, so that up to half of a large fleet, and one node of
three, can be slow without hiding in it; how far their tails reach says ``tails``. A node stands out in a case that lies
further above the median than healthy ones do in one of twenty fleets, whatever the number of nodes, cases and metrics:
of that share one half is for all cases of all nodes (Bonferroni, which holds however these depend on each other), and
one half for each node over all of its cases. Of who stands out over all, only its own cases are asked then, since the
hypotheses of a family follow that of the family: Marcus, Peritz, Gabriel (1976), Biometrika 63, 655.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from primbench import stats
from primbench.fleet.tails import USUAL, freedom_of, of_all, scatters, tightest, times

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

Key = TypeVar("Key")

FALSE_ALARMS = 0.05
"""Of fleets without a slow node, those in which some node is taken for one, at most: bench/fleet.py."""
FEWEST = 3
FEWEST_BY_CASE = 8
"""Below, a case's own few nodes may agree by chance, and the case that scatters most may say more of the others: a
node stands out by either, each at half of the false alarms, and none over all cases. The widest scatter needs no
correction for so many cases.
"""


class Spread(NamedTuple):
    """One metric of one case."""

    times_s: Mapping[str, float]
    """Node -> seconds, above 0."""
    margin: float
    """Ratio below which a difference does not matter."""
    group: Hashable
    """Group of metrics that may scatter alike, such as those in which the host has a part."""
    kind: str | None = None
    """Kind of nodes, over all cases of which each one is judged."""


class Limit(NamedTuple):
    """From where on a node stands out."""

    median_s: float
    scatter: float | None
    """Scatter of nodes: the standard deviation of logarithms."""
    ratio: float | None
    """Ratio to the median above which a node stands out. Both are None where there are too few nodes."""
    ratio_of_suspects: float | None = None
    """The same of a node that stands out over all cases."""
    suspects: Mapping[str, float] = {}
    """These nodes -> ratio over all cases."""

    def is_exceeded(self, node: str, time_s: float) -> bool:
        """Whether a node stands out by this time."""
        ratio = self.ratio_of_suspects if node in self.suspects else self.ratio
        return ratio is not None and time_s > ratio * self.median_s


class _Test(NamedTuple):
    """A metric of a case with three nodes or more."""

    spread: Spread
    median_s: float
    tightest: float
    """Scatter of the tightest of the nodes."""

    @property
    def nodes(self) -> int:
        return len(self.spread.times_s)

    @property
    def above(self) -> dict[str, float]:
        """Node -> how far above the median, in scatters; {} where there is none."""
        if not self.tightest:
            return {}
        return {name: math.log(each / self.median_s) / self.tightest for name, each in self.spread.times_s.items()}


def limits(tests: Mapping[Key, Spread], false_alarms: float = FALSE_ALARMS) -> dict[Key, Limit]:
    """What each test's nodes have to stay below, so that all of the tests together keep to so many false alarms."""
    found = {key: _test(each) for key, each in tests.items() if len(each.times_s) >= FEWEST}
    all_of = [*found.values()]
    if max((each.nodes for each in all_of), default=0) < FEWEST_BY_CASE:
        known = {key: _limit(each, len(tests), USUAL, _widest(all_of), false_alarms) for key, each in found.items()}
    else:
        freedom = _freedom([each.above for each in all_of])
        suspects = _suspects(all_of, freedom, false_alarms / 2)
        known = {
            key: _limit(each, len(tests), freedom, None, false_alarms)._replace(
                suspects=suspects.get(each.spread.kind, {})
            )
            for key, each in found.items()
        }
    return {key: known.get(key) or _of_too_few(each) for key, each in tests.items()}


def _of_too_few(spread: Spread) -> Limit:
    return Limit(_median(spread.times_s.values()), None, None)


def _limit(
    test: _Test, tests: int, freedom: float, widest: Mapping[Hashable, float] | None, false_alarms: float
) -> Limit:
    """widest: of groups, where nodes are few."""
    allowed = _allowed(test, freedom, false_alarms / 2 / tests)
    if widest is not None:
        alike = test._replace(tightest=widest[test.spread.group])
        allowed = min(allowed, _allowed(alike, freedom, false_alarms / 2 / len(widest)))
    alone = _allowed(test, freedom, false_alarms / tests * test.nodes)
    return Limit(
        median_s=test.median_s,
        scatter=test.tightest * of_all(test.nodes, freedom),
        ratio=_ratio(test, allowed),
        ratio_of_suspects=_ratio(test, min(alone, allowed)),
    )


def _allowed(test: _Test, freedom: float, share: float) -> float:
    """How far above the median any of the nodes is in this share of fleets."""
    return test.tightest * times(test.nodes, freedom, share / test.nodes)


def _test(spread: Spread) -> _Test:
    return _Test(
        spread, _median(spread.times_s.values()), _tightest([math.log(each) for each in spread.times_s.values()])
    )


def _median(values: Iterable[float]) -> float:
    return stats.quantile([*values], 0.5)


def _tightest(logs: Sequence[float]) -> float:
    import numpy as np

    return float(scatters(np.sort(np.array([logs])), tightest(len(logs)))[0])


def _widest(tests: Iterable[_Test]) -> dict[Hashable, float]:
    """Group -> the largest scatter of its tests."""
    found: dict[Hashable, float] = {}
    for test in tests:
        found[test.spread.group] = max(found.get(test.spread.group, 0.0), test.tightest)
    return found


def _ratio(test: _Test, allowed: float) -> float:
    return max(1 + test.spread.margin, stats.exponential(allowed))


def _freedom(all_above: Sequence[Mapping[str, float]]) -> float:
    """Degrees of freedom of the tails of all of them."""
    import numpy as np

    names = {name: number for number, name in enumerate(dict.fromkeys(name for each in all_above for name in each))}
    below = [(-value, names[name]) for each in all_above for name, value in each.items() if value < 0]
    return freedom_of(np.array([each for each, _ in below]), np.array([node for _, node in below], dtype=np.int64))


def _suspects(tests: Sequence[_Test], freedom: float, false_alarms: float) -> dict[str | None, dict[str, float]]:
    """Kind -> nodes that stand out over all of its tests -> the median of their ratios.

    How far a node is above the others is the median over its cases: a single case, however far out, has no part.
    """
    kinds: dict[str | None, list[_Test]] = {}
    for test in tests:
        kinds.setdefault(test.spread.kind, []).append(test)
    placed = {kind: _over_all([each.above for each in of_kind]) for kind, of_kind in kinds.items()}
    count = sum(map(len, placed.values()))
    freedom = min(freedom, _freedom([*placed.values()]))
    return {
        kind: {name: _usual(kinds[kind], name) for name in _beyond(above, freedom, false_alarms / count)}
        for kind, above in placed.items()
        if len(above) >= FEWEST_BY_CASE
    }


def _beyond(above: Mapping[str, float], freedom: float, share: float) -> list[str]:
    least = times(len(above), freedom, share)
    return [name for name, value in above.items() if value > least]


def _usual(tests: Sequence[_Test], name: str) -> float:
    """The median of a node's ratios."""
    return _median(each.spread.times_s[name] / each.median_s for each in tests if name in each.spread.times_s)


def _over_all(all_above: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Node -> how far it is above the others in the median of its cases, in scatters of that."""
    of_node: dict[str, list[float]] = {}
    for each in all_above:
        for name, value in each.items():
            of_node.setdefault(name, []).append(value)
    medians = {name: _median(values) for name, values in of_node.items()}
    scatter = _tightest([*medians.values()]) if len(medians) >= FEWEST else 0.0
    middle = _median(medians.values()) if medians else 0.0
    return {name: (value - middle) / scatter for name, value in medians.items()} if scatter else {}

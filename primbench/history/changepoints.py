"""Where a series of times changed for good, judged by the scatter of its own points.

A scan of the difference between the levels of a few points before and after each place, as in moving sums: Eichinger &
Kirch (2018), A MOSUM procedure for the estimation of multiple random change points, Bernoulli 24, 526. Short windows
leave slow drift out, and levels that hold outliers down leave those out, so that what is found is a step that stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

WINDOW = 8
"""Units on each side of a place, at most: in so few a drift of a percent in ten points is less than their scatter."""
FEWEST_POINTS = 4
"""On each side of a change: of fewer, one or two outliers are half."""
FEWEST_UNITS = 2
FEWEST_STEPS = 7
"""From one unit to the next, of which scatter is told."""
THRESHOLD = 4.75
"""Of the difference over its standard error. Simulated (`bench/history.py`): in series of 8 to 120 points that scatter
normally or by a t of 4 degrees of freedom, with drift and outliers, at most one point in 1,000 is called a change.
"""
BESIDE_SLOPE = 2.0
"""The same of the step that is left beside a common slope of both sides, as drift gives one and a step does not."""
LEAST_SCATTER = 0.001
"""Of units, in logarithms: times in a file may be rounded to three digits, and then show less than they have."""
MOST_ON_SIDE = 0.75
"""Share of the units of a side that lie on that side of the middle between the two levels."""
_HOLD = 1.5
_KEPT = 0.75
_MEAN_OF_KEPT = 0.5149
_SURE = 2.0


class Unit(NamedTuple):
    """Points of one session and code, of which the scatter between units says nothing."""

    level: float
    """The median of the logarithms of their times."""
    first: int
    """Number of the first of its points."""
    last: int
    """Number of the last one."""
    session: int
    """Which session they are of."""


@dataclass(frozen=True, kw_only=True)
class ChangePoint:
    """A place in a series from which on it is faster or slower."""

    first: int
    """Number of the first point after it."""
    earliest: int
    """The first point that could be that one, by the scatter."""
    latest: int
    """The last point that could be."""
    ratio: float
    """The time after it over the time before."""
    interval: tuple[float, float]
    """Of the ratio, 95 %, by the scatter of the units."""
    before: tuple[int, int]
    """First and last of the points that its level before is of."""
    after: tuple[int, int]
    """First and last of the points that its level after is of."""


class SessionScatter(NamedTuple):
    """Standard deviation of units, in logarithms; None where too few steps tell of it."""

    between: float | None
    """From one session to the next."""
    within: float | None
    """From one unit to the next of the same session."""

    def of(self, units: Sequence[Unit]) -> float | None:
        """Of those: where they are of one session, what is between sessions has no part in it."""
        return self.within if len({each.session for each in units}) == 1 else self.between


def units_of(times_s: Sequence[float], sessions: Sequence[int], codes: Sequence[Hashable]) -> list[Unit]:
    """Neighbouring points of the same session and code as one. All: point by point, in their order."""
    groups: list[list[int]] = []
    for number, _ in enumerate(times_s):
        last = groups[-1][-1] if groups else None
        if last is not None and (sessions[last], codes[last]) == (sessions[number], codes[number]):
            groups[-1].append(number)
        else:
            groups.append([number])
    return [
        Unit(median(math.log(times_s[each]) for each in group), group[0], group[-1], sessions[group[0]])
        for group in groups
    ]


def scatter_of(units: Sequence[Unit]) -> SessionScatter:
    """By steps from each unit to the next, in which a change is one step and drift is next to none: von Neumann (1941),
    Annals of Mathematical Statistics 12, 367. Of these the smallest three quarters, so that outliers have no part:
    their mean is 0.5149 standard deviations of a normal distribution, by the integral of its density.
    """
    between, within = list[float](), list[float]()
    for one, other in pairwise(units):
        (within if one.session == other.session else between).append(abs(other.level - one.level))
    return SessionScatter(_scatter(between), _scatter(within))


def _scatter(steps: Sequence[float]) -> float | None:
    if len(steps) < FEWEST_STEPS:
        return None
    kept = sorted(steps)[: math.ceil(_KEPT * len(steps))]
    return max(fmean(kept) / _MEAN_OF_KEPT / math.sqrt(2), LEAST_SCATTER)


def level_of(values: Sequence[float], scatter: float) -> float:
    """Their mean, each at most 1.5 standard deviations from it: Huber (1964), Annals of Mathematical Statistics 35, 73.

    Two steps from the median.
    """
    level, most = median(values), _HOLD * scatter
    for _ in range(2):
        level += fmean(max(-most, min(most, each - level)) for each in values)
    return level


def stand_apart(before: Sequence[float], after: Sequence[float], middle: float) -> bool:
    """Whether most of each lie on opposite sides of a value: an outlier alone moves no side there."""
    is_up = median(after) > median(before)
    apart = [sum((each > middle) == up for each in side) for side, up in ((before, not is_up), (after, is_up))]
    return all(
        count >= MOST_ON_SIDE * len(side) for count, side in zip(apart, (before, after), strict=True)
    )  # fmt: skip


@dataclass(frozen=True)
class _Place:
    """Between two units, as the units around it show it. score: the difference of their levels over its error."""

    at: int
    low: int
    high: int
    scatter: float
    difference: float
    error: float
    score: float


def can_be_told(units: Sequence[Unit]) -> bool:
    """Whether there is a place in the series at which a change would be told, were it large enough."""
    scatter = scatter_of(units)
    return any(_at(units, scatter, at, ()) is not None for at in range(len(units)))


def changepoints(units: Sequence[Unit]) -> list[ChangePoint]:
    """In their order. The largest is told first, and bounds the windows of those beside it."""
    scatter, found = scatter_of(units), list[_Place]()
    places = _those(units, scatter, range(len(units)), ())
    while (best := max(places.values(), key=lambda each: each.score, default=None)) and best.score >= THRESHOLD:
        found.append(_moved(units, best))
        beside = [at for at in places if abs(at - found[-1].at) <= WINDOW]
        places = {at: place for at, place in places.items() if at not in beside}
        places |= _those(units, scatter, beside, [each.at for each in found])
    return [_told(units, each) for each in sorted(found, key=lambda each: each.at)]


def _those(
    units: Sequence[Unit], scatter: SessionScatter, wanted: Iterable[int], known: Sequence[int]
) -> dict[int, _Place]:
    """Those of the wanted places at which a change could be told."""
    return {at: place for at in wanted if (place := _at(units, scatter, at, known)) is not None}


def _at(units: Sequence[Unit], scatter: SessionScatter, at: int, known: Sequence[int]) -> _Place | None:
    """None where there is not enough on both sides, as far as the next known change."""
    low = max([at - WINDOW, 0, *(each for each in known if each <= at)])
    high = min([at + WINDOW, len(units), *(each for each in known if each >= at)])
    return _place(units, scatter, at, low, high)


def _place(units: Sequence[Unit], scatter: SessionScatter, at: int, low: int, high: int) -> _Place | None:
    before, after = units[low:at], units[at:high]
    if not (_is_enough(before) and _is_enough(after)):
        return None
    deviation = scatter.of(units[low:high])
    if deviation is None:
        return None
    sides = [each.level for each in before], [each.level for each in after]
    one, other = (level_of(side, deviation) for side in sides)
    error = deviation * math.sqrt(1 / len(before) + 1 / len(after))
    is_step = stand_apart(*sides, (one + other) / 2) and _beside_slope(sides, (one, other), deviation) >= BESIDE_SLOPE
    score = abs(other - one) / error if is_step else 0.0
    return _Place(at, low, high, deviation, other - one, error, score)


def _beside_slope(
    sides: tuple[Sequence[float], Sequence[float]], levels: tuple[float, float], deviation: float
) -> float:
    """The step between two lines of one slope over its standard error, in the direction of the levels.

    Least squares of a covariate and a group, with values held to 1.5 standard deviations from their level: Seber & Lee,
    Linear Regression Analysis (2003), 8.8.
    """
    most, products, squares = _HOLD * deviation, 0.0, 0.0
    for side, level in zip(sides, levels, strict=True):
        centre = (len(side) - 1) / 2
        products += math.fsum((at - centre) * max(-most, min(most, each - level)) for at, each in enumerate(side))
        squares += math.fsum((at - centre) ** 2 for at in range(len(side)))
    apart = sum(map(len, sides)) / 2
    step = levels[1] - levels[0] - products / squares * apart
    error = deviation * math.sqrt(sum(1 / len(side) for side in sides) + apart**2 / squares)
    return math.copysign(step / error, step * (levels[1] - levels[0]))


def _is_enough(units: Sequence[Unit]) -> bool:
    return len(units) >= FEWEST_UNITS and units[-1].last - units[0].first + 1 >= FEWEST_POINTS


def _moved(units: Sequence[Unit], place: _Place) -> _Place:
    """To where two levels fit the units around it best."""
    costs = _costs(units, place)
    at = min(costs, key=lambda each: (costs[each], abs(each - place.at)))
    found = _place(units, SessionScatter(place.scatter, place.scatter), at, place.low, place.high)
    return found if found is not None and found.score >= THRESHOLD else place


def _costs(units: Sequence[Unit], place: _Place) -> dict[int, float]:
    """Place -> how far the units lie from the medians before and after it, in all."""
    levels = [each.level for each in units]
    first, last = place.low + FEWEST_UNITS, place.high - FEWEST_UNITS
    return {at: _spread(levels[place.low : at]) + _spread(levels[at : place.high]) for at in range(first, last + 1)}


def _spread(values: Sequence[float]) -> float:
    middle = median(values)
    return math.fsum(abs(each - middle) for each in values)


def _told(units: Sequence[Unit], place: _Place) -> ChangePoint:
    """Other places are as likely where the units lie hardly further from two levels there: a likelihood of a
    twentieth, of scatter as of Laplace's distribution with that deviation.
    """
    costs = _costs(units, place)
    likely = [at for at, cost in costs.items() if cost <= costs[place.at] + _SURE * place.scatter]
    earliest = _run(place.at, likely, -1)
    latest = _run(place.at, likely, 1)
    half = 1.96 * place.error
    return ChangePoint(
        first=units[place.at].first,
        earliest=units[earliest].first,
        latest=units[latest].first,
        ratio=math.exp(place.difference),
        interval=(math.exp(place.difference - half), math.exp(place.difference + half)),
        before=(units[place.low].first, units[place.at - 1].last),
        after=(units[place.at].first, units[place.high - 1].last),
    )


def _run(start: int, likely: Sequence[int], step: int) -> int:
    """How far the likely places go on from one, without a gap."""
    at = start
    while at + step in likely:
        at += step
    return at

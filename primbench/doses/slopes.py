"""The slope of a step's time in a harm, and what slopes foretell of a place: arithmetic alone."""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

from primbench.stats import t_point

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CONFIDENCE = 0.95


class DosePoint(NamedTuple):
    """A dose, and what became of the step under it."""

    pair: int
    """Of the processes that are set beside each other."""
    dose: float
    """In the unit of its factor; 0 is none."""
    ratio: float
    """The step's time over that without the dose in the same pair."""


class Scattered(NamedTuple):
    """A number that scatters: ``value``, give or take Student's t times ``error``."""

    value: float
    error: float | None = None
    """Its standard error; None where nothing tells of the scatter."""
    freedom: float = math.inf
    """Degrees of freedom of the error."""

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
        """What the number may be; None where nothing tells of the scatter."""
        if self.error is None:
            return None
        half = t_point(self.freedom, (1 + confidence) / 2) * self.error
        return self.value - half, self.value + half


class DoseLine(NamedTuple):
    """A line through the points of all pairs, each pair with an intercept of its own."""

    slope: Scattered
    residual: Scattered
    """The standard deviation of a ratio around the line, as a share of the ratio, with its degrees of freedom."""


def line(points: Sequence[DosePoint]) -> DoseLine | None:
    """Ordinary least squares of ratios on doses, with an intercept for each pair; None where all doses are alike.

    The undosed process of a pair is a point of ratio 1, so that its own scatter is in the residuals.
    """
    centred = _centred(points)
    spread = math.fsum(dose**2 for dose, _, _ in centred)
    if not spread:
        return None
    slope = math.fsum(dose * ratio for dose, ratio, _ in centred) / spread
    freedom = len(centred) - len({point.pair for point in points}) - 1
    if freedom < 1:
        return DoseLine(Scattered(slope), Scattered(0.0, freedom=0))
    left = [(ratio - slope * dose, whole) for dose, ratio, whole in centred]
    deviation = math.sqrt(math.fsum(each**2 for each, _ in left) / freedom)
    relative = math.sqrt(math.fsum((each / whole) ** 2 for each, whole in left) / freedom)
    return DoseLine(Scattered(slope, deviation / math.sqrt(spread), freedom), Scattered(relative, freedom=freedom))


def _centred(points: Sequence[DosePoint]) -> list[tuple[float, float, float]]:
    """Dose and ratio, each less the mean of its pair, and the ratio as it is."""
    by_pair: dict[int, list[DosePoint]] = defaultdict(list)
    for point in points:
        by_pair[point.pair].append(point)
    means = {
        pair: (fmean(each.dose for each in several), fmean(each.ratio for each in several))
        for pair, several in by_pair.items()
    }
    return [(point.dose - means[point.pair][0], point.ratio - means[point.pair][1], point.ratio) for point in points]


def mean(values: Sequence[float]) -> Scattered:
    """Of values that scatter alike. Raises ValueError for none."""
    if not values:
        raise ValueError("mean of nothing")
    if len(values) < 2:
        return Scattered(values[0])
    return Scattered(fmean(values), stdev(values) / math.sqrt(len(values)), len(values) - 1)


class HarmTerm(NamedTuple):
    """What one harm of a place does to a step: its slope, and how large a dose the place is."""

    slope: Scattered
    dose: Scattered


def foretold(terms: Iterable[HarmTerm], scatter: Scattered, pairs: int) -> Scattered | None:
    """The logarithm of how many times as long the mean of so many pairs will be; None where a term has no error.

    Harms multiply. The variance is that of slopes and doses (delta method), and of the pairs to come; degrees of
    freedom are by Welch and Satterthwaite (Satterthwaite 1946, Biometrics Bulletin 2, 110).

    scatter: standard deviation of a ratio as a share of it, with its degrees of freedom.
    """
    log, parts = 0.0, [(scatter.value**2 / pairs, scatter.freedom)]
    for slope, dose in terms:
        factor = 1 + slope.value * dose.value
        if slope.error is None or dose.error is None or factor <= 0:
            return None
        log += math.log(factor)
        parts.append(((dose.value * slope.error / factor) ** 2, slope.freedom))
        parts.append(((slope.value * dose.error / factor) ** 2, dose.freedom))
    return Scattered(log, *_together(parts))


def _together(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The standard error of a sum, and its degrees of freedom. parts: variances with theirs."""
    variance = math.fsum(part for part, _ in parts)
    share = math.fsum(part**2 / freedom for part, freedom in parts if part)
    return math.sqrt(variance), variance**2 / share if share else math.inf

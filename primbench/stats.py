"""Quantiles, the interval of a median, and ratios of processes. Reading a result needs neither NumPy nor SciPy."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

Number = TypeVar("Number", int, float)

LEVEL = 0.05
"""Of tests, unless something else is said."""
_LARGEST_LOG = 709.0  # exp() of more is no float
_Z95 = 1.959963984540054  # 97.5 % point of the standard normal


def quantile(samples: Sequence[float], q: float) -> float:
    """The q-quantile by linear interpolation: Hyndman & Fan (1996) type 7, NumPy's default.

    Raises ValueError on an empty sequence: a quantile of nothing is not 0.
    """
    if not samples:
        raise ValueError("quantile of no samples")
    ordered = sorted(samples)
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def weighted_median(weighted: Iterable[tuple[Number, float]]) -> Number:
    """The least value such that those up to it have half of the weight. weighted: values, each with its weight; one and
    more.
    """
    ordered = sorted(weighted)
    half = sum(weight for _, weight in ordered) / 2
    below = itertools.accumulate(weight for _, weight in ordered)
    return next(value for (value, _), passed in zip(ordered, below, strict=True) if passed >= half)


def median_interval(samples: Sequence[float]) -> tuple[float, float] | None:
    """A 95 % interval of the median from order statistics; None below 6 samples, where none exists.

    The j-th smallest and j-th largest of n samples hold the median with probability
    1 - 2 P(Binomial(n, 1/2) < j) whatever the distribution: Conover, Practical Nonparametric Statistics,
    3rd ed., 3.2; Le Boudec, Performance Evaluation of Computer and Communication Systems, Theorem 2.1.
    """
    rank = _median_rank(len(samples))
    if rank is None:
        return None
    ordered = sorted(samples)
    return ordered[rank - 1], ordered[-rank]


@functools.lru_cache(maxsize=1000)
def _median_rank(n: int) -> int | None:
    """The largest j with 2 P(Binomial(n, 1/2) < j) <= 0.05; the normal approximation above n = 100."""
    if n > 100:
        return math.floor((n - _Z95 * math.sqrt(n)) / 2)
    tail, rank = 0.0, 0
    while True:
        tail += math.comb(n, rank) / 2**n
        if 2 * tail > 0.05:
            return rank or None
        rank += 1


def relative_noise(samples: Sequence[float]) -> float | None:
    """Half-width of the 95 % interval of the median over the median; None below 6 samples."""
    interval = median_interval(samples)
    if interval is None:
        return None
    median = quantile(samples, 0.5)
    return (interval[1] - interval[0]) / 2 / median if median > 0 else None


class LogRatio(NamedTuple):
    """A ratio by its logarithm, of which processes say: ``log``, give or take Student's t times ``error``."""

    log: float
    """The natural logarithm of the ratio."""
    error: float | None = None
    """Its standard error; None for a single value, which tells of no scatter."""
    freedom: float | None = None
    """Degrees of freedom; None for a single value."""
    borrowed: float = 0.0
    """Of the degrees of freedom, those that are of others than its own values."""

    @property
    def ratio(self) -> float:
        return exponential(self.log)

    def interval(self, confidence: float = 0.95) -> tuple[float, float] | None:
        """Confidence interval of the ratio, (low, high); None for a single value."""
        if self.error is None or self.freedom is None:
            return None
        half_width = t_point(self.freedom, (1 + confidence) / 2) * self.error
        return exponential(self.log - half_width), exponential(self.log + half_width)

    def p(self) -> float | None:
        """How often scatter alone would take a ratio of 1 at least as far from 1 as this: two-sided."""
        if self.error is None or self.freedom is None:
            return None
        if self.error == 0:
            return 1.0 if self.log == 0 else 0.0
        return 2 * float(_special().stdtr(self.freedom, -abs(self.log) / self.error))

    def p_above(self, least: float) -> float | None:
        """How often scatter alone would take a ratio of ``least`` at least as far up as this: one-sided."""
        if self.error is None or self.freedom is None:
            return None
        above = self.log - math.log(least)
        if self.error == 0:
            return 0.0 if above > 0 else 1.0
        return float(_special().stdtr(self.freedom, -above / self.error))

    def is_within(self, margin: float, level: float = LEVEL) -> bool | None:
        """Whether the ratio is shown to lie between 1 / (1 + margin) and 1 + margin, by two one-sided tests at a level.

        Both reject exactly where the interval of a confidence of 1 - 2 level, 90 % unless said otherwise, lies within:
        Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15, 657.
        """
        interval = self.interval(1 - 2 * level)
        return None if interval is None else 1 / (1 + margin) < interval[0] and interval[1] < 1 + margin

    def minimum_detectable(self) -> float | None:
        """The ratio above 1 that as many values with this scatter tell from 1 in four of five tries, at 5 %.

        exp((t(0.975) + t(0.8)) error): Bloom (1995), Minimum detectable effects, Evaluation Review 19, 547.
        """
        if self.error is None or self.freedom is None:
            return None
        return exponential((t_point(self.freedom, 0.975) + t_point(self.freedom, 0.8)) * self.error)


def exponential(log: float) -> float:
    """exp(log), infinite where a float ends: intervals of wildly scattered processes reach there."""
    return math.exp(log) if log < _LARGEST_LOG else math.inf


@functools.cache
def _special() -> ModuleType:
    import scipy.special

    found: ModuleType = scipy.special
    return found


@functools.lru_cache(maxsize=1000)
def t_point(freedom: float, q: float) -> float:
    """The q-quantile of Student's t; degrees of freedom may be infinite."""
    return float(_special().stdtrit(freedom, q))


def geometric_mean(values: Sequence[float]) -> float:
    """values: above 0. Raises ValueError for none."""
    if not values:
        raise ValueError("geometric mean of nothing")
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def paired(a: Sequence[float], b: Sequence[float]) -> LogRatio:
    """The geometric mean of ``a[i] / b[i]``, by Student's t on the paired differences of logarithms.

    d +- t s / sqrt(n), where d and s are the mean and the standard deviation of ln a[i] - ln b[i] and t has n - 1
    degrees of freedom: Jain, The Art of Computer Systems Performance Analysis (1991), 13.4.1 on differences; on
    logarithms, as ratios multiply.

    a, b: above 0, pair by pair from the same round. Raises ValueError for none, or for unequally many.
    """
    if not a:
        raise ValueError("ratio of no pairs")
    mean, variance = _mean_and_variance([math.log(one) - math.log(other) for one, other in zip(a, b, strict=True)])
    return LogRatio(mean) if variance is None else LogRatio(mean, math.sqrt(variance / len(a)), len(a) - 1)


def unpaired(a: Sequence[float], b: Sequence[float]) -> LogRatio:
    """The ratio of the geometric means of ``a`` and ``b``, by Welch's t on logarithms: Welch (1947), Biometrika 34, 28.

    a, b: above 0, of processes that do not belong together pair by pair; fewer than two on a side give no interval.
    Raises ValueError for none.
    """
    if not a or not b:
        raise ValueError("ratio of nothing")
    (mean_a, variance_a), (mean_b, variance_b) = (_mean_and_variance([math.log(x) for x in side]) for side in (a, b))
    if variance_a is None or variance_b is None:
        return LogRatio(mean_a - mean_b)
    of_a, of_b = variance_a / len(a), variance_b / len(b)
    both = of_a + of_b
    freedom = both**2 / (of_a**2 / (len(a) - 1) + of_b**2 / (len(b) - 1)) if both else len(a) + len(b) - 2
    return LogRatio(mean_a - mean_b, math.sqrt(both), freedom)


def pooled(a: Sequence[float], b: Sequence[float]) -> LogRatio:
    """As ``unpaired``, of values that scatter alike on both sides, by Student's t of two samples: Jain (1991), 13.4.2.

    So one side may be a single value. Raises ValueError for none.
    """
    if not a or not b:
        raise ValueError("ratio of nothing")
    sides = [[math.log(x) for x in side] for side in (a, b)]
    means = [math.fsum(side) / len(side) for side in sides]
    freedom = len(a) + len(b) - 2
    if not freedom:
        return LogRatio(means[0] - means[1])
    squares = math.fsum((each - mean) ** 2 for side, mean in zip(sides, means, strict=True) for each in side)
    return LogRatio(means[0] - means[1], math.sqrt(squares / freedom * (1 / len(a) + 1 / len(b))), freedom)


def mean_interval(
    values: Sequence[float], confidence: float = 0.95, *, more_variance: float = 0.0
) -> tuple[float, float] | None:
    """Confidence interval of a mean, by Student's t; None for a single value.

    more_variance: that each value has beside its scatter, as by rounding.
    """
    mean, variance = _mean_and_variance(values)
    if variance is None:
        return None
    error = math.sqrt((variance + more_variance) / len(values))
    half_width = t_point(len(values) - 1, (1 + confidence) / 2) * error
    return mean - half_width, mean + half_width


def mean_p(values: Sequence[float]) -> float | None:
    """How often scatter alone would take a mean of 0 at least so far from it: two-sided, Student's t; None for one."""
    mean, variance = _mean_and_variance(values)
    return None if variance is None else LogRatio(mean, math.sqrt(variance / len(values)), len(values) - 1).p()


def _mean_and_variance(values: Sequence[float]) -> tuple[float, float | None]:
    """The variance is None for a single value."""
    n, mean = len(values), math.fsum(values) / len(values)
    return mean, math.fsum((each - mean) ** 2 for each in values) / (n - 1) if n > 1 else None


class PairedRatio(NamedTuple):
    """A ratio with its interval."""

    ratio: float
    """The geometric mean of the pairs' ratios."""
    low: float | None
    """Lower end of the interval; None for a single pair, which has none."""
    high: float | None
    """Upper end of the interval; None for a single pair."""


def paired_ratio(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> PairedRatio:
    """``paired`` with its interval. Raises ValueError as it does."""
    found = paired(a, b)
    return PairedRatio(found.ratio, *(found.interval(confidence) or (None, None)))


def pairs_needed(deviation: float, margin: float, log_ratio: float = 0.0, level: float = LEVEL) -> int | None:
    """Pairs that show in four of five tries that a ratio lies within 1 / (1 + margin) and 1 + margin.

    (z(1 - level) + z(0.9))^2 s^2 / (ln(1 + margin) - |true|)^2: Chow, Shao & Wang, Sample Size Calculations in Clinical
    Research, 3.1, on equivalence; and 2 more, since few pairs know their own deviation badly.

    deviation: s, of the logarithms of ratios of pairs. log_ratio: the true one, as it is taken to be. None where it is
    on the margin itself, of which no number of pairs could tell the side.
    """
    room = abs(math.log1p(margin) - abs(log_ratio))
    z = _z_point(1 - level) + _z_point(0.9)
    return math.ceil(z**2 * (deviation / room) ** 2) + 2 if room else None


@functools.cache
def _z_point(q: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(q)


def pairs_for_width(deviation: float, width: float) -> int:
    """Pairs whose 95 % interval is about so wide, in logarithms: (2 z(0.975) s / width)^2, and 2 more as above."""
    return math.ceil((2 * _Z95 * deviation / width) ** 2) + 2


def unseen_share(count: int, level: float = LEVEL) -> float:
    """The largest share of a population that so many draws from it miss with a probability of ``level`` or more.

    1 - level^(1 / n), the upper end of an exact one-sided interval: Clopper & Pearson (1934), Biometrika 26, 404.
    """
    return 1 - float(level ** (1 / count))


def draws_needed(share: float, level: float = LEVEL) -> int:
    """Draws of which ``unseen_share`` is below a share."""
    return math.floor(math.log(level) / math.log1p(-share)) + 1


def benjamini_hochberg(ps: Sequence[float | None]) -> list[float | None]:
    """For each p the least false-discovery rate at which it is called a discovery among them, in the order given.

    Those that are not known count for nothing, and stay None.
    Benjamini & Hochberg (1995), Journal of the Royal Statistical Society B 57, 289.
    """
    known = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    least = 1.0
    for rank in range(len(known), 0, -1):
        p, place = known[rank - 1]
        least = min(least, p * len(known) / rank)
        adjusted[place] = least
    return adjusted

"""The scatter of a case between pairs, moderated by that of the study's other cases of the metric.

Of three pairs a case's own scatter has two degrees of freedom, and its 95 % interval is 4.3 standard errors to each
side. The variances of a study's cases are draws of one distribution, a scaled inverse chi-square whose mean and width
the cases themselves tell: Smyth (2004), Linear Models and Empirical Bayes Methods, Statistical Applications in Genetics
and Molecular Biology 3:3. With s^2 of f degrees of freedom and a prior of s0^2 and d0, (d0 s0^2 + f s^2) / (d0 + f) has
d0 + f. Three things keep that from claiming what is not known:

- A case that scatters more than the prior lets it, as one does whose processes are of two kinds, borrows as much less
  as it is likely not to be of it: Phipson, Lee, Majewski, Alexander & Smyth (2016), Robust Hyperparameter Estimation,
  Annals of Applied Statistics 10, 946. Their other step, by which such cases do not widen the prior, is left
  out: it would lend more.
- What the processes of a pair have in common falls on all cases, whose scatter then is one draw and not many.
- That variances differ little, which lets much be borrowed, is itself by chance of as many cases.

Of 2000 made studies of three pairs each, whose cases' deviations have logarithms that spread by 0.5, 4.8 % of those of
12 cases have a false alarm (5.6 % without), 3.0 % of those of 30 (4.9 %), and 4.2 % (5.2 %) where seven tenths of the
variance are common to all cases; intervals hold the truth in 94.7 to 95.5 % and are 0.7 times as wide. Of a tenth of 80
cases that scatter five times as much as the others they hold it in 90 %.
"""

from __future__ import annotations

import math
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from primbench.stats import LogRatio, quantile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LEAST_CASES = 12
"""Cases, each in each arm, whose scatter tells of one another's. The audit held for ten, and is not made of fewer."""
LEAST_FREEDOM = 2
"""Of a case: of two pairs whether cases scatter alike is not told from whether they scatter together."""
LEAST_SHARE = 1e-5
"""Of the median variance: what is below is taken for this, as a clock's steps make a variance of 0."""

OfPairs = tuple[LogRatio, "Mapping[int, float]"]
"""A ratio, and of each pair the logarithm."""


class OwnScatter(NamedTuple):
    """What a case shows by itself."""

    variance: float
    """Variance of the logarithms of the ratios of pairs."""
    freedom: float
    """Degrees of freedom of the variance."""
    logs: Mapping[int, float]
    """Pair -> the logarithm of its ratio."""


class Prior(NamedTuple):
    """What variances of cases are draws of."""

    variance: float
    freedom: float
    """Degrees of freedom; infinite where all are the same."""
    lent: float
    """The most that one borrows, for what is known of the prior."""


def moderated(found: Sequence[OfPairs]) -> list[LogRatio]:
    """The ratios of one metric, in the order given; as they are where there are too few to borrow from."""
    known = {number: scatter for number, each in enumerate(found) if (scatter := _scatter(*each)) is not None}
    cases = list(known.values())
    prior = prior_of(cases)
    ratios = [ratio for ratio, _ in found]
    if prior is not None:
        for (number, own), share in zip(known.items(), _shares(cases, prior), strict=True):
            ratios[number] = _moderated(ratios[number], own, prior.variance, prior.lent * share)
    return ratios


def _scatter(ratio: LogRatio, logs: Mapping[int, float]) -> OwnScatter | None:
    """None of too few pairs."""
    if ratio.error is None or ratio.freedom is None or ratio.freedom < LEAST_FREEDOM:
        return None
    return OwnScatter(ratio.error**2 * len(logs), ratio.freedom, logs)


def _moderated(ratio: LogRatio, own: OwnScatter, variance: float, borrowed: float) -> LogRatio:
    """The posterior of the variance: Smyth (2004)."""
    freedom = own.freedom + borrowed
    both = (borrowed * variance + own.freedom * own.variance) / freedom
    return LogRatio(ratio.log, math.sqrt(both / len(own.logs)), freedom, borrowed)


def prior_of(cases: Sequence[OwnScatter]) -> Prior | None:
    """None of too few cases, or where all that they scatter by is common to them.

    By the moments of the logarithm of s^2: with e = ln s^2 - psi(f / 2) + ln(f / 2), the mean of e is ln s0^2 -
    psi(d0 / 2) + ln(d0 / 2), and its variance over the cases psi'(d0 / 2) + the mean of psi'(f / 2): Smyth (2004),
    section 6.2. What is lent is by a variance one standard error larger, and no more than all the other cases know.
    """
    from scipy.special import polygamma, psi

    least = LEAST_SHARE * quantile([each.variance for each in cases], 0.5) if len(cases) >= LEAST_CASES else 0.0
    others = independent(cases) - 1
    if not least or others <= 0:
        return None
    halves = [each.freedom / 2 for each in cases]
    logs = [
        math.log(max(each.variance, least)) - float(psi(half)) + math.log(half)
        for each, half in zip(cases, halves, strict=True)
    ]
    mean = math.fsum(logs) / len(logs)
    spread = math.fsum((each - mean) ** 2 for each in logs) / (len(logs) - 1)
    by_chance = math.fsum(float(polygamma(1, half)) for half in halves) / len(halves)
    freedom = _freedom(spread - by_chance)
    known = others * 2 * math.fsum(halves) / len(halves)
    surely = _freedom(spread * (1 + math.sqrt(2 / others)) - by_chance)
    centre = mean if math.isinf(freedom) else mean + float(psi(freedom / 2)) - math.log(freedom / 2)
    return Prior(math.exp(centre), freedom, 1 / (1 / surely + 1 / known))


def _freedom(variance: float) -> float:
    """d0, of which psi'(d0 / 2) is this variance; infinite of none.

    By Newton's method for 1 / psi', whose steps go one way: Smyth (2004), appendix "Inversion of Trigamma Function".
    """
    from scipy.special import polygamma

    if variance <= 0:
        return math.inf
    half = 0.5 + 1 / variance
    for _ in range(50):
        value = float(polygamma(1, half))
        step = value * (1 - value / variance) / float(polygamma(2, half))
        half += step
        if abs(step) < 1e-8 * half:
            break
    return 2 * half


def independent(cases: Sequence[OwnScatter]) -> float:
    """As how many independent cases these tell of scatter: N^2 over the sum of all squared correlations.

    The degrees of freedom of a sum of variances whose values are correlated, over those of one: Box (1954), Annals of
    Mathematical Statistics 25, 290. Correlations are those of the pairs, less what is there by chance, which is 1 / f
    in the square.
    """
    pairs = sorted({pair for each in cases for pair in each.logs})
    units = [(each.freedom, row) for each in cases if (row := _unit(each.logs, pairs)) is not None]
    count = len(units)
    return count / (1 + (count - 1) * _shared(units)) if count > 1 else 1.0


def _shared(units: Sequence[tuple[float, Sequence[float]]]) -> float:
    """The mean square of the correlations of two cases. units: degrees of freedom, and the values as a unit vector."""
    count = len(units)
    columns = list(zip(*(row for _, row in units), strict=True))
    squares = math.fsum(math.fsum(map(mul, one, other)) ** 2 for one in columns for other in columns)
    sets = count * (count - 1) / 2
    ordered = sorted(freedom for freedom, _ in units)
    by_chance = math.fsum(number / freedom for number, freedom in enumerate(ordered)) / sets  # of nested sets of pairs
    return max(0.0, ((squares - count) / 2 / sets - by_chance) / (1 - by_chance))


def _unit(logs: Mapping[int, float], pairs: Sequence[int]) -> list[float] | None:
    """About their mean, as a vector of length 1, 0 of pairs that are missing; None of logarithms that are all one."""
    mean = math.fsum(logs.values()) / len(logs)
    length = math.sqrt(math.fsum((each - mean) ** 2 for each in logs.values()))
    if not length:
        return None
    return [(logs[pair] - mean) / length if pair in logs else 0.0 for pair in pairs]


def _shares(cases: Sequence[OwnScatter], prior: Prior) -> list[float]:
    """Of what is lent, how much each case borrows: how likely it is of the prior, 1 unless it scatters far more.

    The chance of as much scatter over the share of cases with as much, of which the rank less a half is taken, and no
    less than that of a case that scatters more: Phipson et al. (2016), and fitFDistRobustly of its authors' R package
    limma. They let an outlier borrow of a second prior, too; here it borrows of none.
    """
    tails = [_tail(each, prior) for each in cases]
    order = sorted(range(len(cases)), key=tails.__getitem__)
    likely = [min(1.0, tails[number] * len(cases) / (rank + 0.5)) for rank, number in enumerate(order)]
    shares = dict(zip(order, accumulate(likely, max), strict=True))
    return [shares[number] for number in range(len(cases))]


def _tail(case: OwnScatter, prior: Prior) -> float:
    """How often a draw of the prior scatters as much: s^2 / s0^2 has an F distribution of f and d0."""
    from scipy.special import chdtrc, fdtrc

    times = case.variance / prior.variance
    if math.isinf(prior.freedom):
        return float(chdtrc(case.freedom, case.freedom * times))
    return float(fdtrc(case.freedom, prior.freedom, times))

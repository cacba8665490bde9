"""How long a process of a study samples each metric: by how its scatter divides, once some pairs are known.

More samples make the median of a process more certain, and say nothing of the next process. Per second, most is learnt
where a process samples for sqrt(c V / B) seconds: c are the seconds that it spends on the case besides, V the variance
that a second of sampling leaves to the logarithm of its median, B the variance of that from process to process
(Kalibera & Jones, Rigorous Benchmarking in Reasonable Time, ISMM 2013, section 6.1, for two levels).
"""

from __future__ import annotations

import math
import statistics
from itertools import pairwise
from typing import TYPE_CHECKING

from primbench import stats
from primbench.compare.moments import MOST, moments
from primbench.compare.sides import identity
from primbench.measurement import Measurement
from primbench.results.metrics import METRICS, SAMPLED, main_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from primbench.measurement import Samples
    from primbench.results.metrics import Metric
    from primbench.results.record import Record
    from primbench.spec.case import Case

LEAST_PAIRS = 3  # by fewer a variance is off by more than the time that sharing saves
TIMED = [metric for metric in SAMPLED if metric.is_compared and metric.name in Measurement.__struct_fields__]
PARTS = 8  # of what a process samples: neighbours are alike, so that single samples tell too little

Shares = dict[str, float]
"""Metric -> seconds."""


class Sharing:
    """Learns once, from the first pairs of each case, and says the same ever after."""

    def __init__(self, records: Sequence[Record]) -> None:
        """records: of all pairs so far; grows meanwhile."""
        self._records = records
        self._learnt: dict[bytes, Shares] = {}

    def __call__(self, case: Case) -> Shares:
        """How long a process samples a metric, as far as that is known; its rule's longest time holds in any case."""
        key = identity(case)
        if key not in self._learnt:
            pairs = _pairs(record for record in self._records if identity(record.case) == key)
            if len(pairs) < LEAST_PAIRS:
                return {}
            self._learnt[key] = shares(case, pairs[:LEAST_PAIRS])  # the same where a study goes on with a file
        return self._learnt[key]


def _pairs(records: Iterable[Record]) -> list[list[Record]]:
    """Those in which every arm took turns that ever did, two or more; arms are in the same order in each."""
    found: dict[int, dict[str, Record]] = {}
    for record in records:
        if record.measurement is not None and record.measurement.turns is not None:
            found.setdefault(record.case.process, {})[record.case.arm] = record
    arms = sorted(set[str]().union(*found.values()))
    return [[pair[arm] for arm in arms] for pair in found.values() if len(pair) == len(arms) > 1]


def shares(case: Case, pairs: Sequence[Sequence[Record]]) -> Shares:
    """Of the metrics of a case that it can be told of.

    pairs: its records, of the same arms in the same order. What the processes of a pair have in common is no scatter to
    a study, and neither is what an arm differs by in every pair.
    """
    main = main_of(pairs[0][0].measurement)
    tailed = _with_tails(case)
    found = {metric: _share_s(metric, pairs) for metric in TIMED if metric.name not in tailed}
    return {
        metric.name: max(share_s, case.method.min_time_s) if metric == main else share_s
        for metric, share_s in found.items()
        if share_s is not None
    }


def _with_tails(case: Case) -> set[str]:
    """Metrics whose rare slow calls are judged as well, which takes all the samples there are."""
    problem = case.known_problem()
    if problem is None or not problem.has_tails or not case.method.tails:
        return set()
    return {metric.samples_of for metric in METRICS.values() if metric.is_tail}


def _share_s(metric: Metric, pairs: Sequence[Sequence[Record]]) -> float | None:
    """None where a metric is missing somewhere, has too few samples to tell, or no scatter between processes."""
    records = [record for pair in pairs for record in pair]
    known = {id(record): found for record in records if (found := _samples(record.measurement, metric)) is not None}
    if len(known) < len(records):
        return None
    own = [_about_the_pair([known[id(record)] for record in pair]) for pair in pairs]
    sampled_s = statistics.fmean(map(_lasted_s, known.values()))
    per_second = sampled_s / PARTS * statistics.fmean(map(_variance_of_parts, own))
    between = _variance_of_processes(own) - per_second / sampled_s
    besides_s = statistics.fmean(record.duration_s for record in records) - sampled_s
    if min(between, per_second, besides_s) <= 0:
        return None
    return math.sqrt(besides_s * per_second / between)


def _samples(measurement: Measurement | None, metric: Metric) -> Samples | None:
    """None, too, of samples that tell one place in memory from another, and nothing of time."""
    found = metric.samples(measurement)
    if measurement is None or found is None or (metric.whose == "GPU" and measurement.places > 1):
        return None
    return found if len(found.samples_s) >= 2 * PARTS and min(found.samples_s) > 0 else None


def _lasted_s(samples: Samples) -> float:
    return sum(samples.samples_s) * samples.calls_per_sample


def _about_the_pair(pair: Sequence[Samples]) -> list[list[float]]:
    """Of each process the logarithms of what it took from moment to moment, about their mean over all of the pair."""
    count = min(MOST, *(len(each.samples_s) for each in pair))
    logs = [list(map(math.log, moments(each.samples_s, count))) for each in pair]
    common = [statistics.fmean(same) for same in zip(*logs, strict=True)]
    return [[one - all_s for one, all_s in zip(each, common, strict=True)] for each in logs]


def _variance_of_processes(pairs: Sequence[Sequence[Sequence[float]]]) -> float:
    """Over the pairs, of each arm by itself."""
    by_arm = zip(*(map(_median, own) for own in pairs), strict=True)
    return _of_whole_processes(map(statistics.variance, by_arm), len(pairs[0]))


def _variance_of_parts(own: Sequence[Sequence[float]]) -> float:
    """Of the medians of equal parts of the time, in a pair of as many processes."""
    return _of_whole_processes((statistics.variance(map(_median, _parts(each))) for each in own), len(own))


def _of_whole_processes(variances: Iterable[float], arms: int) -> float:
    """Their mean, made good for the mean over a pair, which was taken from each process."""
    return statistics.fmean(variances) * arms / (arms - 1)


def _parts(values: Sequence[float]) -> list[Sequence[float]]:
    bounds = [number * len(values) // PARTS for number in range(PARTS + 1)]
    return [values[begin:end] for begin, end in pairwise(bounds)]


def _median(values: Sequence[float]) -> float:
    return stats.quantile(values, 0.5)

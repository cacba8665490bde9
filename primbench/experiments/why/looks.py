"""The first pairs of two places: for how long cases are looked at, and which is asked about, by which metric."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from primbench.compare.chosen import pair_by_pair
from primbench.compare.criteria import margins_of
from primbench.compare.ratio import FAR
from primbench.compare.sides import identity
from primbench.experiments.why import steps
from primbench.results.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from primbench.compare.sides import Side
    from primbench.spec.case import Case
    from primbench.spec.study import Study

OF_A_QUOTA_S = (0.5, 1.0)
"""Least and most that a metric is sampled where a place has a quota, whose periods are 0.1 s."""


class Asked(NamedTuple):
    """What is asked about: a case, and the metric by its name."""

    case: Case
    metric: str


def cases_of(study: Study) -> list[Case]:
    """Those that are looked at, for as long as a place with a quota takes to be stopped by it several times."""
    if not any(arm.cpus is not None for arm in study.arms[:2]):
        return study.cases
    least_s, most_s = OF_A_QUOTA_S
    found = []
    for case in study.cases:
        method = case.method
        lasting = {"min_time_s": max(least_s, method.min_time_s), "max_time_s": max(most_s, method.max_time_s)}
        found.append(replace(case, method=replace(method, **lasting)))
    return found


def differences(case: Case, one: Side, other: Side, *, took_turns: bool) -> Iterator[tuple[float, Asked]]:
    """By how much the places differ in a case: by its primary metric, or, in processes that take no turns since one
    has a quota, by the mean where that differs far more: what stops every tenth call is in no median.
    """
    key = identity(case)
    if key not in one.cases or key not in other.cases:
        return
    ratios = {metric: pair_by_pair(one, other, key, metric) for metric in margins_of(case)}
    logs = {metric: abs(fmean(map(math.log, each.values()))) for metric, each in ratios.items() if each}
    for primary in [*logs][:1]:
        metric = primary if took_turns else _far_mean(primary, logs)
        yield steps.weight(case, one.numbers_of(key).of_all[metric].values(), logs[metric]), Asked(case, metric)


def _far_mean(primary: str, logs: Mapping[str, float]) -> str:
    """The mean of the same samples, where by that the places differ far more. logs: of ratios by metrics."""
    means = [name for name in logs if METRICS[name].is_mean and METRICS[name].samples_of == primary]
    return next((name for name in means if logs[name] > logs[primary] + math.log1p(FAR)), primary)

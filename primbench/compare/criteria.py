"""By which metrics a primitive is compared, and which differences in them matter."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, TypeVar

from primbench.errors import InvalidRequest
from primbench.problem import Problem
from primbench.registry import problem_class
from primbench.results.metrics import BY_PREFERENCE, METRICS, Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from primbench.problem import Work
    from primbench.spec.case import Case

Key = TypeVar("Key")

ROUNDING = 1e-12
"""By so much the median and the mean of the same two samples may differ, as they are added up."""

OF_HOST = 0.05
"""Differences that do not matter in a time in which the host has a part: launches scatter by as much."""


def problem_of(primitive: str) -> type[Problem]:
    """The class of a primitive; Problem, with its defaults, for one that is not installed here."""
    try:
        return problem_class(primitive)
    except InvalidRequest:
        return Problem


def metrics_of(primitive: str) -> list[Metric]:
    """All metrics that are compared, those first that may be the primary one, in the order of preference."""
    return list(_metrics(problem_of(primitive).preferred))


@functools.cache
def _metrics(preferred: tuple[str, ...]) -> tuple[Metric, ...]:
    first = [METRICS[name] for name in preferred]
    return tuple(dict.fromkeys([*first, *(metric for metric in BY_PREFERENCE if metric.is_compared)]))


def margins_of(case: Case) -> Mapping[str, float]:
    """Metric -> share by which it may differ without mattering, of all that are compared."""
    kind = problem_of(case.primitive)
    depends_on_sizes = kind.own_margin is not Problem.own_margin
    problem = case.known_problem() if depends_on_sizes else None
    return _margins(kind.preferred, kind.work, kind.margin if problem is None else problem.own_margin())


@functools.lru_cache(maxsize=1000)
def _margins(preferred: tuple[str, ...], work: Work, own: float) -> Mapping[str, float]:
    return {each.name: own if each.is_own_time_of(work) else OF_HOST for each in _metrics(preferred)}


def is_its_own(primitive: str, metric: str) -> bool:
    """Whether the host has no part in a metric."""
    return METRICS[metric].is_own_time_of(problem_of(primitive).work)


def are_one(one: Mapping[Key, float], other: Mapping[Key, float]) -> bool:
    """Whether two metrics are one number wherever they were taken, and so one test and not two."""
    if len(one) != len(other):
        return False
    for key, value in one.items():  # of two metrics the first values mostly differ
        if key not in other or not math.isclose(value, other[key], rel_tol=ROUNDING):
            return False
    return True

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


def margins_of(case: Case) -> dict[str, float]:
    """Metric -> share by which it may differ without mattering, of all that are compared."""
    kind, problem = problem_of(case.primitive), case.known_problem()
    own = kind.margin if problem is None else problem.own_margin()
    return {each.name: own if each.is_own_time_of(kind.work) else OF_HOST for each in metrics_of(case.primitive)}


def is_its_own(primitive: str, metric: str) -> bool:
    """Whether the host has no part in a metric."""
    return METRICS[metric].is_own_time_of(problem_of(primitive).work)


def are_one(one: Mapping[Key, float], other: Mapping[Key, float]) -> bool:
    """Whether two metrics are one number wherever they were taken, and so one test and not two."""
    return one.keys() == other.keys() and all(math.isclose(one[key], other[key], rel_tol=ROUNDING) for key in one)

"""What of a step that copies its data first takes longer in one place: its copies, its kernels, or their launches.

Told by the same step on data that are there already, where a study has both: what the one takes more than the other is
the copies, and of the other what its kernels do not take is waiting for launches. The parts add up to the step.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from primbench import stats
from primbench.compare.sides import identity
from primbench.results.metrics import METRICS
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from primbench.compare.sides import Side, Values
    from primbench.spec.case import Case

NOTABLE_SHARE = 0.25  # of what a step takes longer: a part that is less of it is not named beside a larger one
COPIES, KERNELS, LAUNCHES = "copies to the GPU", "kernels", "launches"


class Growth(NamedTuple):
    """By how many seconds a part of the step takes longer: the mean over pairs, and its 95 % interval; None of one."""

    part: str
    seconds: float
    interval: tuple[float, float] | None

    @property
    def is_certain(self) -> bool:
        return self.interval is not None and self.interval[0] > 0


def growths(case: Case, baseline: Side, side: Side) -> list[Growth]:
    """Of each part, the largest first; [] where the step copies nothing, or is not there without its copies as well."""
    problem = case.known_problem()
    twin = _case_of(problem.unfed(), case, baseline) if problem else None
    if twin is None:
        return []
    one, other = (_parts(each, case, twin) for each in (baseline, side))
    both = sorted(one.keys() & other.keys())
    parts = [part for part in (COPIES, KERNELS, LAUNCHES) if both and all(part in one[pair] for pair in both)]
    found = [_growth(part, [other[pair][part] - one[pair][part] for pair in both]) for part in parts]
    return sorted(found, key=lambda each: -each.seconds)


def named(found: Sequence[Growth]) -> list[str]:
    """The parts that take longer for certain and make up a notable share of it."""
    whole_s = math.fsum(each.seconds for each in found)
    return [each.part for each in found if each.is_certain and each.seconds >= NOTABLE_SHARE * whole_s]


def in_words(found: Sequence[Growth]) -> str:
    """What a step takes longer, and how much of it is which part."""
    whole_s = math.fsum(each.seconds for each in found)
    parts = ", ".join(f"{each.part} {format_time(each.seconds)}{_interval(each.interval)}" for each in found)
    return (
        f"of {format_time(whole_s)} that a step takes longer: {parts}, by the same step on data that are there already"
    )


def _case_of(problem: object, like: Case, side: Side) -> Case | None:
    """The case of a problem where another one ran."""
    if problem is None:
        return None
    every = (records[0].case for records in side.cases.values())
    there = (each for each in every if (each.backend, each.device) == (like.backend, like.device))
    return next((each for each in there if each.known_problem() == problem), None)


def _parts(side: Side, fed: Case, unfed: Case) -> dict[int, Mapping[str, float]]:
    """Process -> seconds of each part of its step, of launches none where its device's own time is not known."""
    of_fed, of_unfed = (side.numbers.get(identity(case), {}) for case in (fed, unfed))
    whole, without = _telling("call", of_fed), _telling("call", of_unfed)
    device = _telling("clock", of_unfed)
    return {
        process: {COPIES: whole[process] - without[process]} | _of_unfed(without[process], device.get(process))
        for process in whole.keys() & without.keys()
    }


def _telling(what: str, values: Values) -> Mapping[int, float]:
    """Of each process the first metric in the table by which that is told."""
    return values.get(next(name for name, metric in METRICS.items() if metric.explains == what), {})


def _of_unfed(stream_s: float, device_s: float | None) -> dict[str, float]:
    return {KERNELS: stream_s} if device_s is None else {KERNELS: device_s, LAUNCHES: stream_s - device_s}


def _growth(part: str, longer_s: Sequence[float]) -> Growth:
    return Growth(part, math.fsum(longer_s) / len(longer_s), stats.mean_interval(longer_s))


def _interval(found: tuple[float, float] | None) -> str:
    return "" if found is None else f" [{', '.join(map(format_time, found))}]"

"""Whether two places train a network to the same: how often it is right, and the loss of every step to the last bit.

The unit is the seed. Trainings of one seed belong together in both places, and processes of a place that repeat them
count as one, by their mean.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Literal

import msgspec

from primbench import stats
from primbench.compare.sides import identity
from primbench.measurement.learnt import first_unlike

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.compare.sides import Side
    from primbench.measurement.learnt import Learnt
    from primbench.spec.case import Case

POINT = 0.01
"""Of all answers: accuracies that are shown to be no further apart are called the same."""


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """How often the trained networks are right about held-out examples, means over seeds."""

    baseline: float
    """Share of them on the baseline."""
    arm: float
    """Share of them in the arm."""
    difference: float
    """Difference of the arm from the baseline."""
    interval: tuple[float, float] | None
    """95 % interval of the difference, for all cases of all arms together; None for a single seed."""
    verdict: Literal["differs", "same", "undecided"]
    """"differs" where 0 is not in it, "same" where all of it is within a point."""


class FirstUnlike(msgspec.Struct, frozen=True, kw_only=True):
    """The first step, from 1 on, in which two trainings of one seed lost other than the same to the last bit."""

    step: int
    seed: int | None
    places: tuple[str, str]
    """Names of the two places, twice the same where one place does not repeat itself."""
    losses: tuple[float | None, float | None] = (None, None)
    """The two losses; None is no finite number, or, of a place that does not repeat itself in one process, not kept."""


class LearntComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What networks learnt in two places."""

    seeds: int
    steps: int
    deterministic: bool
    """Whether only algorithms were used that give the same each time."""
    accuracy: Accuracy | None
    """How often they are right; None with the reason in ``missing``."""
    unlike: FirstUnlike | None
    """Where their losses part; None where all losses are the same to the last bit."""
    missing: dict[str, str] = {}


def compare_learnt(case: Case, baseline: Side, side: Side, judged: int) -> LearntComparison | None:
    """None where one of them trained nothing. judged: how many accuracies are compared in all, of all arms."""
    here, there = (_learnt(case, each) for each in (baseline, side))
    if not here or not there:
        return None
    first = here[0]
    return LearntComparison(
        seeds=len(first.losses),
        steps=len(first.losses[0]),
        deterministic=first.deterministic,
        accuracy=_accuracy(here, there, judged),
        unlike=_unlike([(baseline.name, each) for each in here] + [(side.name, each) for each in there]),
        missing={"accuracy": first.missing["right"]} if "right" in first.missing else {},
    )


def _learnt(case: Case, side: Side) -> list[Learnt]:
    """Of every process that measured the case."""
    records = side.cases.get(identity(case), [])
    return [each.measurement.learnt for each in records if each.measurement and each.measurement.learnt]


def has_accuracy(case: Case, side: Side) -> bool:
    """Whether it trained networks that can be right."""
    return any(each.accuracies for each in _learnt(case, side))


def _accuracy(here: Sequence[Learnt], there: Sequence[Learnt], judged: int) -> Accuracy | None:
    """By Student's t on the differences of seeds (Jain 1991, 13.4.1), its level shared by all (Dunn 1961).

    An accuracy is a whole number of examples, so that a few differences may happen to be equal: that each is rounded
    adds a twelfth of the square of one example to its variance (Sheppard 1897), twice to that of a difference.
    """
    by_seed = _by_seed(here), _by_seed(there)
    if not all(by_seed):
        return None
    differences = [b - a for a, b in zip(*by_seed, strict=True)]
    rounding = 2 / 12 / here[0].held_out ** 2
    interval = stats.mean_interval(differences, 1 - stats.LEVEL / judged, more_variance=rounding)
    return Accuracy(
        baseline=statistics.fmean(by_seed[0]),
        arm=statistics.fmean(by_seed[1]),
        difference=statistics.fmean(differences),
        interval=interval,
        verdict=_verdict(interval),
    )


def _verdict(interval: tuple[float, float] | None) -> Literal["differs", "same", "undecided"]:
    if interval is None:
        return "undecided"
    if not interval[0] <= 0 <= interval[1]:
        return "differs"
    return "same" if max(map(abs, interval)) <= POINT else "undecided"


def _by_seed(found: Sequence[Learnt]) -> list[float]:
    """Seed -> mean accuracy over processes."""
    return [statistics.fmean(of_seed) for of_seed in zip(*(each.accuracies or () for each in found), strict=True)]


def _unlike(trainings: Sequence[tuple[str, Learnt]]) -> FirstUnlike | None:
    """The earliest, against the first of all; of several, that of a place which does not repeat itself."""
    found = [each for name, learnt in trainings for each in _all_unlike(trainings[0], (name, learnt))]
    return min(found, key=lambda each: each.step, default=None)


def _all_unlike(first: tuple[str, Learnt], other: tuple[str, Learnt]) -> Iterator[FirstUnlike]:
    places = first[0], other[0]
    if (step := other[1].first_unlike) is not None:
        yield FirstUnlike(step=step, seed=None, places=(other[0], other[0]))
    for seed, (a, b) in enumerate(zip(first[1].losses, other[1].losses, strict=True)):
        if (step := first_unlike(a, b)) is not None:
            yield FirstUnlike(step=step, seed=seed, places=places, losses=(a[step - 1], b[step - 1]))

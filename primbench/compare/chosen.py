"""Which numbers of the processes of two sides make the ratio of a metric."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from statistics import geometric_mean
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from primbench.compare import moments
from primbench.compare.matching import Matching, paired
from primbench.compare.neighbour import neighbour_of
from primbench.compare.ratio import LeftOut, Slowed
from primbench.results import cpu_speed
from primbench.results.cpu_speed import SLOWED
from primbench.results.metrics import METRICS, SAMPLED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from primbench.compare.matching import CountedRatio, Ratio
    from primbench.compare.numbers import CaseNumbers, MetricValues
    from primbench.compare.sides import Side
    from primbench.results.cpu_speed import Speed
    from primbench.spec.case import Case
    from primbench.stats import LogRatio

FEWEST_PAIRS = 3  # in which the CPU ran at full speed
UNLIKE = 0.01
"""Where chance alone makes shares so unlike, ratios of all samples are off: with 5 %, their intervals held the truth in
92 to 93 % of studies of equal arms, with this in 94 to 95.
"""
ALIKE = 0.1
"""Shares that differ by less are alike, if their 90 % interval says so: what takes 1.4 times as long beside a slow CPU
moves a mean by 4 % then.
"""
_OF_ALL, _UNDISTURBED, _ALONE = map(attrgetter, ("of_all", "undisturbed", "alone"))


@dataclass(frozen=True)
class BothSides:
    """One case on both sides."""

    baseline: Side
    arm: Side
    key: bytes
    matching: Matching

    @property
    def case(self) -> Case:
        """As the baseline ran it first."""
        return self.baseline.cases[self.key][0].case

    @cached_property
    def in_turn(self) -> bool:
        """Whether a load, or a slow CPU, has fallen on both alike."""
        sides = self.baseline.numbers_of(self.key), self.arm.numbers_of(self.key)
        return self.matching.ratio is paired and all(each.took_turns for each in sides)

    @property
    def has_neighbour(self) -> bool:
        """Whether a load beside one of them is what is asked about, and no disturbance."""
        return any(map(neighbour_of, (self.baseline, self.arm)))

    @cached_property
    def slowed(self) -> Slowed | None:
        """How often their CPUs were slow; None where that is of no matter."""
        return (
            None
            if self.in_turn or self.has_neighbour
            else slowed(self.baseline, self.arm, self.key, self.matching.ratio)
        )

    @cached_property
    def left_out(self) -> Slowed | None:
        """What share of each side's samples may be left out; None where none may be.

        Those beside a slow CPU; of processes that took turns, which were slow alike, those that were held up.
        """
        return held_up(self.baseline, self.arm, self.key, self.matching.ratio) if self.in_turn else self.slowed


Numbers = tuple["Mapping[int, float]", "Mapping[int, float]"]
"""Process -> seconds, of the arm and of the baseline."""


class Chosen(NamedTuple):
    """The numbers that make a ratio."""

    arm: Mapping[int, float]
    """Process -> seconds in the arm."""
    baseline: Mapping[int, float]
    """Process -> seconds on the baseline."""
    every: Numbers
    """Both by all samples."""
    logs: Mapping[int, float]
    """Process -> the logarithm of its ratio, of those that the ratio is of."""
    ratio: LogRatio
    pairs: int
    of_pairs: int
    """How many processes were run for ``pairs`` that count."""
    left_out: LeftOut | None

    @property
    def judged(self) -> Numbers:
        """What the ratio is of."""
        return self.every if self.left_out is None else (self.arm, self.baseline)


def chosen(sides: BothSides, metric: str) -> Chosen | None:
    """MetricValues at full CPU speed where half of the pairs, and FEWEST_PAIRS, have them, else those of all samples.

    Samples are chosen by the loop beside them, or what the kernel counted, never by what they are, and by that of their
    own arm; and not where one of the places is slowed down more than the other, which may be its own doing.
    """
    everything = of_all(sides, metric)
    found = sides.matching.ratio(*everything)
    if found is None:
        return None
    ratio, pairs = found
    may_be_left_out = sides.left_out if pairs >= FEWEST_PAIRS else None  # fewer have no more at full speed
    if may_be_left_out is not None and may_be_left_out.may_be_alike:
        quiet = at_full_speed(sides, metric)
        if (of_quiet := if_enough(sides.matching.ratio(*quiet), found)) is not None:
            left_out = LeftOut(slowed=may_be_left_out, ratio=ratio.ratio, interval=ratio.interval())
            return Chosen(*quiet, everything, _logs(*quiet), *of_quiet, pairs, left_out=left_out)
    numbers = _of_both(sides, metric, _OF_ALL)
    return Chosen(*numbers, everything, _logs(*everything), ratio, pairs, pairs, left_out=None)


def pair_by_pair(baseline: Side, arm: Side, key: bytes, metric: str) -> dict[int, float]:
    """Pair -> how many times as long the arm took by this metric; of those that have it on both sides."""
    found = chosen(BothSides(baseline, arm, key, Matching(paired)), metric)
    return {} if found is None else {pair: math.exp(log) for pair, log in found.logs.items()}


def _logs(arm: Mapping[int, float], baseline: Mapping[int, float]) -> dict[int, float]:
    return {process: math.log(arm[process] / baseline[process]) for process in sorted(arm.keys() & baseline.keys())}


def _of_both(sides: BothSides, metric: str, of: Callable[[CaseNumbers], MetricValues]) -> Numbers:
    """The numbers of the arm and of the baseline."""
    of_baseline = sides.matching.of_baseline(sides.baseline, sides.key, metric, of)
    return of(sides.arm.numbers_of(sides.key)).get(metric, {}), of_baseline


def of_all(sides: BothSides, metric: str) -> Numbers:
    """The numbers by all samples; of an arm in turn, as they stand to the baseline's by ``moments``."""
    arm, baseline = _of_both(sides, metric, _OF_ALL)
    if not sides.in_turn or not METRICS[metric].is_median:
        return arm, baseline
    return _in_step(sides, metric, baseline, attrgetter("moments"), moments.ratio), baseline


def at_full_speed(sides: BothSides, metric: str) -> Numbers:
    """The numbers by those samples that no other program made longer."""
    if not sides.in_turn:
        return _of_both(sides, metric, _UNDISTURBED)
    _, baseline = _of_both(sides, metric, _ALONE)
    return _in_step(sides, metric, baseline, attrgetter("moments_alone"), moments.ratio_alone), baseline


def _in_step(
    sides: BothSides,
    metric: str,
    baseline: Mapping[int, float],
    of: Callable[[CaseNumbers], Mapping[str, Mapping[int, Sequence[float]]]],
    ratio_of: Callable[[Sequence[float], Sequence[float]], float | None],
) -> Mapping[int, float]:
    """Medians of the arm as they stand to the baseline's by the moments that both have. of: the moments of a side."""
    own, *runs = (
        of(each.numbers_of(sides.key)).get(metric, {})
        for each in (sides.arm, *sides.matching.baselines(sides.baseline, sides.key, metric))
    )
    ratios = {
        process: [found for run in runs if process in run and (found := ratio_of(own[process], run[process]))]
        for process in own.keys() & baseline.keys()
    }
    return {process: baseline[process] * geometric_mean(each) for process, each in ratios.items() if each}


def if_enough(of_quiet: CountedRatio | None, of_every: CountedRatio | None) -> CountedRatio | None:
    """The ratio at full speed where half of the pairs have it, and these are some."""
    if of_quiet is None or (of_every is not None and of_quiet[1] < max(FEWEST_PAIRS, of_every[1] / 2)):
        return None
    return of_quiet


def slowed(baseline: Side, arm: Side, key: bytes, ratio: Ratio) -> Slowed | None:
    """None where no loop was timed on one side."""
    here, there = baseline.speed_of(key), arm.speed_of(key)
    if here is None or there is None:
        return None
    found = _shares(baseline.numbers_of(key).slowed, arm.numbers_of(key).slowed, ratio)
    if found is None or _are_as_fast(here, there):
        return found
    return replace(found, may_be_alike=False, are_alike=False)


def held_up(baseline: Side, arm: Side, key: bytes, ratio: Ratio) -> Slowed | None:
    """As ``slowed``, by the shares in which another program held the process up; None where one side does not know."""
    return _shares(_held_up(baseline, key), _held_up(arm, key), ratio)


def _held_up(side: Side, key: bytes) -> dict[int, float]:
    """Process -> the share of the time from loop to loop in which another program held it up."""
    laps: dict[int, list[bool]] = {}
    for record in side.cases[key]:
        sampled = [metric.distinct_samples(record.measurement) for metric in SAMPLED if record.measurement]
        laps.setdefault(record.case.process, []).extend(
            lap for each in sampled if each for lap in cpu_speed.held_up(each)
        )
    return {process: sum(each) / len(each) for process, each in laps.items() if each}


def _shares(here: Mapping[int, float], there: Mapping[int, float], ratio: Ratio) -> Slowed | None:
    found = ratio(_as_ratios(there), _as_ratios(here))
    if found is None:
        return None
    difference, _ = found
    p = difference.p()
    may_be_alike = p is None or p > UNLIKE
    are_alike = may_be_alike and bool(difference.is_within(math.expm1(ALIKE)))
    return Slowed(baseline=_mean(here), arm=_mean(there), may_be_alike=may_be_alike, are_alike=are_alike)


def _as_ratios(shares: Mapping[int, float]) -> dict[int, float]:
    """Of which a ratio takes the logarithms, to give the difference of the shares."""
    return {process: math.exp(share) for process, share in shares.items()}


def _are_as_fast(one: Speed, other: Speed) -> bool:
    quick_s, slow_s = sorted((one.full_s, other.full_s))
    return slow_s <= SLOWED * quick_s


def _mean(shares: Mapping[int, float]) -> float:
    return math.fsum(shares.values()) / len(shares)

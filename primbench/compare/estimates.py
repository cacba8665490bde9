"""From the numbers of processes to ratios, without verdicts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import geometric_mean
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from primbench import stats
from primbench.compare import moments
from primbench.compare.busy import are_too_busy, waited
from primbench.compare.comparison import CaseComparison, Mean
from primbench.compare.criteria import are_one, margins_of
from primbench.compare.matching import Matching, paired
from primbench.compare.neighbour import neighbour_of
from primbench.compare.ratio import Estimate, LeftOut, Slowed
from primbench.compare.sides import identity
from primbench.compare.slowing import held_up, slowed
from primbench.results.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from primbench.compare.matching import CountedRatio
    from primbench.compare.sides import MetricValues, Side
    from primbench.stats import LogRatio

FEWEST_PAIRS = 3  # in which the CPU ran at full speed


@dataclass(frozen=True)
class _Sides:
    """One case on both sides."""

    baseline: Side
    arm: Side
    key: bytes
    matching: Matching

    @cached_property
    def in_turn(self) -> bool:
        """Whether a load, or a slow CPU, has fallen on both alike."""
        took_turns = self.baseline.took_turns(self.key) and self.arm.took_turns(self.key)
        return took_turns and self.matching.ratio is paired

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


def compare_case(baseline: Side, arm: Side, key: bytes, matching: Matching) -> CaseComparison:
    """Estimates without q, outcome and verdict: these depend on all other cases."""
    case = baseline.cases[key][0].case
    here, there = waited(baseline, key), waited(arm, key)
    sides = _Sides(baseline, arm, key, matching)
    quiet = [each for side, each in ((baseline, here), (arm, there)) if not neighbour_of(side)]
    host_is_busy = not sides.in_turn and bool(quiet) and are_too_busy(quiet[0], quiet[-1])
    estimates = _estimates(sides, margins_of(case), host_is_busy=host_is_busy)
    reasons = "; ".join(filter(None, (baseline.unmeasured(key), arm.unmeasured(key))))
    if not estimates:
        reasons = reasons or "no pair of processes timed it"
    return CaseComparison(
        case=case,
        estimates=estimates,
        waited=(here and here.at_all, there and there.at_all),
        slowed=sides.slowed,
        fails_more=_fails_more(baseline, arm, key),
        reason=reasons or None,
    )


def _estimates(sides: _Sides, margins: Mapping[str, float], *, host_is_busy: bool) -> list[Estimate]:
    """Of every metric that both sides have, the primary one first. host_is_busy: so that its times tell nothing.

    A metric that says the very numbers of one before it is left out, as a mean of single samples does: one number is
    one test.
    """
    estimates: list[Estimate] = []
    for metric, margin in margins.items():
        first = estimates[0].metric if estimates else metric
        if any(_are_one(sides, each.metric, metric) for each in estimates):
            continue
        found = _estimate(sides, metric, margin, first=first)
        if found is not None:
            estimates.append(replace(found, is_too_busy=host_is_busy and METRICS[metric].whose != "GPU"))
    return estimates


def _are_one(sides: _Sides, one: str, other: str) -> bool:
    """Whether two metrics are the same number in every process."""
    of_side = (side.numbers.get(sides.key, {}) for side in (sides.baseline, sides.arm))
    return all(are_one(found.get(one, {}), found.get(other, {})) for found in of_side)


def _fails_more(baseline: Side, arm: Side, key: bytes) -> str | None:
    """The side that fails more often by count and by share: an interrupted study has unequal counts."""
    (here, share_here), (there, share_there) = baseline.failures(key), arm.failures(key)
    if there > here and share_there > share_here:
        return arm.name
    return baseline.name if here > there and share_here > share_there else None


def _estimate(sides: _Sides, metric: str, margin: float, *, first: str) -> Estimate | None:
    """The ratio of one metric, arm to baseline; None where a side lacks it. first: the primary metric."""
    found = _chosen(sides, metric)
    if found is None:
        return None
    baseline_s = geometric_mean(sides.matching.divisors(found.arm, found.baseline))
    return Estimate(
        metric=metric,
        primary=metric == first,
        judges=metric == first or (METRICS[metric].is_mean and METRICS[metric].samples_of == first),
        pairs=found.pairs,
        baseline_s=baseline_s,
        arm_s=baseline_s * found.ratio.ratio,
        ratio=found.ratio.ratio,
        interval=found.ratio.interval(),
        interval90=found.ratio.interval(0.9),
        margin=margin,
        is_equivalent=bool(found.ratio.is_within(margin, sides.matching.level)),
        q=found.ratio.p(),
        minimum_detectable=found.ratio.minimum_detectable(),
        pairs_needed=_pairs_needed(found, margin, sides.matching.level),
        left_out=found.left_out,
        is_one_run=sides.matching.is_one_run,
        unseen=stats.unseen_share(found.pairs),
    )


class _Chosen(NamedTuple):
    """The numbers that make a ratio. of_pairs: so many were run for ``pairs`` that count."""

    arm: Mapping[int, float]
    baseline: Mapping[int, float]
    ratio: LogRatio
    pairs: int
    of_pairs: int
    left_out: LeftOut | None


def _chosen(sides: _Sides, metric: str) -> _Chosen | None:
    """Values at full CPU speed where half of the pairs, and FEWEST_PAIRS, have them, else those of all samples.

    Samples are chosen by the loop beside them, or what the kernel counted, never by what they are, and by that of their
    own arm; and not where one of the places is slowed down more than the other, which may be its own doing.
    """
    everything = _of_both(sides, metric, lambda side: side.numbers)
    found = sides.matching.ratio(*_of_all(sides, metric))
    if found is None:
        return None
    quiet = _at_full_speed(sides, metric)
    at_full_speed = _if_enough(sides.matching.ratio(*quiet), found)
    if at_full_speed is None or sides.left_out is None or not sides.left_out.may_be_alike:
        return _Chosen(*everything, *found, found[1], left_out=None)
    of_all, pairs = found
    left_out = LeftOut(slowed=sides.left_out, ratio=of_all.ratio, interval=of_all.interval())
    return _Chosen(*quiet, *at_full_speed, pairs, left_out=left_out)


def _of_both(
    sides: _Sides, metric: str, of: Callable[[Side], Mapping[bytes, MetricValues]]
) -> tuple[Mapping[int, float], Mapping[int, float]]:
    """The numbers of the arm and of the baseline."""
    of_baseline = sides.matching.of_baseline(sides.baseline, sides.key, metric, of)
    return of(sides.arm).get(sides.key, {}).get(metric, {}), of_baseline


def _of_all(sides: _Sides, metric: str) -> tuple[Mapping[int, float], Mapping[int, float]]:
    """The numbers by all samples; of an arm in turn, as they stand to the baseline's by ``moments``."""
    arm, baseline = _of_both(sides, metric, lambda side: side.numbers)
    if not sides.in_turn or not METRICS[metric].is_median:
        return arm, baseline
    return _in_step(sides, metric, baseline, lambda side: side.moments, moments.ratio), baseline


def _at_full_speed(sides: _Sides, metric: str) -> tuple[Mapping[int, float], Mapping[int, float]]:
    """The numbers by those samples that no other program made longer."""
    if not sides.in_turn:
        return _of_both(sides, metric, lambda side: side.undisturbed)
    _, baseline = _of_both(sides, metric, lambda side: side.alone)
    return _in_step(sides, metric, baseline, lambda side: side.moments_alone, moments.ratio_alone), baseline


def _in_step(
    sides: _Sides,
    metric: str,
    baseline: Mapping[int, float],
    of: Callable[[Side], Mapping[bytes, Mapping[str, Mapping[int, Sequence[float]]]]],
    ratio_of: Callable[[Sequence[float], Sequence[float]], float | None],
) -> Mapping[int, float]:
    """Medians of the arm as they stand to the baseline's by the moments that both have. of: the moments of a side."""
    own, *runs = (
        of(each)[sides.key].get(metric, {})
        for each in (sides.arm, *sides.matching.baselines(sides.baseline, sides.key, metric))
    )
    ratios = {
        process: [found for run in runs if process in run and (found := ratio_of(own[process], run[process]))]
        for process in own.keys() & baseline.keys()
    }
    return {process: baseline[process] * geometric_mean(each) for process, each in ratios.items() if each}


def _if_enough(at_full_speed: CountedRatio | None, of_all: CountedRatio | None) -> CountedRatio | None:
    """The ratio at full speed where half of the pairs have it, and these are some."""
    if at_full_speed is None or (of_all is not None and at_full_speed[1] < max(FEWEST_PAIRS, of_all[1] / 2)):
        return None
    return at_full_speed


def pair_by_pair(baseline: Side, arm: Side, key: bytes, metric: str) -> dict[int, float]:
    """Pair -> how many times as long the arm took by this metric; of those that have it on both sides."""
    found = _chosen(_Sides(baseline, arm, key, Matching(paired)), metric)
    if found is None:
        return {}
    return {pair: found.arm[pair] / found.baseline[pair] for pair in found.arm.keys() & found.baseline.keys()}


def _pairs_needed(found: _Chosen, margin: float, level: float) -> int | None:
    """About how many pairs would tell; None where no number would.

    Of equivalence, computed for a ratio of 1, and where as many pairs were run already for the one that was measured.
    Where the interval excludes 1: on which side of the margin that is, or that it is about the margin.
    """
    interval = found.ratio.interval()
    if found.ratio.error is None or interval is None:
        return None
    deviation = found.ratio.error * math.sqrt(found.pairs)
    needed = stats.pairs_needed(deviation, margin, level=level)
    differs = not interval[0] <= 1 <= interval[1]
    if differs or (needed is not None and needed <= found.pairs):
        needed = stats.pairs_needed(deviation, margin, found.ratio.log, level)
    if differs:
        narrow = stats.pairs_for_width(deviation, math.log1p(margin))
        needed = min(needed or narrow, narrow)
    if needed is None or needed <= found.pairs:
        return None
    return math.ceil(needed * found.of_pairs / found.pairs)


def mean_of(baseline: Side, arm: Side, cases: Sequence[CaseComparison], matching: Matching) -> Mean | None:
    """The geometric mean over the cases, process by process: the interval is over processes, not over cases."""
    timed = _timed(cases)
    if not timed:
        return None
    sides = [_Sides(baseline, arm, key, matching) for key, _ in timed]
    metrics = [(found.metric, found.at_full_speed) for _, found in timed]
    of_all = _of_means(sides, [(metric, False) for metric, _ in metrics])
    as_judged = _if_enough(_of_means(sides, metrics), of_all)
    chosen = of_all if as_judged is None else as_judged
    if chosen is None:
        return None
    log_ratio, pairs = chosen
    return Mean(
        ratio=log_ratio.ratio,
        interval=log_ratio.interval(),
        cases=len(timed),
        pairs=pairs,
        of_all_samples=as_judged is None and any(at_full_speed for _, at_full_speed in metrics),
    )


def _timed(cases: Sequence[CaseComparison]) -> list[tuple[bytes, Estimate]]:
    """Identity and primary estimate of those that were compared, the machine not too busy."""
    primary = [(identity(case.case), case.primary) for case in cases]
    return [(key, found) for key, found in primary if found is not None and not found.is_too_busy]


def _of_means(sides: Sequence[_Sides], metrics: Sequence[tuple[str, bool]]) -> CountedRatio | None:
    """metrics: of each case the one that judges it, and whether by samples at full speed."""
    both = [
        _at_full_speed(each, metric) if at_full_speed else _of_all(each, metric)
        for each, (metric, at_full_speed) in zip(sides, metrics, strict=True)
    ]
    return sides[0].matching.ratio(*map(_geometric_means, zip(*both, strict=True)))


def _geometric_means(of_case: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Process -> geometric mean over the cases, for processes that ran all of them."""
    processes = set.intersection(*(set(each) for each in of_case))
    return {
        process: math.exp(math.fsum(math.log(each[process]) for each in of_case) / len(of_case))
        for process in processes
    }

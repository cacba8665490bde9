"""From the numbers of processes to ratios, without verdicts."""

from __future__ import annotations

import math
from statistics import geometric_mean
from typing import TYPE_CHECKING, NamedTuple

from primbench import stats
from primbench.compare.borrowed import moderated
from primbench.compare.chosen import BothSides, at_full_speed, chosen, if_enough, of_all
from primbench.compare.comparison import CaseComparison, Mean
from primbench.compare.criteria import are_one, margins_of
from primbench.compare.matching import paired
from primbench.compare.neighbour import neighbour_of
from primbench.compare.ratio import Estimate
from primbench.compare.sides import identity
from primbench.results.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from primbench.compare.chosen import Chosen
    from primbench.compare.matching import CountedRatio, Matching
    from primbench.compare.sides import Side
    from primbench.measurement.readings import HostReading

TOO_BUSY_FRACTION = 0.25  # waiting a quarter of its time takes a case a third longer, more than most places differ by
ALL_OF_ITS_CPUS = 0.9


class _OfCase(NamedTuple):
    """A case in one arm."""

    sides: BothSides
    margins: dict[str, float]
    """Margins of all metrics."""
    found: dict[str, Chosen]
    """Metric -> its numbers, the primary one first."""


def compare_cases(baseline: Side, arms: Sequence[Side], matching: Matching) -> list[list[CaseComparison]]:
    """Of each arm its cases, by estimates without q, outcome and verdict: these depend on all other cases.

    Scatter is borrowed among the cases of all arms, metric by metric, where processes are paired.
    """
    by_arm: list[Iterable[_OfCase]] = [_of_both(baseline, arm, matching) for arm in arms]
    if matching.ratio is paired:  # else a case at a time is held
        by_arm = [list(cases) for cases in by_arm]
        _borrow([case for cases in by_arm for case in cases])
    return [list(map(_compare_case, cases)) for cases in by_arm]


def _of_both(baseline: Side, arm: Side, matching: Matching) -> Iterator[_OfCase]:
    return (_of_case(BothSides(baseline, arm, key, matching)) for key in baseline.cases if key in arm.cases)


def _of_case(sides: BothSides) -> _OfCase:
    """Of every metric that both sides have.

    A metric that says the very numbers of one before it is left out, as a mean of single samples does: one number is
    one test.
    """
    known: dict[str, Chosen] = {}
    margins, taken = margins_of(sides.case), sides.arm.numbers.get(sides.key, {})
    for metric in margins:
        if metric not in taken or any(_are_one(sides, each, metric) for each in known):
            continue
        if (found := chosen(sides, metric)) is not None:
            known[metric] = found
    return _OfCase(sides, margins, known)


def _borrow(cases: Sequence[_OfCase]) -> None:
    for metric in dict.fromkeys(name for case in cases for name in case.found):
        having = [case.found for case in cases if metric in case.found]
        ratios = moderated([(found[metric].ratio, found[metric].logs) for found in having])
        for found, ratio in zip(having, ratios, strict=True):
            found[metric] = found[metric]._replace(ratio=ratio)


def _compare_case(of_case: _OfCase) -> CaseComparison:
    sides, found = of_case.sides, of_case.found
    baseline, arm, key = sides.baseline, sides.arm, sides.key
    here, there = waited(baseline, key), waited(arm, key)
    quiet = [each for side, each in ((baseline, here), (arm, there)) if not neighbour_of(side)]
    host_is_busy = not sides.in_turn and bool(quiet) and are_too_busy(quiet[0], quiet[-1])
    reasons = "; ".join(filter(None, (baseline.unmeasured(key), arm.unmeasured(key))))
    if not found:
        reasons = reasons or "no pair of processes timed it"
    return CaseComparison(
        case=sides.case,
        estimates=_estimates(of_case, host_is_busy=host_is_busy),
        waited=(here and here.at_all, there and there.at_all),
        slowed=sides.slowed,
        fails_more=_fails_more(baseline, arm, key),
        reason=reasons or None,
    )


def _estimates(of_case: _OfCase, *, host_is_busy: bool) -> list[Estimate]:
    """The primary one first. host_is_busy: so that its times tell nothing."""
    sides, margins, found = of_case
    first = next(iter(found), "")
    return [
        _estimate(metric, each, sides.matching, margins[metric], first=first,
                  is_too_busy=host_is_busy and METRICS[metric].whose != "GPU")
        for metric, each in found.items()
    ]  # fmt: skip


def _are_one(sides: BothSides, one: str, other: str) -> bool:
    """Whether two metrics are the same number in every process."""
    of_side = (side.numbers.get(sides.key, {}) for side in (sides.baseline, sides.arm))
    return all(are_one(found.get(one, {}), found.get(other, {})) for found in of_side)


def _fails_more(baseline: Side, arm: Side, key: bytes) -> str | None:
    """The side that fails more often by count and by share: an interrupted study has unequal counts."""
    (here, share_here), (there, share_there) = baseline.failures(key), arm.failures(key)
    if there > here and share_there > share_here:
        return arm.name
    return baseline.name if here > there and share_here > share_there else None


def _estimate(
    metric: str, found: Chosen, matching: Matching, margin: float, *, first: str, is_too_busy: bool
) -> Estimate:
    """The ratio of one metric, arm to baseline. first: the primary metric."""
    baseline_s = geometric_mean(matching.divisors(found.arm, found.baseline))
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
        is_equivalent=bool(found.ratio.is_within(margin, matching.level)),
        q=found.ratio.p(),
        minimum_detectable=found.ratio.minimum_detectable(),
        pairs_needed=_pairs_needed(found, margin, matching.level),
        left_out=found.left_out,
        is_one_run=matching.is_one_run,
        unseen=stats.unseen_share(found.pairs),
        deviation=_deviation(found),
        freedom=found.ratio.freedom,
        borrowed_freedom=found.ratio.borrowed,
        is_too_busy=is_too_busy,
    )


def _deviation(found: Chosen) -> float | None:
    """Of a pair; None of a single one, which tells of no scatter."""
    return None if found.ratio.error is None else found.ratio.error * math.sqrt(found.pairs)


def _pairs_needed(found: Chosen, margin: float, level: float) -> int | None:
    """About how many pairs would tell; None where no number would.

    Of equivalence, computed for a ratio of 1, and where as many pairs were run already for the one that was measured.
    Where the interval excludes 1: on which side of the margin that is, or that it is about the margin.
    """
    interval, deviation = found.ratio.interval(), _deviation(found)
    if deviation is None or interval is None:
        return None
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
    sides = [BothSides(baseline, arm, key, matching) for key, _ in timed]
    metrics = [(found.metric, found.at_full_speed) for _, found in timed]
    of_every = _of_means(sides, [(metric, False) for metric, _ in metrics])
    as_judged = if_enough(_of_means(sides, metrics), of_every)
    found = of_every if as_judged is None else as_judged
    if found is None:
        return None
    log_ratio, pairs = found
    return Mean(
        ratio=log_ratio.ratio,
        interval=log_ratio.interval(),
        cases=len(timed),
        pairs=pairs,
        of_all_samples=as_judged is None and any(is_quiet for _, is_quiet in metrics),
    )


def _timed(cases: Sequence[CaseComparison]) -> list[tuple[bytes, Estimate]]:
    """Identity and primary estimate of those that were compared, the machine not too busy."""
    primary = [(identity(case.case), case.primary) for case in cases]
    return [(key, found) for key, found in primary if found is not None and not found.is_too_busy]


def _of_means(sides: Sequence[BothSides], metrics: Sequence[tuple[str, bool]]) -> CountedRatio | None:
    """metrics: of each case the one that judges it, and whether by samples at full speed."""
    both = [
        at_full_speed(each, metric) if is_quiet else of_all(each, metric)
        for each, (metric, is_quiet) in zip(sides, metrics, strict=True)
    ]
    return sides[0].matching.ratio(*map(_geometric_means, zip(*both, strict=True)))


def _geometric_means(of_case: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Process -> geometric mean over the cases, for processes that ran all of them."""
    processes = set.intersection(*(set(each) for each in of_case))
    return {
        process: math.exp(math.fsum(math.log(each[process]) for each in of_case) / len(of_case))
        for process in processes
    }


class Waited(NamedTuple):
    """Shares of the time of a case, medians over processes."""

    at_all: float
    """How long it waited for a CPU."""
    for_others: float
    """How long it waited for others: as far as neither a quota of its own nor its own threads, which leave no CPU to
    others, are what it waited for.
    """


def waited(side: Side, key: bytes) -> Waited | None:
    """Share of its time that a case waited for CPUs, the median of its records; None where no record tells."""
    shares = []
    for record in side.cases[key]:
        host = record.measurement.host if record.measurement else None
        worker = side.workers.get(record.worker) if record.worker is not None else None
        if host is not None and host.waited_s is not None and host.duration_s:
            cpus = len(worker.placement.cpus) if worker else None
            shares.append(Waited(host.waited_s / host.duration_s, _for_others(host, cpus)))
    if not shares:
        return None
    return Waited(*(stats.quantile(values, 0.5) for values in zip(*shares, strict=True)))


def _for_others(host: HostReading, cpus: int | None) -> float:
    if cpus and host.cpu_time_s >= ALL_OF_ITS_CPUS * cpus * host.duration_s:
        return 0.0
    return max(0.0, (host.waited_s or 0.0) - (host.throttled_s or 0.0)) / host.duration_s


def are_too_busy(one: Waited | None, other: Waited | None) -> bool:
    """Both waited, and one of them at least for others: a place that alone has to wait is slower, whatever for."""
    if one is None or other is None:
        return False
    return (
        min(one.at_all, other.at_all) >= TOO_BUSY_FRACTION
        and max(one.for_others, other.for_others) >= TOO_BUSY_FRACTION
    )

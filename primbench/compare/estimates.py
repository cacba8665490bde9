"""From the numbers of processes to ratios, without verdicts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from primbench import stats
from primbench.compare.borrowed import moderated
from primbench.compare.chosen import BothSides, chosen, if_enough
from primbench.compare.comparison import CaseComparison, Mean
from primbench.compare.criteria import are_one, margins_of
from primbench.compare.matching import paired
from primbench.compare.neighbour import neighbour_of
from primbench.compare.outputs import deviations, seen_in
from primbench.compare.ratio import Estimate
from primbench.results.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from primbench.compare.chosen import Chosen, Numbers
    from primbench.compare.matching import CountedRatio, Matching, Ratio
    from primbench.compare.numbers import MetricValues
    from primbench.compare.outputs import Deviation
    from primbench.compare.sides import Side
    from primbench.measurement.readings import HostReading

TOO_BUSY_FRACTION = 0.25  # waiting a quarter of its time takes a case a third longer, more than most places differ by
ALL_OF_ITS_CPUS = 0.9

_Found = TypeVar("_Found")


class ComparedCase(NamedTuple):
    """A case in one arm, with what the mean over cases is of."""

    found: CaseComparison
    """Without q, outcome and verdict, which depend on all other cases."""
    primary: Chosen | None
    """What the first estimate is of; None where there is none."""

    @property
    def timed(self) -> Chosen | None:
        """The same where the machine was not too busy to tell."""
        return None if self.found.primary is None or self.found.primary.is_too_busy else self.primary


class _OfCase(NamedTuple):
    """A case in one arm."""

    sides: BothSides
    margins: Mapping[str, float]
    """Margins of all metrics."""
    found: dict[str, Chosen]
    """Metric -> its numbers, the primary one first."""


def compare_cases(
    baseline: Side, arms: Sequence[Side], matching: Matching, every: Sequence[Side]
) -> list[list[ComparedCase]]:
    """Of each arm its cases. every: the places whose outputs are set beside each other.

    Scatter is borrowed among the cases of all arms, metric by metric, where processes are paired.
    """
    found = _of_all_arms(baseline, arms, matching)
    if matching.ratio is not paired:  # a case at a time is held
        return _by_arm(((number, _compare_case(case, every)) for number, case in found), len(arms))
    by_arm = _by_arm(found, len(arms))
    _borrow([case for cases in by_arm for case in cases])
    return [[_compare_case(case, every) for case in cases] for cases in by_arm]


def _of_all_arms(baseline: Side, arms: Sequence[Side], matching: Matching) -> Iterator[tuple[int, _OfCase]]:
    """Each with the number of its arm, case by case."""
    for key in baseline.cases:
        for number, arm in enumerate(arms):
            if key in arm.cases:
                yield number, _of_case(BothSides(baseline, arm, key, matching))


def _by_arm(found: Iterable[tuple[int, _Found]], arms: int) -> list[list[_Found]]:
    by_arm: list[list[_Found]] = [[] for _ in range(arms)]
    for number, each in found:
        by_arm[number].append(each)
    return by_arm


def _of_case(sides: BothSides) -> _OfCase:
    """Of every metric that both sides have.

    A metric that says the very numbers of one before it is left out, as a mean of single samples does: one number is
    one test.
    """
    known: dict[str, Chosen] = {}
    margins = margins_of(sides.case)
    here, there = (side.numbers_of(sides.key).of_all for side in (sides.baseline, sides.arm))
    for metric in margins:
        if metric not in there or any(_are_one(here, there, each, metric) for each in known):
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


def _compare_case(of_case: _OfCase, every: Sequence[Side]) -> ComparedCase:
    sides, found = of_case.sides, of_case.found
    baseline, arm, key = sides.baseline, sides.arm, sides.key
    here, there = waited(baseline, key), waited(arm, key)
    quiet = [each for side, each in ((baseline, here), (arm, there)) if not neighbour_of(side)]
    host_is_busy = not sides.in_turn and bool(quiet) and are_too_busy(quiet[0], quiet[-1])
    reasons = "; ".join(filter(None, (baseline.unmeasured(key), arm.unmeasured(key))))
    if not found:
        reasons = reasons or "no pair of processes timed it"
    compared = CaseComparison(
        case=sides.case,
        estimates=_estimates(of_case, host_is_busy=host_is_busy),
        waited=(here and here.at_all, there and there.at_all),
        slowed=sides.slowed,
        fails_more=_fails_more(baseline, arm, key),
        reason=reasons or None,
        deviations=_deviations(baseline, arm, key, every),
    )
    return ComparedCase(compared, next(iter(found.values()), None))


def _estimates(of_case: _OfCase, *, host_is_busy: bool) -> list[Estimate]:
    """The primary one first. host_is_busy: so that its times tell nothing."""
    sides, margins, found = of_case
    first = next(iter(found), "")
    return [
        _estimate(metric, each, sides.matching, margins[metric], first=first,
                  is_too_busy=host_is_busy and METRICS[metric].whose != "GPU")
        for metric, each in found.items()
    ]  # fmt: skip


def _are_one(here: MetricValues, there: MetricValues, one: str, other: str) -> bool:
    """Whether two metrics are the same number in every process of both places."""
    return all(are_one(found.get(one, {}), found.get(other, {})) for found in (there, here))


def _deviations(baseline: Side, arm: Side, key: bytes, every: Sequence[Side]) -> list[Deviation]:
    """Outputs on the baseline and in the arm that are not as they should be, by those of every place."""
    seen = [each for side in every for each in seen_in(side.name, side.cases.get(key, []), side.workers)]
    return [each for each in deviations(seen) if each.place in (baseline.name, arm.name)] if seen else []


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
    baseline_s = stats.geometric_mean(matching.divisors(found.arm, found.baseline))
    interval = found.ratio.interval()
    return Estimate(
        metric=metric,
        primary=metric == first,
        judges=metric == first or (METRICS[metric].is_mean and METRICS[metric].samples_of == first),
        pairs=found.pairs,
        baseline_s=baseline_s,
        arm_s=baseline_s * found.ratio.ratio,
        ratio=found.ratio.ratio,
        interval=interval,
        interval90=found.ratio.interval(0.9),
        margin=margin,
        is_equivalent=bool(found.ratio.is_within(margin, matching.level)),
        q=found.ratio.p(),
        minimum_detectable=found.ratio.minimum_detectable(),
        pairs_needed=_pairs_needed(found, interval, margin, matching.level),
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


def _pairs_needed(found: Chosen, interval: tuple[float, float] | None, margin: float, level: float) -> int | None:
    """About how many pairs would tell; None where no number would. interval: 95 %, of the ratio.

    Of equivalence, computed for a ratio of 1, and where as many pairs were run already for the one that was measured.
    Where the interval excludes 1: on which side of the margin that is, or that it is about the margin.
    """
    deviation = _deviation(found)
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


def mean_of(cases: Sequence[ComparedCase], ratio: Ratio) -> Mean | None:
    """The geometric mean over the cases, process by process: the interval is over processes, not over cases.

    Without those that were compared while the machine was too busy.
    """
    timed = [each.timed for each in cases if each.timed is not None]
    if not timed:
        return None
    of_every = _of_means([each.every for each in timed], ratio)
    as_judged = _of_quiet(timed, of_every, ratio)
    found = of_every if as_judged is None else as_judged
    if found is None:
        return None
    log_ratio, pairs = found
    return Mean(
        ratio=log_ratio.ratio,
        interval=log_ratio.interval(),
        cases=len(timed),
        pairs=pairs,
        of_all_samples=as_judged is None and _are_of_quiet(timed),
    )


def _are_of_quiet(timed: Sequence[Chosen]) -> bool:
    """Whether any ratio is of samples at full speed alone."""
    return any(each.left_out for each in timed)


def _of_quiet(timed: Sequence[Chosen], of_every: CountedRatio | None, ratio: Ratio) -> CountedRatio | None:
    """By the numbers that cases are judged by; None where these are all there are, or too few."""
    return if_enough(_of_means([each.judged for each in timed], ratio), of_every) if _are_of_quiet(timed) else None


def _of_means(both: Sequence[Numbers], ratio: Ratio) -> CountedRatio | None:
    """both: of each case the numbers of the arm and of the baseline."""
    return ratio(*map(_geometric_means, zip(*both, strict=True)))


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
        host = found.host if (found := record.measurement) else None
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

"""From ratios to verdicts, which hold for all cases and arms together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench import stats
from primbench.compare.comparison import FALSE_DISCOVERIES, ArmComparison, CaseComparison, Estimate, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

ITSELF = "the baseline differs as much from itself"
SINGLE = "a single process tells of no scatter"
TOO_BUSY = "too busy to tell"

_Key = tuple[int, bytes, str]
"""Of an estimate among all arms: the arm's number, the case and the metric."""


def judge(arms: Sequence[ArmComparison], again: ArmComparison | None) -> list[ArmComparison]:
    """The arms with outcomes and verdicts, which hold for all of them together.

    again: the baseline against itself, what it differs by being the least that can be told.
    """
    q = _false_discovery_rates(arms)
    floors = {
        (case.case.key(), each.metric): each for case in (again.cases if again else []) for each in case.estimates
    }

    def with_outcomes(number: int, case: CaseComparison) -> CaseComparison:
        key = case.case.key()
        found = [
            judged(replace(each, q=q.get((number, key, each.metric))), floors.get((key, each.metric)))
            for each in case.estimates
        ]
        return decided(replace(case, estimates=found))

    return [replace(arm, cases=[with_outcomes(number, case) for case in arm.cases]) for number, arm in enumerate(arms)]


def _false_discovery_rates(arms: Sequence[ArmComparison]) -> dict[_Key, float | None]:
    """q of every estimate, adjusted among all those that judge, and among all others."""
    families: dict[bool, dict[_Key, float]] = {True: {}, False: {}}
    for number, arm in enumerate(arms):
        for case in arm.cases:
            for each in case.estimates:
                if each.q is not None and not each.is_too_busy:
                    families[each.judges][number, case.case.key(), each.metric] = each.q
    found: dict[_Key, float | None] = {}
    for family in families.values():
        found |= zip(family, stats.benjamini_hochberg(list(family.values())), strict=True)
    return found


def judged(estimate: Estimate, floor: Estimate | None = None) -> Estimate:
    """The estimate with its outcome. floor: of the baseline against itself."""
    outcome, reason = _believed(estimate, floor)
    return replace(
        estimate,
        outcome=outcome,
        reason=reason,
        noise=floor.interval if floor is not None else None,
        pairs_needed=estimate.pairs_needed if outcome == "inconclusive" and reason is None else None,
    )


def _believed(estimate: Estimate, floor: Estimate | None) -> tuple[Verdict, str | None]:
    """The outcome, and why it is no more.

    Where the baseline is not shown to be equivalent to itself, only a difference is believed whose interval lies
    outside of what it differs from itself by.
    """
    outcome = _outcome(estimate)
    if estimate.interval is None:
        return outcome, SINGLE
    if estimate.is_too_busy:
        return "inconclusive", TOO_BUSY
    if outcome == "inconclusive" or floor is None or floor.is_equivalent:
        return outcome, None
    is_difference = outcome in ("slower", "faster")
    if is_difference and floor.interval is not None and _are_apart(floor.interval, estimate.interval):
        return outcome, None
    return "inconclusive", ITSELF


def _are_apart(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[1] < other[0] or other[1] < one[0]


def _outcome(estimate: Estimate) -> Verdict:
    """slower, faster: the 95 % interval excludes 1 and the ratio is beyond the margin; both others are within it."""
    if estimate.interval is None:
        return "inconclusive"
    low, high = estimate.interval
    differs = (low > 1 or high < 1) and estimate.q is not None and estimate.q <= FALSE_DISCOVERIES
    if differs and abs(math.log(estimate.ratio)) > math.log1p(estimate.margin):
        return "slower" if estimate.ratio > 1 else "faster"
    if estimate.is_equivalent:
        return "different-but-small" if differs else "equivalent"
    return "inconclusive"


def decided(case: CaseComparison) -> CaseComparison:
    """The case with its one verdict: where a side fails more often, what did not fail cannot say that it is as fast."""
    if not case.estimates:
        return case
    deciding = _deciding(case.estimates)
    fails = case.fails_more is not None and deciding.outcome != "slower"
    return replace(case, verdict="inconclusive" if fails else deciding.outcome, decided_by=deciding.metric)


def _deciding(estimates: Sequence[Estimate]) -> Estimate:
    """The first difference among the metrics that judge, else among the others.

    Where there is none the primary one decides, unless a mean may yet be far off.
    """
    differing = [
        each
        for judges in (True, False)
        for word in ("slower", "faster")
        for each in estimates
        if each.judges == judges and each.outcome == word
    ]
    primary = estimates[0]
    far_off = [each for each in estimates if each.is_open and primary.outcome != "inconclusive"]
    return [*differing, *far_off, primary][0]

"""From ratios to verdicts, which hold for all cases and arms together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench import stats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.compare.comparison import ArmComparison, CaseComparison
    from primbench.compare.ratio import Estimate, Verdict

ITSELF = "the baseline differs as much from itself"
SINGLE = "a single process tells of no scatter"
FEW_PAIRS = "two processes a side may agree by chance"
ONE_RUN = "not interleaved, and one run or session tells of no difference"
TOO_BUSY = "too busy to tell"

FEWEST_PAIRS = 3
"""That tell of a difference: the ratios of two may be alike to three digits."""


def judge(arms: Sequence[ArmComparison], again: ArmComparison | None) -> list[ArmComparison]:
    """The arms with outcomes and verdicts, which hold for all of them together.

    again: the baseline against itself: where it differs for certain, that is the least that can be told.
    """
    rates = _false_discovery_rates(arms)
    floors = {
        case.case.key(): {each.metric: each for each in case.estimates} for case in (again.cases if again else [])
    }

    def with_outcomes(case: CaseComparison) -> CaseComparison:
        itself = floors.get(case.case.key(), {}) if floors else {}
        found = [judged(replace(each, q=next(rates[each.judges])), itself.get(each.metric)) for each in case.estimates]
        return decided(replace(case, estimates=found))

    return [replace(arm, cases=[with_outcomes(case) for case in arm.cases]) for arm in arms]


def _false_discovery_rates(arms: Sequence[ArmComparison]) -> dict[bool, Iterator[float | None]]:
    """q of all estimates in their order, of those that judge, and of all others, each adjusted among themselves."""
    families: dict[bool, list[float | None]] = {True: [], False: []}
    for arm in arms:
        for each in arm.estimates:
            families[each.judges].append(None if each.is_too_busy else each.q)
    return {judges: iter(stats.benjamini_hochberg(family)) for judges, family in families.items()}


_OUTCOMES: tuple[tuple[Verdict, Callable[[Estimate], bool]], ...] = (
    ("slower", lambda it: it.differs and it.is_beyond_margin and it.ratio > 1),
    ("faster", lambda it: it.differs and it.is_beyond_margin),
    ("equivalent-in-these-runs", lambda it: it.is_equivalent and it.is_one_run),
    ("equivalent-at-full-speed", lambda it: it.is_equivalent and it.holds_at_full_speed_alone),
    ("equivalent-in-these-runs", lambda it: it.is_equivalent and it.is_of_few and not it.differs),
    ("different-but-small", lambda it: it.differs and it.is_equivalent),
    ("equivalent", lambda it: it.is_equivalent),
    ("different-about-the-margin", lambda it: it.differs and it.is_narrow),
    ("inconclusive", lambda it: True),
)
"""What one metric says by itself: the first that is true of it."""


_OBJECTIONS: tuple[tuple[str, Callable[[Estimate, Verdict, Estimate | None], bool]], ...] = (
    (SINGLE, lambda it, outcome, floor: it.interval is None),
    (FEW_PAIRS, lambda it, outcome, floor: it.pairs < FEWEST_PAIRS and it.differs),
    (TOO_BUSY, lambda it, outcome, floor: it.is_too_busy),
    (ONE_RUN, lambda it, outcome, floor: it.is_one_run and outcome == "inconclusive"),
    (ITSELF, lambda it, outcome, floor: floor is not None and floor.differs and not _stands(it, outcome, floor)),
)
"""Why there is no more of an outcome: the first that is true. floor: of the baseline against itself."""


def judged(estimate: Estimate, floor: Estimate | None = None) -> Estimate:
    """The estimate with its outcome. floor: of the baseline against itself."""
    outcome = next(word for word, is_so in _OUTCOMES if is_so(estimate))
    reason = next((reason for reason, objects in _OBJECTIONS if objects(estimate, outcome, floor)), None)
    outcome = "inconclusive" if reason else outcome
    return replace(
        estimate,
        outcome=outcome,
        reason=reason,
        noise=floor.interval if floor is not None else None,
        pairs_needed=estimate.pairs_needed if outcome == "inconclusive" and reason is None else None,
    )


def _stands(estimate: Estimate, outcome: Verdict, floor: Estimate) -> bool:
    """Whether an outcome stands though the baseline differs from itself: a difference, if its interval lies outside of
    that; that there is none which matters, if it is so of the baseline as well.
    """
    if outcome not in ("slower", "faster") or estimate.interval is None or floor.interval is None:
        return outcome == "inconclusive" or floor.is_equivalent
    return _are_apart(floor.interval, estimate.interval)


def _are_apart(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[1] < other[0] or other[1] < one[0]


def decided(case: CaseComparison) -> CaseComparison:
    """The case with its one verdict: where a side fails more often, what did not fail cannot say that it is as fast."""
    if not case.estimates:
        return case
    deciding = _deciding(case.estimates)
    fails = case.fails_more is not None and deciding.outcome != "slower"
    return replace(case, verdict="inconclusive" if fails else deciding.outcome, decided_by=deciding.metric)


_DECIDING: tuple[Callable[[Estimate, Estimate], bool], ...] = (
    lambda it, primary: it.judges and it.outcome == "slower",
    lambda it, primary: it.judges and it.outcome == "faster",
    lambda it, primary: it.outcome == "slower",
    lambda it, primary: it.outcome == "faster",
    lambda it, primary: it.judges and it.outcome == "different-about-the-margin",
    lambda it, primary: it.is_open and primary.outcome != "inconclusive",  # a mean that may yet be far off
    lambda it, primary: it is primary,
)
"""By which metric a case is judged, beside its primary one: the first of which the first of these is true."""


def _deciding(estimates: Sequence[Estimate]) -> Estimate:
    found = next(each for decides in _DECIDING for each in estimates if decides(each, estimates[0]))
    return next((each for each in estimates if each.judges and _says_more(each, found)), found)


def _says_more(one: Estimate, other: Estimate) -> bool:
    """Whether both tell the same difference, and one a larger one for certain, by more than its margin: that of a mean,
    where most of what a place costs is in few of the samples, as under a quota.
    """
    if not (other.judges and other.has_moved and one.outcome == other.outcome and one.interval and other.interval):
        return False
    least, most = min(map(_distance, one.interval)), max(map(_distance, other.interval))
    return least > most + math.log1p(one.margin)


def _distance(ratio: float) -> float:
    return abs(math.log(ratio))
